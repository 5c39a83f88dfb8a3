//! Spans of model calls.

use std::time::SystemTime;

use opentelemetry::KeyValue;
use opentelemetry::trace::SpanKind;
use serde_json::Value;
use yb_claude::Tokens;

use super::ledger::EndedCall;
use super::{MAIN, ModelCall, SpanFailure, SpanTree, finish, sorted, specific};
use crate::content::{message, output_message};
use crate::metrics::Operation;
use crate::names::common;

/// The size of a part of a message in memory, about.
fn content_size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 32,
        Value::Array(items) => items.iter().map(content_size).sum::<usize>() + 32,
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| name.len() + 64 + content_size(field)).sum::<usize>() + 32
        }
        _ => 32,
    }
}

impl SpanTree {
    /// Records input to the model.
    pub(crate) fn record_input(&mut self, conversation: &str, parts: Vec<Value>, role: &str, at: SystemTime) {
        let size: usize = parts.iter().map(content_size).sum();
        let wanted = self.settings.content.enabled
            && !parts.is_empty()
            && self.conversations.contains_key(conversation)
            && self.reserve_content(size);
        let Some(conversation) = self.conversations.get_mut(conversation) else { return };
        conversation.last_input_at = at;
        if wanted {
            conversation.input_size += size;
            let parts: Vec<Value> = parts.into_iter().map(|part| self.settings.content.value(part)).collect();
            conversation.input_messages.push(message(role, &parts));
        }
    }

    /// Records that the agent sends a request, which its next response answers. A retry of the request is a part of the call.
    pub(crate) fn record_request(&mut self, conversation: &str, at: SystemTime) {
        if let Some(conversation) = self.conversations.get_mut(conversation) {
            conversation.request_started_at.get_or_insert(at);
        }
    }

    /// Records that the agent is ready. Without a report of the request, the first call starts no earlier.
    pub(crate) fn record_ready(&mut self, at: SystemTime) {
        if let Some(main) = self.conversations.get_mut(MAIN).filter(|main| main.chat.is_none()) {
            main.last_input_at = main.last_input_at.max(at);
        }
    }

    /// Returns the model call with this response id. Starts a new one if the id differs from the open call's.
    pub(crate) fn chat(&mut self, conversation: &str, id: &str, at: SystemTime) -> Option<&mut ModelCall> {
        if self.disabled || self.names.chat_span.is_none() || self.root.is_none() {
            return None;
        }
        let other = self.conversations.get(conversation)?.chat.as_ref().is_some_and(|chat| chat.id != id);
        if other {
            self.close_chat(conversation, None);
        }
        let conversation = self.conversations.get_mut(conversation)?;
        if conversation.chat.is_none() {
            let input_messages = std::mem::take(&mut conversation.input_messages);
            let started = conversation.request_started_at.take().unwrap_or(conversation.last_input_at);
            let mut call = ModelCall::new(id, input_messages, started, at);
            call.content_size = std::mem::take(&mut conversation.input_size);
            conversation.chat = Some(call);
        }
        conversation.chat.as_mut().inspect(|_| conversation.last_input_at = at)
    }

    /// Adds content to the open model call of a conversation.
    pub(crate) fn record_output(&mut self, conversation: &str, parts: Vec<Value>) {
        let size: usize = parts.iter().map(content_size).sum();
        if self.open_chat(conversation).is_none() || !self.reserve_content(size) {
            return;
        }
        if let Some(chat) = self.open_chat(conversation) {
            chat.content_size += size;
            chat.parts.extend(parts);
        }
    }

    /// Returns the open model call of a conversation.
    pub(crate) fn open_chat(&mut self, conversation: &str) -> Option<&mut ModelCall> {
        self.conversations.get_mut(conversation)?.chat.as_mut()
    }

    /// Ends a model call. Its span is created only now, since all attributes must be known. A failure of the agent does not concern a
    /// complete response.
    pub(crate) fn close_chat(&mut self, key: &str, failure: Option<&SpanFailure>) {
        let Some(conversation) = self.conversations.get_mut(key) else { return };
        let (Some(mut call), agent) = (conversation.chat.take(), conversation.agent.clone()) else { return };
        let failure = failure.filter(|_| !call.is_complete()).cloned().or_else(|| call.failure.take());
        self.record_call(EndedCall { conversation: key.to_owned(), agent, call, failure });
    }

    /// Creates the span of a model call.
    pub(super) fn emit_call(&mut self, ended: EndedCall) {
        let Some(kind) = self.names.chat_span else { return };
        let EndedCall { conversation, agent, call: chat, failure } = ended;
        self.waiting_content = self.waiting_content.saturating_sub(chat.content_size);
        let usd = self.count_call(&chat);
        let (names, failure) = (self.names, failure.as_ref());
        // The requested model is that of the agent. Its subagents may request others.
        let (requested, reported) = (self.settings.model.clone(), chat.model.clone());
        let model = if conversation == MAIN { requested.or(reported) } else { reported.or(requested) };
        let mut attributes = self.call_attributes(kind, model.as_deref());
        attributes.extend(chat.model.clone().map(|model| KeyValue::new(names.response_model, model)));
        if !chat.id.is_empty() {
            attributes.push(KeyValue::new(names.response_id, chat.id.clone()));
        }
        attributes.extend(chat.stop_reason.clone().map(|reason| finish(names, reason)));
        attributes.extend(self.usage(chat.tokens().as_ref(), chat.output, true));
        if let Some(usd) = usd {
            attributes.push(KeyValue::new(common::COST_USD, usd));
            attributes.push(KeyValue::new(common::COST_SOURCE, common::METERED));
        }
        if self.settings.content.enabled {
            if !chat.input_messages.is_empty() {
                attributes
                    .push(KeyValue::new(names.input, Value::Array(chat.input_messages.clone()).to_string()));
            }
            let parts: Vec<Value> =
                chat.parts.iter().cloned().map(|part| self.settings.content.value(part)).collect();
            attributes.push(KeyValue::new(
                names.output,
                Value::Array(vec![output_message(&parts, chat.stop_reason.as_deref())]).to_string(),
            ));
        }
        let name = specific(names, kind, model.as_deref().unwrap_or_default());
        let span = self.start_span(name, SpanKind::Client, attributes, &agent, chat.started);
        self.end_span(&span, failure, self.settings.content.enabled, chat.last);
        if let Some(metrics) = &self.settings.metrics {
            let operation = Operation {
                name: kind,
                provider: &self.settings.provider,
                model: model.as_deref(),
                error_type: failure.map(|failure| failure.kind.as_ref()),
            };
            metrics.operation(operation, span.duration(chat.last));
        }
    }

    /// Returns the attributes that all model calls have.
    pub(super) fn call_attributes(&self, kind: &'static str, model: Option<&str>) -> Vec<KeyValue> {
        let names = self.names;
        let mut attributes = self.common();
        attributes.extend(names.operation.map(|operation| KeyValue::new(operation, kind)));
        if !names.provider_everywhere {
            attributes.extend(self.provider());
        }
        attributes.retain(|attribute| attribute.key.as_str() != names.request_model);
        attributes.extend(model.map(|model| KeyValue::new(names.request_model, model.to_owned())));
        attributes
    }

    pub(super) fn close_chats(&mut self, failure: Option<&SpanFailure>) {
        for conversation in sorted(self.conversations.keys()) {
            self.close_chat(&conversation, failure);
        }
    }

    /// Returns the usage attributes.
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
