//! `yb show`: a run or a trial that is there, in words, as a conversation, as a patch, or as a command to repeat it.

mod command;
mod diff;
mod transcript;

use serde_json::{Value, json};
use yb_engine::log::YouBenchaLog;
use yb_engine::outcome::Outcome;
use yb_engine::run::{self, AttemptRecord, PlannedTrial, RunError, RunInfo, RunResults, TrialState};

use crate::args::ShowArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::report::trial::Look;
use crate::report::{one_line, summary};
use crate::workspace::{self, Condition, harmless, moment, shown};

/// How many trials are listed by name.
const LISTED: usize = 20;

pub(super) fn run(args: &ShowArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let root = workspace::root(printer)?;
    let name = args.run.as_deref().unwrap_or("latest");
    let (info, trial) = match run::find_run(&root, name) {
        Ok(found) => (RunInfo::read(found)?, args.trial.as_deref()),
        // The run may be left out.
        Err(error @ RunError::NoSuchRun { .. }) if args.trial.is_none() => {
            match run::find_run(&root, "latest").and_then(RunInfo::read) {
                Ok(info) if run::find_trial(&info.plan, name).is_ok() => (info, Some(name)),
                _ => return Err(error.into()),
            }
        }
        Err(error) => return Err(error.into()),
    };
    let (info, grading) = match &args.grading {
        Some(name) => info.by_grading(name).map(|(info, path)| (info, Some(path)))?,
        None => (info, None),
    };
    let trial = match (trial, info.plan.trials.as_slice()) {
        (Some(name), _) => Some(run::find_trial(&info.plan, name)?),
        (None, [only]) => Some(only),
        (None, _) => None,
    };
    match trial {
        Some(trial) => {
            let graded = grading.map(|path| path.join("trials").join(&trial.folder));
            // What was not graded is as it was.
            let grading = graded.filter(|folder| folder.join("results.json").is_file());
            let look = Look { grading, ..look(args, &info, trial)? };
            one(args, &look, printer)?;
        }
        None if args.transcript || args.diff || args.command || args.attempt.is_some() => {
            return Err(which_trial(&info));
        }
        None if args.json => printer.line(format_args!("{:#}", of_run(&info))),
        None => whole(&info, printer),
    }
    Ok(ExitCode::Passed)
}

fn which_trial(info: &RunInfo) -> CliError {
    let name = summary::short_name(&info.run);
    let first = info.plan.trials.first().map(|trial| trial.folder.as_str()).unwrap_or_default();
    CliError::new(ErrorKind::Usage, format!("`{}` has several trials: name one", info.run.id()))
        .hint(format!("for example `yb show {name} {first}`"))
}

fn look<'a>(args: &ShowArgs, info: &'a RunInfo, trial: &'a PlannedTrial) -> Result<Look<'a>, CliError> {
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
                    format!("`{}` has no attempt {number} that ended", trial.folder),
                );
                if known.is_empty() { error } else { error.hint(format!("there are: {}", known.join(", "))) }
            })?)
        }
    };
    Ok(Look { info, trial, record, grading: None })
}

/// One trial, in the ways that were asked for.
fn one(args: &ShowArgs, look: &Look<'_>, printer: &mut Printer) -> Result<(), CliError> {
    if args.json {
        return of_trial(args, look).map(|value| printer.line(format_args!("{value:#}")));
    }
    if args.transcript {
        transcript::show(&log(look)?, printer);
    }
    if args.diff {
        match diff::read(look)? {
            Some(patch) => diff::show(&patch, printer),
            None => printer.note("it changed nothing"),
        }
    }
    if args.command {
        printer.text(&command::script(look, &log(look)?));
    }
    if !(args.transcript || args.diff || args.command) {
        look.show(printer);
        if look.record.is_some() {
            printer.note("more: `--transcript`, `--diff`, `--command`");
        }
    }
    Ok(())
}

/// The log of the attempt; an error if there is none to show.
fn log(look: &Look<'_>) -> Result<YouBenchaLog, CliError> {
    let Some((record, artifacts)) = look.record.zip(look.artifacts()) else {
        return Err(nothing(look));
    };
    let path = artifacts.join(yb_engine::log::FILE_NAME);
    if !path.exists() {
        let error = CliError::new(
            ErrorKind::Usage,
            format!("attempt {} of `{}` has no log", record.attempt, look.trial.folder),
        );
        return Err(match &record.error {
            Some(reason) => error.caused_by(harmless(reason)),
            None => error,
        });
    }
    YouBenchaLog::read(&path).map_err(|error| {
        CliError::new(ErrorKind::Infrastructure, "failed to read the log of the agent").caused_by(error)
    })
}

fn nothing(look: &Look<'_>) -> CliError {
    let in_flight = look.info.state.get(&look.trial.folder).is_some_and(|state| state.in_flight.is_some());
    let what = if in_flight && look.info.active { "is still running" } else { "was not done yet" };
    CliError::new(ErrorKind::Usage, format!("the trial `{}` {what}", look.trial.folder))
}

/// A run of several trials.
fn whole(info: &RunInfo, printer: &mut Printer) {
    let condition = Condition::of(info);
    printer.line(format_args!("{}: {}, {condition}", info.run.id(), info.plan.name));
    let began = info.state.started_at.as_deref().unwrap_or(&info.plan.created_at);
    printer.line(format_args!("  {}, {}", moment(began), shown(&info.plan.config)));
    if let Some(earlier) = &info.plan.rerun_of {
        printer.line(format_args!("  repeats what failed in {earlier}"));
    }
    printer.line(format_args!("  {}", shown(info.run.path())));
    printer.line("");
    summary::table(&info.plan, &info.state, printer);
    let bad: Vec<&AttemptRecord> = info
        .plan
        .trials
        .iter()
        .filter_map(|trial| info.state.get(&trial.folder).and_then(TrialState::result))
        .filter(|record| record.outcome != Outcome::Passed)
        .collect();
    if !bad.is_empty() {
        printer.line("");
    }
    for record in bad.iter().take(LISTED) {
        printer.line(format_args!("{}: {}", record.trial, harmless(&one_line(record))));
    }
    if bad.len() > LISTED {
        printer.line(format_args!("and {} more; `--json` has all", bad.len() - LISTED));
    }
    for (folder, state) in info.state.trials() {
        if let Some(one) = state.in_flight.as_ref().filter(|_| info.active) {
            printer.line(format_args!("{folder}: is running since {}", moment(&one.started_at)));
        }
    }
    if condition != Condition::Running {
        summary::next(&info.run, &info.plan, &info.state, printer);
    }
}

/// `results.json` as it would be now, and what a run is doing.
fn of_run(info: &RunInfo) -> Value {
    let mut value = json!(RunResults::of(&info.plan, &info.state));
    value["state"] = json!(Condition::of(info).word());
    value["directory"] = json!(info.run.path());
    value["config"] = json!(info.plan.config);
    value
}

fn of_trial(args: &ShowArgs, look: &Look<'_>) -> Result<Value, CliError> {
    let RunDirs { artifacts, workspace } = RunDirs::of(look);
    let results = RunResults::of(&look.info.plan, &look.info.state);
    let found = results.trials.iter().find(|trial| trial.trial == look.trial.folder);
    let mut value = json!(found);
    value["run"] = json!(look.info.run.id());
    value["agent"] = json!(look.trial.agent);
    value["commit"] = json!(look.trial.commit);
    value["artifacts"] = json!(artifacts);
    value["workspace"] = json!(workspace);
    if let Some(artifacts) = &artifacts {
        let graded = look.grading.as_ref().unwrap_or(artifacts);
        let bytes = std::fs::read(graded.join("results.json")).unwrap_or_default();
        value["results"] = serde_json::from_slice(&bytes).unwrap_or_default();
    }
    if args.transcript {
        let log = log(look)?;
        value["messages"] = json!(log.messages);
        value["tool_calls"] = json!(log.tool_calls);
    }
    if args.diff {
        value["diff"] = json!(diff::read(look)?.map(|patch| String::from_utf8_lossy(&patch).into_owned()));
    }
    if args.command {
        let log = log(look)?;
        value["command"] = json!({
            "argv": log.execution.argv,
            "env": log.execution.env,
            "stdin": log.execution.stdin,
            "directory": log.environment.working_directory,
        });
    }
    Ok(value)
}

/// Where an attempt's things are, as far as they are there.
struct RunDirs {
    artifacts: Option<std::path::PathBuf>,
    workspace: Option<std::path::PathBuf>,
}

impl RunDirs {
    fn of(look: &Look<'_>) -> Self {
        let artifacts = look.artifacts().filter(|path| path.exists());
        let workspace =
            artifacts.as_ref().map(|path| path.with_file_name("src-modified")).filter(|path| path.exists());
        Self { artifacts, workspace }
    }
}
