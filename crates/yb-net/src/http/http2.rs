//! HTTP/2 connections, which gRPC needs: with prior knowledge, or with TLS by ALPN.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper::header::HeaderMap;
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Request, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;

use super::{HttpError, HttpUrl};

/// An open HTTP/2 connection to one origin. Dropping it closes it.
#[derive(Debug)]
pub struct Http2Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: AbortHandle,
    scheme: Scheme,
    authority: Authority,
}

impl Http2Connection {
    pub(super) async fn open<S>(url: &HttpUrl, stream: S) -> Result<Self, HttpError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let invalid = |_| HttpError::Connection("invalid host name".to_owned());
        let authority = Authority::try_from(url.authority().as_bytes()).map_err(invalid)?;
        let scheme = if url.is_https() { Scheme::HTTPS } else { Scheme::HTTP };
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        let driver = tokio::spawn(async move { drop(connection.await) }).abort_handle();
        Ok(Self { sender, driver, scheme, authority })
    }

    /// Sends a request to a path of the origin and waits for the head of the response.
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub async fn send(
        &mut self,
        path: PathAndQuery,
        request: Request<Bytes>,
    ) -> Result<Response<Incoming>, HttpError> {
        let mut request = request.map(Full::new);
        let mut uri = Uri::default().into_parts();
        (uri.scheme, uri.authority) = (Some(self.scheme.clone()), Some(self.authority.clone()));
        uri.path_and_query = Some(path);
        *request.uri_mut() =
            Uri::from_parts(uri).map_err(|error| HttpError::Connection(error.to_string()))?;
        Ok(self.sender.send_request(request).await?)
    }
}

impl Drop for Http2Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Discards a body and returns its trailers.
///
/// # Errors
/// Fails if the connection is lost.
pub async fn read_trailers(body: Incoming) -> Result<Option<HeaderMap>, HttpError> {
    Ok(body.collect().await?.trailers().cloned())
}
