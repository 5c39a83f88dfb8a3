//! Client-side TLS: rustls with the graviola provider, which needs no C compiler, and the system's root certificates.
//!
//! The caller connects a TCP stream, to an address of its choice, and passes it to [`Tls::connect`].

use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
pub use tokio_rustls::client::TlsStream;

/// A failed TLS setup or handshake.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The server's certificate was rejected, or TLS is not available on this machine. Permanent.
    #[error("{0}")]
    Refused(String),
    /// The connection was lost during the handshake. A retry may succeed.
    #[error("{0}")]
    Connection(String),
}

/// The root certificates to trust.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Roots {
    /// The system's certificate store.
    #[default]
    System,
    /// Certificates from a PEM file, a directory, or both, in place of the system's store.
    Named {
        /// A PEM file, as in `SSL_CERT_FILE`.
        file: Option<PathBuf>,
        /// A directory of PEM files, as in `SSL_CERT_DIR`.
        dir: Option<PathBuf>,
    },
}

impl Roots {
    /// Returns the roots named by `SSL_CERT_FILE` and `SSL_CERT_DIR`, or the system's if neither is set.
    pub fn from_env(get: impl Fn(&str) -> Option<String>) -> Self {
        let path = |name| get(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        match (path("SSL_CERT_FILE"), path("SSL_CERT_DIR")) {
            (None, None) => Self::System,
            (file, dir) => Self::Named { file, dir },
        }
    }

    /// Skips unreadable certificates, as other TLS clients do. An empty store is an error.
    fn load(&self) -> Result<RootCertStore, TlsError> {
        let found = match self {
            Self::System => rustls_native_certs::load_native_certs(),
            Self::Named { file, dir } => {
                rustls_native_certs::load_certs_from_paths(file.as_deref(), dir.as_deref())
            }
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let reasons: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
            let reasons =
                if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join(", ")) };
            return Err(TlsError::Refused(format!("no trusted root certificates found{reasons}")));
        }
        Ok(roots)
    }
}

/// A TLS client configuration. Cheap to clone.
#[derive(Clone)]
pub struct Tls(TlsConnector);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Loads the root certificates and builds the configuration.
    ///
    /// # Errors
    /// Fails if no root certificate can be loaded, or if the CPU lacks instructions that the cryptography needs.
    pub fn new(roots: &Roots) -> Result<Self, TlsError> {
        Self::with_protocol(roots, b"http/1.1")
    }

    /// As [`new`](Self::new), for HTTP/2.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn for_http2(roots: &Roots) -> Result<Self, TlsError> {
        Self::with_protocol(roots, b"h2")
    }

    fn with_protocol(roots: &Roots, protocol: &[u8]) -> Result<Self, TlsError> {
        if !cpu_is_supported() {
            // Graviola panics on an unsupported CPU.
            let message = "https needs a CPU with AES, AVX2 and ADX instructions (on AArch64: AES and SHA-2)";
            return Err(TlsError::Refused(message.to_owned()));
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(rustls_graviola::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Refused(error.to_string()))?
            .with_root_certificates(roots.load()?)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Performs the client handshake with `host` over a connected stream.
    ///
    /// # Errors
    /// Fails if the certificate is not valid for the host, or if the connection is lost.
    pub async fn connect(&self, host: &str, stream: TcpStream) -> Result<TlsStream<TcpStream>, TlsError> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| TlsError::Refused(format!("host name is not valid in a certificate: `{host}`")))?;
        self.0.connect(name, stream).await.map_err(|error| {
            // An error of TLS itself, such as an invalid certificate, is permanent.
            if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
                TlsError::Refused(error.to_string())
            } else {
                TlsError::Connection(error.to_string())
            }
        })
    }
}

#[cfg(target_arch = "x86_64")]
fn cpu_is_supported() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("aes")
        && has!("pclmulqdq")
        && has!("ssse3")
        && has!("avx")
        && has!("avx2")
        && has!("adx")
        && has!("bmi1")
        && has!("bmi2")
}

#[cfg(target_arch = "aarch64")]
fn cpu_is_supported() -> bool {
    use std::arch::is_aarch64_feature_detected as has;
    has!("neon") && has!("aes") && has!("pmull") && has!("sha2")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_root_store_is_an_error_that_names_the_cause() {
        let named =
            Roots::from_env(|name| (name == "SSL_CERT_FILE").then(|| "/no/such/roots.pem".to_owned()));
        let error = Tls::new(&named).map(|_| ()).unwrap_err().to_string();
        assert!(
            error.contains("no trusted root certificates") && error.contains("/no/such/roots.pem"),
            "{error}"
        );
        assert_eq!(Roots::from_env(|_| Some(String::new())), Roots::System);
    }
}
