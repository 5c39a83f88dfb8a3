//! `yb show`: a run or trial as a summary, transcript, patch or command.

mod command;
mod diff;
mod transcript;

pub(super) use diff::show as show_patch;

use std::path::Path;

use serde_json::{Value, json};
use yb_engine::check::{Proof, proven_cases};
use yb_engine::compare::VariantSummary;
use yb_engine::log::YouBenchaLog;
use yb_engine::run::{self, AttemptRecord, PlannedTrial, RunError, RunInfo, RunResults};
use yb_figures::timestamp;

use super::trajectory;
use crate::args::ShowArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::report::summary;
use crate::report::trial::TrialView;
use crate::workspace::{self, RunCondition, display_path};

pub(super) fn run(args: &ShowArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    if let (Some(name), None) = (&args.run, &args.trial)
        && trajectory::is_trajectory(Path::new(name))
    {
        transcript::show(&trajectory::read(Path::new(name))?, Path::new("."), printer);
        return Ok(ExitCode::Passed);
    }
    let root = workspace::root(printer)?;
    let (info, trial) = find(&root, args.run.as_deref(), args.trial.as_deref())?;
    let (info, grading) = match &args.grading {
        Some(name) => info.by_grading(name).map(|(info, path)| (info, Some(path)))?,
        None => (info, None),
    };
    let trial = match (trial.as_deref(), info.plan.trials.as_slice()) {
        (Some(name), _) => Some(run::find_trial(&info.plan, name)?),
        (None, [only]) => Some(only),
        (None, _) => None,
    };
    match trial {
        Some(trial) => {
            let graded = grading.map(|path| path.join("trials").join(&trial.folder));
            // Trials without a new grade keep theirs.
            let grading = graded.filter(|folder| folder.join("results.json").is_file());
            let view = TrialView { grading, ..select_attempt(args, &info, trial)? };
            view.record.map_or(Ok(()), |record| info.check_artifacts(record))?;
            show_trial(args, &view, printer)?;
        }
        None if args.transcript || args.diff || args.command || args.attempt.is_some() => {
            return Err(which_trial(&info));
        }
        None if args.json => printer.pretty_json(&run_json(&info)),
        None => show_run(&info, printer),
    }
    Ok(ExitCode::Passed)
}

/// Finds a run, and the name of the trial if one is given. The run may be omitted before a trial.
pub(super) fn find(
    root: &Path,
    run: Option<&str>,
    trial: Option<&str>,
) -> Result<(RunInfo, Option<String>), CliError> {
    let name = run.unwrap_or("latest");
    match run::find_run(root, name) {
        Ok(found) => Ok((RunInfo::read(found)?, trial.map(str::to_owned))),
        Err(error @ RunError::NoSuchRun { .. }) if trial.is_none() => {
            match run::find_run(root, "latest").and_then(RunInfo::read) {
                Ok(info) if run::find_trial(&info.plan, name).is_ok() => Ok((info, Some(name.to_owned()))),
                _ => Err(error.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}

fn which_trial(info: &RunInfo) -> CliError {
    let name = summary::short_name(&info.run);
    let first = info.plan.trials.first().map(|trial| trial.folder.as_str()).unwrap_or_default();
    CliError::new(ErrorKind::Usage, format!("run has several trials: `{}`", info.run.id()))
        .hint(format!("name a trial: `yb show {name} {first}`"))
}

fn select_attempt<'a>(
    args: &ShowArgs,
    info: &'a RunInfo,
    trial: &'a PlannedTrial,
) -> Result<TrialView<'a>, CliError> {
    let attempts: &[AttemptRecord] =
        info.state.get(&trial.folder).map(|state| state.attempts.as_slice()).unwrap_or_default();
    let record = match args.attempt {
        None => attempts.last(),
        Some(number) => {
            let found = attempts.iter().find(|record| record.attempt == number);
            Some(found.ok_or_else(|| {
                let known: Vec<String> = attempts.iter().map(|record| record.attempt.to_string()).collect();
                let error = CliError::new(
                    ErrorKind::Usage,
                    format!("no finished attempt {number} of `{}`", trial.folder),
                );
                if known.is_empty() {
                    error
                } else {
                    error.hint(format!("finished attempts: {}", known.join(", ")))
                }
            })?)
        }
    };
    Ok(TrialView { info, trial, record, grading: None })
}

/// Prints one trial in the requested forms.
fn show_trial(args: &ShowArgs, view: &TrialView<'_>, printer: &mut Printer) -> Result<(), CliError> {
    if args.json {
        return trial_json(args, view).map(|value| printer.pretty_json(&value));
    }
    if let (Some(earlier), [_]) = (&view.info.plan.rerun_of, view.info.plan.trials.as_slice()) {
        printer.note(format_args!("note: rerun of failed or edited trials of {earlier}"));
    }
    if args.transcript {
        transcript::show(&log(view)?, &view.artifacts().unwrap_or_default(), printer);
    }
    if args.diff {
        match diff::read(view)? {
            Some(patch) if args.raw => diff::write_raw(&patch, printer)?,
            Some(patch) => diff::show(&patch, printer),
            None => printer.note("no changes"),
        }
    }
    if args.command {
        printer.text(&command::script(view, &log(view)?));
    }
    if !(args.transcript || args.diff || args.command) {
        view.show(printer);
        if let Some(proof) = view.trial.proof {
            printer.line(format_args!("  check: {}", proof_line(proof)));
        }
        if view.record.is_some() {
            printer.note("hint: see also `--transcript`, `--diff` and `--command`");
        }
    }
    Ok(())
}

/// Says what the check of the case had shown when the run started.
fn proof_line(proof: Proof) -> String {
    match proof {
        Proof::Proven => "proven: the start fails and the reference solution passes".to_owned(),
        Proof::Unchecked => "unproven: the case was not checked before the run (`yb check FILE`)".to_owned(),
        other => format!("unproven: {}", other.as_str()),
    }
}

/// Reads the agent log of the attempt.
fn log(view: &TrialView<'_>) -> Result<YouBenchaLog, CliError> {
    let Some((record, artifacts)) = view.record.zip(view.artifacts()) else {
        return Err(not_finished(view));
    };
    let path = artifacts.join(yb_engine::log::FILE_NAME);
    if !path.exists() {
        let error = CliError::new(
            ErrorKind::Usage,
            format!("no log of attempt {} of `{}`", record.attempt, view.trial.folder),
        );
        return Err(match &record.error {
            Some(reason) => error.caused_by(reason.clone()),
            None => error,
        });
    }
    YouBenchaLog::read(&path).map_err(|error| {
        CliError::new(ErrorKind::Infrastructure, "failed to read the agent log").caused_by(error)
    })
}

pub(super) fn not_finished(view: &TrialView<'_>) -> CliError {
    let in_flight = view.info.state.get(&view.trial.folder).is_some_and(|state| state.in_flight.is_some());
    let what = if in_flight && view.info.active { "is still running" } else { "has not run yet" };
    CliError::new(ErrorKind::Usage, format!("trial `{}` {what}", view.trial.folder))
}

/// Prints a run of several trials.
fn show_run(info: &RunInfo, printer: &mut Printer) {
    let condition = RunCondition::of(info);
    printer.line(format_args!("{}: {}, {condition}", info.run.id(), info.plan.name));
    let began = info.state.started_at.as_deref().unwrap_or(&info.plan.created_at);
    printer.line(format_args!("  {}, {}", timestamp(began), display_path(&info.plan.config)));
    if let Some(earlier) = &info.plan.rerun_of {
        printer.line(format_args!("  rerun of failed or edited trials of {earlier}"));
    }
    printer.line(format_args!("  {}", display_path(info.run.path())));
    let proofs = info.plan.trials.iter().map(|trial| (trial.case.as_str(), trial.proof));
    if let Some(proven) = proven_cases(proofs) {
        printer.line(format_args!("  {proven}"));
    }
    printer.line("");
    summary::several(&info.run, &info.plan, &info.state, None, printer);
    for (folder, state) in info.state.trials() {
        if let Some(one) = state.in_flight.as_ref().filter(|_| info.active) {
            printer.line(format_args!("{folder}: running since {}", timestamp(&one.started_at)));
        }
    }
    if condition != RunCondition::Running {
        summary::next(&info.run, &info.plan, &info.state, printer);
    }
}

/// Returns the current results and the condition of a run.
fn run_json(info: &RunInfo) -> Value {
    let mut results = RunResults::of(&info.plan, &info.state);
    results.variants = VariantSummary::of(&results);
    let mut value = json!(results);
    value["state"] = json!(RunCondition::of(info).as_str());
    value["directory"] = json!(info.run.path());
    value["config"] = json!(info.plan.config);
    value
}

fn trial_json(args: &ShowArgs, view: &TrialView<'_>) -> Result<Value, CliError> {
    let AttemptDirs { artifacts, workspace } = AttemptDirs::of(view);
    let results = RunResults::of(&view.info.plan, &view.info.state);
    let found = results.trials.iter().find(|trial| trial.trial == view.trial.folder);
    let mut value = json!(found);
    value["run"] = json!(view.info.run.id());
    value["agent"] = json!(view.trial.agent);
    value["commit"] = json!(view.trial.commit);
    value["artifacts"] = json!(artifacts);
    value["workspace"] = json!(workspace);
    if let Some(artifacts) = &artifacts {
        let graded = view.grading.as_ref().unwrap_or(artifacts);
        let bytes = std::fs::read(graded.join("results.json")).unwrap_or_default();
        value["results"] = serde_json::from_slice(&bytes).unwrap_or_default();
    }
    if args.transcript {
        let log = log(view)?;
        value["messages"] = json!(log.messages);
        value["tool_calls"] = json!(log.tool_calls);
        if let Some(omitted) = &log.omitted {
            value["omitted"] = json!(omitted);
            value["frames"] =
                json!(log.output.frames.as_ref().zip(artifacts).map(|(name, dir)| dir.join(name)));
        }
    }
    if args.diff {
        value["diff"] = json!(diff::read(view)?.map(|patch| String::from_utf8_lossy(&patch).into_owned()));
    }
    if args.command {
        let log = log(view)?;
        value["command"] = json!({
            "argv": log.execution.argv,
            "env": log.execution.env,
            "stdin": log.execution.stdin,
            "directory": log.environment.working_directory,
        });
    }
    Ok(value)
}

/// The existing directories of an attempt.
struct AttemptDirs {
    artifacts: Option<std::path::PathBuf>,
    workspace: Option<std::path::PathBuf>,
}

impl AttemptDirs {
    fn of(view: &TrialView<'_>) -> Self {
        let artifacts = view.artifacts().filter(|path| path.exists());
        let workspace =
            artifacts.as_ref().map(|path| path.with_file_name("src-modified")).filter(|path| path.exists());
        Self { artifacts, workspace }
    }
}
