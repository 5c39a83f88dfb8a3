//! Control requests from the CLI. Each is handled in its own task, so that requests run concurrently and a panic becomes
//! an error response.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::task::{Id, JoinError, JoinSet};
use yb_supervise::CancellationToken;

use super::control::HandlerResponse;
use super::handlers::{CANCEL_GRACE, CallContext, Handlers};
use super::mcp::OpenCalls;
use super::servers::SessionServers;
use crate::frame::ControlRequest;

/// The task of a request and its cancellation token.
struct RunningHandler {
    task: Id,
    cancel: CancellationToken,
}

/// The requests that are being handled.
pub(super) struct IncomingRequests {
    handlers: Arc<Handlers>,
    servers: SessionServers,
    open_calls: Arc<OpenCalls>,
    tasks: JoinSet<HandlerResponse>,
    running: HashMap<String, RunningHandler>,
    request_ids: HashMap<Id, String>,
}

impl IncomingRequests {
    pub(super) fn new(handlers: Arc<Handlers>, servers: SessionServers) -> Self {
        Self {
            handlers,
            servers,
            open_calls: Arc::default(),
            tasks: JoinSet::new(),
            running: HashMap::new(),
            request_ids: HashMap::new(),
        }
    }

    /// Starts the handler of a request. Repeated request IDs are ignored.
    pub(super) fn start(&mut self, request: ControlRequest) {
        let id = request.request_id.clone();
        if id.is_empty() || self.running.contains_key(&id) {
            return;
        }
        let cancel = CancellationToken::new();
        let (handlers, open_calls) = (Arc::clone(&self.handlers), Arc::clone(&self.open_calls));
        let servers = self.servers.clone();
        let (context, token) = (CallContext::new(cancel.clone()), cancel.clone());
        let task = self.tasks.spawn(async move {
            let handling = handlers.handle(request, context, &servers, &open_calls);
            let cancelled = async {
                token.cancelled().await;
                tokio::time::sleep(CANCEL_GRACE).await;
            };
            tokio::select! {
                response = handling => response,
                () = cancelled => HandlerResponse::Silent,
            }
        });
        self.request_ids.insert(task.id(), id.clone());
        self.running.insert(id, RunningHandler { task: task.id(), cancel });
    }

    /// Handles a cancellation by the CLI.
    pub(super) fn cancel(&mut self, id: &str) {
        if let Some(handler) = self.running.remove(id) {
            self.request_ids.remove(&handler.task);
            handler.cancel.cancel();
        }
    }

    /// Waits for the next response and returns its line, unless the request was cancelled. Pending while no handler is
    /// running. Cancel-safe.
    pub(super) async fn next_response(&mut self) -> Option<Vec<u8>> {
        let Some(done) = self.tasks.join_next_with_id().await else { return std::future::pending().await };
        let (task, response) = match done {
            Ok((task, response)) => (task, response),
            Err(error) => (error.id(), HandlerResponse::error(panic_text(error))),
        };
        let id = self.request_ids.remove(&task)?;
        self.running.remove(&id)?;
        response.line(&id)
    }
}

fn panic_text(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "handler was aborted".to_owned() };
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    format!("handler panicked: {text}")
}
