//! `yb diff`: the difference between the end trees of two trials.

use serde_json::json;
use yb_engine::Extensions;
use yb_engine::case::{LocalSources, PrivateHosts};
use yb_engine::diff::{ChangeKind, Diff, FileChange, LineChanges};
use yb_engine::run::{self, AttemptTrees, PlannedTrial, RunContext, RunError, RunInfo};
use yb_engine::suite;
use yb_figures::{count, plural};

use super::run::load;
use super::show;
use crate::agents;
use crate::args::DiffArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::{Printer, Style, StyledText};
use crate::report::JSON_VERSION;
use crate::workspace;

/// A trial with its end tree.
struct Side {
    info: RunInfo,
    trial: PlannedTrial,
    trees: AttemptTrees,
}

impl Side {
    fn name(&self) -> String {
        format!("{}/{}", self.info.run.id(), self.trial.folder)
    }
}

pub(super) fn run(
    args: &DiffArgs,
    extensions: &Extensions,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    let root = workspace::root(printer)?;
    let (one, two) = (side(&root, &args.one)?, side(&root, &args.two)?);
    let (settings, _) = load::settings(false)?;
    let context = RunContext::new(settings, agents::environment(), extensions.clone());
    let mut secrets = secrets(&context, &one.info);
    if one.info.plan.config != two.info.plan.config {
        secrets.extend(self::secrets(&context, &two.info));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::failed_to("start"))?;
    let found = runtime.block_on(run::diff_trees(
        (&one.info.run, &one.trees.end),
        (&two.info.run, &two.trees.end),
        &secrets,
    ))?;
    if args.json {
        printer.pretty_json(&json!({
            "v": JSON_VERSION,
            "a": one.name(),
            "b": two.name(),
            "files": found.files.files.iter().map(file_json).collect::<Vec<_>>(),
            "diff": (!args.stat).then(|| String::from_utf8_lossy(&found.text).into_owned()),
        }));
    } else if found.files.files.is_empty() {
        printer.note("no differences");
    } else if args.stat {
        stat(&found.files, printer);
    } else {
        show::show_patch(&found.text, printer);
    }
    Ok(ExitCode::Passed)
}

/// Finds a trial: `RUN/TRIAL`, or a trial of the newest run.
fn side(root: &std::path::Path, name: &str) -> Result<Side, CliError> {
    let (run, trial) = match name.rsplit_once('/') {
        Some((run, trial)) => (run, trial),
        None => ("latest", name),
    };
    let info = RunInfo::read(run::find_run(root, run)?)?;
    let trial = run::find_trial(&info.plan, trial).map_err(|error| match error {
        error @ RunError::NoSuchTrial { .. } if !name.contains('/') => {
            CliError::from(error).hint("name a trial of another run as `RUN/TRIAL`")
        }
        error => error.into(),
    })?;
    let trial = trial.clone();
    let record = info.state.get(&trial.folder).and_then(|state| state.attempts.last());
    let Some(trees) = record.and_then(|record| record.trees.clone()) else {
        return Err(CliError::new(ErrorKind::Usage, format!("trial `{}` has no end tree", trial.folder)));
    };
    Ok(Side { info, trial, trees })
}

/// Returns the secrets of the cases of a run, as its files define them now.
fn secrets(context: &RunContext, info: &RunInfo) -> Vec<(String, Vec<u8>)> {
    let project = std::env::current_dir().unwrap_or_default();
    let options = context
        .extensions
        .load_options()
        .with_variables(context.settings.variables())
        .with_private_hosts(PrivateHosts::Allowed)
        .with_local_sources(LocalSources::of_project(&project, &info.plan.options.allow_paths));
    let suite = suite::load(&info.plan.config, &options).suite;
    suite.map(|suite| context.known_secrets(&suite, &info.plan.options)).unwrap_or_default()
}

/// Prints the changed files with the number of added and removed lines.
fn stat(diff: &Diff, printer: &mut Printer) {
    for file in &diff.files {
        let line = match file.lines {
            LineChanges::Binary => StyledText::new().text("binary"),
            LineChanges::Text { added, removed } => StyledText::new()
                .styled(Style::Green, format_args!("+{}", count(added)))
                .text(" ")
                .styled(Style::Red, format_args!("-{}", count(removed))),
        };
        printer.line(line.text(format_args!("  {}{}", file.display_path(), remark(file))));
    }
    let (added, removed) = (count(diff.lines_added()), count(diff.lines_removed()));
    printer.line(format_args!("{} changed, +{added} -{removed} lines", plural(diff.files_changed(), "file")));
}

fn remark(file: &FileChange) -> String {
    match &file.kind {
        ChangeKind::Added => " (only in the second)".to_owned(),
        ChangeKind::Deleted => " (only in the first)".to_owned(),
        ChangeKind::Renamed { from } => format!(" (from {})", String::from_utf8_lossy(from)),
        _ => String::new(),
    }
}

fn file_json(file: &FileChange) -> serde_json::Value {
    let (kind, from) = match &file.kind {
        ChangeKind::Added => ("added", None),
        ChangeKind::Deleted => ("deleted", None),
        ChangeKind::Modified => ("modified", None),
        ChangeKind::TypeChanged => ("type_changed", None),
        ChangeKind::Renamed { from } => ("renamed", Some(String::from_utf8_lossy(from).into_owned())),
    };
    json!({
        "path": file.display_path(),
        "status": kind,
        "from": from,
        "added": file.additions(),
        "removed": file.deletions(),
        "binary": file.lines == LineChanges::Binary,
    })
}
