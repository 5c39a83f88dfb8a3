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
            Self::Io { .. } => "check that the file exists and can be read".to_owned(),
        }
    }
}
