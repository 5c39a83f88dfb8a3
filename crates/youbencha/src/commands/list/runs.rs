//! `yb list runs`: the runs of this project, and which of them wait for somebody to go on.

use serde_json::{Value, json};
use yb_engine::run::{RunDir, RunInfo, all_runs};

use crate::error::CliError;
use crate::exit_code::ExitCode;
use crate::printer::{Printer, plural};
use crate::report::{JSON_VERSION, dollars};
use crate::table::Table;
use crate::workspace::{self, Condition, moment, shown};

pub(super) fn run(json: bool, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let root = workspace::root(printer)?;
    let runs = all_runs(&root)?;
    if json {
        let runs: Vec<Value> = runs.into_iter().map(as_json).collect();
        printer.line(format_args!("{:#}", json!({ "v": JSON_VERSION, "runs": runs })));
        return Ok(ExitCode::Passed);
    }
    if runs.is_empty() {
        printer.note(format_args!("no run yet in `{}`: `yb run -c FILE` makes one", shown(&root)));
        return Ok(ExitCode::Passed);
    }
    let mut table =
        Table::new(&["run", "when", "name", "done", "passed", "failed", "left out", "cost", "state"]);
    let mut undone = Vec::new();
    for run in runs {
        let id = run.id();
        match RunInfo::read(run) {
            Ok(info) => {
                if matches!(Condition::of(&info), Condition::Died | Condition::Stopped(_)) {
                    undone.push(id.clone());
                }
                table.row(row(id, &info));
            }
            Err(error) => {
                let mut cells = vec![id];
                cells.resize(8, String::new());
                cells.push(format!("unreadable: {error}"));
                table.row(cells);
            }
        }
    }
    printer.text(&table.to_string());
    if let Some(newest) = undone.last() {
        printer.note(format_args!(
            "{} unfinished; go on with `yb run --resume {newest}`",
            plural(undone.len() as u64, "run")
        ));
    }
    Ok(ExitCode::Passed)
}

fn row(id: String, info: &RunInfo) -> Vec<String> {
    let tally = info.state.tally();
    let some = |count: usize| if count == 0 { String::new() } else { count.to_string() };
    let state = match Condition::of(info) {
        Condition::Died => "died → resume".to_owned(),
        other => other.to_string(),
    };
    vec![
        id,
        moment(&info.plan.created_at),
        info.plan.name.clone(),
        format!("{}/{}", tally.done, tally.planned),
        tally.passed().to_string(),
        some(tally.failed()),
        some(tally.excluded()),
        tally.spend.total().map(dollars).unwrap_or_default(),
        state,
    ]
}

fn as_json(run: RunDir) -> Value {
    let (id, path) = (run.id(), run.path().to_owned());
    match RunInfo::read(run) {
        Ok(info) => {
            let tally = info.state.tally();
            json!({
                "run": id,
                "directory": path,
                "name": info.plan.name,
                "config": info.plan.config,
                "created_at": info.plan.created_at,
                "last_at": info.state.last_at,
                "state": Condition::of(&info).word(),
                "stopped": info.state.stopped,
                "planned": tally.planned,
                "done": tally.done,
                "passed": tally.passed(),
                "failed": tally.failed(),
                "left_out": tally.excluded(),
                "outcomes": tally.outcomes,
                "cost_usd": tally.spend.total(),
            })
        }
        Err(error) => json!({
            "run": id, "directory": path, "state": "unreadable", "error": error.to_string(),
        }),
    }
}
