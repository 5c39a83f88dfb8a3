//! TLS as a client: rustls with graviola, which needs no C compiler, and the roots that this machine trusts.
//!
//! Whoever speaks HTTP to another machine connects first, to an address of its own choice, and hands the stream over.
//! Why it is made so is in docs/design/http-client.md.

pub mod policy;

use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
pub use tokio_rustls::client::TlsStream;

/// Why there is no secure connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The other side could not be trusted, or this one can't check it. It stays so.
    #[error("{0}")]
    Refused(String),
    /// The connection was lost.
    #[error("{0}")]
    Connection(String),
}

/// Whom to believe.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Roots {
    /// The system's store.
    #[default]
    System,
    /// The certificates in these instead, as `SSL_CERT_FILE` and `SSL_CERT_DIR` name them.
    #[expect(missing_docs, reason = "the names say it")]
    Named { file: Option<PathBuf>, dir: Option<PathBuf> },
}

impl Roots {
    /// The store that the environment names, or the system's.
    pub fn from_env(get: impl Fn(&str) -> Option<String>) -> Self {
        let path = |name| get(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        match (path("SSL_CERT_FILE"), path("SSL_CERT_DIR")) {
            (None, None) => Self::System,
            (file, dir) => Self::Named { file, dir },
        }
    }

    /// A certificate that can't be read is left out, as everywhere; that none is left is an error.
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
            return Err(TlsError::Refused(format!("no trusted root certificates on this machine{reasons}")));
        }
        Ok(roots)
    }
}

/// A client's side of TLS.
#[derive(Clone)]
pub struct Tls(TlsConnector);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Reads the roots; nothing is connected.
    ///
    /// # Errors
    /// When no root can be read, or this processor lacks what the cryptography needs.
    pub fn new(roots: &Roots) -> Result<Self, TlsError> {
        if !processor_fits() {
            // Graviola would panic.
            let message = "this processor lacks the AES, AVX2 or ADX instructions that https needs here";
            return Err(TlsError::Refused(message.to_owned()));
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(rustls_graviola::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Refused(error.to_string()))?
            .with_root_certificates(roots.load()?)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Shakes hands as a client of this host.
    ///
    /// # Errors
    /// When the host is not who it says, or goes away.
    pub async fn connect(&self, host: &str, stream: TcpStream) -> Result<TlsStream<TcpStream>, TlsError> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| TlsError::Refused(format!("no certificate can name this host: `{host}`")))?;
        self.0.connect(name, stream).await.map_err(|error| {
            // What TLS itself refuses, a wrong certificate above all, stays refused.
            if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
                TlsError::Refused(error.to_string())
            } else {
                TlsError::Connection(error.to_string())
            }
        })
    }
}

#[cfg(target_arch = "x86_64")]
fn processor_fits() -> bool {
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
fn processor_fits() -> bool {
    use std::arch::is_aarch64_feature_detected as has;
    has!("neon") && has!("aes") && has!("pmull") && has!("sha2")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_without_certificates_is_an_error_that_says_why() {
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
