//! `yb import`, and `yb run` with a suite of another tool: converts it to our own files first.

use std::borrow::Cow;
use std::path::Path;

use yb_engine::adapter::{Adapter as _, ClaudeCode};
use yb_figures::plural;
use yb_import::{Format, ImportError, ImportOptions, ImportedSuite};

use crate::args::ImportArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;

/// The directory of converted suites, below that of runs.
const FOLDER: &str = "imports";

pub(super) fn run(args: &ImportArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let format = yb_import::detect(&args.path).ok_or_else(|| {
        let message = format!("not a suite of another tool: `{}`", args.path.display());
        CliError::new(ErrorKind::Usage, message).hint(
            "pass a plugin with `evals/`, a skill with `evals/evals.json`, an AgentV eval file or a promptfoo configuration",
        )
    })?;
    let options = ImportOptions {
        agent: args.agent.clone().unwrap_or_else(|| ClaudeCode.spec().name.to_owned()),
        model: args.model.clone(),
        threshold: args.threshold,
    };
    let suite = convert(&args.path, format, &options, printer)?;
    let out = args.out.clone().unwrap_or_else(|| suite.name.clone().into());
    if out.exists() && !args.force {
        let message = format!("directory exists: `{}`", out.display());
        return Err(CliError::new(ErrorKind::Usage, message)
            .hint("pass `--force` to write into it, or another directory with `--out`"));
    }
    let file = suite.write(&out)?;
    let cases = plural(suite.cases(), "case");
    printer.line(format_args!("wrote {}: {cases} ({})", file.display(), format.label()));
    Ok(ExitCode::Passed)
}

/// Returns the suite file of a path: the path itself, or that of a converted suite of another tool. What has no counterpart is printed.
pub(super) fn as_suite<'a>(
    path: &'a Path,
    root: &Path,
    printer: &mut Printer,
) -> Result<Cow<'a, Path>, CliError> {
    let Some(format) = yb_import::detect(path) else { return Ok(Cow::Borrowed(path)) };
    let options = ImportOptions { agent: ClaudeCode.spec().name.to_owned(), model: None, threshold: 1.0 };
    let suite = convert(path, format, &options, printer)?;
    // Named by content, so that a stopped run can resume after the original was changed.
    let directory = root.join(FOLDER).join(format!("{}-{}", suite.name, suite.digest()?));
    Ok(Cow::Owned(suite.write(&directory)?))
}

fn convert(
    path: &Path,
    format: Format,
    options: &ImportOptions,
    printer: &mut Printer,
) -> Result<ImportedSuite, CliError> {
    let suite = match yb_import::import(path, format, options) {
        Ok(suite) => suite,
        Err(error) => {
            if let ImportError::Empty { notes, .. } = &error {
                notes.iter().for_each(|note| printer.note(format!("note: {note}")));
            }
            return Err(error.into());
        }
    };
    for note in &suite.notes {
        printer.note(format!("note: {note}"));
    }
    Ok(suite)
}

impl From<ImportError> for CliError {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Io { path, source } => {
                Self::new(ErrorKind::Usage, format!("failed to access `{}`", path.display()))
                    .caused_by(source)
            }
            error => Self::new(ErrorKind::Usage, error.to_string()),
        }
    }
}
