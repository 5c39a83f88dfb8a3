//! The source of a start tree: a URL, a local repository, or a directory.

use std::fmt;
use std::path::{Path, PathBuf};

use super::files::path_from_bytes;

/// The source of a start tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A remote repository.
    Remote(RemoteUrl),
    /// A local repository: its commits, without uncommitted changes.
    Local(PathBuf),
    /// A directory that is not a repository: its files become one commit, except those that its `.gitignore` files ignore.
    Directory(PathBuf),
}

/// A URL that git can fetch from.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteUrl {
    url: String,
    pub(crate) scheme: Scheme,
    /// The host, without the brackets of an IPv6 address.
    pub host: String,
    pub(crate) port: u16,
    password: Option<String>,
    shown: String,
}

/// The protocol of a remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
    Ssh,
}

/// An invalid or forbidden source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The URL is invalid or not supported.
    #[error("invalid repository URL ({reason}): `{url}`")]
    BadUrl {
        /// The problem with the URL.
        reason: &'static str,
        /// The text, without credentials.
        url: String,
    },
    /// The directory does not exist.
    #[error("repository is neither a URL nor a directory: `{}`", path.display())]
    NotFound {
        /// The directory.
        path: PathBuf,
    },
    /// The host name can't be resolved.
    #[error("failed to resolve the host of the repository: `{host}`: {reason}")]
    Unresolved {
        /// The host.
        host: String,
        /// The error of the resolver.
        reason: String,
    },
    /// The host is, or resolves to, a private address.
    #[error("host of the repository is private: `{host}` is {address}")]
    PrivateHost {
        /// The host as written.
        host: String,
        /// The private address.
        address: std::net::IpAddr,
    },
}

impl SourceError {
    /// How to fix the error, for a `hint:` line.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::BadUrl { .. } => {
                Some("use https://, http://, ssh://, user@host:path, file:// or a directory")
            }
            Self::PrivateHost { .. } | Self::Unresolved { .. } => {
                Some("use `--allow-private-hosts` if this host is meant")
            }
            Self::NotFound { .. } => Some("relative paths start at the directory of the case file"),
        }
    }
}

impl Source {
    /// Parses a source; relative paths are resolved from `base`.
    pub fn parse(text: &str, base: &Path) -> Result<Self, SourceError> {
        let bad = |reason| SourceError::BadUrl { reason, url: without_credentials(text) };
        if text.is_empty() || text.chars().any(char::is_control) || text.starts_with('-') {
            return Err(bad("empty, leading dash or control characters"));
        }
        if let Some(path) = strip_scheme(text, "file") {
            let path = path.strip_prefix("localhost").unwrap_or(path);
            if !path.starts_with('/') {
                return Err(bad("a file URL must have an absolute path and no host"));
            }
            let path = percent_decode(path).ok_or_else(|| bad("`%` without two hexadecimal digits"))?;
            return Self::from_directory(path);
        }
        if text.contains("://") {
            return RemoteUrl::parse(text).map(Self::Remote);
        }
        let path = base.join(text);
        if !path.is_dir() && scp_like(text).is_some() {
            return RemoteUrl::parse(text).map(Self::Remote);
        }
        if !path.is_dir() && text.contains("::") {
            return Err(bad("only http, https, ssh and file are supported"));
        }
        Self::from_directory(path)
    }

    fn from_directory(path: PathBuf) -> Result<Self, SourceError> {
        let Ok(path) = path.canonicalize() else { return Err(SourceError::NotFound { path }) };
        if !path.is_dir() {
            return Err(SourceError::NotFound { path });
        }
        let bare = ["HEAD", "objects", "refs"].iter().all(|name| path.join(name).exists());
        let repository = bare || path.join(".git").exists();
        Ok(if repository { Self::Local(path) } else { Self::Directory(path) })
    }
}

/// Writes the source without credentials.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Remote(url) => f.write_str(&url.shown),
            Self::Local(path) | Self::Directory(path) => write!(f, "{}", path.display()),
        }
    }
}

impl fmt::Debug for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteUrl").field(&self.shown).finish()
    }
}

impl RemoteUrl {
    /// Parses an http, https or ssh URL, or the scp-like syntax `user@host:path`.
    pub fn parse(text: &str) -> Result<Self, SourceError> {
        let bad = |reason| SourceError::BadUrl { reason, url: without_credentials(text) };
        // URL parsers disagree about backslashes, and so about the host.
        if text.contains(|c: char| c == '\\' || c.is_whitespace() || c.is_control()) {
            return Err(bad("backslashes or spaces"));
        }
        let (scheme, authority, path) = if let Some((authority, path)) = scp_like(text) {
            (Scheme::Ssh, authority, path)
        } else {
            let (scheme, rest) = [("http", Scheme::Http), ("https", Scheme::Https), ("ssh", Scheme::Ssh)]
                .into_iter()
                .find_map(|(name, scheme)| Some((scheme, strip_scheme(text, name)?)))
                .ok_or_else(|| bad("only http, https, ssh and file are supported"))?;
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            (scheme, &rest[..end], &rest[end..])
        };
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        let (host, port) = split_port(host).ok_or_else(|| bad("the port is not a number"))?;
        if !is_host(host) {
            return Err(bad("the host is missing or has invalid characters"));
        }
        if path.trim_start_matches('/').is_empty() {
            return Err(bad("the path is missing"));
        }
        // ssh would parse a user, host or path with a leading dash as an option.
        if user.is_some_and(|user| user.starts_with('-')) || path.starts_with('-') {
            return Err(bad("leading dash"));
        }
        let password = match (scheme, user.and_then(|user| user.split_once(':'))) {
            (_, Some((_, password))) => Some(password.to_owned()),
            // A token without a user name: `https://TOKEN@host/…`.
            (Scheme::Http | Scheme::Https, None) => user.map(str::to_owned),
            (Scheme::Ssh, None) => None,
        };
        let default_port = match scheme {
            Scheme::Http => 80,
            Scheme::Https => 443,
            Scheme::Ssh => 22,
        };
        Ok(Self {
            url: text.to_owned(),
            scheme,
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: port.unwrap_or(default_port),
            password: password.filter(|password| !password.is_empty()),
            shown: without_credentials(text),
        })
    }

    /// The URL with credentials.
    pub(crate) fn as_str(&self) -> &str {
        &self.url
    }

    /// The password or token, which must never be displayed.
    pub fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }
}

fn percent_decode(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte == b'%' {
            let (digits, after) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok().filter(|b| *b != 0)?);
            rest = after;
        } else {
            bytes.push(*byte);
        }
    }
    Some(path_from_bytes(&bytes))
}

fn strip_scheme<'a>(text: &'a str, scheme: &str) -> Option<&'a str> {
    let (found, rest) = text.split_once("://")?;
    found.eq_ignore_ascii_case(scheme).then_some(rest)
}

/// Splits `user@host:path`. Like git, it is distinguished from a path by a colon before the first slash.
fn scp_like(text: &str) -> Option<(&str, &str)> {
    if text.contains("://") {
        return None;
    }
    let close = text.find(']').unwrap_or(0);
    let colon = close + text[close..].find(':')?;
    let (authority, path) = (&text[..colon], &text[colon + 1..]);
    // A double colon selects a remote helper, as in `ext::sh`.
    let good = !authority.contains('/') && !path.is_empty() && !path.starts_with(':');
    good.then_some((authority, path))
}

fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let after_host = authority.rfind(']').map_or(0, |at| at + 1);
    match authority[after_host..].rfind(':') {
        None => Some((authority, None)),
        Some(at) => {
            let (host, port) = authority.split_at(after_host + at);
            let port = &port[1..];
            if port.is_empty() { Some((host, None)) } else { Some((host, Some(port.parse().ok()?))) }
        }
    }
}

fn is_host(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return address.parse::<std::net::Ipv6Addr>().is_ok();
    }
    !host.is_empty()
        && !host.starts_with(['-', '.'])
        && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'))
}

/// Removes user and password from a URL.
fn without_credentials(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    // An invalid port may be part of a password that contains a slash.
    let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
    if !authority.contains(['@', ']']) && !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return format!("{scheme}://{}", rest.rsplit('@').next().unwrap_or_default());
    }
    format!("{scheme}://{}{path}", authority.rsplit('@').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_url_accepts_http_and_ssh() {
        for (text, host, port, password) in [
            ("https://github.com/a/b.git", "github.com", 443, None),
            ("HTTP://Example.com:8080/x", "Example.com", 8080, None),
            ("ssh://git@host.example:2222/x", "host.example", 2222, None),
            ("git@github.com:a/b.git", "github.com", 22, None),
            ("https://me:s3cret@host.example/x", "host.example", 443, Some("s3cret")),
            ("https://ghp_token@host.example/x", "host.example", 443, Some("ghp_token")),
            ("https://[2001:db8::1]:8443/x", "2001:db8::1", 8443, None),
            ("git@[2001:db8::1]:x", "2001:db8::1", 22, None),
        ] {
            let url = RemoteUrl::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((url.host.as_str(), url.port, url.password()), (host, port, password), "{text}");
            assert!(!format!("{url:?}{}", Source::Remote(url.clone())).contains("s3cret"));
        }
    }

    #[test]
    fn without_credentials_removes_user_and_password() {
        for (url, expected) in [
            ("https://me:pw@host/x", "https://host/x"),
            ("https://token@host:8080/x", "https://host:8080/x"),
            ("https://host/@scope/x", "https://host/@scope/x"),
            ("https://me:p/w@host/x", "https://host/x"),
            ("https://[::1]:80/x", "https://[::1]:80/x"),
        ] {
            assert_eq!(without_credentials(url), expected);
        }
    }

    #[test]
    fn source_rejects_unsafe_urls() {
        for text in [
            "git://host/x",
            "ext::sh -c id",
            "ftp://host/x",
            "https:///x",
            "https://host",
            "https://host/",
            "https://ho st/x",
            "https://host:port/x",
            "https://host\\@evil/x",
            "https://%6c/x",
            "ssh://-oProxyCommand=id/x",
            "ssh://-oProxyCommand=id@host/x",
            "-uhost:x",
            "https://[::1/x",
            "host:-x",
        ] {
            let error = Source::parse(text, Path::new("/nonexistent")).unwrap_err();
            assert!(error.hint().is_some(), "{text}: {error}");
        }
    }
}
