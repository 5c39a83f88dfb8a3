//! `yb validate`: prints all diagnostics of case and suite files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use yb_engine::Extensions;
use yb_engine::case::{Case, LocalSources, PrivateHosts, Prompt, Start, is_eval_of_directory, load_eval};
use yb_engine::config::Settings;
use yb_engine::diagnostic::{Diagnostic, Severity};
use yb_engine::suite::{self, Suite};
use yb_figures::plural;

use crate::args::ValidateArgs;
use crate::diagnostics::render;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;

pub(super) fn run(
    args: &ValidateArgs,
    extensions: &Extensions,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    let files: Vec<&PathBuf> = args.config.iter().chain(&args.files).collect();
    if files.is_empty() {
        return Err(CliError::new(ErrorKind::Usage, "no file given")
            .hint("pass one or more files: `yb validate case.yaml`"));
    }
    let project = std::env::current_dir().map_err(|error| {
        CliError::new(ErrorKind::Usage, "failed to find the working directory").caused_by(error)
    })?;
    let home = std::env::home_dir();
    let (settings, in_config) = Settings::load(home.as_deref(), &project);
    let mut tally = Tally { strict: args.strict, ..Tally::default() };
    tally.show(&in_config, printer);

    let hosts = if args.allow_private_hosts { PrivateHosts::Allowed } else { PrivateHosts::Refused };
    let options = extensions
        .load_options()
        .with_variables(settings.variables())
        .with_private_hosts(hosts)
        .with_local_sources(LocalSources::of_project(&project, &args.allow_path));
    for file in &files {
        if is_eval_of_directory(file) {
            printer.line(format_args!("{}: an eval file, for `yb eval`", file.display()));
            tally.show(&load_eval(file, &options).diagnostics, printer);
            continue;
        }
        let converted = super::import::as_suite(file, &settings.workspace_dir(), printer)?;
        let loaded = suite::load(&converted, &options);
        tally.show(&loaded.diagnostics, printer);
        match loaded.suite.filter(|_| args.verbose) {
            Some(suite) if suite.name.is_some() => describe_suite(file, &suite, printer),
            Some(suite) => suite.combinations.iter().for_each(|only| describe(file, &only.case, printer)),
            None => {}
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
        let files = plural(files, "file");
        match (self.errors, self.warnings) {
            (0, 0) => format!("valid: {files}"),
            (0, warnings) => format!("valid: {files}, {}", plural(warnings, "warning")),
            (errors, 0) => format!("invalid: {files}, {}", plural(errors, "error")),
            (errors, warnings) => {
                format!("invalid: {files}, {}, {}", plural(errors, "error"), plural(warnings, "warning"))
            }
        }
    }
}

fn describe_suite(file: &Path, suite: &Suite, printer: &mut Printer) {
    let name = suite.name.as_deref().unwrap_or_default();
    printer.line(format_args!("{}: {name}", file.display()));
    let cases: BTreeSet<&str> = suite.combinations.iter().map(|one| one.case_name.as_str()).collect();
    let variants: BTreeSet<&str> = suite.combinations.iter().map(|one| one.variant.as_str()).collect();
    let repeats = plural(suite.repeats, "repeat");
    let (cases, variants) = (cases.len(), variants.len());
    // Cases may exclude variants.
    let left = match cases * variants - suite.combinations.len() {
        0 => format!("{} × {}", plural(cases, "case"), plural(variants, "variant")),
        missing => {
            format!("({} × {} - {} excluded)", plural(cases, "case"), plural(variants, "variant"), missing)
        }
    };
    printer.line(format_args!("  {left} × {repeats} = {}", plural(suite.trials(), "trial")));
    if let Some(design) = &suite.design {
        printer.line(format_args!("  design: {design}"));
    }
    for one in &suite.combinations {
        let model = one.case.agent.model.as_ref().map(|model| format!(", {model}")).unwrap_or_default();
        let version = one.agent_version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
        let (case, variant) = (&one.case_name, &one.variant);
        printer.line(format_args!("  {case} × {variant}: {}{version}{model}", one.case.agent.kind));
    }
    let mut names: Vec<String> =
        suite.combinations.iter().flat_map(|one| one.case.environment_names()).collect();
    names.sort();
    names.dedup();
    if !names.is_empty() {
        printer.line(format_args!("  environment variables: {}", names.join(", ")));
    }
    printer.line("");
}

fn describe(file: &Path, case: &Case, printer: &mut Printer) {
    printer.line(format_args!("{}: {}", file.display(), case.name));
    let format =
        if case.strict { "strict (`youbencha: 1`)" } else { "lenient (add `youbencha: 1` for strict)" };
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
        Prompt::File { path, text } => {
            format!("{} ({})", path.display(), plural(text.chars().count(), "character"))
        }
        Prompt::InWorkspace(path) => format!("{} in the workspace", path.display()),
        prompt => plural(prompt.text().unwrap_or_default().chars().count(), "character"),
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
        printer.line(format_args!("  environment variables: {}", names.join(", ")));
    }
    printer.line("");
}
