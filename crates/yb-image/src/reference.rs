//! Names of images, with the defaults of Docker.

use std::fmt;

use crate::ImageError;

/// The name of an image in a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) host: String,
    pub(crate) repository: String,
    /// A tag, or a digest.
    pub(crate) version: String,
}

impl Reference {
    pub(crate) fn parse(text: &str) -> Result<Self, ImageError> {
        let invalid = || ImageError::Reference { image: text.to_owned() };
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (text, None),
        };
        if digest.is_some_and(|digest| !is_digest(digest)) {
            return Err(invalid());
        }
        let (host, rest) = match name.split_once('/') {
            Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => (host, rest),
            _ => ("docker.io", name),
        };
        let (repository, tag) = match rest.rsplit_once(':') {
            Some((repository, tag)) if !tag.contains('/') => (repository, tag),
            _ => (rest, "latest"),
        };
        let is_plain = |text: &str| {
            !text.is_empty()
                && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/'))
                && text.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
        };
        let is_host = host.starts_with(|c: char| c.is_ascii_alphanumeric())
            && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':'));
        if !is_plain(repository) || !is_plain(tag) || tag.contains('/') || !is_host {
            return Err(invalid());
        }
        let is_docker_hub = host == "docker.io";
        Ok(Self {
            host: if is_docker_hub { "registry-1.docker.io".to_owned() } else { host.to_owned() },
            repository: if is_docker_hub && !repository.contains('/') {
                format!("library/{repository}")
            } else {
                repository.to_owned()
            },
            version: digest.unwrap_or(tag).to_owned(),
        })
    }

    /// Whether the registry is on this machine, where Docker too uses HTTP.
    pub(crate) fn is_plain_http(&self) -> bool {
        let name = self.host.rsplit_once(':').map_or(self.host.as_str(), |(name, _)| name);
        name == "localhost" || name.starts_with("127.")
    }
}

/// Whether a text is a digest that a file can be named after.
pub(crate) fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:")
        .is_some_and(|hex| hex.len() == 64 && hex.chars().all(|c| c.is_ascii_hexdigit()))
}

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if is_digest(&self.version) { '@' } else { ':' };
        write!(formatter, "{}/{}{separator}{}", self.host, self.repository, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_defaults_of_docker() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for (text, shown) in [
            ("ubuntu", "registry-1.docker.io/library/ubuntu:latest".to_owned()),
            ("alexgshaw/task:20251031", "registry-1.docker.io/alexgshaw/task:20251031".to_owned()),
            ("ghcr.io/a/b/c:1", "ghcr.io/a/b/c:1".to_owned()),
            ("127.0.0.1:5000/x", "127.0.0.1:5000/x:latest".to_owned()),
            (&format!("ghcr.io/a/b:1@{digest}"), format!("ghcr.io/a/b@{digest}")),
        ] {
            assert_eq!(Reference::parse(text).unwrap().to_string(), shown);
        }
        for bad in ["", "a b", "../x", "ghcr.io/../x", "x@sha256:1", "x:", "a//b", "host.io/x:y/../z"] {
            assert!(Reference::parse(bad).is_err(), "{bad}");
        }
        assert!(Reference::parse("localhost:5000/x").unwrap().is_plain_http());
        assert!(!Reference::parse("127.evil.example/x").unwrap().host.is_empty());
    }
}
