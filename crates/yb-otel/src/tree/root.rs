//! The agent's own span: how it begins, what becomes known of it, and how it ends.

use std::time::SystemTime;

use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanKind, TraceContextExt as _};
use serde_json::Value;
use yb_claude::Tokens;

use super::{Failure, MAIN, PROVIDER, Thread, Tree, finish, specific};
use crate::content::{answer, message, text_part};
use crate::metrics::Operation;

impl Tree {
    /// Begins the agent's span. One that is still open ends first: as its result says, or as superseded.
    pub(crate) fn begin(&mut self, prompt: Option<&str>, at: SystemTime) {
        if self.silent {
            return;
        }
        if self.root.is_some() {
            self.close_chats(at, None);
            let failure = match self.outcome.take() {
                Some(Ok(())) => None,
                Some(Err(failure)) => Some(failure),
                None => Some(Failure::new("superseded", "another prompt came before the answer")),
            };
            self.end_root(at, failure.as_ref());
        }
        self.outcome = None;
        self.begun += 1;
        let mut attributes = self.common();
        let names = self.names;
        if let Some(operation) = names.operation {
            attributes.push(KeyValue::new(operation, names.agent_span));
        }
        if let Some(agent_name) = names.agent_name {
            attributes.push(KeyValue::new(agent_name, self.settings.agent_name.clone()));
        }
        let content = &self.settings.content;
        let given = self.settings.prompt.as_deref().map(|prompt| content.text(prompt));
        let prompt = prompt.and_then(|prompt| content.wanted(prompt)).or(given);
        let told = prompt.iter().map(|prompt| message("user", &[text_part(prompt)])).collect::<Vec<_>>();
        if let Some(prompt) = prompt {
            let text = if names.messages { Value::Array(told.clone()).to_string() } else { prompt };
            attributes.push(KeyValue::new(names.input, text));
        }
        let name = specific(names, names.agent_span, &self.settings.agent_name);
        let root = self.start(name, SpanKind::Internal, attributes, &self.parent.clone(), at);
        if !root.context.span().is_recording() {
            self.silent = true;
            return;
        }
        let thread = Thread { agent: root.context.clone(), told_at: at, told, chat: None };
        self.threads.insert(MAIN.to_owned(), thread);
        self.root = Some(root);
    }

    /// The session, for this and every later span.
    pub(crate) fn session(&mut self, session: &str) {
        if session.is_empty() || self.session.as_deref() == Some(session) {
            return;
        }
        let first = self.session.replace(session.to_owned()).is_none();
        if let (Some(root), true) = (&mut self.root, first) {
            root.set(KeyValue::new(self.names.conversation, session.to_owned()));
        }
    }

    /// The model, when nobody asked for one.
    pub(crate) fn model(&mut self, model: &str) {
        if self.settings.model.is_none() {
            self.settings.model = Some(model.to_owned());
            if let Some(root) = &mut self.root {
                root.set(KeyValue::new(self.names.request_model, model.to_owned()));
            }
        }
    }

    /// What the agent used, on its own span.
    pub(crate) fn root_usage(&mut self, input: Option<&Tokens>, output: Option<u64>) {
        for attribute in self.usage(input, output, false) {
            self.root_set(attribute);
        }
    }

    /// One more attribute of the agent's own span.
    pub(crate) fn root_set(&mut self, attribute: KeyValue) {
        if let Some(root) = &mut self.root {
            root.set(attribute);
        }
    }

    /// Why the model stopped for the last time.
    pub(crate) fn root_finish(&mut self, reason: &str) {
        self.root_set(finish(self.names, reason.to_owned()));
    }

    /// The model has stopped, and nobody has said why.
    pub(crate) fn root_stopped(&mut self) {
        if self.root.as_ref().is_some_and(|root| !root.has(self.names.finish_reasons)) {
            self.root_finish("stop");
        }
        self.outcome.get_or_insert(Ok(()));
    }

    /// What the agent answered.
    pub(crate) fn root_output(&mut self, text: &str) {
        let text = self.settings.content.text(text);
        let text = if self.names.messages {
            Value::Array(vec![answer(&[text_part(&text)], Some("stop"))]).to_string()
        } else {
            text
        };
        self.root_set(KeyValue::new(self.names.output, text));
    }

    pub(super) fn end_root(&mut self, at: SystemTime, failure: Option<&Failure>) {
        let Some(root) = self.root.take() else { return };
        root.end(failure, true, at);
        if let Some(metrics) = &self.settings.metrics {
            let operation = Operation {
                name: "invoke_agent",
                provider: PROVIDER,
                model: self.settings.model.as_deref(),
                error_type: failure.map(|failure| failure.kind.as_ref()),
            };
            metrics.operation(operation, root.took(at));
        }
    }
}
