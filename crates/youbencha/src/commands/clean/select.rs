//! What `yb clean` would remove, and why it keeps the rest.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use yb_engine::run::{CACHE, RUNS, RunDir, RunInfo, RunLock, find_run};

use super::remove::bytes_in;
use crate::args::CleanArgs;
use crate::error::{CliError, ErrorKind};
use crate::printer::plural;
use crate::workspace::{Condition, moment};

/// A folder without a plan may belong to a run that is just being made.
const FRESH: Duration = Duration::from_secs(60);

/// Something that would go.
pub(super) struct Chosen {
    pub(super) path: PathBuf,
    pub(super) label: String,
    pub(super) when: String,
    pub(super) name: String,
    pub(super) state: String,
    pub(super) bytes: u64,
    /// Whether it is a run, with a lock to take first.
    pub(super) is_run: bool,
}

pub(super) struct Selection {
    pub(super) chosen: Vec<Chosen>,
    /// What stays although it was meant, in words.
    pub(super) kept: Vec<String>,
}

/// A folder among the runs.
struct Found {
    run: RunDir,
    /// None if it never became a run, or can't be read.
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
            let who = plural(running as u64, "running run");
            selection.kept.push(format!("the cache stays, for {who}"));
        } else if fs::symlink_metadata(&cache).is_ok_and(|data| data.is_dir()) {
            selection.chosen.push(Chosen {
                label: CACHE.to_owned(),
                when: String::new(),
                name: String::new(),
                state: "fetched again when it is needed".to_owned(),
                bytes: bytes_in(&cache),
                is_run: false,
                path: cache,
            });
        }
    }
    Ok(selection)
}

/// Every folder among the runs, the oldest first; links are no runs of ours.
fn all(root: &Path) -> Result<Vec<Found>, CliError> {
    let entries = match fs::read_dir(root.join(RUNS)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(CliError::failed_to("read the runs")(error)),
    };
    let mut found: Vec<Found> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| Found::at(RunDir::at(entry.path())))
        .collect();
    found.sort_by(|one, two| two.age.cmp(&one.age).then_with(|| one.run.path().cmp(two.run.path())));
    Ok(found)
}

impl Found {
    fn at(run: RunDir) -> Self {
        let planned = run.plan().exists();
        let info = RunInfo::read(run.clone()).ok();
        // The journal grows until the last thing has happened.
        let touched = [run.journal(), run.plan(), run.path().to_owned()]
            .iter()
            .find_map(|path| fs::symlink_metadata(path).and_then(|data| data.modified()).ok());
        let age = touched.and_then(|at| SystemTime::now().duration_since(at).ok()).unwrap_or_default();
        Self { unreadable: planned && info.is_none(), run, info, age }
    }

    fn chosen(&self) -> Chosen {
        let state = match &self.info {
            Some(info) => Condition::of(info).to_string(),
            None if self.unreadable => "unreadable".to_owned(),
            None => "never began".to_owned(),
        };
        Chosen {
            label: self.run.id(),
            when: self.info.as_ref().map(|info| moment(&info.plan.created_at)).unwrap_or_default(),
            name: self.info.as_ref().map(|info| info.plan.name.clone()).unwrap_or_default(),
            state,
            bytes: bytes_in(self.run.path()),
            is_run: true,
            path: self.run.path().to_owned(),
        }
    }
}

impl Selection {
    /// A run that somebody named; only one that is being worked on stays.
    fn named(&mut self, root: &Path, name: &str, found: &[Found]) -> Result<(), CliError> {
        let one = match found.iter().find(|one| one.run.id() == name) {
            Some(one) => one,
            None => {
                let run = find_run(root, name)?;
                let here = found.iter().find(|one| one.run.path() == run.path());
                here.ok_or_else(|| {
                    let message = format!("not a run of this workspace: `{}`", run.path().display());
                    CliError::new(ErrorKind::Usage, message)
                        .hint(format!("only folders in `{}` are removed", root.join(RUNS).display()))
                })?
            }
        };
        if RunLock::is_held(&one.run.lock()) {
            self.kept.push(format!("`{}` stays: somebody works on it", one.run.id()));
        } else if self.chosen.iter().all(|chosen| chosen.path != one.run.path()) {
            self.chosen.push(one.chosen());
        }
        Ok(())
    }

    /// Of those that may go, the newest stay, and those that are not old enough.
    fn by_rule(&mut self, args: &CleanArgs, found: &[Found]) {
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
            } else if one.info.is_some() || one.age >= FRESH {
                may_go.push(one);
            }
        }
        // What never became a run takes no place among those that are kept.
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
            self.kept.push(format!("{} being worked on: kept", plural(running, "run")));
        }
        if unfinished > 0 {
            self.kept.push(format!(
                "{} unfinished or unreadable: kept; name them, or add `--all`",
                plural(unfinished, "run")
            ));
        }
    }
}
