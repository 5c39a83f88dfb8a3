//! A server on loopback, in a thread of its own, gone when it is dropped: what the script, the recorder and the replay run in.

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
use crate::reel::Cut;

/// Before trying again when the system has, for example, no file descriptor left.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

/// Whoever answers.
pub(crate) trait Handler: Send + Sync + 'static {
    type Body: Body<Data = Bytes, Error: Into<Box<dyn StdError + Send + Sync>>> + Send + 'static;

    /// Answers one request; an error drops its connection.
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<Self::Body>, Cut>> + Send;
}

/// A running server. Dropping it closes every connection and frees the port before it returns.
pub(crate) struct Host {
    address: SocketAddr,
    /// Dropping it stops the server.
    stop: Option<oneshot::Sender<()>>,
    ended: Option<oneshot::Receiver<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Takes a loopback port; 0 is any free one.
pub(crate) fn bind(port: u16) -> Result<TcpListener, Error> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|source| Error::Bind { port, source })
}

impl Host {
    pub(crate) fn start<H: Handler>(listener: TcpListener, handler: Arc<H>) -> Result<Self, Error> {
        Self::run(listener, handler, &mut tokio::runtime::Builder::new_current_thread())
    }

    /// With two threads that share the work: what comes from a live model must not wait where one thread has to.
    pub(crate) fn start_wide<H: Handler>(listener: TcpListener, handler: Arc<H>) -> Result<Self, Error> {
        Self::run(listener, handler, tokio::runtime::Builder::new_multi_thread().worker_threads(2))
    }

    fn run<H: Handler>(
        listener: TcpListener,
        handler: Arc<H>,
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
        let thread = thread::Builder::new()
            .name("yb-tape".to_owned())
            .spawn(move || {
                runtime.block_on(serve(listener, handler, stopped));
                // Ends what is still under way, also a reply that stalls for ever.
                drop(runtime);
                let _ = end.send(());
            })
            .map_err(Error::Start)?;
        Ok(Self { address, stop: Some(stop), ended: Some(ended), thread: Some(thread) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops without blocking the caller's thread; connections are closed at once.
    pub(crate) async fn shutdown(mut self) {
        self.stop.take();
        if let Some(ended) = self.ended.take() {
            // An error says that the thread is gone already.
            let _ = ended.await;
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported by its thread and must not become one here.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("address", &self.address).finish_non_exhaustive()
    }
}

async fn serve<H: Handler>(listener: TcpListener, handler: Arc<H>, mut stopped: oneshot::Receiver<()>) {
    // It can only fail where no runtime is, and then there is nothing to serve with.
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stopped => return,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    // Small events must not wait for each other.
                    let _ = stream.set_nodelay(true);
                    let handler = Arc::clone(&handler);
                    connections.spawn(async move {
                        let service = service_fn(move |request| Arc::clone(&handler).answer(request));
                        // An error here is a client that went away or a cut that somebody asked for.
                        let _ = hyper::server::conn::http1::Builder::new()
                            .serve_connection(TokioIo::new(stream), service)
                            .await;
                    });
                }
                Err(_) => tokio::time::sleep(AFTER_FAILURE).await,
            },
        }
    }
}
