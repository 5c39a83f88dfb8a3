//! TLS to a receiver: rustls with graviola, as webhooks have it, and the roots that this machine trusts.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::config::PipelineError;

/// A client's side of TLS.
#[derive(Clone)]
pub(super) struct Tls(TlsConnector);

impl Tls {
    /// Reads the roots, those of a file or the system's; nothing is connected.
    pub(super) fn new(certificate: Option<&Path>) -> Result<Self, PipelineError> {
        if !processor_fits() {
            // Graviola would panic.
            let message = "this processor lacks the AES, AVX2 or ADX instructions that https needs here";
            return Err(PipelineError::Tls(message.to_owned()));
        }
        let found = match certificate {
            Some(file) => rustls_native_certs::load_certs_from_paths(Some(file), None),
            None => rustls_native_certs::load_native_certs(),
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            return Err(PipelineError::Tls("no trusted root certificates on this machine".to_owned()));
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(rustls_graviola::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| PipelineError::Tls(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Shakes hands as a client of this host.
    pub(super) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, String> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("no certificate can name this host: `{host}`"))?;
        self.0.connect(name, stream).await.map_err(|error| error.to_string())
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
