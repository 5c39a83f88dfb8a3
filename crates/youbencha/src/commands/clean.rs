//! `yb clean`: removes runs after listing them, and never a running one.

mod remove;
mod select;

use select::CleanTarget;

use yb_figures::{bytes, plural};

use crate::args::CleanArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::table::Table;
use crate::workspace;

pub(super) fn run(args: &CleanArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let settings = workspace::settings(printer)?;
    let root = std::path::absolute(settings.workspace_dir())
        .map_err(CliError::failed_to("find the workspace directory"))?;
    workspace::end_leftovers(&root, &settings, printer);
    let selection = select::select(&root, args)?;
    for kept in &selection.kept {
        printer.note(kept);
    }
    if selection.chosen.is_empty() {
        printer.note("nothing to remove");
        return Ok(ExitCode::Passed);
    }
    let mut table = Table::new(&["run", "created", "name", "size", "state"]);
    let mut total = 0;
    for one in &selection.chosen {
        total += one.bytes;
        let (when, name, state) = (one.when.clone(), one.name.clone(), one.state.clone());
        table.row(vec![one.label.clone(), when, name, bytes(one.bytes), state]);
    }
    printer.text(&table.to_string());
    let count = describe(&selection.chosen);
    if !args.yes {
        printer.line(format_args!("would remove {count}, {}", bytes(total)));
        printer.note("hint: pass `--yes` to remove");
        return Ok(ExitCode::Passed);
    }
    let mut removed = Vec::new();
    let mut failed = false;
    for one in selection.chosen {
        match remove::remove(&root, &one) {
            Ok(message) => {
                if let Some(message) = message {
                    printer.note(format_args!("note: {message}"));
                }
                removed.push(one);
            }
            Err(error) => {
                failed = true;
                let message = format!("failed to remove `{}`", one.path.display());
                printer.error(&CliError::new(ErrorKind::Infrastructure, message).caused_by(error));
            }
        }
    }
    // The index is derived from the runs.
    if yb_engine::index::file(&root).is_file() {
        let _ = yb_engine::index::rebuild(&root);
    }
    let freed = removed.iter().map(|one| one.bytes).sum();
    printer.line(format_args!("removed {}, {}", describe(&removed), bytes(freed)));
    Ok(if failed { ExitCode::Infrastructure } else { ExitCode::Passed })
}

/// Describes what is removed: `2 runs and the cache`.
fn describe(chosen: &[CleanTarget]) -> String {
    let runs = chosen.iter().filter(|one| one.is_run).count() as u64;
    match (runs, chosen.iter().any(|one| !one.is_run)) {
        (0, true) => "the cache".to_owned(),
        (runs, true) => format!("{} and the cache", plural(runs, "run")),
        (runs, false) => plural(runs, "run"),
    }
}
