//! Loads the files of a run and prints their diagnostics.

use std::path::{Path, PathBuf};

use yb_engine::case::{LocalSources, PrivateHosts};
use yb_engine::config::Settings;
use yb_engine::diagnostic::{Diagnostic, Severity};
use yb_engine::run::RunContext;
use yb_engine::suite::{self, SourceFile, Suite};

use crate::diagnostics::render;
use crate::error::{CliError, ErrorKind};
use crate::printer::Printer;

/// Loads the settings without those of a case.
pub(in crate::commands) fn settings(delete_workspace: bool) -> Result<(Settings, Vec<Diagnostic>), CliError> {
    let project = std::env::current_dir().map_err(|error| {
        CliError::new(ErrorKind::Usage, "failed to find the working directory").caused_by(error)
    })?;
    let (mut settings, found) = Settings::load(std::env::home_dir().as_deref(), &project);
    if delete_workspace {
        settings = settings.with_argument("keep_workspace", false);
    }
    Ok((settings, found))
}

/// Prints diagnostics; returns whether there is no error.
pub(in crate::commands) fn show(found: Vec<Diagnostic>, strict: bool, printer: &mut Printer) -> bool {
    let mut good = true;
    for finding in found {
        let severity = if strict { Severity::Error } else { finding.severity };
        good &= severity != Severity::Error;
        printer.note(render(&finding, severity));
        printer.note("");
    }
    good
}

/// Loads a suite or case with these permissions and prints its diagnostics; `None` if it is invalid.
pub(in crate::commands) fn suite(
    file: &Path,
    allowed: (bool, &[PathBuf]),
    setup: &RunContext,
    strict: bool,
    printer: &mut Printer,
) -> Option<Suite> {
    suite_and_files(file, allowed, setup, strict, printer).0
}

/// Loads a suite like [`suite`], and returns the files that were read, also if it is invalid.
pub(super) fn suite_and_files(
    file: &Path,
    (private_hosts, allow_paths): (bool, &[PathBuf]),
    setup: &RunContext,
    strict: bool,
    printer: &mut Printer,
) -> (Option<Suite>, Vec<SourceFile>) {
    let hosts = if private_hosts { PrivateHosts::Allowed } else { PrivateHosts::Refused };
    let project = std::env::current_dir().unwrap_or_default();
    let options = setup
        .extensions
        .load_options()
        .with_variables(setup.settings.variables())
        .with_private_hosts(hosts)
        .with_local_sources(LocalSources::of_project(&project, allow_paths));
    let loaded = suite::load(file, &options);
    let good = show(loaded.diagnostics, strict, printer);
    (loaded.suite.filter(|_| good), loaded.files)
}
