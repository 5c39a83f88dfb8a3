//! `yb open`: opens the HTML report of a run, or the workspace of a trial, with the program of the desktop.

use std::path::{Path, PathBuf};

use yb_engine::run::{self, RunInfo};
use yb_engine::trial::WORKSPACE_LAYER;
use yb_figures::plural;
use yb_report::Report;

use super::{report, show};
use crate::args::OpenArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::workspace;

pub(super) fn run(args: &OpenArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let root = workspace::root(printer)?;
    let (info, trial) = show::find(&root, args.run.as_deref(), args.trial.as_deref())?;
    let path = match &trial {
        Some(name) => end_state(&info, name, args.into.as_deref(), printer)?,
        None if args.into.is_some() => {
            return Err(CliError::new(ErrorKind::Usage, "`--into` needs a trial")
                .hint("name one: `yb open RUN TRIAL --into DIR`"));
        }
        None => html_report(&info)?,
    };
    if args.print {
        printer.line(path.display());
        return Ok(ExitCode::Passed);
    }
    let Some(program) = opener() else {
        printer.line(path.display());
        return Err(CliError::new(ErrorKind::Infrastructure, "no display to open it on")
            .hint("`--print` only prints the path"));
    };
    start(program, &path)?;
    printer.line(format_args!("opened {}", workspace::display_path(&path)));
    Ok(ExitCode::Passed)
}

/// The directory of a recorded end tree, in the directory of the attempt.
const END_TREE: &str = "end-tree";

/// Returns the end state of a trial: its workspace or, if that was not kept or another directory is wanted, the files of the recorded
/// end tree.
fn end_state(
    info: &RunInfo,
    name: &str,
    into: Option<&Path>,
    printer: &mut Printer,
) -> Result<PathBuf, CliError> {
    let trial = run::find_trial(&info.plan, name)?;
    let attempt = info.state.get(&trial.folder).and_then(|state| state.attempts.last());
    let Some(attempt) = attempt else {
        return Err(CliError::new(ErrorKind::Usage, format!("trial `{}` has not ended", trial.folder)));
    };
    let artifacts = info.run.artifacts(&trial.folder, attempt.attempt);
    let (kept, own) = (artifacts.with_file_name("src-modified"), artifacts.with_file_name(END_TREE));
    if kept.is_dir() && into.is_none() {
        return Ok(kept);
    }
    let layer = kept.with_file_name(WORKSPACE_LAYER);
    if into.is_none() && yb_repo::changed_files(&layer).is_some() {
        return match yb_repo::materialize(&layer, &kept) {
            Ok(()) => Ok(kept),
            Err(error) => {
                let by_diff =
                    format!("print the changes: `yb show {} {} --diff`", info.run.id(), trial.folder);
                Err(CliError::new(ErrorKind::Infrastructure, error.to_string()).hint(by_diff))
            }
        };
    }
    let Some(trees) = &attempt.trees else {
        return Err(CliError::new(ErrorKind::Usage, format!("trial `{}` has no end tree", trial.folder)));
    };
    let path =
        std::path::absolute(into.unwrap_or(&own)).map_err(CliError::failed_to("find the directory"))?;
    if into.is_none() {
        // That of an earlier call may have been changed.
        let _ = yb_repo::remove_or_set_aside(&own);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::failed_to("start"))?;
    let files = runtime.block_on(run::export_tree(&info.run, &trees.end, &path))?;
    let why = if kept.is_dir() { "" } else { "the workspace was not kept; " };
    let shown = workspace::display_path(&path);
    printer.note(format_args!(
        "note: {why}wrote the {} of the recorded end tree to {shown}",
        plural(files, "file")
    ));
    Ok(path)
}

/// Writes the report of a run, which is deterministic, and returns its path.
fn html_report(info: &RunInfo) -> Result<PathBuf, CliError> {
    let name = info.run.path().display().to_string();
    let report = Report::of(vec![report::read(info.run.root(), &name)?]);
    let (index, _) = report::write_html(&yb_report::html(&report), None, info.run.path())?;
    Ok(index)
}

/// Returns the program that opens files on this desktop; `None` without a display.
pub(super) fn opener() -> Option<&'static str> {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if cfg!(target_os = "macos") {
        Some("open")
    } else if cfg!(windows) {
        Some("explorer")
    } else {
        (set("DISPLAY") || set("WAYLAND_DISPLAY")).then_some("xdg-open")
    }
}

fn start(program: &str, path: &Path) -> Result<(), CliError> {
    let failed = || CliError::new(ErrorKind::Infrastructure, format!("failed to open `{}`", path.display()));
    let hint = "`--print` only prints the path";
    let mut command = std::process::Command::new(program);
    command.arg(path).stdin(std::process::Stdio::null());
    #[expect(clippy::disallowed_methods, reason = "the program of the desktop outlives this command")]
    let status = command.status();
    match status {
        // `explorer` exits with 1 after success.
        Ok(status) if status.success() || cfg!(windows) => Ok(()),
        Ok(status) => Err(failed().caused_by(format!("`{program}`: {status}")).hint(hint)),
        Err(error) => Err(failed().caused_by(format!("`{program}`: {error}")).hint(hint)),
    }
}
