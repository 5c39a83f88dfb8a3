//! Selects what `yb clean` removes, and explains what it keeps.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use yb_engine::run::{CACHE, RUNS, RunDir, RunInfo, RunLock, find_run};
use yb_figures::{counted, plural, timestamp};

use super::remove::bytes_in;
use crate::args::CleanArgs;
use crate::error::{CliError, ErrorKind};
use crate::workspace::RunCondition;

/// A younger directory without a plan may belong to a run that is being created.
const MIN_AGE: Duration = Duration::from_secs(60);

/// A run or the cache, to be removed.
pub(super) struct CleanTarget {
    pub(super) path: PathBuf,
    pub(super) label: String,
    pub(super) when: String,
    pub(super) name: String,
    pub(super) state: String,
    pub(super) bytes: u64,
    /// Whether it is a run, which has a lock.
    pub(super) is_run: bool,
}

pub(super) struct Selection {
    pub(super) chosen: Vec<CleanTarget>,
    /// Messages about runs that are kept.
    pub(super) kept: Vec<String>,
}

/// A directory among the runs.
struct RunEntry {
    run: RunDir,
    /// `None` if it has no plan or can't be read.
    info: Option<RunInfo>,
    unreadable: bool,
    age: Duration,
}

pub(super) fn select(root: &Path, args: &CleanArgs) -> Result<Selection, CliError> {
    let mut selection = Selection { chosen: Vec::new(), kept: Vec::new() };
    let found = all(root)?;
    let running = found.iter().filter(|one| RunLock::is_held(&one.run.lock())).count();
    if !args.runs.is_empty() {
        for name in &args.runs {
            selection.named(root, name, &found)?;
        }
    } else if !args.cache || args.keep.is_some() || args.older_than.is_some() || args.all {
        selection.by_rule(args, &found);
    }
    if args.cache {
        let cache = root.join(CACHE);
        if running > 0 {
            selection.kept.push(format!("keeping the cache: in use by {}", plural(running, "run")));
        } else if fs::symlink_metadata(&cache).is_ok_and(|data| data.is_dir()) {
            selection.chosen.push(CleanTarget {
                label: CACHE.to_owned(),
                when: String::new(),
                name: String::new(),
                state: "fetched again when needed".to_owned(),
                bytes: bytes_in(&cache),
                is_run: false,
                path: cache,
            });
        }
    }
    Ok(selection)
}

/// Lists the directories among the runs, oldest first, without links.
fn all(root: &Path) -> Result<Vec<RunEntry>, CliError> {
    let entries = match fs::read_dir(root.join(RUNS)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(CliError::failed_to("read the runs")(error)),
    };
    let mut found: Vec<RunEntry> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| RunEntry::at(RunDir::at(entry.path())))
        .collect();
    found.sort_by(|one, two| two.age.cmp(&one.age).then_with(|| one.run.path().cmp(two.run.path())));
    Ok(found)
}

impl RunEntry {
    fn at(run: RunDir) -> Self {
        let planned = run.plan().exists();
        let info = RunInfo::read(run.clone()).ok();
        // The journal is written until the last event.
        let touched = [run.journal(), run.plan(), run.path().to_owned()]
            .iter()
            .find_map(|path| fs::symlink_metadata(path).and_then(|data| data.modified()).ok());
        let age = touched.and_then(|at| SystemTime::now().duration_since(at).ok()).unwrap_or_default();
        Self { unreadable: planned && info.is_none(), run, info, age }
    }

    fn chosen(&self) -> CleanTarget {
        let state = match &self.info {
            Some(info) => RunCondition::of(info).to_string(),
            None if self.unreadable => "unreadable".to_owned(),
            None => "not started".to_owned(),
        };
        CleanTarget {
            label: self.run.id(),
            when: self.info.as_ref().map(|info| timestamp(&info.plan.created_at)).unwrap_or_default(),
            name: self.info.as_ref().map(|info| info.plan.name.clone()).unwrap_or_default(),
            state,
            bytes: bytes_in(self.run.path()),
            is_run: true,
            path: self.run.path().to_owned(),
        }
    }
}

impl Selection {
    /// Selects a run by name, unless it is in use.
    fn named(&mut self, root: &Path, name: &str, found: &[RunEntry]) -> Result<(), CliError> {
        let one = match found.iter().find(|one| one.run.id() == name) {
            Some(one) => one,
            None => {
                let run = find_run(root, name)?;
                let here = found.iter().find(|one| one.run.path() == run.path());
                here.ok_or_else(|| {
                    let message = format!("run is outside of this workspace: `{}`", run.path().display());
                    CliError::new(ErrorKind::Usage, message)
                        .hint(format!("only directories in `{}` are removed", root.join(RUNS).display()))
                })?
            }
        };
        if RunLock::is_held(&one.run.lock()) {
            self.kept.push(format!("keeping `{}`: in use", one.run.id()));
        } else if self.chosen.iter().all(|chosen| chosen.path != one.run.path()) {
            self.chosen.push(one.chosen());
        }
        Ok(())
    }

    /// Selects finished runs, except the newest and those that are not old enough.
    fn by_rule(&mut self, args: &CleanArgs, found: &[RunEntry]) {
        let (mut running, mut unfinished) = (0, 0);
        let mut may_go = Vec::new();
        for one in found {
            if RunLock::is_held(&one.run.lock()) {
                running += 1;
            } else if one.info.as_ref().is_some_and(|info| !info.state.finished) || one.unreadable {
                if args.all {
                    may_go.push(one);
                } else {
                    unfinished += 1;
                }
            } else if one.info.is_some() || one.age >= MIN_AGE {
                may_go.push(one);
            }
        }
        // Directories without a plan do not count against `--keep`.
        let runs = may_go.iter().filter(|one| one.info.is_some()).count();
        let mut to_go = runs.saturating_sub(args.keep.unwrap_or(0));
        for one in may_go {
            let is_over = one.info.is_none() || to_go > 0;
            if one.info.is_some() {
                to_go = to_go.saturating_sub(1);
            }
            if is_over && args.older_than.is_none_or(|limit| one.age >= limit) {
                self.chosen.push(one.chosen());
            }
        }
        if running > 0 {
            self.kept.push(format!("keeping {}", counted(running, "run in use", "runs in use")));
        }
        if unfinished > 0 {
            self.kept.push(format!(
                "keeping {}; hint: name {} or pass `--all`",
                plural(unfinished, "unfinished or unreadable run"),
                if unfinished == 1 { "it" } else { "them" }
            ));
        }
    }
}
