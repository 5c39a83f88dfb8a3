//! Sums of a meter, which change with each call instead of being computed over all calls again.

use std::collections::BTreeMap;

use super::{Call, Metered};

/// The most models whose usage is summed up by name.
const MODELS: usize = 64;
/// The name of all others.
const OTHERS: &str = "others";

/// Sums over the calls of one execution.
#[derive(Debug, Clone, Default)]
pub(super) struct Totals {
    /// Over all calls.
    pub(super) live: LiveSums,
    /// Over the calls that are not remembered any more, by model.
    settled: BTreeMap<String, Metered>,
}

/// The sums that are reported while the agent runs.
#[derive(Debug, Clone, Default)]
pub(super) struct LiveSums {
    pub(super) agent: ThreadSums,
    pub(super) subagents: ThreadSums,
    pub(super) input: u128,
    pub(super) output: u128,
}

/// The calls of the main thread, or of all subagents.
#[derive(Debug, Clone, Default)]
pub(super) struct ThreadSums {
    pub(super) calls: u64,
    /// In trillionths of a dollar, so that a call can be subtracted exactly.
    pico_usd: i128,
}

impl ThreadSums {
    /// The cost; none without calls.
    pub(super) fn usd(&self) -> Option<f64> {
        (self.calls > 0).then_some(self.pico_usd as f64 / PICO)
    }
}

const PICO: f64 = 1e12;

/// A sum as it is reported.
pub(super) fn saturated(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}

impl LiveSums {
    pub(super) fn add(&mut self, call: &Call) {
        self.input += u128::from(call.used.input);
        self.output += u128::from(call.used.output);
        let thread = if call.by_subagent { &mut self.subagents } else { &mut self.agent };
        thread.calls += 1;
        thread.pico_usd += pico(call);
    }

    pub(super) fn subtract(&mut self, call: &Call) {
        self.input -= u128::from(call.used.input);
        self.output -= u128::from(call.used.output);
        let thread = if call.by_subagent { &mut self.subagents } else { &mut self.agent };
        thread.calls -= 1;
        thread.pico_usd -= pico(call);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the conversion saturates, and costs are far smaller")]
fn pico(call: &Call) -> i128 {
    (call.usd() * PICO).round() as i128
}

impl Totals {
    /// Adds a call that is not remembered any more.
    pub(super) fn settle(&mut self, call: &Call) {
        let known = self.settled.len() < MODELS || self.settled.contains_key(&call.model);
        let name = if known { call.model.as_str() } else { OTHERS };
        let sum = self.settled.entry(name.to_owned()).or_default();
        sum.used.add(&call.used);
        sum.usd += call.usd();
    }

    /// The sums over calls that are not remembered any more.
    pub(super) fn by_model(&self) -> BTreeMap<&str, Metered> {
        self.settled.iter().map(|(name, sum)| (name.as_str(), *sum)).collect()
    }
}
