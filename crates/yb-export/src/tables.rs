//! Runs as four tables for data frames: `trials`, `turns`, `tool_calls` and `verdicts`, joined by `run` and `trial`.

mod arrow;
mod flatbuffer;
mod parquet;

use serde_json::Value;
use yb_engine::log::UsageSource;
use yb_report::{OutcomeClass, Run, Trial};

use crate::conversation::{Conversation, StepSource};
use crate::record::TrialRecord;
use crate::{ExportError, Output};

/// The values of a column; absent ones are null.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Values {
    Text(Vec<Option<String>>),
    Int(Vec<Option<i64>>),
    Float(Vec<Option<f64>>),
    Bool(Vec<Option<bool>>),
}

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) values: Values,
}

/// A table, whose columns have the same length.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: usize,
}

/// The file format of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableFormat {
    Csv,
    Parquet,
    Arrow,
}

pub(crate) fn export(run: &Run, format: TableFormat, output: &mut Output<'_, '_>) -> Result<(), ExportError> {
    let mut tables = [trials_table(), turns_table(), calls_table(), verdicts_table()];
    for trial in &run.trials {
        let record = TrialRecord::read(run, trial)?;
        let [trials, turns, calls, verdicts] = &mut tables;
        add_trial(trials, run, trial, record.as_ref());
        if let Some(record) = &record {
            add_conversation(turns, calls, record);
            add_verdicts(verdicts, record);
        }
        output.summary.trials += 1;
    }
    for table in &tables {
        let (suffix, bytes) = match format {
            TableFormat::Csv => ("csv", Ok(csv(table).into_bytes())),
            TableFormat::Parquet => ("parquet", parquet::write(table)),
            TableFormat::Arrow => ("arrow", arrow::write(table)),
        };
        let name = format!("{}.{suffix}", table.name);
        let bytes = bytes.map_err(|source| ExportError::Write { path: name.clone(), source })?;
        output.write(&name, &bytes)?;
    }
    Ok(())
}

/// One cell.
enum Cell {
    Text(Option<String>),
    Int(Option<i64>),
    Float(Option<f64>),
    Bool(Option<bool>),
}

fn text(value: impl Into<String>) -> Cell {
    Cell::Text(Some(value.into()))
}

fn count(value: u64) -> Cell {
    Cell::Int(i64::try_from(value).ok())
}

fn maybe_count(value: Option<u64>) -> Cell {
    Cell::Int(value.and_then(|value| i64::try_from(value).ok()))
}

impl Table {
    fn new(name: &'static str, columns: &[(&'static str, Kind)]) -> Self {
        let column = |(name, kind): &(&'static str, Kind)| Column {
            name,
            values: match kind {
                Kind::Text => Values::Text(Vec::new()),
                Kind::Int => Values::Int(Vec::new()),
                Kind::Float => Values::Float(Vec::new()),
                Kind::Bool => Values::Bool(Vec::new()),
            },
        };
        Self { name, columns: columns.iter().map(column).collect(), rows: 0 }
    }

    /// Adds a row. A cell of another type is null.
    fn push<const N: usize>(&mut self, row: [Cell; N]) {
        debug_assert_eq!(N, self.columns.len(), "{}", self.name);
        self.rows += 1;
        let mut row = row.into_iter();
        for column in &mut self.columns {
            match (&mut column.values, row.next()) {
                (Values::Text(values), Some(Cell::Text(value))) => values.push(value),
                (Values::Int(values), Some(Cell::Int(value))) => values.push(value),
                (Values::Float(values), Some(Cell::Float(value))) => values.push(value),
                (Values::Bool(values), Some(Cell::Bool(value))) => values.push(value),
                (Values::Text(values), _) => values.push(None),
                (Values::Int(values), _) => values.push(None),
                (Values::Float(values), _) => values.push(None),
                (Values::Bool(values), _) => values.push(None),
            }
        }
    }
}

enum Kind {
    Text,
    Int,
    Float,
    Bool,
}

fn trials_table() -> Table {
    use Kind::{Bool, Float, Int, Text};
    Table::new(
        "trials",
        &[
            ("run", Text),
            ("trial", Text),
            ("suite", Text),
            ("case_name", Text),
            ("variant", Text),
            ("repeat", Int),
            ("agent", Text),
            ("agent_version", Text),
            ("model", Text),
            ("outcome", Text),
            ("passed", Bool),
            ("started_at", Text),
            ("duration_ms", Int),
            ("agent_duration_ms", Int),
            ("cost_usd", Float),
            ("agent_usd", Float),
            ("subagents_usd", Float),
            ("judge_usd", Float),
            ("input_tokens", Int),
            ("output_tokens", Int),
            ("cache_read_input_tokens", Int),
            ("cache_creation_input_tokens", Int),
            ("turns", Int),
            ("attempts", Int),
            ("isolation", Text),
            ("commit", Text),
            ("error", Text),
        ],
    )
}

fn add_trial(table: &mut Table, run: &Run, trial: &Trial, record: Option<&TrialRecord<'_>>) {
    let log = record.map(|record| &record.log);
    let usage = log.map(|log| &log.usage).filter(|usage| usage.source != UsageSource::Unreported);
    let passed = match trial.outcome.class {
        OutcomeClass::Passed => Some(true),
        OutcomeClass::Failed => Some(false),
        _ => None,
    };
    table.push([
        text(&run.id),
        text(&trial.name),
        text(&run.name),
        text(&trial.case),
        text(&trial.variant),
        count(trial.repeat.into()),
        text(&trial.agent),
        Cell::Text(log.map(|log| log.agent.version.clone()).filter(|version| version != "unknown")),
        Cell::Text(trial.model.clone()),
        text(&trial.outcome.name),
        Cell::Bool(passed),
        Cell::Text(trial.started_at.clone()),
        maybe_count(trial.duration_ms),
        maybe_count(log.map(|log| log.execution.duration_ms)),
        Cell::Float(trial.money.total()),
        Cell::Float(trial.money.agent),
        Cell::Float(trial.money.subagents),
        Cell::Float(trial.money.judge),
        maybe_count(usage.map(|usage| usage.input_tokens)),
        maybe_count(usage.map(|usage| usage.output_tokens)),
        maybe_count(usage.map(|usage| usage.cache_read_input_tokens)),
        maybe_count(usage.map(|usage| usage.cache_creation_input_tokens)),
        maybe_count(trial.turns),
        count(trial.attempts.len() as u64),
        Cell::Text(trial.isolation.clone()),
        Cell::Text(trial.commit.clone()),
        Cell::Text(trial.error.clone()),
    ]);
}

fn turns_table() -> Table {
    use Kind::{Int, Text};
    Table::new(
        "turns",
        &[
            ("run", Text),
            ("trial", Text),
            ("turn", Int),
            ("subagent_call", Text),
            ("source", Text),
            ("timestamp", Text),
            ("model", Text),
            ("message", Text),
            ("thinking", Text),
            ("tool_calls", Int),
            ("input_tokens", Int),
            ("cache_read_input_tokens", Int),
            ("cache_creation_input_tokens", Int),
            ("output_tokens", Int),
        ],
    )
}

fn calls_table() -> Table {
    use Kind::{Bool, Int, Text};
    Table::new(
        "tool_calls",
        &[
            ("run", Text),
            ("trial", Text),
            ("call", Int),
            ("turn", Int),
            ("subagent_call", Text),
            ("id", Text),
            ("tool", Text),
            ("arguments", Text),
            ("result", Text),
            ("failed", Bool),
            ("started_at", Text),
            ("completed_at", Text),
        ],
    )
}

/// Adds the steps of all threads. Turns are numbered over all of them, the main agent first.
fn add_conversation(turns: &mut Table, calls: &mut Table, record: &TrialRecord<'_>) {
    let conversation = Conversation::of(record);
    let (run, trial) = (&record.run.id, &record.trial.name);
    let (mut turn, mut number) = (0, 0);
    for (parent, thread) in conversation.threads() {
        let parent = || Cell::Text(parent.map(str::to_owned));
        for step in &thread.steps {
            turn += 1;
            let usage = step.usage.as_ref();
            let source = match step.source {
                StepSource::System => "system",
                StepSource::User => "user",
                StepSource::Agent => "agent",
            };
            let message =
                if step.orphans.is_empty() { step.message.clone() } else { step.orphans.join("\n") };
            turns.push([
                text(run),
                text(trial),
                count(turn),
                parent(),
                text(source),
                text(&step.timestamp),
                Cell::Text(usage.and_then(|usage| usage.model.clone())),
                text(message),
                Cell::Text(Some(step.thinking.clone()).filter(|thinking| !thinking.is_empty())),
                count(step.calls.len() as u64),
                maybe_count(usage.map(|usage| usage.input_tokens)),
                maybe_count(usage.map(|usage| usage.cache_read_input_tokens)),
                maybe_count(usage.map(|usage| usage.cache_creation_input_tokens)),
                maybe_count(usage.and_then(|usage| usage.output_tokens)),
            ]);
            for call in &step.calls {
                number += 1;
                calls.push([
                    text(run),
                    text(trial),
                    count(number),
                    count(turn),
                    parent(),
                    text(&call.id),
                    text(&call.name),
                    text(Value::Object(call.arguments.clone()).to_string()),
                    Cell::Text(call.result.clone()),
                    Cell::Bool(call.is_error),
                    Cell::Text(call.started_at.clone()),
                    Cell::Text(call.completed_at.clone()),
                ]);
            }
        }
    }
}

fn verdicts_table() -> Table {
    use Kind::{Bool, Float, Int, Text};
    Table::new(
        "verdicts",
        &[
            ("run", Text),
            ("trial", Text),
            ("evaluator", Text),
            ("status", Text),
            ("passed", Bool),
            ("message", Text),
            ("duration_ms", Int),
            ("cost_usd", Float),
            ("trust", Text),
            ("graded_code", Text),
            ("metrics", Text),
            ("checks", Text),
        ],
    )
}

fn add_verdicts(table: &mut Table, record: &TrialRecord<'_>) {
    for verdict in record.verdicts() {
        let word = |name: &str| Cell::Text(verdict[name].as_str().map(str::to_owned));
        let value =
            |name: &str| Cell::Text(Some(&verdict[name]).filter(|v| !v.is_null()).map(Value::to_string));
        table.push([
            text(&record.run.id),
            text(&record.trial.name),
            word("evaluator"),
            word("status"),
            Cell::Bool(match verdict["status"].as_str() {
                Some("passed") => Some(true),
                Some("failed") => Some(false),
                _ => None,
            }),
            word("message"),
            maybe_count(verdict["duration_ms"].as_u64()),
            Cell::Float(verdict["cost_usd"].as_f64()),
            word("trust"),
            word("graded_code"),
            value("metrics"),
            value("checks"),
        ]);
    }
}

/// Renders a table as CSV (RFC 4180, UTF-8, CRLF). Null is an empty field. A text that a spreadsheet would run as a formula begins with `'`.
fn csv(table: &Table) -> String {
    let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
    let mut text = names.join(",");
    text.push_str("\r\n");
    for row in 0..table.rows {
        for (at, column) in table.columns.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            match &column.values {
                Values::Text(values) => {
                    if let Some(Some(value)) = values.get(row) {
                        text.push_str(&yb_report::csv_field(value));
                    }
                }
                Values::Int(values) => text.push_str(&shown(values, row)),
                Values::Float(values) => text.push_str(&shown(values, row)),
                Values::Bool(values) => text.push_str(&shown(values, row)),
            }
        }
        text.push_str("\r\n");
    }
    text
}

fn shown<T: ToString>(values: &[Option<T>], row: usize) -> String {
    values.get(row).and_then(Option::as_ref).map(ToString::to_string).unwrap_or_default()
}
