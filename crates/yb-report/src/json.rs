//! JSON: the complete report in one document.

use std::io::{self, Write};

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Map, Value, json};

use crate::model::{Cell, Matrix, Money, Report, Run, Trial};

/// The version of the document; an incompatible change increments the first number.
pub const JSON_VERSION: &str = "1.0.0";

/// Renders a report as one JSON document. Each trial carries its whole `results.json` as `results`.
#[must_use]
pub fn json(report: &Report) -> String {
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = write_json(report, &mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// Writes a report as one JSON document, trial by trial, so that the document need not be in memory.
///
/// # Errors
/// When writing fails.
pub fn write_json(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut fields = Map::new();
    fields.insert("format".to_owned(), "youbencha-report".into());
    fields.insert("version".to_owned(), JSON_VERSION.into());
    fields.insert("runs".to_owned(), Value::Null);
    if let Some(found) = &report.comparison {
        fields.insert("comparison".to_owned(), json!(found));
    }
    let document = WithList { fields, name: "runs", items: &report.runs, render: run };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    out.write_all(b"\n")
}

/// An object with one list whose items are rendered while they are written.
struct WithList<'a, T, R> {
    fields: Map<String, Value>,
    /// The field of the list.
    name: &'static str,
    items: &'a [T],
    render: fn(&'a T) -> R,
}

impl<'a, T, R: Serialize> Serialize for WithList<'a, T, R> {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        let mut object = output.serialize_map(Some(self.fields.len()))?;
        for (name, value) in &self.fields {
            if name == self.name {
                object.serialize_entry(name, &List { items: self.items, render: self.render })?;
            } else {
                object.serialize_entry(name, value)?;
            }
        }
        object.end()
    }
}

struct List<'a, T, R> {
    items: &'a [T],
    render: fn(&'a T) -> R,
}

impl<'a, T, R: Serialize> Serialize for List<'a, T, R> {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        output.collect_seq(self.items.iter().map(self.render))
    }
}

fn run(run: &Run) -> WithList<'_, Trial, Value> {
    let matrix = Matrix::of(run);
    let cells: Vec<Value> = matrix
        .cells()
        .map(|(case, variant, cell)| {
            let mut value = totals(cell);
            value["case"] = json!(case);
            value["variant"] = json!(variant);
            value
        })
        .collect();
    let outcomes: Map<String, Value> =
        run.outcomes().into_iter().map(|(outcome, count)| (outcome.name.clone(), json!(count))).collect();
    let fields = json!({
        "run": run.id,
        "name": run.name,
        "state": run.condition,
        "started_at": run.started_at,
        "last_at": run.last_at,
        "config": run.config,
        "youbencha": run.youbencha,
        "directory": run.directory,
        "outcomes": outcomes,
        "summary": totals(&run.totals()),
        "matrix": cells,
        "variants": run.variants,
        "extra": run.extra,
        "trials": Value::Null,
    });
    let Value::Object(fields) = fields else {
        return WithList { fields: Map::new(), name: "", items: &[], render: trial };
    };
    WithList { fields, name: "trials", items: &run.trials, render: trial }
}

fn totals(cell: &Cell) -> Value {
    json!({
        "passed": cell.passed,
        "counted": cell.counted,
        "left_out": cell.excluded,
        "pending": cell.pending,
        "pass_rate": cell.rate(),
        "median_duration_ms": cell.median_ms(),
        "cost_usd": cell.money.total(),
        "spend": spend(&cell.money),
    })
}

fn spend(money: &Money) -> Value {
    json!({ "agent_usd": money.agent, "subagents_usd": money.subagents, "judge_usd": money.judge })
}

fn trial(trial: &Trial) -> Value {
    let attempts: Vec<Value> = trial
        .attempts
        .iter()
        .map(|attempt| {
            json!({
                "attempt": attempt.number, "outcome": attempt.outcome.name,
                "duration_ms": attempt.duration_ms, "error": attempt.error,
            })
        })
        .collect();
    let usage = trial.log_usage().unwrap_or_default();
    json!({
        "trial": trial.name,
        "id": trial.id,
        "case": trial.case,
        "variant": trial.variant,
        "repeat": trial.repeat,
        "agent": trial.agent,
        "model": trial.model,
        "commit": trial.commit,
        "outcome": trial.outcome.name,
        "counts_as": trial.outcome.class.key(),
        "started_at": trial.started_at,
        "duration_ms": trial.duration_ms,
        "cost_usd": trial.money.total(),
        "spend": spend(&trial.money),
        "tokens": trial.tokens,
        "usage": usage,
        "turns": trial.turns,
        "isolation": trial.isolation,
        "error": trial.error,
        "warnings": trial.warnings,
        "attempts": attempts,
        "artifacts": trial.artifacts,
        "results": trial.results(),
    })
}
