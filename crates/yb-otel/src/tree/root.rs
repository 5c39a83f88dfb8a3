//! The agent's own span.

use std::time::SystemTime;

use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanKind, TraceContextExt as _};
use serde_json::Value;
use yb_claude::Tokens;

use super::{Conversation, MAIN, SpanFailure, SpanTree, finish, specific};
use crate::content::{message, output_message, text_part};
use crate::metrics::Operation;

impl SpanTree {
    /// Starts the agent's span. An open one ends first, with its reported outcome or as superseded.
    pub(crate) fn start_root(&mut self, prompt: Option<&str>, at: SystemTime) {
        if self.disabled {
            return;
        }
        if self.root.is_some() {
            self.close_chats(None);
            self.settle_usage(at);
            let failure = match self.outcome.take() {
                Some(Ok(())) => None,
                Some(Err(failure)) => Some(failure),
                None => Some(SpanFailure::new("superseded", "a new prompt arrived before the response")),
            };
            self.end_root(at, failure.as_ref());
        }
        self.outcome = None;
        self.stopped_at = None;
        self.roots_started += 1;
        let mut attributes = self.common();
        let names = self.names;
        if let Some(operation) = names.operation {
            attributes.push(KeyValue::new(operation, names.agent_span));
        }
        attributes.extend(self.provider().filter(|_| !names.provider_everywhere));
        if let Some(agent_name) = names.agent_name {
            attributes.push(KeyValue::new(agent_name, self.settings.agent_name.clone()));
        }
        let content = &self.settings.content;
        let configured = self.settings.prompt.as_deref().map(|prompt| content.text(prompt));
        let prompt = prompt.and_then(|prompt| content.text_if_enabled(prompt)).or(configured);
        let input_messages =
            prompt.iter().map(|prompt| message("user", &[text_part(prompt)])).collect::<Vec<_>>();
        if let Some(prompt) = prompt {
            let text = if names.messages { Value::Array(input_messages.clone()).to_string() } else { prompt };
            attributes.push(KeyValue::new(names.input, text));
        }
        let name = specific(names, names.agent_span, &self.settings.agent_name);
        let root = self.start_span(name, SpanKind::Internal, attributes, &self.parent.clone(), at);
        if !root.context.span().is_recording() {
            self.disabled = true;
            return;
        }
        let conversation = Conversation::new(root.context.clone(), at, input_messages);
        self.conversations.insert(MAIN.to_owned(), conversation);
        self.root = Some(root);
    }

    /// Sets the session id of this and all later spans.
    pub(crate) fn set_session(&mut self, session: &str) {
        if session.is_empty() || self.session.as_deref() == Some(session) {
            return;
        }
        let first = self.session.replace(session.to_owned()).is_none();
        if let (Some(root), true) = (&mut self.root, first) {
            root.set(KeyValue::new(self.names.conversation, session.to_owned()));
        }
    }

    /// Sets the model, unless one was requested.
    pub(crate) fn set_model(&mut self, model: &str) {
        if self.settings.model.is_none() {
            self.settings.model = Some(model.to_owned());
            if let Some(root) = &mut self.root {
                root.set(KeyValue::new(self.names.request_model, model.to_owned()));
            }
        }
    }

    /// Sets the version of the agent, unless it is known.
    pub(crate) fn set_agent_version(&mut self, version: &str) {
        if let (Some(name), Some(root)) = (self.names.agent_version, &mut self.root)
            && !root.has(name)
        {
            root.set(KeyValue::new(name, version.to_owned()));
        }
    }

    /// Sets the usage of the agent's span.
    pub(crate) fn set_root_usage(&mut self, input: Option<&Tokens>, output: Option<u64>) {
        for attribute in self.usage(input, output, false) {
            self.set_root_attribute(attribute);
        }
    }

    /// Sets an attribute of the agent's span.
    pub(crate) fn set_root_attribute(&mut self, attribute: KeyValue) {
        if let Some(root) = &mut self.root {
            root.set(attribute);
        }
    }

    /// Sets the finish reason of the agent's span.
    pub(crate) fn set_root_finish_reason(&mut self, reason: &str) {
        self.set_root_attribute(finish(self.names, reason.to_owned()));
    }

    /// Sets the finish reason to `stop` if none is known, and the outcome to success if none is known.
    pub(crate) fn mark_root_stopped(&mut self, at: SystemTime) {
        if self.root.as_ref().is_some_and(|root| !root.has(self.names.finish_reasons)) {
            self.set_root_finish_reason("stop");
        }
        self.outcome.get_or_insert(Ok(()));
        self.stopped_at = Some(at);
    }

    /// Sets the response of the agent's span.
    pub(crate) fn set_root_output(&mut self, text: &str) {
        let text = self.settings.content.text(text);
        let text = if self.names.messages {
            Value::Array(vec![output_message(&[text_part(&text)], Some("stop"))]).to_string()
        } else {
            text
        };
        self.set_root_attribute(KeyValue::new(self.names.output, text));
    }

    pub(super) fn end_root(&mut self, at: SystemTime, failure: Option<&SpanFailure>) {
        let Some(root) = self.root.take() else { return };
        self.end_span(&root, failure, true, at);
        if let Some(metrics) = &self.settings.metrics {
            let operation = Operation {
                name: "invoke_agent",
                provider: &self.settings.provider,
                model: self.settings.model.as_deref(),
                error_type: failure.map(|failure| failure.kind.as_ref()),
            };
            metrics.operation(operation, root.duration(at));
        }
    }
}
