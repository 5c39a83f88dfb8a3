//! What the CLI asks of its host: each question is a task of its own, so that none waits for another and a panic is
//! an answer like any other.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::task::{Id, JoinError, JoinSet};
use yb_supervise::CancellationToken;

use super::control::Answer;
use super::handlers::{CANCEL_GRACE, CallContext, Handlers};
use super::mcp::OpenCalls;
use crate::frame::ControlRequest;

struct Asked {
    task: Id,
    cancel: CancellationToken,
}

/// The questions that have no answer yet.
pub(super) struct Questions {
    handlers: Arc<Handlers>,
    open_calls: Arc<OpenCalls>,
    tasks: JoinSet<Answer>,
    asked: HashMap<String, Asked>,
    request_of: HashMap<Id, String>,
}

impl Questions {
    pub(super) fn new(handlers: Arc<Handlers>) -> Self {
        Self {
            handlers,
            open_calls: Arc::default(),
            tasks: JoinSet::new(),
            asked: HashMap::new(),
            request_of: HashMap::new(),
        }
    }

    /// The CLI asks. One that it asks twice is asked once.
    pub(super) fn ask(&mut self, request: ControlRequest) {
        let id = request.request_id.clone();
        if id.is_empty() || self.asked.contains_key(&id) {
            return;
        }
        let cancel = CancellationToken::new();
        let (handlers, open_calls) = (Arc::clone(&self.handlers), Arc::clone(&self.open_calls));
        let (context, token) = (CallContext::new(cancel.clone()), cancel.clone());
        let task = self.tasks.spawn(async move {
            let handled = handlers.answer(request, context, &open_calls);
            let given_up = async {
                token.cancelled().await;
                tokio::time::sleep(CANCEL_GRACE).await;
            };
            tokio::select! {
                answer = handled => answer,
                () = given_up => Answer::Silent,
            }
        });
        self.request_of.insert(task.id(), id.clone());
        self.asked.insert(id, Asked { task: task.id(), cancel });
    }

    /// The CLI no longer wants an answer.
    pub(super) fn take_back(&mut self, id: &str) {
        if let Some(asked) = self.asked.remove(id) {
            self.request_of.remove(&asked.task);
            asked.cancel.cancel();
        }
    }

    /// Waits for the next answer and gives its line, if anybody wants it; never ready while nothing is asked.
    /// Cancel-safe.
    pub(super) async fn answered(&mut self) -> Option<Vec<u8>> {
        let Some(done) = self.tasks.join_next_with_id().await else { return std::future::pending().await };
        let (task, answer) = match done {
            Ok((task, answer)) => (task, answer),
            Err(error) => (error.id(), Answer::error(panic_text(error))),
        };
        let id = self.request_of.remove(&task)?;
        self.asked.remove(&id)?;
        answer.line(&id)
    }
}

fn panic_text(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "the handler was aborted".to_owned() };
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
    format!("the handler panicked: {text}")
}
