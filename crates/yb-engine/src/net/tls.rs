//! TLS of [`yb_net`], with the errors of this module.

use tokio::net::TcpStream;
pub(crate) use yb_net::Roots;
use yb_net::{TlsError, TlsStream};

use super::http::SendError;

/// A client's side of TLS.
#[derive(Clone)]
pub(crate) struct Tls(yb_net::Tls);

impl Tls {
    /// Reads the roots; nothing is connected.
    pub(crate) fn new(roots: &Roots) -> Result<Self, SendError> {
        Ok(Self(yb_net::Tls::new(roots)?))
    }

    /// Shakes hands as a client of this host.
    pub(super) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, SendError> {
        Ok(self.0.connect(host, stream).await?)
    }
}

impl From<TlsError> for SendError {
    fn from(error: TlsError) -> Self {
        match error {
            TlsError::Connection(message) => Self::Connection(message),
            other => Self::Tls(other.to_string()),
        }
    }
}
