//! `yb clean`: removes runs, but only what was shown, and never what somebody works on.

mod remove;
mod select;

use select::Chosen;

use crate::args::CleanArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::{Printer, plural};
use crate::table::Table;
use crate::workspace;

pub(super) fn run(args: &CleanArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let root = workspace::root(printer)?;
    let selection = select::select(&root, args)?;
    for kept in &selection.kept {
        printer.note(kept);
    }
    if selection.chosen.is_empty() {
        printer.note("nothing to remove");
        return Ok(ExitCode::Passed);
    }
    let mut table = Table::new(&["what", "when", "name", "size", "state"]);
    let mut total = 0;
    for one in &selection.chosen {
        total += one.bytes;
        let (when, name, state) = (one.when.clone(), one.name.clone(), one.state.clone());
        table.row(vec![one.label.clone(), when, name, size(one.bytes), state]);
    }
    printer.text(&table.to_string());
    let count = what(&selection.chosen);
    if !args.yes {
        printer.line(format_args!("{count}, {}: nothing was removed", size(total)));
        printer.note("add `--yes` to remove what is shown");
        return Ok(ExitCode::Passed);
    }
    let mut removed = Vec::new();
    let mut failed = false;
    for one in selection.chosen {
        match remove::remove(&root, &one) {
            Ok(()) => removed.push(one),
            Err(error) => {
                failed = true;
                let message = format!("failed to remove `{}`", one.path.display());
                printer.error(&CliError::new(ErrorKind::Infrastructure, message).caused_by(error));
            }
        }
    }
    // What is gone leaves the index too, which is only derived.
    if yb_engine::index::file(&root).is_file() {
        let _ = yb_engine::index::rebuild(&root);
    }
    let freed = removed.iter().map(|one| one.bytes).sum();
    printer.line(format_args!("removed: {}, {}", what(&removed), size(freed)));
    Ok(if failed { ExitCode::Infrastructure } else { ExitCode::Passed })
}

/// How many of which.
fn what(chosen: &[Chosen]) -> String {
    let runs = chosen.iter().filter(|one| one.is_run).count() as u64;
    match (runs, chosen.iter().any(|one| !one.is_run)) {
        (0, true) => "the cache".to_owned(),
        (runs, true) => format!("{} and the cache", plural(runs, "run")),
        (runs, false) => plural(runs, "run"),
    }
}

/// Bytes as people say them.
fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 1000.0 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_are_said_as_people_say_them() {
        let shown = [0, 999, 1000, 1_234_567, 5_000_000_000, 7_000_000_000_000].map(super::size);
        assert_eq!(shown, ["0 B", "999 B", "1.0 kB", "1.2 MB", "5.0 GB", "7.0 TB"]);
    }
}
