//! JSON: the complete report in one document.

use serde_json::{Map, Value, json};

use crate::model::{Cell, Matrix, Money, Report, Run, Trial};

/// The version of the document; an incompatible change increments the first number.
pub const JSON_VERSION: &str = "1.0.0";

/// Renders a report as one JSON document. Each trial carries its whole `results.json` as `results`.
#[must_use]
pub fn json(report: &Report) -> String {
    let document = json!({
        "format": "youbencha-report",
        "version": JSON_VERSION,
        "runs": report.runs.iter().map(run).collect::<Vec<_>>(),
    });
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

fn run(run: &Run) -> Value {
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
    json!({
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
        "extra": run.extra,
        "trials": run.trials.iter().map(trial).collect::<Vec<_>>(),
    })
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
    let log = trial.log().unwrap_or_default();
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
        "usage": log["usage"],
        "turns": trial.turns,
        "isolation": trial.isolation,
        "error": trial.error,
        "warnings": trial.warnings,
        "attempts": attempts,
        "artifacts": trial.artifacts,
        "results": trial.results(),
    })
}
