//! `yb export`: writes a recorded run in the formats of other tools.

use std::io;
use std::path::Path;

use serde_json::json;
use yb_engine::atomic_file::Durability;
use yb_export::{ExportError, Format};
use yb_figures::plural;
use yb_report::Run;

use super::report;
use crate::args::{ExportArgs, ExportFormat};
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::files;
use crate::printer::Printer;
use crate::report::JSON_VERSION;
use crate::workspace::{self, display_path};

pub(super) fn run(args: &ExportArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let root = workspace::root(printer)?;
    let mut run = report::read(&root, &args.run)?;
    select(args, &mut run)?;
    let beside = run.directory.join("exports").join(args.format.name());
    let output = args.output.clone().unwrap_or(beside);
    if output.is_file() {
        return Err(CliError::new(ErrorKind::Usage, format!("path is a file: `{}`", output.display()))
            .hint("name a directory: `--output DIR`"));
    }
    files::refuse_link(&output)?;
    std::fs::create_dir_all(&output).map_err(|error| {
        CliError::new(ErrorKind::Infrastructure, format!("failed to create `{}`", output.display()))
            .caused_by(error)
    })?;
    let mut rejected = None;
    let mut first = None;
    let exported = yb_export::export(&run, format(args.format), &mut |name, content| {
        first.get_or_insert_with(|| name.to_owned());
        files::write_bytes(&output, Path::new(name), content, Durability::Unsynced).map_err(|error| {
            rejected = Some(error);
            io::Error::other("rejected")
        })
    });
    let summary = match (exported, rejected) {
        (_, Some(error)) => return Err(error),
        (Ok(summary), None) => summary,
        (Err(error), None) => return Err(edge(&error)),
    };
    for skipped in &summary.skipped {
        printer.note(format_args!("note: not exported: {skipped}"));
    }
    if args.json {
        printer.pretty_json(&json!({
            "v": JSON_VERSION,
            "run": run.id,
            "format": args.format.name(),
            "output": output,
            "files": summary.files,
            "trials": summary.trials,
            "skipped": summary.skipped,
        }));
    } else {
        let written = match (summary.files, first) {
            (1, Some(name)) => output.join(name),
            _ => output,
        };
        let (trials, count) = (plural(summary.trials as u64, "trial"), plural(summary.files as u64, "file"));
        printer.line(format_args!("exported {trials} to {} ({count})", display_path(&written)));
    }
    Ok(ExitCode::Passed)
}

/// Keeps the selected trials.
fn select(args: &ExportArgs, run: &mut Run) -> Result<(), CliError> {
    if args.trial.is_empty() {
        return Ok(());
    }
    let missing = args.trial.iter().find(|name| run.trials.iter().all(|trial| trial.name != **name));
    if let Some(missing) = missing {
        return Err(CliError::new(
            ErrorKind::Usage,
            format!("no trial of `{}` is named `{missing}`", run.id),
        )
        .hint(format!("list its trials: `yb show {}`", args.run)));
    }
    run.trials.retain(|trial| args.trial.contains(&trial.name));
    Ok(())
}

fn format(format: ExportFormat) -> Format {
    match format {
        ExportFormat::Atif => Format::Atif,
        ExportFormat::Inspect => Format::Inspect,
        ExportFormat::Harbor => Format::Harbor,
        ExportFormat::Parquet => Format::Parquet,
        ExportFormat::Arrow => Format::Arrow,
        ExportFormat::Csv => Format::Csv,
        ExportFormat::Swebench => Format::Swebench,
    }
}

fn edge(error: &ExportError) -> CliError {
    match error {
        ExportError::Empty(_) => CliError::new(ErrorKind::Usage, error.to_string())
            .hint("export a run whose trials have started: `yb list runs`"),
        error => {
            let edge = CliError::new(ErrorKind::Infrastructure, error.to_string());
            match std::error::Error::source(error) {
                Some(source) => edge.caused_by(source.to_string()),
                None => edge,
            }
        }
    }
}
