//! `yb list runs`: the runs of this project and their state.

use serde_json::{Value, json};
use yb_engine::run::{RunDir, RunInfo, all_runs};
use yb_figures::{money, plural, timestamp};

use crate::error::CliError;
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::report::JSON_VERSION;
use crate::table::Table;
use crate::workspace::{self, RunCondition, display_path};

pub(super) fn run(json: bool, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let root = workspace::root(printer)?;
    let runs = all_runs(&root)?;
    if json {
        let runs: Vec<Value> = runs.into_iter().map(as_json).collect();
        printer.pretty_json(&json!({ "v": JSON_VERSION, "runs": runs }));
        return Ok(ExitCode::Passed);
    }
    if runs.is_empty() {
        printer
            .note(format_args!("no runs in `{}`; hint: create one with: yb run FILE", display_path(&root)));
        return Ok(ExitCode::Passed);
    }
    let mut table =
        Table::new(&["run", "created", "name", "done", "passed", "failed", "excluded", "cost", "state"]);
    let mut undone = Vec::new();
    for run in runs {
        let id = run.id();
        match RunInfo::read(run) {
            Ok(info) => {
                if matches!(RunCondition::of(&info), RunCondition::Died | RunCondition::Stopped(_)) {
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
            "hint: {} unfinished, resume with: yb run --resume {newest}",
            plural(undone.len(), "run")
        ));
    }
    Ok(ExitCode::Passed)
}

fn row(id: String, info: &RunInfo) -> Vec<String> {
    let tally = info.state.tally();
    let nonzero = |count: usize| if count == 0 { String::new() } else { count.to_string() };
    let state = match RunCondition::of(info) {
        RunCondition::Died => "died".to_owned(),
        other => other.to_string(),
    };
    vec![
        id,
        timestamp(&info.plan.created_at),
        info.plan.name.clone(),
        format!("{}/{}", tally.done, tally.planned),
        tally.passed().to_string(),
        nonzero(tally.failed()),
        nonzero(tally.excluded()),
        tally.spend.total().map(money).unwrap_or_default(),
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
                "state": RunCondition::of(&info).as_str(),
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
