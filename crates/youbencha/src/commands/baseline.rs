//! `yb baseline`: named results of runs.

use serde_json::{Value, json};
use yb_engine::baseline::{self, Baseline, BaselineError};
use yb_engine::run::{RunError, RunInfo, find_run};
use yb_figures::timestamp;

use crate::args::BaselineCommand;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::report::JSON_VERSION;
use crate::table::Table;
use crate::workspace;

pub(super) fn run(command: &BaselineCommand, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let root = workspace::root(printer)?;
    match command {
        BaselineCommand::Set { name, run } => {
            let info = RunInfo::read(find_run(&root, run)?)?;
            let set = baseline::set(&root, name, &info).map_err(RunError::from)?;
            printer.line(format_args!("{name}: {}, {}", set.results.run, passed(&set)));
        }
        BaselineCommand::List { json } => {
            let names = baseline::names(&root);
            let all: Vec<(String, Result<Baseline, BaselineError>)> =
                names.into_iter().map(|name| (name.clone(), baseline::read(&root, &name))).collect();
            if *json {
                let all: Vec<Value> = all.iter().map(|(name, found)| as_json(name, found)).collect();
                printer.pretty_json(&json!({ "v": JSON_VERSION, "baselines": all }));
            } else if all.is_empty() {
                printer.note("no baselines; hint: create one with: yb baseline set NAME RUN");
            } else {
                printer.text(&table(&all).to_string());
            }
        }
        BaselineCommand::Remove { name } => {
            baseline::remove(&root, name).map_err(RunError::from)?;
            printer.line(format_args!("{name}: removed"));
        }
    }
    Ok(ExitCode::Passed)
}

/// `8 of 10 trials passed`
fn passed(baseline: &Baseline) -> String {
    let outcomes = &baseline.results.outcomes;
    let passed = outcomes.get(&yb_engine::outcome::Outcome::Passed).copied().unwrap_or(0);
    format!("{passed} of {} trials passed", baseline.results.done)
}

fn table(all: &[(String, Result<Baseline, BaselineError>)]) -> Table {
    let mut table = Table::new(&["baseline", "set", "suite", "run", "results"]);
    for (name, found) in all {
        table.row(match found {
            Ok(found) => vec![
                name.clone(),
                timestamp(&found.set_at),
                found.results.name.clone(),
                found.results.run.clone(),
                passed(found),
            ],
            Err(error) => {
                vec![
                    name.clone(),
                    String::new(),
                    String::new(),
                    String::new(),
                    format!("unreadable: {error}"),
                ]
            }
        });
    }
    table
}

fn as_json(name: &str, found: &Result<Baseline, BaselineError>) -> Value {
    match found {
        Ok(found) => json!({
            "name": name,
            "set_at": found.set_at,
            "suite": found.results.name,
            "run": found.results.run,
            "done": found.results.done,
            "outcomes": found.results.outcomes,
        }),
        Err(error) => json!({ "name": name, "error": error.to_string() }),
    }
}

impl From<yb_engine::compare::CompareError> for CliError {
    fn from(error: yb_engine::compare::CompareError) -> Self {
        error.hints().into_iter().fold(Self::new(ErrorKind::Usage, error.to_string()), Self::hint)
    }
}
