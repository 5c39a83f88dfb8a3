//! Why an image can't be used.

use std::path::PathBuf;

/// Why an image can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The user of the image does not exist in it.
    #[error("no such user in the image: `{user}`")]
    NoUser {
        /// The name.
        user: String,
    },
    /// The name of an image is invalid.
    #[error("invalid name of an image: `{image}`")]
    Reference {
        /// The name.
        image: String,
    },
    /// The registry has no such image.
    #[error("no such image: `{image}`")]
    NotFound {
        /// The image.
        image: String,
    },
    /// The registry can't be used.
    #[error("registry {registry}: {reason}")]
    Registry {
        /// The host.
        registry: String,
        /// The reason.
        reason: String,
    },
    /// A part of the image differs from its digest.
    #[error("the {what} has the digest {found}, not {wanted}")]
    Digest {
        /// The part.
        what: String,
        /// The digest that was named.
        wanted: String,
        /// The actual digest.
        found: String,
    },
    /// The image is malformed, or not for this machine.
    #[error("the image can't be used: {reason}")]
    Manifest {
        /// The reason.
        reason: String,
    },
    /// A Dockerfile can't be built.
    #[error("Dockerfile, line {line}: {reason}")]
    Build {
        /// The line.
        line: usize,
        /// The reason.
        reason: String,
        /// The way out.
        hint: String,
    },
    /// A file can't be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

impl ImageError {
    /// Returns a function that adds a path to an I/O error.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }

    /// Returns the way out.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::NoUser { .. } => "name a user of its /etc/passwd, or an id".to_owned(),
            Self::Reference { .. } => "write it as `registry/name:tag` or `registry/name@sha256:…`".to_owned(),
            Self::NotFound { .. } => "check the name and the tag".to_owned(),
            Self::Registry { .. } => {
                "check that the registry can be reached; `--allow-private-hosts` allows one in a private network".to_owned()
            }
            Self::Digest { .. } => "the image was changed on its way, or its cache is damaged: remove the cache".to_owned(),
            Self::Manifest { .. } => "use an image for Linux on this architecture".to_owned(),
            Self::Build { hint, .. } => hint.clone(),
            Self::Io { .. } => "check that the file exists and can be read".to_owned(),
        }
    }
}
