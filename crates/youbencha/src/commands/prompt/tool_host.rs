//! Serves the tools of a prompt to the agents of `yb prompt test`: MCP over HTTP on loopback, below a path that only they know.
//!
//! `yb prompt run` serves them on the pipes of Claude Code. The agents of a test are trials in a sandbox, which sees neither the
//! directory of the prompt nor its programs, so that a server of their own could not run the commands.

use std::convert::Infallible;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use yb_claude::sdk::ToolServer;

use crate::error::CliError;

/// The variable with the port and the path of the server. It is in the case in place of both, which differ from run to run.
pub(super) const VARIABLE: &str = "YB_PROMPT_TOOLS";
/// The largest request.
const MAX_BYTES: usize = 16 << 20;

/// A running server. It ends when it is dropped.
pub(super) struct ToolHost {
    /// The value of [`VARIABLE`].
    pub(super) address: String,
    _runtime: tokio::runtime::Runtime,
}

impl ToolHost {
    /// Starts a server on a free port.
    pub(super) fn start(tools: ToolServer) -> Result<Self, CliError> {
        let failed = || CliError::failed_to("serve the tools of the prompt");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed())?;
        let port = listener.local_addr().map_err(failed())?.port();
        listener.set_nonblocking(true).map_err(failed())?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(failed())?;
        let path = format!("/{}", yb_engine::nonce());
        let address = format!("{port}{path}");
        runtime.spawn(serve(listener, path, Arc::new(tools)));
        Ok(Self { address, _runtime: runtime })
    }
}

async fn serve(listener: TcpListener, path: String, tools: Arc<ToolServer>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    while let Ok((stream, _)) = listener.accept().await {
        let (path, tools) = (path.clone(), Arc::clone(&tools));
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let (path, tools) = (path.clone(), Arc::clone(&tools));
                async move { Ok::<_, Infallible>(answer(request, &path, &tools).await) }
            });
            // An error is a client that went away.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(request: Request<Incoming>, path: &str, tools: &ToolServer) -> Response<Full<Bytes>> {
    let status = |code: StatusCode| {
        let mut response = Response::new(Full::default());
        *response.status_mut() = code;
        response
    };
    if request.uri().path() != path {
        return status(StatusCode::NOT_FOUND);
    }
    // There are no messages from the server that a client could wait for with GET.
    if request.method() != Method::POST {
        return status(StatusCode::METHOD_NOT_ALLOWED);
    }
    let Ok(body) = Limited::new(request.into_body(), MAX_BYTES).collect().await else {
        return status(StatusCode::PAYLOAD_TOO_LARGE);
    };
    let Ok(message) = serde_json::from_slice::<Value>(&body.to_bytes()) else {
        return status(StatusCode::BAD_REQUEST);
    };
    match tools.respond(&message).await {
        None => status(StatusCode::ACCEPTED),
        Some(reply) => {
            let mut response = Response::new(Full::new(Bytes::from(reply.to_string())));
            let json = hyper::header::HeaderValue::from_static("application/json");
            response.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
            response
        }
    }
}
