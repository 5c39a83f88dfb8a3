//! From a finished run to an answer or an error, and from several runs to one answer.

use std::time::Duration;

use super::run::Run;
use super::{MessageMetadata, OutgoingMessage, ProviderError, Stop};
use crate::{Baseline, ResultSubtype, SessionTotals, Spent, Tokens};

const NO_TEXT: &str = "(No response text returned)";
/// Between what was said before and after the limit of turns.
const SEAM: &str = "\n\n---\n\n";

/// What one run said.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) run: Run,
    pub(super) text: String,
    pub(super) stop: Stop,
}

impl Answer {
    /// stdout decides before the exit code does: at the limit of turns the CLI exits with 1 and a whole result.
    pub(super) fn of(run: Run) -> Result<Self, ProviderError> {
        if let Some(failure) = run.summary.api_failure() {
            return Err(ProviderError::Api {
                status: run.status_text(),
                message: if run.stderr.is_empty() { failure.message } else { run.stderr },
                failure: failure.kind,
                api_status: failure.status,
            });
        }
        let Some(result) = run.summary.last_result() else { return Self::without_result(run) };
        let stop = match &result.subtype {
            ResultSubtype::Success => Stop::Done,
            ResultSubtype::ErrorMaxTurns => Stop::MaxTurns,
            ResultSubtype::ErrorMaxBudgetUsd => Stop::MaxBudget,
            other => Stop::Other(other.as_str().to_owned()),
        };
        if matches!(stop, Stop::Other(_)) && !run.exited_well() {
            let said = result.errors.join("; ");
            let message = if run.stderr.is_empty() { said } else { run.stderr.clone() };
            return Err(ProviderError::Exited { status: run.status_text(), message });
        }
        if stop == Stop::MaxTurns {
            tracing::warn!("the agent reached its limit of turns");
        }
        let text = match run.summary.final_text() {
            "" if result.is_error => format!("Error from Claude: {}", result.subtype.as_str()),
            "" => NO_TEXT.to_owned(),
            text => text.to_owned(),
        };
        Ok(Self { run, text, stop })
    }

    /// Something else than Claude Code's JSON came; if it exited well, its words are the answer.
    fn without_result(run: Run) -> Result<Self, ProviderError> {
        if !run.exited_well() {
            let message = if run.stderr.is_empty() { run.unparsed.clone() } else { run.stderr.clone() };
            return Err(ProviderError::Exited { status: run.status_text(), message });
        }
        tracing::warn!("the output of the claude CLI is no JSON; taking it as the answer");
        let text = match run.summary.partial_text() {
            "" if run.unparsed.is_empty() => NO_TEXT.to_owned(),
            "" => run.unparsed.clone(),
            partial => partial.to_owned(),
        };
        Ok(Self { run, text, stop: Stop::Done })
    }
}

/// What several runs of one session said and used. The CLI counts per session: each run is charged with the
/// difference to the one before.
#[derive(Debug)]
pub(super) struct Pieces {
    first: First,
    texts: Vec<String>,
    last: Option<Answer>,
    totals: Option<SessionTotals>,
    tokens: Option<Tokens>,
    cost: Option<f64>,
    session_cost: Option<f64>,
    turns: Option<u64>,
}

/// What is known about the session before the first run.
#[derive(Debug, Clone, Copy)]
enum First {
    New,
    Unknown,
}

impl Pieces {
    pub(super) fn new(baseline: Baseline<'_>) -> Self {
        let first = if matches!(baseline, Baseline::NewSession) { First::New } else { First::Unknown };
        Self {
            first,
            texts: Vec::new(),
            last: None,
            totals: None,
            tokens: None,
            cost: None,
            session_cost: None,
            turns: None,
        }
    }

    /// How many runs there were.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.texts.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn cost_usd(&self) -> Option<f64> {
        self.cost
    }

    pub(super) fn add(&mut self, answer: Answer) {
        let summary = &answer.run.summary;
        let baseline = match (&self.totals, self.first) {
            (Some(totals), _) => Baseline::Totals(totals),
            (None, First::New) if self.texts.is_empty() => Baseline::NewSession,
            (None, _) => Baseline::Unknown,
        };
        if let Some(Spent { tokens, cost_usd, session_cost_usd, .. }) = summary.spent(baseline) {
            *self.tokens.get_or_insert_default() += tokens;
            // One part without a figure leaves the sum without one.
            self.cost = match (self.cost, cost_usd) {
                (Some(sum), Some(cost)) => Some(sum + cost),
                (None, Some(cost)) if self.texts.is_empty() => Some(cost),
                _ => None,
            };
            self.session_cost = session_cost_usd.or(self.session_cost);
        }
        if let Some(turns) = summary.num_turns() {
            *self.turns.get_or_insert_default() += turns;
        }
        self.totals = summary.session_totals().or(self.totals.take());
        self.texts.push(answer.text.clone());
        self.last = Some(answer);
    }

    pub(super) fn into_message(
        self,
        name: &str,
        asked_model: Option<&str>,
        took: Duration,
    ) -> OutgoingMessage {
        let continuations = self.count().saturating_sub(1);
        let summary = self.last.as_ref().map(|answer| &answer.run.summary);
        let has_result = summary.is_some_and(|summary| summary.last_result().is_some());
        let model = summary.and_then(|summary| summary.model()).map(|model| model.name.to_owned());
        let metadata = MessageMetadata {
            provider_used: name.to_owned(),
            tokens_used: self.tokens.map(|tokens| tokens.with_cache()),
            processing_time_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            // A text that is no JSON says nothing about its model.
            model: model.or_else(|| asked_model.filter(|_| has_result).map(str::to_owned)),
            session_id: summary.and_then(|summary| summary.session_id()).map(str::to_owned),
            cost_usd: self.cost,
            session_cost_usd: self.session_cost,
            turns: self.turns,
            stop: self.last.map(|answer| answer.stop).unwrap_or_default(),
            continuations,
        };
        OutgoingMessage { text: self.texts.join(SEAM), metadata, reply_target: None }
    }
}
