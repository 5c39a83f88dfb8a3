//! `yb run --watch`: runs, waits for edits of the files that decide what runs, and reruns the affected trials.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use yb_engine::Extensions;
use yb_engine::config::{FILE_NAMES, Settings};
use yb_engine::run::{FileChanges, KnownTrials, Plan, PreparedRun, RunContext, WatchedFiles};
use yb_engine::suite::{SourceFile, Suite};

use super::run_once;
use crate::args::RunArgs;
use crate::commands::view::BesideRun;
use crate::error::CliError;
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::signals::{SignalRequest, Signals, suspend_process};

/// The time between two polls. A change counts when a poll finds nothing new: editors write a file in several steps.
const POLL: Duration = Duration::from_millis(300);
/// The most paths that a note names.
const LISTED: usize = 3;

/// What is known from one run to the next.
pub(super) struct WatchState {
    files: WatchedFiles,
    known: KnownTrials,
    settings: Option<Settings>,
    /// The last run and its exit code.
    last: Option<(String, ExitCode)>,
    /// The changes since the last run that started.
    changes: FileChanges,
    /// The settings changed since then.
    is_reconfigured: bool,
    /// The pages of `--view`, which stay from one run to the next.
    pub(super) view: Option<BesideRun>,
}

/// The trials that an edit affects.
pub(super) enum WatchSelection {
    /// All of them: nothing ran before.
    All,
    /// Some; the others ran before in this run or an earlier one.
    RerunOf(String),
    /// None.
    Nothing(ExitCode),
}

/// Runs until Ctrl-C or SIGTERM, and returns the exit code of the last run.
pub(super) async fn run(
    args: &RunArgs,
    extensions: &Extensions,
    signals: &mut Signals,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    let file = args.config().map(PathBuf::as_path).unwrap_or(Path::new(""));
    let mut state = WatchState {
        files: WatchedFiles::of_file(file),
        known: KnownTrials::default(),
        settings: None,
        last: None,
        changes: FileChanges::default(),
        is_reconfigured: false,
        view: None,
    };
    loop {
        let code = match run_once(args, extensions, Some(&mut state), signals, printer).await {
            Ok(code) => code,
            Err(error) => {
                printer.error(&error);
                error.exit_code()
            }
        };
        if code == ExitCode::Interrupted {
            return Ok(state.exit_code(code));
        }
        printer.note(state.waiting_note());
        if !state.wait(signals).await {
            return Ok(state.exit_code(code));
        }
    }
}

impl WatchState {
    /// Records the files that were read, also those of a suite that is invalid.
    pub(super) fn loaded(
        &mut self,
        suite: Option<&Suite>,
        files: &[SourceFile],
        setup: &RunContext,
    ) -> Result<(), CliError> {
        let home = std::env::home_dir();
        let directories = home.into_iter().chain(std::env::current_dir().ok());
        let settings = directories.flat_map(|dir| FILE_NAMES.iter().map(move |name| dir.join(name)));
        match suite {
            Some(suite) => self.files = WatchedFiles::of(suite, settings, &setup.root(suite)?),
            None => self.files.add_files(files),
        }
        let known = self.settings.replace(setup.settings.clone());
        self.is_reconfigured |= known.is_some_and(|known| known != setup.settings);
        Ok(())
    }

    /// Selects the trials that the changes affect, and says so.
    pub(super) fn select(&mut self, ready: &mut PreparedRun, printer: &mut Printer) -> WatchSelection {
        let changes = std::mem::take(&mut self.changes);
        let Some((last, code)) = &self.last else { return WatchSelection::All };
        let is_reconfigured = std::mem::take(&mut self.is_reconfigured);
        let cases = match is_reconfigured {
            true => ready.trials().map(|trial| trial.case.clone()).collect(),
            false => changes.cases.clone(),
        };
        let edited = ready.retain_edited(&self.known, &cases);
        let trials = ready.trials().count();
        if trials == 0 {
            // Files may come and go in a directory, and a start directory has files that no trial sees.
            if !changes.files.is_empty() {
                printer.note(format!("note: {}; no trial is affected", changed(&changes)));
            }
            return WatchSelection::Nothing(*code);
        }
        let count = if trials == 1 { "1 trial".to_owned() } else { format!("{trials} trials") };
        printer.note(format!("note: {}; rerunning {count} of {}", changed(&changes), list(&edited)));
        WatchSelection::RerunOf(last.clone())
    }

    /// Records a run.
    pub(super) fn ran(&mut self, plan: &Plan, code: ExitCode) {
        self.known.add(plan);
        self.last = Some((plan.run.clone(), code));
        self.files.settle();
    }

    fn exit_code(&self, code: ExitCode) -> ExitCode {
        self.last.as_ref().map_or(code, |(_, last)| *last)
    }

    fn waiting_note(&self) -> String {
        let more = if self.files.is_truncated() { "; start directories have more" } else { "" };
        format!("note: watching {} files and directories{more}; Ctrl-C ends", self.files.len())
    }

    /// Waits for changes; returns false if a signal asked to stop.
    async fn wait(&mut self, signals: &mut Signals) -> bool {
        let mut is_pending = false;
        loop {
            tokio::select! {
                () = tokio::time::sleep(POLL) => {}
                request = signals.next() => match request {
                    SignalRequest::Suspend => suspend_process(),
                    _ => return false,
                },
            }
            if self.files.is_touched() {
                let new = self.files.update();
                is_pending |= !new.is_empty();
                self.changes.merge(new);
            } else if is_pending {
                return true;
            }
        }
    }
}

/// Describes the changed files.
fn changed(changes: &FileChanges) -> String {
    let all: Vec<&PathBuf> = changes.files.iter().chain(&changes.starts).collect();
    // A directory changes with the files in it.
    let is_parent = |path: &&&PathBuf| all.iter().any(|other| other.parent() == Some(path.as_path()));
    let paths: BTreeSet<String> =
        all.iter().filter(|path| !is_parent(path)).map(|path| shown(path)).collect();
    if paths.is_empty() {
        "files were added or removed".to_owned()
    } else {
        format!("changed: {}", list(&paths))
    }
}

/// Returns a path relative to the working directory, if it is below it.
fn shown(path: &Path) -> String {
    let here = std::env::current_dir().and_then(|here| here.canonicalize());
    let relative = here.ok().and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned));
    relative.unwrap_or_else(|| path.to_owned()).display().to_string()
}

fn list(names: &BTreeSet<String>) -> String {
    let more = match names.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let names: Vec<String> = names.iter().take(LISTED).map(|name| format!("`{name}`")).collect();
    format!("{}{more}", names.join(", "))
}
