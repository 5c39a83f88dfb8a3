//! `yb index`: rebuilds and queries the SQLite index of all runs.

use serde_json::{Map, Value, json};
use yb_engine::index::{self, IndexError};
use yb_figures::plural;

use crate::args::IndexCommand;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::report::JSON_VERSION;
use crate::table::Table;
use crate::workspace::{self, display_path};

pub(super) fn run(command: &IndexCommand, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let root = workspace::root(printer)?;
    match command {
        IndexCommand::Rebuild => {
            if !root.is_dir() {
                return Err(no_runs(&root));
            }
            let indexed = index::rebuild(&root)?;
            let unreadable = match indexed.unreadable {
                0 => String::new(),
                count => format!("; {} unreadable", plural(count, "run")),
            };
            let file = display_path(&index::file(&root));
            printer.line(format_args!("{} in {file}{unreadable}", plural(indexed.runs, "run")));
        }
        IndexCommand::Query { question, json } => {
            if !index::file(&root).is_file() || index::is_outdated(&root) {
                if !root.is_dir() {
                    return Err(no_runs(&root));
                }
                index::rebuild(&root)?;
            }
            let found = index::query(&root, question)
                .map_err(|error| CliError::from(error).hint("list the tables: `yb help runs`"))?;
            if *json {
                let rows: Vec<Value> = found
                    .rows
                    .iter()
                    .map(|row| {
                        found.columns.iter().cloned().zip(row.iter().cloned()).collect::<Map<_, _>>().into()
                    })
                    .collect();
                printer.pretty_json(&json!({ "v": JSON_VERSION, "rows": rows }));
            } else {
                let mut table = Table::new(&found.columns.iter().map(String::as_str).collect::<Vec<_>>());
                for row in &found.rows {
                    table.row(row.iter().map(cell).collect());
                }
                printer.text(&table.to_string());
            }
        }
    }
    Ok(ExitCode::Passed)
}

fn no_runs(root: &std::path::Path) -> CliError {
    CliError::new(ErrorKind::Usage, format!("no runs in `{}`", display_path(root)))
        .hint("create one: `yb run FILE`")
}

/// Formats a cell; texts may come from agents.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.replace(['\n', '\t'], " "),
        other => other.to_string(),
    }
}

impl From<IndexError> for CliError {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Runs(error) => error.into(),
            error => Self::new(ErrorKind::Usage, error.to_string()),
        }
    }
}
