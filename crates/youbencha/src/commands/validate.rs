//! `yb validate`: everything that is wrong or doubtful in case files. Nothing is started.

use std::path::{Path, PathBuf};

use yb_engine::case::{self, Case, LoadOptions, Loaded, PrivateHosts, Prompt, Start};
use yb_engine::config::Settings;
use yb_engine::diagnostic::{Diagnostic, Severity};

use crate::args::ValidateArgs;
use crate::diagnostics::render;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::{Printer, plural};

pub(super) fn run(args: &ValidateArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let files: Vec<&PathBuf> = args.config.iter().chain(&args.files).collect();
    if files.is_empty() {
        return Err(CliError::new(ErrorKind::Usage, "no case file was named")
            .hint("name one or more: `yb validate case.yaml`, or `yb validate -c case.yaml`"));
    }
    let project = std::env::current_dir().map_err(|error| {
        CliError::new(ErrorKind::Usage, "failed to find the working directory").caused_by(error)
    })?;
    let home = std::env::home_dir();
    let (settings, in_config) = Settings::load(home.as_deref(), &project);
    let mut tally = Tally { strict: args.strict, ..Tally::default() };
    tally.show(&in_config, printer);

    let hosts = if args.allow_private_hosts { PrivateHosts::Allowed } else { PrivateHosts::Refused };
    let options = LoadOptions::default().with_variables(settings.variables()).with_private_hosts(hosts);
    for file in &files {
        let Loaded { case, diagnostics, .. } = case::load(file, &options);
        tally.show(&diagnostics, printer);
        if let Some(case) = case.filter(|_| args.verbose) {
            describe(file, &case, printer);
        }
    }
    printer.line(tally.summary(files.len()));
    Ok(if tally.errors == 0 { ExitCode::Passed } else { ExitCode::Usage })
}

#[derive(Default)]
struct Tally {
    strict: bool,
    errors: usize,
    warnings: usize,
}

impl Tally {
    fn show(&mut self, found: &[Diagnostic], printer: &mut Printer) {
        for found in found {
            let severity = if self.strict { Severity::Error } else { found.severity };
            match severity {
                Severity::Error => self.errors += 1,
                Severity::Warning => self.warnings += 1,
            }
            printer.line(render(found, severity));
            printer.line("");
        }
    }

    fn summary(&self, files: usize) -> String {
        let files = plural(files as u64, "file");
        match (self.errors, self.warnings) {
            (0, 0) => format!("valid: {files}"),
            (0, warnings) => format!("valid: {files}, {}", plural(warnings as u64, "warning")),
            (errors, 0) => format!("invalid: {files}, {}", plural(errors as u64, "error")),
            (errors, warnings) => {
                format!(
                    "invalid: {files}, {}, {}",
                    plural(errors as u64, "error"),
                    plural(warnings as u64, "warning")
                )
            }
        }
    }
}

fn describe(file: &Path, case: &Case, printer: &mut Printer) {
    printer.line(format_args!("{}: {}", file.display(), case.name));
    let format =
        if case.strict { "strict (`youbencha: 1`)" } else { "lenient; `youbencha: 1` makes it strict" };
    printer.line(format_args!("  format:     {format}"));
    let (branch, commit) = match &case.start {
        Start::Repo { branch, commit, .. } => (branch.as_deref(), commit.as_deref()),
        _ => (None, None),
    };
    let branch = branch.map(|branch| format!(", branch {branch}")).unwrap_or_default();
    let commit = commit.map(|commit| format!(", commit {commit}")).unwrap_or_default();
    printer.line(format_args!("  start:      {}{branch}{commit}", case.start));
    let model = case.agent.model.as_ref().map(|model| format!(", {model}")).unwrap_or_default();
    printer.line(format_args!("  agent:      {}{model}", case.agent.kind));
    let prompt = match &case.agent.prompt {
        Prompt::File { path, text } => format!("{} ({} characters)", path.display(), text.chars().count()),
        Prompt::InWorkspace(path) => format!("{} in the workspace", path.display()),
        prompt => format!("{} characters", prompt.text().unwrap_or_default().chars().count()),
    };
    printer.line(format_args!("  prompt:     {prompt}"));
    let evaluators: Vec<String> = case
        .evaluators
        .iter()
        .map(|evaluator| {
            let note = if evaluator.vacuous { " (vacuous)" } else { "" };
            format!("{}{note}", evaluator.name)
        })
        .collect();
    printer.line(format_args!("  evaluators: {}", evaluators.join(", ")));
    let names = case.environment_names();
    if !names.is_empty() {
        printer.line(format_args!("  reads from the environment: {}", names.join(", ")));
    }
    printer.line("");
}
