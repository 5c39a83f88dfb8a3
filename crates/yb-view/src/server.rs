//! The HTTP server: one thread, one task per connection; pages are rendered on threads for blocking work.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::address;
use crate::controls::Controls;
use crate::guard::Guard;
use crate::project::Project;
use crate::routes::{self, Site};

/// Delay after a failed `accept`, for example when no file descriptor is left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// The maximum time to receive the headers of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(20);
/// The maximum number of connections: a browser opens six, and one for each page with events.
const MAX_CONNECTIONS: usize = 200;

/// An error of starting the server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The address can't be used.
    #[error("failed to listen on `{address}`")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The server can't be started.
    #[error("failed to start the server")]
    Start(#[source] io::Error),
}

/// Options of a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ViewOptions {
    /// The workspace directory with the runs.
    pub root: PathBuf,
    /// The address to listen on; port 0 means any free port.
    pub listen: SocketAddr,
    /// What pages can start and stop; by default nothing.
    pub controls: Option<Arc<dyn Controls>>,
}

impl ViewOptions {
    /// Returns options for a workspace directory: any free port on 127.0.0.1.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self { root, listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), controls: None }
    }
}

/// A running server. Dropping it closes every connection and frees the port before it returns.
#[derive(Debug)]
pub struct ViewServer {
    address: SocketAddr,
    token: String,
    /// Dropping it stops the server.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ViewServer {
    /// Starts a server.
    ///
    /// # Errors
    /// Returns an error when the address can't be used.
    pub fn start(options: &ViewOptions) -> Result<Self, ViewError> {
        let bind = |source| ViewError::Bind { address: options.listen, source };
        let listener = TcpListener::bind(options.listen).map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        listener.set_nonblocking(true).map_err(ViewError::Start)?;
        let guard = Guard::new(address);
        let token = guard.token().to_owned();
        let site = Arc::new(Site {
            guard,
            project: Project::new(options.root.clone()),
            controls: options.controls.clone(),
        });
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ViewError::Start)?;
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new()
            .name("yb-view".to_owned())
            .spawn(move || {
                runtime.block_on(serve(listener, site, stopped));
                runtime.shutdown_timeout(Duration::from_secs(1));
            })
            .map_err(ViewError::Start)?;
        Ok(Self { address, token, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the address that the server listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of the first page, or of a run, with the token.
    #[must_use]
    pub fn url(&self, run: Option<&str>) -> String {
        let path = run.map_or_else(|| "/".to_owned(), address::run);
        let shown = match self.address {
            // The address of any interface is none to open.
            any if any.ip().is_unspecified() => SocketAddr::from((Ipv4Addr::LOCALHOST, any.port())),
            own => own,
        };
        format!("http://{shown}{path}?token={}", self.token)
    }
}

impl Drop for ViewServer {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic was already reported by its thread.
            let _ = thread.join();
        }
    }
}

async fn serve(listener: TcpListener, site: Arc<Site>, mut stopped: oneshot::Receiver<()>) {
    // Fails only without a runtime.
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stopped => {
                connections.shutdown().await;
                return;
            }
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    // Send small events without delay.
                    let _ = stream.set_nodelay(true);
                    let site = Arc::clone(&site);
                    connections.spawn(async move {
                        let service = service_fn(move |request| {
                            let site = Arc::clone(&site);
                            async move { Ok::<_, Infallible>(routes::respond(site, request).await) }
                        });
                        // An error is a disconnected client.
                        let _ = hyper::server::conn::http1::Builder::new()
                            .timer(TokioTimer::new())
                            .header_read_timeout(HEADER_TIMEOUT)
                            .serve_connection(TokioIo::new(stream), service)
                            .await;
                    });
                }
                Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
            },
        }
    }
}
