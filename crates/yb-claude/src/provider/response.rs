//! Converts a finished run to a response or an error, and combines several runs into one message.

use std::time::Duration;

use super::run::CliRun;
use super::{MessageMetadata, OutgoingMessage, ProviderError, StopReason};
use crate::{ResultSubtype, RunUsage, SessionTotals, Tokens, UsageBaseline};

const NO_TEXT: &str = "(No response text returned)";
/// Separates the texts of continued runs.
const SEPARATOR: &str = "\n\n---\n\n";

/// The response of one run.
#[derive(Debug)]
pub(super) struct CliResponse {
    pub(super) run: CliRun,
    pub(super) text: String,
    pub(super) stop_reason: StopReason,
}

impl CliResponse {
    /// stdout takes precedence over the exit code: at the turn limit the CLI exits with 1 and prints a result.
    pub(super) fn from_run(run: CliRun) -> Result<Self, ProviderError> {
        if let Some(failure) = run.summary.api_failure() {
            return Err(ProviderError::Api {
                status: run.status_text(),
                message: if run.stderr.is_empty() { failure.message } else { run.stderr },
                failure: failure.kind,
                api_status: failure.status,
            });
        }
        let Some(result) = run.summary.last_result() else { return Self::without_result(run) };
        let stop_reason = match &result.subtype {
            ResultSubtype::Success => StopReason::Done,
            ResultSubtype::ErrorMaxTurns => StopReason::MaxTurns,
            ResultSubtype::ErrorMaxBudgetUsd => StopReason::MaxBudget,
            other => StopReason::Other(other.as_str().to_owned()),
        };
        if matches!(stop_reason, StopReason::Other(_)) && !run.succeeded() {
            let errors = result.errors.join("; ");
            let message = if run.stderr.is_empty() { errors } else { run.stderr.clone() };
            return Err(ProviderError::Exited { status: run.status_text(), message });
        }
        if stop_reason == StopReason::MaxTurns {
            tracing::warn!("the agent reached its turn limit");
        }
        let text = match run.summary.final_text() {
            "" if result.is_error => format!("Error from Claude: {}", result.subtype.as_str()),
            "" => NO_TEXT.to_owned(),
            text => text.to_owned(),
        };
        Ok(Self { run, text, stop_reason })
    }

    /// Handles output that is not Claude Code's JSON: after a successful exit, the output is the answer.
    fn without_result(run: CliRun) -> Result<Self, ProviderError> {
        if !run.succeeded() {
            let message = if run.stderr.is_empty() { run.unparsed.clone() } else { run.stderr.clone() };
            return Err(ProviderError::Exited { status: run.status_text(), message });
        }
        tracing::warn!("the claude CLI did not print JSON; using its output as the answer");
        let text = match run.summary.partial_text() {
            "" if run.unparsed.is_empty() => NO_TEXT.to_owned(),
            "" => run.unparsed.clone(),
            partial => partial.to_owned(),
        };
        Ok(Self { run, text, stop_reason: StopReason::Done })
    }
}

/// The combined texts and usage of several runs of one session. The CLI counts per session, so the usage of a run is the
/// difference to the previous run.
#[derive(Debug)]
pub(super) struct CombinedResponse {
    initial_usage: InitialUsage,
    texts: Vec<String>,
    last: Option<CliResponse>,
    totals: Option<SessionTotals>,
    tokens: Option<Tokens>,
    cost: Option<f64>,
    session_cost: Option<f64>,
    turns: Option<u64>,
}

/// The usage of the session before the first run.
#[derive(Debug, Clone, Copy)]
enum InitialUsage {
    Zero,
    Unknown,
}

impl CombinedResponse {
    pub(super) fn new(baseline: UsageBaseline<'_>) -> Self {
        let initial_usage = if matches!(baseline, UsageBaseline::NewSession) {
            InitialUsage::Zero
        } else {
            InitialUsage::Unknown
        };
        Self {
            initial_usage,
            texts: Vec::new(),
            last: None,
            totals: None,
            tokens: None,
            cost: None,
            session_cost: None,
            turns: None,
        }
    }

    /// Returns the number of runs.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.texts.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn cost_usd(&self) -> Option<f64> {
        self.cost
    }

    pub(super) fn add(&mut self, response: CliResponse) {
        let summary = &response.run.summary;
        let baseline = match (&self.totals, self.initial_usage) {
            (Some(totals), _) => UsageBaseline::Totals(totals),
            (None, InitialUsage::Zero) if self.texts.is_empty() => UsageBaseline::NewSession,
            (None, _) => UsageBaseline::Unknown,
        };
        if let Some(RunUsage { tokens, cost_usd, session_cost_usd, .. }) = summary.usage(baseline) {
            *self.tokens.get_or_insert_default() += tokens;
            // One run of unknown cost makes the sum unknown.
            self.cost = match (self.cost, cost_usd) {
                (Some(sum), Some(cost)) => Some(sum + cost),
                (None, Some(cost)) if self.texts.is_empty() => Some(cost),
                _ => None,
            };
            self.session_cost = session_cost_usd.or(self.session_cost);
        } else if let Some(total) = summary.last_result().and_then(|result| result.total_cost_usd) {
            // Some versions report a cost without tokens.
            let is_new = matches!(baseline, UsageBaseline::NewSession);
            self.cost = Some(total).filter(|_| is_new && total.is_finite() && total >= 0.0);
            self.session_cost = Some(total);
        }
        if let Some(turns) = summary.num_turns() {
            *self.turns.get_or_insert_default() += turns;
        }
        self.totals = summary.session_totals().or(self.totals.take());
        self.texts.push(response.text.clone());
        self.last = Some(response);
    }

    pub(super) fn into_message(
        self,
        name: &str,
        requested_model: Option<&str>,
        elapsed: Duration,
    ) -> OutgoingMessage {
        let continuations = self.count().saturating_sub(1);
        let summary = self.last.as_ref().map(|response| &response.run.summary);
        let has_result = summary.is_some_and(|summary| summary.last_result().is_some());
        let model = summary.and_then(|summary| summary.model()).map(|model| model.name.to_owned());
        let metadata = MessageMetadata {
            provider_used: name.to_owned(),
            tokens_used: self.tokens.map(|tokens| tokens.total_with_cache()),
            processing_time_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            // Plain text output does not report its model.
            model: model.or_else(|| requested_model.filter(|_| has_result).map(str::to_owned)),
            session_id: summary.and_then(|summary| summary.session_id()).map(str::to_owned),
            cost_usd: self.cost,
            session_cost_usd: self.session_cost,
            turns: self.turns,
            stop_reason: self.last.map(|response| response.stop_reason).unwrap_or_default(),
            continuations,
        };
        OutgoingMessage { text: self.texts.join(SEPARATOR), metadata, reply_target: None }
    }
}
