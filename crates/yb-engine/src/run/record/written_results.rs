//! Compares a written `results.json` with plan and journal, trial by trial: results of many trials need not be in memory.

use std::fmt;
use std::io::Read;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::super::plan::Plan;
use super::super::results::{RunResults, TrialResults};
use super::super::state::RunState;

/// The field with the results of the trials.
const TRIALS: &str = "trials";
/// The field with the report of the gates, which is not in plan and journal.
const GATES: &str = "gates";

/// What was found in a written file.
#[derive(Debug, Default)]
pub(super) struct WrittenResults {
    /// Whether all fields that follow from plan and journal have the expected values.
    pub(super) is_same: bool,
    /// The report of the gates; null if there is none.
    pub(super) gates: Value,
}

/// Compares a file with the results that follow from plan and journal. Further fields are ignored.
pub(super) fn compare(
    file: impl Read,
    plan: &Plan,
    state: &RunState,
) -> Result<WrittenResults, serde_json::Error> {
    let whole = serde_json::to_value(RunResults::without_trials(plan, state))?;
    let Value::Object(expected) = whole else { return Ok(WrittenResults::default()) };
    let mut input = serde_json::Deserializer::from_reader(file);
    let written = Fields { expected, plan, state }.deserialize(&mut input)?;
    input.end()?;
    Ok(written)
}

struct Fields<'a> {
    expected: Map<String, Value>,
    plan: &'a Plan,
    state: &'a RunState,
}

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = WrittenResults;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = WrittenResults;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the results of a run")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut written = WrittenResults { is_same: true, gates: Value::Null };
        while let Some(name) = fields.next_key::<String>()? {
            if name == TRIALS {
                let trials = Trials { plan: self.plan, state: self.state };
                written.is_same &= fields.next_value_seed(trials)?;
                self.expected.remove(TRIALS);
                continue;
            }
            let value: Value = fields.next_value()?;
            written.is_same &= self.expected.remove(&name).is_none_or(|expected| expected == value);
            if name == GATES {
                written.gates = value;
            }
        }
        written.is_same &= self.expected.is_empty();
        Ok(written)
    }
}

/// The list of trials. Its value is whether all are as expected.
struct Trials<'a> {
    plan: &'a Plan,
    state: &'a RunState,
}

impl<'de> DeserializeSeed<'de> for Trials<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Trials<'_> {
    type Value = bool;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of trials")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut trials: A) -> Result<Self::Value, A::Error> {
        let (mut is_same, mut planned) = (true, self.plan.trials.iter());
        while let Some(written) = trials.next_element::<Value>()? {
            is_same &= planned.next().is_some_and(|trial| {
                serde_json::to_value(TrialResults::of(trial, self.state)).is_ok_and(|value| value == written)
            });
        }
        Ok(is_same && planned.next().is_none())
    }
}
