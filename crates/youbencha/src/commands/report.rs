//! `yb report`: writes reports of recorded runs, by default next to their results.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use yb_engine::atomic_file::{Durability, write_atomic_with};
use yb_engine::baseline::RecordedRun;
use yb_engine::compare::{self, CompareOptions};
use yb_engine::run::{self, RunDir, RunError};
use yb_figures::plural;
use yb_report::{Html, ReadError, Report, Run};

use crate::args::{ReportArgs, ReportFormat};
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::files::refuse_link;
use crate::printer::{EscapedJson, Printer};
use crate::workspace::{self, display_path};

const INDEX: &str = "index.html";
const RESULTS: &str = "results.json";

pub(super) fn run(args: &ReportArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let root = workspace::root(printer)?;
    let runs = args.from.iter().map(|name| read(&root, name)).collect::<Result<Vec<Run>, _>>()?;
    let beside = runs.first().map(|run| run.directory.clone()).unwrap_or_default();
    let report = with_comparison(args, &root, Report::of(runs), printer)?;
    let text = match args.format {
        ReportFormat::Json => return json(args, &report, &beside, printer),
        ReportFormat::Markdown => yb_report::markdown(&report),
        ReportFormat::Junit => yb_report::junit(&report),
        ReportFormat::Csv => yb_report::csv(&report),
        ReportFormat::Github => yb_report::github(&report),
        ReportFormat::SkillBenchmark => return skill_benchmark(args, &report, &beside, printer),
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

/// Adds the comparison with `--against`, or of two runs.
fn with_comparison(
    args: &ReportArgs,
    root: &Path,
    report: Report,
    printer: &mut Printer,
) -> Result<Report, CliError> {
    let compared = |a: &str, b: &str| -> Result<compare::Comparison, CliError> {
        let (a, b) = (RecordedRun::find(root, a)?, RecordedRun::find(root, b)?);
        Ok(compare::compare(&a, &b, &CompareOptions::default())?)
    };
    match (args.against.as_deref(), args.from.as_slice()) {
        (Some(against), [run]) => Ok(report.compared(compared(against, run)?)),
        (Some(_), _) => Err(CliError::new(ErrorKind::Usage, "`--against` needs exactly one `--from`")
            .hint("compare two runs with two `--from`, the older one first")),
        (None, [a, b]) => match compared(a, b) {
            Ok(found) => Ok(report.compared(found)),
            Err(error) => {
                printer.note(format_args!("note: the runs are not compared: {}", error.message()));
                Ok(report)
            }
        },
        (None, _) => Ok(report),
    }
}

/// Reads an existing path, or else a run by name.
pub(super) fn read(root: &Path, name: &str) -> Result<Run, CliError> {
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
            .hint("pass the name or directory of a run, or the `results.json` of one trial")
            .hint("runs are in `runs` of the workspace directory; `latest` is the newest");
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

/// Writes JSON trial by trial, because a report of many trials is large.
fn json(
    args: &ReportArgs,
    report: &Report,
    beside: &Path,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    let render = |out: &mut dyn Write| {
        let mut escaping = EscapedJson::new(BufWriter::new(out));
        yb_report::write_json(report, &mut escaping)?;
        escaping.finish()
    };
    match args.output.as_deref() {
        Some(path) if path == Path::new("-") => printer.raw_document(render),
        output => {
            let path = output.map_or_else(|| beside.join(args.format.file_name()), Path::to_owned);
            write_with(&path, render)?;
            printer.line(format_args!("wrote {}", display_path(&path)));
        }
    }
    Ok(ExitCode::Passed)
}

fn html(
    args: &ReportArgs,
    html: &Html<'_>,
    beside: &Path,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    if html.is_single_file() && args.output.as_deref() == Some(Path::new("-")) {
        html.pages().for_each(|page| printer.raw_bytes(page.text.as_bytes()));
        return Ok(ExitCode::Passed);
    }
    let (index, pages) = write_html(html, args.output.as_deref(), beside)?;
    let more = if pages > 1 { format!(" and {}", plural(pages - 1, "page")) } else { String::new() };
    printer.line(format_args!("wrote {}{more}", display_path(&index)));
    Ok(ExitCode::Passed)
}

/// Writes the files that the viewer of skill-creator reads.
fn skill_benchmark(
    args: &ReportArgs,
    report: &Report,
    beside: &Path,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    let folder = args.output.clone().unwrap_or_else(|| beside.join(args.format.file_name()));
    let files = yb_report::skill_benchmark(report);
    if files.len() < 2 {
        return Err(CliError::new(ErrorKind::Usage, "no trial has the verdict of weighted graders")
            .hint("this format is for suites with the evaluator `weighted-score`, such as skill evals"));
    }
    for file in &files {
        write(&folder.join(&file.path), &file.text)?;
    }
    let first = folder.join(files.first().map(|file| file.path.as_str()).unwrap_or_default());
    printer.line(format_args!("wrote {} and {}", display_path(&first), plural(files.len() - 1, "file")));
    Ok(ExitCode::Passed)
}

/// Writes the pages and returns the path of the first and their number.
pub(super) fn write_html(
    html: &Html<'_>,
    output: Option<&Path>,
    beside: &Path,
) -> Result<(PathBuf, u64), CliError> {
    let is_file = |path: &Path| path.extension().is_some_and(|end| end == "html" || end == "htm");
    let index = match (output, html.is_single_file()) {
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
        (None, true) => beside.join(ReportFormat::Html.file_name()),
        (None, false) => beside.join("report").join(INDEX),
    };
    let folder = index.parent().map(Path::to_owned).unwrap_or_default();
    let mut pages: u64 = 0;
    for page in html.pages() {
        let path = if page.path == INDEX { index.clone() } else { folder.join(&page.path) };
        write(&path, &page.text)?;
        pages += 1;
    }
    Ok((index, pages))
}

/// Writes a report file atomically, without syncing: it can be created again.
fn write(path: &Path, text: &str) -> Result<(), CliError> {
    write_with(path, |out| out.write_all(text.as_bytes()))
}

/// Writes a report file like [`write`], from what a function writes.
fn write_with(path: &Path, render: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), CliError> {
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
    write_atomic_with(path, Durability::Unsynced, render).map_err(failed)
}
