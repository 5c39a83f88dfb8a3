//! `yb report`: writes reports of recorded runs, by default next to their results.

use std::fs;
use std::path::Path;

use yb_engine::atomic_file::{Durability, write_atomic};
use yb_engine::run::{self, RunDir, RunError};
use yb_figures::plural;
use yb_report::{Html, ReadError, Report, Run};

use crate::args::{ReportArgs, ReportFormat};
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::files::refuse_link;
use crate::printer::{Printer, escaped_json};
use crate::workspace::{self, display_path};

const INDEX: &str = "index.html";
const RESULTS: &str = "results.json";

pub(super) fn run(args: &ReportArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let root = workspace::root(printer)?;
    let runs = args.from.iter().map(|name| read(&root, name)).collect::<Result<Vec<Run>, _>>()?;
    let beside = runs.first().map(|run| run.directory.clone()).unwrap_or_default();
    let report = Report::of(runs);
    let text = match args.format {
        ReportFormat::Markdown => yb_report::markdown(&report),
        ReportFormat::Json => escaped_json(&yb_report::json(&report)),
        ReportFormat::Junit => yb_report::junit(&report),
        ReportFormat::Csv => yb_report::csv(&report),
        ReportFormat::Github => yb_report::github(&report),
        ReportFormat::Html => return html(args, &yb_report::html(&report), &beside, printer),
    };
    match args.output.as_deref() {
        Some(path) if path == Path::new("-") => printer.raw_bytes(text.as_bytes()),
        output => {
            let path = output.map_or_else(|| beside.join(args.format.file_name()), Path::to_owned);
            write(&path, &text)?;
            printer.line(format_args!("wrote {}", display_path(&path)));
        }
    }
    Ok(ExitCode::Passed)
}

/// Reads an existing path, or else a run by name.
fn read(root: &Path, name: &str) -> Result<Run, CliError> {
    let path = Path::new(name);
    let found = if path.is_file() {
        // The results of a run are next to its plan.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if folder.join("plan.json").is_file() { read_run(folder) } else { yb_report::read_bundle(path) }
    } else if path.join("plan.json").is_file() {
        read_run(path)
    } else if path.join(RESULTS).is_file() {
        yb_report::read_bundle(&path.join(RESULTS))
    } else {
        let run = run::find_run(root, name).map_err(|error| no_such(error, path))?;
        yb_report::read_run(run)
    };
    found.map_err(|error| match error {
        ReadError::Run(error) => error.into(),
        ReadError::Io { .. } => edge(ErrorKind::Infrastructure, &error),
        error => edge(ErrorKind::Usage, &error)
            .hint("pass a run or the `results.json` of one trial; list runs: `yb list runs`"),
    })
}

fn read_run(folder: &Path) -> Result<Run, ReadError> {
    let path = std::path::absolute(folder)
        .map_err(|source| ReadError::Run(RunError::Io { what: "find", path: folder.to_owned(), source }))?;
    yb_report::read_run(RunDir::at(path))
}

/// Rewords the error for an argument that looks like a path.
fn no_such(error: RunError, path: &Path) -> CliError {
    if path.components().count() > 1 && matches!(error, RunError::NoSuchRun { .. }) {
        return CliError::new(ErrorKind::Usage, format!("no run or results found: `{}`", path.display()))
            .hint("pass the name or directory of a run, or the `results.json` of one trial");
    }
    error.into()
}

fn edge(kind: ErrorKind, error: &ReadError) -> CliError {
    let source = std::error::Error::source(error).map(ToString::to_string);
    let edge = CliError::new(kind, error.to_string());
    match source {
        Some(source) => edge.caused_by(source),
        None => edge,
    }
}

fn html(
    args: &ReportArgs,
    html: &Html<'_>,
    beside: &Path,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    let is_file = |path: &Path| path.extension().is_some_and(|end| end == "html" || end == "htm");
    let index = match (args.output.as_deref(), html.is_single_file()) {
        (Some(path), true) if path == Path::new("-") => {
            html.pages().for_each(|page| printer.raw_bytes(page.text.as_bytes()));
            return Ok(ExitCode::Passed);
        }
        (Some(path), false) if path == Path::new("-") || is_file(path) => {
            return Err(CliError::new(
                ErrorKind::Usage,
                format!(
                    "a report of more than {} trials needs a directory: `{}`",
                    yb_report::SINGLE_FILE,
                    path.display()
                ),
            )
            .hint("pass a directory: `--output report`"));
        }
        (Some(path), true) if is_file(path) => path.to_owned(),
        (Some(path), _) => path.join(INDEX),
        (None, true) => beside.join(args.format.file_name()),
        (None, false) => beside.join("report").join(INDEX),
    };
    let folder = index.parent().map(Path::to_owned).unwrap_or_default();
    let mut pages: u64 = 0;
    for page in html.pages() {
        let path = if page.path == INDEX { index.clone() } else { folder.join(&page.path) };
        write(&path, &page.text)?;
        pages += 1;
    }
    let more = if pages > 1 { format!(" and {}", plural(pages - 1, "page")) } else { String::new() };
    printer.line(format_args!("wrote {}{more}", display_path(&index)));
    Ok(ExitCode::Passed)
}

/// Writes a report file atomically, without syncing: it can be created again.
fn write(path: &Path, text: &str) -> Result<(), CliError> {
    let failed = |error| {
        CliError::new(ErrorKind::Infrastructure, format!("failed to write `{}`", path.display()))
            .caused_by(error)
    };
    refuse_link(path)?;
    if path.is_dir() {
        return Err(CliError::new(ErrorKind::Usage, format!("path is a directory: `{}`", path.display()))
            .hint("name a file"));
    }
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    write_atomic(path, text.as_bytes(), Durability::Unsynced).map_err(failed)
}
