//! What a run used, given that the CLI counts per session and not per run.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use crate::frame::result::{ModelUsage, ResultMessage, Usage};

/// Tokens by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Tokens {
    /// Read at the full price.
    pub input: u64,
    /// Written.
    pub output: u64,
    /// Read from the cache.
    pub cache_read: u64,
    /// Written to the cache.
    pub cache_creation: u64,
}

impl Tokens {
    /// Input and output, without the cache.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Everything.
    #[must_use]
    pub fn with_cache(&self) -> u64 {
        self.total().saturating_add(self.cache_read).saturating_add(self.cache_creation)
    }

    fn minus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_sub(other.input),
            output: self.output.saturating_sub(other.output),
            cache_read: self.cache_read.saturating_sub(other.cache_read),
            cache_creation: self.cache_creation.saturating_sub(other.cache_creation),
        }
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_creation = self.cache_creation.saturating_add(other.cache_creation);
    }
}

impl From<&Usage> for Tokens {
    fn from(usage: &Usage) -> Self {
        Self {
            input: usage.input_tokens,
            output: usage.output_tokens,
            cache_read: usage.cache_read_input_tokens,
            cache_creation: usage.cache_creation_input_tokens,
        }
    }
}

impl From<&ModelUsage> for Tokens {
    fn from(usage: &ModelUsage) -> Self {
        Self {
            input: usage.input_tokens,
            output: usage.output_tokens,
            cache_read: usage.cache_read_input_tokens,
            cache_creation: usage.cache_creation_input_tokens,
        }
    }
}

/// What a session has used so far, all its runs, models and subagents together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct SessionTotals {
    /// Tokens.
    pub tokens: Tokens,
    /// Cost.
    pub cost_usd: Option<f64>,
}

impl SessionTotals {
    pub(super) fn of(result: &ResultMessage) -> Option<Self> {
        let models = result.model_usage.as_ref()?;
        Some(Self { tokens: sum(models), cost_usd: result.total_cost_usd })
    }
}

/// What the session had used before the run.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Baseline<'a> {
    /// Nothing: the run began the session.
    NewSession,
    /// This much: [`crate::RunSummary::session_totals`] of the run before.
    Totals(&'a SessionTotals),
    /// The run resumed a session that somebody else began.
    Unknown,
}

/// What a run used.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Spent {
    /// Tokens.
    pub tokens: Tokens,
    /// Cost; none when it can't be told from that of earlier runs.
    pub cost_usd: Option<f64>,
    /// Cost of the session so far, earlier runs included.
    pub session_cost_usd: Option<f64>,
    /// Where the figures stood.
    pub source: UsageSource,
}

/// Where the figures of a run stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UsageSource {
    /// `modelUsage`, less the baseline: everything.
    ModelUsage,
    /// `model_usage_since_last_result` of each result: everything.
    SinceLastResult,
    /// `usage` of each result: the main thread, without subagents.
    ResultUsage,
    /// `modelUsage` of a session whose baseline is unknown: too much, but nothing else was reported.
    WholeSession,
}

/// `None` when no result carries any figure.
pub(super) fn of_run(results: &[ResultMessage], baseline: Baseline<'_>) -> Option<Spent> {
    let last = results.last()?;
    let totals = SessionTotals::of(last);
    let session_cost_usd = last.total_cost_usd;
    let spent = |tokens, cost_usd, source| Spent { tokens, cost_usd, session_cost_usd, source };
    let main_thread = main_thread(results);
    match (baseline, totals) {
        (Baseline::NewSession, Some(totals))
            if totals.tokens != Tokens::default() || main_thread.is_none() =>
        {
            Some(spent(totals.tokens, session_cost_usd, UsageSource::ModelUsage))
        }
        (Baseline::NewSession, _) => Some(spent(main_thread?, session_cost_usd, UsageSource::ResultUsage)),
        (Baseline::Totals(before), Some(totals)) => {
            // A counter that went down began anew: not every version carries it over.
            let before = if totals.tokens.with_cache() < before.tokens.with_cache() {
                SessionTotals { tokens: Tokens::default(), cost_usd: Some(0.0) }
            } else {
                *before
            };
            let cost = session_cost_usd.zip(before.cost_usd).map(|(now, then)| (now - then).max(0.0));
            Some(spent(totals.tokens.minus(before.tokens), cost, UsageSource::ModelUsage))
        }
        (Baseline::Totals(_), None) => Some(spent(main_thread?, None, UsageSource::ResultUsage)),
        (Baseline::Unknown, totals) => {
            if let Some((tokens, cost)) = since_last_results(results) {
                return Some(spent(tokens, cost, UsageSource::SinceLastResult));
            }
            match (main_thread, totals) {
                (Some(tokens), _) if tokens != Tokens::default() => {
                    Some(spent(tokens, None, UsageSource::ResultUsage))
                }
                // All zero is what an exhausted budget reports.
                (_, Some(totals)) if totals.tokens != Tokens::default() => {
                    Some(spent(totals.tokens, None, UsageSource::WholeSession))
                }
                (main_thread, _) => Some(spent(main_thread?, None, UsageSource::ResultUsage)),
            }
        }
    }
}

/// The sum of every turn's own `usage`.
fn main_thread(results: &[ResultMessage]) -> Option<Tokens> {
    let mut usages = results.iter().filter_map(|result| result.usage.as_ref()).peekable();
    usages.peek()?;
    Some(usages.fold(Tokens::default(), |mut sum, usage| {
        sum += usage.into();
        sum
    }))
}

/// Only if every result says what it added, from the first one on.
fn since_last_results(results: &[ResultMessage]) -> Option<(Tokens, Option<f64>)> {
    let (mut tokens, mut cost) = (Tokens::default(), Some(0.0));
    for (index, result) in results.iter().enumerate() {
        if result.result_index.is_some_and(|own| own != index as u64) {
            return None;
        }
        let models = result.model_usage_since_last_result.as_ref()?;
        tokens += sum(models);
        for model in models.values() {
            cost = cost.zip(model.cost_usd).map(|(sum, cost)| sum + cost);
        }
    }
    Some((tokens, cost))
}

fn sum(models: &BTreeMap<String, ModelUsage>) -> Tokens {
    models.values().fold(Tokens::default(), |mut sum, usage| {
        sum += usage.into();
        sum
    })
}
