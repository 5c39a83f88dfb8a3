//! Accepts connections and hands their requests to the player, until it is told to stop.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::route::Player;

/// Before trying again when the system has, for example, no file descriptor left.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

pub(super) async fn serve(listener: TcpListener, player: Arc<Player>, mut stopped: oneshot::Receiver<()>) {
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
                    let player = Arc::clone(&player);
                    connections.spawn(async move {
                        let service = service_fn(move |request| Arc::clone(&player).answer(request));
                        // An error here is a client that went away or a cut that the script asked for.
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
