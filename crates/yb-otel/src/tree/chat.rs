//! Calls of models: what was told, what was answered, and what it took.

use std::time::SystemTime;

use opentelemetry::KeyValue;
use opentelemetry::trace::SpanKind;
use serde_json::Value;
use yb_claude::Tokens;

use super::{Chat, Failure, PROVIDER, Tree, finish, sorted, specific};
use crate::content::{answer, message};
use crate::metrics::Operation;

impl Tree {
    /// The model is told something.
    pub(crate) fn told(&mut self, thread: &str, parts: Vec<Value>, role: &str, at: SystemTime) {
        let wanted = self.settings.content.wanted;
        let Some(thread) = self.threads.get_mut(thread) else { return };
        thread.told_at = at;
        if wanted && !parts.is_empty() {
            let parts: Vec<Value> = parts.into_iter().map(|part| self.settings.content.value(part)).collect();
            thread.told.push(message(role, &parts));
        }
    }

    /// The call of the model that this answer is part of; a new one when the answer is another.
    pub(crate) fn chat(&mut self, thread: &str, id: &str, at: SystemTime) -> Option<&mut Chat> {
        if self.silent || self.names.chat_span.is_none() || self.root.is_none() {
            return None;
        }
        let other = self.threads.get(thread)?.chat.as_ref().is_some_and(|chat| chat.id != id);
        if other {
            self.close_chat(thread, at, None);
        }
        let thread = self.threads.get_mut(thread)?;
        if thread.chat.is_none() {
            let (told, started) = (std::mem::take(&mut thread.told), thread.told_at);
            thread.chat = Some(Chat::new(id, told, started, at));
        }
        thread.chat.as_mut().inspect(|_| thread.told_at = at)
    }

    /// The call of the model that is open in a thread.
    pub(crate) fn open_chat(&mut self, thread: &str) -> Option<&mut Chat> {
        self.threads.get_mut(thread)?.chat.as_mut()
    }

    /// A call of the model becomes a span when it is over: only then is everything known.
    pub(crate) fn close_chat(&mut self, thread: &str, _at: SystemTime, failure: Option<&Failure>) {
        let Some(thread) = self.threads.get_mut(thread) else { return };
        let (Some(chat), agent) = (thread.chat.take(), thread.agent.clone()) else { return };
        let Some(kind) = self.names.chat_span else { return };
        let names = self.names;
        let failure = failure.or(chat.failure.as_ref());
        let model = chat.model.clone().or_else(|| self.settings.model.clone());
        let mut attributes = self.common();
        if let Some(operation) = names.operation {
            attributes.push(KeyValue::new(operation, kind));
        }
        if !names.provider_everywhere {
            attributes.push(KeyValue::new(names.provider, PROVIDER));
        }
        if self.settings.model.is_none() {
            attributes.extend(model.clone().map(|model| KeyValue::new(names.request_model, model)));
        }
        attributes.extend(chat.model.clone().map(|model| KeyValue::new(names.response_model, model)));
        if !chat.id.is_empty() {
            attributes.push(KeyValue::new(names.response_id, chat.id.clone()));
        }
        attributes.extend(chat.stop_reason.clone().map(|reason| finish(names, reason)));
        attributes.extend(self.usage(chat.input.as_ref(), chat.output, true));
        if self.settings.content.wanted {
            if !chat.told.is_empty() {
                attributes.push(KeyValue::new(names.input, Value::Array(chat.told.clone()).to_string()));
            }
            let parts: Vec<Value> =
                chat.parts.iter().cloned().map(|part| self.settings.content.value(part)).collect();
            attributes.push(KeyValue::new(
                names.output,
                Value::Array(vec![answer(&parts, chat.stop_reason.as_deref())]).to_string(),
            ));
        }
        let name = specific(names, kind, model.as_deref().unwrap_or_default());
        let span = self.start(name, SpanKind::Client, attributes, &agent, chat.started);
        span.end(failure, self.settings.content.wanted, chat.last);
        if let Some(metrics) = &self.settings.metrics {
            let operation = Operation {
                name: kind,
                provider: PROVIDER,
                model: model.as_deref(),
                error_type: failure.map(|failure| failure.kind.as_ref()),
            };
            metrics.operation(operation, span.took(chat.last));
        }
    }

    pub(super) fn close_chats(&mut self, at: SystemTime, failure: Option<&Failure>) {
        for thread in sorted(self.threads.keys()) {
            self.close_chat(&thread, at, failure);
        }
    }

    /// What was used, with the names that the conventions have for it.
    pub(super) fn usage(
        &self,
        input: Option<&Tokens>,
        output: Option<u64>,
        with_cache: bool,
    ) -> Vec<KeyValue> {
        let names = self.names;
        let number = |key, count: u64| KeyValue::new(key, i64::try_from(count).unwrap_or(i64::MAX));
        let mut attributes = Vec::new();
        if let Some(input) = input {
            let cached = input.cache_read.saturating_add(input.cache_creation);
            let read = if names.input_with_cache { input.input.saturating_add(cached) } else { input.input };
            attributes.push(number(names.usage_input, read));
            if with_cache {
                attributes.extend(names.cache_read.map(|key| number(key, input.cache_read)));
                attributes.extend(names.cache_write.map(|key| number(key, input.cache_creation)));
            }
        }
        attributes.extend(output.map(|output| number(names.usage_output, output)));
        attributes
    }
}
