//! HTTP server on loopback with its own thread, shared by mock server, recording proxy and replay server.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hyper::body::{Body, Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::error::Error;
use crate::paced_body::ConnectionDropped;
use crate::traffic::{ApiTraffic, ObservedBody, ObservedExchange};

/// Delay after a failed `accept`, for example when no file descriptor is left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Handles the requests of a [`LoopbackServer`].
pub(crate) trait RequestHandler: Send + Sync + 'static {
    type Body: Body<Data = Bytes, Error: Into<Box<dyn StdError + Send + Sync>>> + Send + 'static;

    /// Responds to one request; an error drops its connection.
    fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<Self::Body>, ConnectionDropped>> + Send;
}

/// A running server. Dropping it closes every connection and frees the port before it returns.
pub(crate) struct LoopbackServer {
    address: SocketAddr,
    /// Dropping it stops the server.
    stop: Option<oneshot::Sender<()>>,
    traffic: Arc<ApiTraffic>,
    ended: Option<oneshot::Receiver<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Binds a loopback port; 0 means any free port.
pub(crate) fn bind(port: u16) -> Result<TcpListener, Error> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|source| Error::Bind { port, source })
}

impl LoopbackServer {
    pub(crate) fn start<H: RequestHandler>(listener: TcpListener, handler: Arc<H>) -> Result<Self, Error> {
        Self::run(listener, handler, Arc::default(), &mut tokio::runtime::Builder::new_current_thread())
    }

    /// Starts with two worker threads, so that one busy thread does not delay forwarded streams.
    pub(crate) fn start_multi_thread<H: RequestHandler>(
        listener: TcpListener,
        handler: Arc<H>,
        traffic: Arc<ApiTraffic>,
    ) -> Result<Self, Error> {
        Self::run(listener, handler, traffic, tokio::runtime::Builder::new_multi_thread().worker_threads(2))
    }

    fn run<H: RequestHandler>(
        listener: TcpListener,
        handler: Arc<H>,
        traffic: Arc<ApiTraffic>,
        runtime: &mut tokio::runtime::Builder,
    ) -> Result<Self, Error> {
        let address = listener.local_addr().map_err(Error::Start)?;
        if !address.ip().is_loopback() {
            let source = std::io::Error::other("not a loopback address");
            return Err(Error::Bind { port: address.port(), source });
        }
        listener.set_nonblocking(true).map_err(Error::Start)?;
        let runtime = runtime.thread_name("yb-tape").enable_all().build().map_err(Error::Start)?;
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let observed = Arc::clone(&traffic);
        let thread = thread::Builder::new()
            .name("yb-tape".to_owned())
            .spawn(move || {
                runtime.block_on(serve(listener, handler, observed, stopped));
                // Aborts requests in progress, including stalled ones.
                drop(runtime);
                let _ = end.send(());
            })
            .map_err(Error::Start)?;
        Ok(Self { address, stop: Some(stop), traffic, ended: Some(ended), thread: Some(thread) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the observed traffic, also after the server has stopped.
    pub(crate) fn traffic(&self) -> &Arc<ApiTraffic> {
        &self.traffic
    }

    /// Stops without blocking the calling thread; closes connections immediately.
    pub(crate) async fn shutdown(mut self) {
        self.stop.take();
        if let Some(ended) = self.ended.take() {
            // An error means that the thread has already ended.
            let _ = ended.await;
        }
    }
}

impl Drop for LoopbackServer {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic was already reported by its thread.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for LoopbackServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopbackServer").field("address", &self.address).finish_non_exhaustive()
    }
}

async fn serve<H: RequestHandler>(
    listener: TcpListener,
    handler: Arc<H>,
    traffic: Arc<ApiTraffic>,
    mut stopped: oneshot::Receiver<()>,
) {
    // Fails only without a runtime.
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stopped => {
                // Ends the client side before the runtime drops the connections to an upstream. Otherwise an exchange in
                // progress could be recorded as closed by the upstream.
                connections.shutdown().await;
                return;
            }
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    // Send small events without delay.
                    let _ = stream.set_nodelay(true);
                    let (handler, traffic) = (Arc::clone(&handler), Arc::clone(&traffic));
                    connections.spawn(async move {
                        let service = service_fn(move |request| {
                            observe(Arc::clone(&handler), traffic.begin(&request), request)
                        });
                        // An error is a disconnected client or a deliberately dropped connection.
                        let _ = hyper::server::conn::http1::Builder::new()
                            .serve_connection(TokioIo::new(stream), service)
                            .await;
                    });
                }
                Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
            },
        }
    }
}

/// Handles one request and observes the exchange.
async fn observe<H: RequestHandler>(
    handler: Arc<H>,
    mut exchange: ObservedExchange,
    mut request: Request<Incoming>,
) -> Result<Response<ObservedBody<H::Body>>, ConnectionDropped> {
    request.extensions_mut().insert(exchange.waiting());
    match handler.handle(request).await {
        Ok(response) => {
            exchange.answered(response.status().as_u16());
            Ok(response.map(|body| ObservedBody::new(body, exchange)))
        }
        Err(dropped) => {
            exchange.unreachable();
            Err(dropped)
        }
    }
}
