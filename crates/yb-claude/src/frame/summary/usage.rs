//! The usage of a run, derived from the CLI's figures, which count per session.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use crate::frame::result::{ModelUsage, ResultMessage, Usage};

/// Token counts by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Tokens {
    /// Uncached input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens read from the cache.
    pub cache_read: u64,
    /// Input tokens written to the cache.
    pub cache_creation: u64,
}

impl Tokens {
    /// Returns input plus output tokens, without the cache.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Returns the sum of all counts.
    #[must_use]
    pub fn total_with_cache(&self) -> u64 {
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

/// The usage of a session so far, including all runs, models and subagents.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct SessionTotals {
    /// The token counts.
    pub tokens: Tokens,
    /// The cost in US dollars.
    pub cost_usd: Option<f64>,
}

impl SessionTotals {
    pub(super) fn of(result: &ResultMessage) -> Option<Self> {
        let models = result.model_usage.as_ref()?;
        Some(Self { tokens: sum(models), cost_usd: result.total_cost_usd })
    }
}

/// The usage of the session before the run.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum UsageBaseline<'a> {
    /// Zero: the run started the session.
    NewSession,
    /// The [`crate::RunSummary::session_totals`] of the previous run.
    Totals(&'a SessionTotals),
    /// The run resumed a session of unknown usage.
    Unknown,
}

/// The usage of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct RunUsage {
    /// The token counts.
    pub tokens: Tokens,
    /// The cost in US dollars; `None` if it can't be separated from that of earlier runs.
    pub cost_usd: Option<f64>,
    /// The cost of the session so far, including earlier runs.
    pub session_cost_usd: Option<f64>,
    /// The source of the figures.
    pub source: UsageSource,
}

/// The source of usage figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UsageSource {
    /// `modelUsage` minus the baseline; complete.
    ModelUsage,
    /// `model_usage_since_last_result` of each result; complete.
    SinceLastResult,
    /// `usage` of each result; without subagents.
    ResultUsage,
    /// `modelUsage` of a session with unknown baseline: an upper bound, used if nothing else was reported.
    WholeSession,
}

/// The usage of all results, summed up while they arrive.
#[derive(Debug, Clone, Default)]
pub(super) struct ResultUsage {
    results: u64,
    /// The sum of the `usage` of every turn.
    main_thread: Option<Tokens>,
    /// The sum of the usage that each result added; void if one does not report it.
    added: (Tokens, Option<f64>),
    is_void: bool,
}

impl ResultUsage {
    pub(super) fn add(&mut self, result: &ResultMessage) {
        if let Some(usage) = &result.usage {
            *self.main_thread.get_or_insert_default() += usage.into();
        }
        if self.results == 0 {
            self.added.1 = Some(0.0);
        }
        let is_next = result.result_index.is_none_or(|own| own == self.results);
        self.results += 1;
        match &result.model_usage_since_last_result {
            Some(models) if is_next => {
                self.added.0 += sum(models);
                for model in models.values() {
                    self.added.1 = self.added.1.zip(model.cost_usd).map(|(sum, cost)| sum + cost);
                }
            }
            _ => self.is_void = true,
        }
    }

    fn since_last_results(&self) -> Option<(Tokens, Option<f64>)> {
        (!self.is_void && self.results > 0).then_some(self.added)
    }

    /// Returns `None` if no result has usage figures.
    pub(super) fn of_run(&self, last: &ResultMessage, baseline: UsageBaseline<'_>) -> Option<RunUsage> {
        let totals = SessionTotals::of(last);
        let session_cost_usd = last.total_cost_usd;
        let usage = |tokens, cost_usd, source| RunUsage { tokens, cost_usd, session_cost_usd, source };
        let main_thread = self.main_thread;
        match (baseline, totals) {
            (UsageBaseline::NewSession, Some(totals))
                if totals.tokens != Tokens::default() || main_thread.is_none() =>
            {
                Some(usage(totals.tokens, session_cost_usd, UsageSource::ModelUsage))
            }
            (UsageBaseline::NewSession, _) => {
                Some(usage(main_thread?, session_cost_usd, UsageSource::ResultUsage))
            }
            (UsageBaseline::Totals(before), Some(totals)) => {
                // A smaller counter was reset: not every version carries it over.
                let before = if totals.tokens.total_with_cache() < before.tokens.total_with_cache() {
                    SessionTotals { tokens: Tokens::default(), cost_usd: Some(0.0) }
                } else {
                    *before
                };
                let cost = session_cost_usd.zip(before.cost_usd).map(|(now, then)| (now - then).max(0.0));
                Some(usage(totals.tokens.minus(before.tokens), cost, UsageSource::ModelUsage))
            }
            (UsageBaseline::Totals(_), None) => Some(usage(main_thread?, None, UsageSource::ResultUsage)),
            (UsageBaseline::Unknown, totals) => {
                if let Some((tokens, cost)) = self.since_last_results() {
                    return Some(usage(tokens, cost, UsageSource::SinceLastResult));
                }
                match (main_thread, totals) {
                    (Some(tokens), _) if tokens != Tokens::default() => {
                        Some(usage(tokens, None, UsageSource::ResultUsage))
                    }
                    // An exhausted budget is reported as all zero.
                    (_, Some(totals)) if totals.tokens != Tokens::default() => {
                        Some(usage(totals.tokens, None, UsageSource::WholeSession))
                    }
                    (main_thread, _) => Some(usage(main_thread?, None, UsageSource::ResultUsage)),
                }
            }
        }
    }
}

fn sum(models: &BTreeMap<String, ModelUsage>) -> Tokens {
    models.values().fold(Tokens::default(), |mut sum, usage| {
        sum += usage.into();
        sum
    })
}
