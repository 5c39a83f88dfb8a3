//! Compares the usage of model calls with the totals that the agent reports, so that the spans of a run add up to its usage.
//!
//! A response of a subagent is reported without its output tokens. Its span waits for them: the result of the subagent has those of its
//! last call, a transcript those of all calls, and the totals the rest.

use std::collections::BTreeMap;
use std::time::SystemTime;

use opentelemetry::trace::SpanKind;
use opentelemetry::{Context, KeyValue};
use yb_claude::Tokens;
use yb_claude::frame::{ApiMessage, Usage};

use super::{MAIN, ModelCall, SpanFailure, SpanTree, bounds, specific};
use crate::names::common;

/// The maximum number of calls that wait for their output tokens.
const MAX_WAITING: usize = 2048;
/// Smaller differences of costs come from rounding.
const ROUNDING_USD: f64 = 1e-9;

/// The usage of an agent's model calls since its span started.
#[derive(Debug, Default)]
pub(crate) struct UsageLedger {
    /// Calls with unknown output tokens, in order of their ends.
    waiting: Vec<EndedCall>,
    /// The usage of calls that have spans, by model.
    recorded: BTreeMap<String, ModelSum>,
    /// The totals that the agent reported, by model.
    reported: BTreeMap<String, ModelSum>,
}

/// A model call that ended, and the place of its span.
#[derive(Debug)]
pub(super) struct EndedCall {
    pub(super) conversation: String,
    pub(super) agent: Context,
    pub(super) call: ModelCall,
    pub(super) failure: Option<SpanFailure>,
}

/// The usage and the cost of one model.
#[derive(Debug, Clone, Copy, Default)]
struct ModelSum {
    tokens: Tokens,
    usd: f64,
}

impl ModelSum {
    fn add(&mut self, tokens: &Tokens, usd: f64) {
        let sum = &mut self.tokens;
        sum.input = sum.input.saturating_add(tokens.input);
        sum.output = sum.output.saturating_add(tokens.output);
        sum.cache_read = sum.cache_read.saturating_add(tokens.cache_read);
        sum.cache_creation = sum.cache_creation.saturating_add(tokens.cache_creation);
        self.usd += usd;
    }

    fn minus(&self, other: &Self) -> Self {
        let mut tokens = Tokens::default();
        tokens.input = self.tokens.input.saturating_sub(other.tokens.input);
        tokens.output = self.tokens.output.saturating_sub(other.tokens.output);
        tokens.cache_read = self.tokens.cache_read.saturating_sub(other.tokens.cache_read);
        tokens.cache_creation = self.tokens.cache_creation.saturating_sub(other.tokens.cache_creation);
        Self { tokens, usd: self.usd - other.usd }
    }
}

impl UsageLedger {
    /// Returns the name of the model in the totals, which may have a suffix such as `[1m]`.
    fn reported_name(&self, model: &str) -> String {
        let own = plain(model);
        match self.reported.first_key_value() {
            Some((only, _)) if self.reported.len() == 1 => only.clone(),
            _ => own.to_owned(),
        }
    }

    /// Returns the sum of the totals that the agent reported.
    fn reported_sum(&self) -> Option<Tokens> {
        let mut sum = ModelSum::default();
        self.reported.values().for_each(|model| sum.add(&model.tokens, model.usd));
        (!self.reported.is_empty()).then_some(sum.tokens)
    }

    /// Returns the recorded usage by the names of the totals.
    fn recorded_by_reported_name(&self) -> BTreeMap<String, ModelSum> {
        let mut sums: BTreeMap<String, ModelSum> = BTreeMap::new();
        for (model, used) in &self.recorded {
            sums.entry(self.reported_name(model)).or_default().add(&used.tokens, used.usd);
        }
        sums
    }

    /// Sets the output tokens of a call if it is the only one of its model without, and all input is accounted for: then they are
    /// the rest of the total.
    fn infer_single_output(&mut self) {
        let recorded = self.recorded_by_reported_name();
        for (model, total) in &self.reported {
            let mut known = recorded.get(model).copied().unwrap_or_default();
            let mut unknown = Vec::new();
            for (index, ended) in self.waiting.iter().enumerate() {
                let name = ended.call.model.as_deref().map(|model| self.reported_name(model));
                if name.as_deref() == Some(model) {
                    known.add(&ended.call.tokens().unwrap_or_default(), 0.0);
                    unknown.extend(ended.call.output.is_none().then_some(index));
                }
            }
            let [only] = unknown[..] else { continue };
            let rest = total.minus(&known).tokens;
            if rest.total_with_cache() == rest.output && rest.output > 0 {
                self.waiting[only].call.output = Some(rest.output);
            }
        }
    }
}

impl SpanTree {
    /// Adds the reported usage of a model since the last report.
    pub(crate) fn add_reported_usage(&mut self, model: &str, tokens: &Tokens, usd: Option<f64>) {
        let name = bounded_name(&self.ledger.reported, plain(model));
        let sum = self.ledger.reported.entry(name).or_default();
        sum.add(tokens, usd.unwrap_or_default());
    }

    /// Returns the reported usage of all models.
    pub(crate) fn reported_usage(&self) -> Option<Tokens> {
        self.ledger.reported_sum()
    }

    /// Creates the span of a call, or lets it wait for its output tokens.
    pub(super) fn record_call(&mut self, ended: EndedCall) {
        if ended.call.output.is_some() || ended.call.usage.is_none() || ended.failure.is_some() {
            return self.emit_call(ended);
        }
        self.ledger.waiting.push(ended);
        if self.ledger.waiting.len() > MAX_WAITING {
            let oldest = self.ledger.waiting.remove(0);
            self.emit_call(oldest);
        }
    }

    /// Completes a call of a subagent from its transcript, or adds the call if no message reported it. Ignores subagents of earlier runs.
    pub(crate) fn record_subagent_call(&mut self, agent: &str, answer: &ApiMessage, at: SystemTime) {
        let (Some(id), Some(usage)) = (answer.id.as_deref(), answer.usage.as_ref()) else { return };
        let Some(state) = self.conversations.get(agent).filter(|_| agent != MAIN) else { return };
        if self.disabled || self.names.chat_span.is_none() {
            return;
        }
        // The agent was stopped while this call was open; otherwise it would be counted twice.
        if state.chat.as_ref().is_some_and(|open| open.id == id) {
            self.close_chat(agent, None);
        }
        let Some(state) = self.conversations.get(agent) else { return };
        let waiting = &mut self.ledger.waiting;
        let named = waiting.iter().position(|ended| ended.call.id == id);
        let same = |ended: &EndedCall| {
            let call = &ended.call;
            let output = Some(usage.output_tokens);
            ended.conversation == agent
                && call.id.is_empty()
                && call.has_input_of(usage)
                && call.output == output
        };
        let index = named.or_else(|| waiting.iter().position(same)).unwrap_or_else(|| {
            let started = state.last_input_at;
            let call = ModelCall::new(id, Vec::new(), started, at.max(started));
            let (conversation, agent) = (agent.to_owned(), state.agent.clone());
            waiting.push(EndedCall { conversation, agent, call, failure: None });
            waiting.len() - 1
        });
        let call = &mut waiting[index].call;
        call.id = id.to_owned();
        call.raise(usage);
        call.output = Some(usage.output_tokens.max(call.output.unwrap_or_default()));
        call.model = call.model.take().or_else(|| answer.model.clone());
        call.stop_reason = answer.stop_reason.clone().or_else(|| call.stop_reason.take());
    }

    /// Records the last call of a subagent from the result of the tool call that started it. Without an option the CLI does not
    /// report that call otherwise.
    pub(crate) fn record_last_call(
        &mut self,
        conversation: &str,
        model: Option<String>,
        usage: &Usage,
        at: SystemTime,
    ) {
        if conversation == MAIN || self.disabled || self.names.chat_span.is_none() {
            return;
        }
        self.close_chat(conversation, None);
        let own = |ended: &&mut EndedCall| ended.conversation == conversation;
        // The result has no response id. The response is identified by its input tokens.
        let last = self.ledger.waiting.iter_mut().rfind(own).filter(|ended| ended.call.has_input_of(usage));
        if let Some(ended) = last {
            ended.call.output = Some(usage.output_tokens);
            return;
        }
        let Some(state) = self.conversations.get_mut(conversation) else { return };
        let started = state.request_started_at.take().unwrap_or(state.last_input_at);
        let input_messages = std::mem::take(&mut state.input_messages);
        let content_size = std::mem::take(&mut state.input_size);
        let mut call = ModelCall::new("", input_messages, started, state.ended_at.unwrap_or(at).max(started));
        call.content_size = content_size;
        call.model = model;
        call.usage = Some(usage.clone());
        call.output = Some(usage.output_tokens);
        let (agent, conversation) = (state.agent.clone(), conversation.to_owned());
        self.ledger.waiting.push(EndedCall { conversation, agent, call, failure: None });
        if self.ledger.waiting.len() > MAX_WAITING {
            let oldest = self.ledger.waiting.remove(0);
            self.emit_call(oldest);
        }
    }

    /// Counts a call that has a span, and returns its cost if a price is known.
    pub(super) fn count_call(&mut self, call: &ModelCall) -> Option<f64> {
        let (usage, model) = (call.final_usage()?, call.model.as_deref()?);
        let usd = self.settings.price.map(|price| price(model, &usage));
        let name = bounded_name(&self.ledger.recorded, plain(model));
        let sum = self.ledger.recorded.entry(name).or_default();
        sum.add(&Tokens::from(&usage), usd.unwrap_or_default());
        usd.filter(|_| call.output.is_some())
    }

    /// Creates the remaining spans of model calls: those that waited, and one for each model with usage that no message reported,
    /// such as that of internal calls.
    pub(super) fn settle_usage(&mut self, at: SystemTime) {
        self.ledger.infer_single_output();
        for ended in std::mem::take(&mut self.ledger.waiting) {
            self.emit_call(ended);
        }
        let recorded = self.ledger.recorded_by_reported_name();
        for (model, total) in std::mem::take(&mut self.ledger.reported) {
            let rest = total.minus(&recorded.get(&model).copied().unwrap_or_default());
            self.emit_unattributed(&model, &rest, at);
        }
        self.ledger = UsageLedger::default();
    }

    /// Creates a span without duration for usage that can't be attributed to a call.
    fn emit_unattributed(&self, model: &str, rest: &ModelSum, at: SystemTime) {
        let usd = Some(rest.usd).filter(|usd| self.settings.price.is_some() && *usd > ROUNDING_USD);
        let (Some(kind), Some(main)) = (self.names.chat_span, self.conversations.get(MAIN)) else { return };
        if rest.tokens.total_with_cache() == 0 && usd.is_none() {
            return;
        }
        let mut attributes = self.call_attributes(kind, Some(model));
        attributes.push(KeyValue::new(common::UNATTRIBUTED, true));
        attributes.extend(self.usage(Some(&rest.tokens), Some(rest.tokens.output), true));
        attributes.extend(usd.map(|usd| KeyValue::new(common::COST_USD, usd)));
        let name = format!("{} (unattributed)", specific(self.names, kind, model));
        let span = self.start_span(name, SpanKind::Client, attributes, &main.agent, at);
        self.end_span(&span, None, false, at);
    }
}

/// Returns the key of a model in a map of limited size.
fn bounded_name(known: &BTreeMap<String, ModelSum>, model: &str) -> String {
    let name = &model[..model.floor_char_boundary(256)];
    if known.len() < bounds::MODELS || known.contains_key(name) { name } else { "others" }.to_owned()
}

/// Returns the model's name without a suffix such as `[1m]`.
fn plain(model: &str) -> &str {
    model.split('[').next().unwrap_or(model)
}
