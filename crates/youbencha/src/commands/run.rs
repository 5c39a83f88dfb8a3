//! `yb run`: runs cases, or resumes a run, and reports the results.

mod dry_run;
mod estimate;
pub(super) mod jobs;
pub(super) mod load;
pub(super) mod summary;
mod watch;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;
use yb_engine::Extensions;
use yb_engine::baseline::BaselineError;
use yb_engine::case::TapeMode;
use yb_engine::config::Settings;
use yb_engine::gates::{GateOverride, Gates};
use yb_engine::run::{
    self, ActiveRun, Control, ExecutionLimits, Plan, PlanOptions, PreflightProblem, PreparedRun, RunContext,
    RunDir, RunError, RunOutcome, RunnerEvent, Selection,
};
use yb_engine::tape::{ForkAt, TapeOptions};
use yb_engine::trial::TrialError;
use yb_view::RunAction;

use self::dry_run::PlannedRun;
use self::watch::{WatchSelection, WatchState};
use crate::agents;
use crate::args::RunArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::report::{
    self, FollowedRun, JSON_VERSION, JsonReporter, LineReporter, LiveReporter, QuietReporter, Reporter,
    Screen,
};
use crate::signals::{SignalRequest, Signals, suspend_process};
use crate::tracing::{RunTrace, Tracing};
use crate::workspace;

/// How long to wait for process trees to suspend before this process does.
const SUSPEND_TIMEOUT: Duration = Duration::from_secs(2);

/// The least limit of open files with which a trial works: a sandbox uses numbers up to 160.
const LEAST_OPEN_FILES: u64 = 256;

/// Refuses to start with a limit that trials would fail at, each for a reason of its own.
fn check_open_files(limit: u64) -> Result<(), CliError> {
    if limit >= LEAST_OPEN_FILES {
        return Ok(());
    }
    let message = format!("the limit of open files is too low: {limit} (minimum {LEAST_OPEN_FILES})");
    Err(CliError::new(ErrorKind::Infrastructure, message).hint("raise it: `ulimit -n 4096`"))
}

pub(super) fn run(
    args: &RunArgs,
    extensions: &Extensions,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    check_open_files(yb_supervise::raise_open_files_limit())?;
    // Single-threaded: trials mostly wait, and cross-thread wakeups cost more than they save.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::failed_to("start"))?;
    runtime.block_on(async {
        let mut signals =
            Signals::listen_for_suspension().map_err(CliError::failed_to("listen for signals"))?;
        if args.watch {
            return watch::run(args, extensions, &mut signals, printer).await;
        }
        run_once(args, extensions, None, &mut signals, printer).await
    })
}

/// Runs the trials once. With `watch`, only those that are new or edited since its last run.
async fn run_once(
    args: &RunArgs,
    extensions: &Extensions,
    mut watch: Option<&mut WatchState>,
    signals: &mut Signals,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    let mut tracing = Tracing::off();
    let opened = {
        let opening = open(args, extensions, &mut tracing, watch.as_deref_mut(), printer);
        tokio::pin!(opening);
        loop {
            tokio::select! {
                opened = &mut opening => break opened?,
                request = signals.next() => match request {
                    SignalRequest::Suspend => suspend_process(),
                    // No trial has started yet.
                    _ => return Ok(ExitCode::Interrupted),
                },
            }
        }
    };
    match opened {
        Preparation::Done(code) => Ok(code),
        Preparation::Run(mut open, setup, limits) => {
            let (run, plan) = (open.run.clone(), open.plan.clone());
            let trace = tracing.run(&plan);
            open.trace = trace.as_ref().map(RunTrace::node);
            let earlier = watch.as_mut().and_then(|watch| watch.view.take());
            let mut view = super::view::beside(args.view, &run, earlier, printer)?;
            let began = setup.pause.stopwatch();
            let worked = work(args, *open, &setup, &limits, signals, view.as_mut(), printer).await;
            if let Some((trace, over)) = trace.as_ref().zip(worked.as_ref().ok()) {
                trace.end(over);
            }
            drop(trace);
            let mut code =
                worked.and_then(|over| finish(args, &run, &plan, (&over, began.elapsed()), printer));
            tracing.finish(code.as_ref().ok().copied(), signals, printer).await;
            if let Some(mut view) = view {
                while view.finish(watch.is_some(), signals, printer).await {
                    code = rerun_lost(args, extensions, &run, &mut view, signals, printer).await;
                }
                match &mut watch {
                    Some(watch) => watch.view = Some(view.idle()),
                    None => view.close(),
                }
            }
            if let (Some(watch), Ok(code)) = (watch, &code) {
                watch.ran(&plan, *code);
            }
            code
        }
    }
}

/// Runs the trials of a run again that were lost to infrastructure failures, as a page requested.
async fn rerun_lost(
    args: &RunArgs,
    extensions: &Extensions,
    run: &RunDir,
    view: &mut super::view::BesideRun,
    signals: &mut Signals,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    let again = args.rerunning_lost(&run.id());
    printer.note(format_args!("rerunning the lost trials of {}", run.id()));
    match open(&again, extensions, &mut Tracing::off(), None, printer).await? {
        Preparation::Done(code) => Ok(code),
        Preparation::Run(open, setup, limits) => {
            let plan = open.plan.clone();
            let began = setup.pause.stopwatch();
            let over = work(&again, *open, &setup, &limits, signals, Some(view), printer).await?;
            finish(&again, run, &plan, (&over, began.elapsed()), printer)
        }
    }
}

/// The result of preparing a run.
enum Preparation {
    /// Nothing to run.
    Done(ExitCode),
    Run(Box<ActiveRun>, Box<RunContext>, ExecutionLimits),
}

/// Prepares everything up to the first trial.
async fn open(
    args: &RunArgs,
    extensions: &Extensions,
    tracing: &mut Tracing,
    mut watch: Option<&mut WatchState>,
    printer: &mut Printer,
) -> Result<Preparation, CliError> {
    let (settings, found) = load::settings(args.delete_workspace)?;
    if !load::show(found, args.strict, printer) {
        return Ok(Preparation::Done(ExitCode::Usage));
    }
    let mut env = agents::environment();
    env.extend(args.env.clone());
    let setup = RunContext::new(settings, env, extensions.clone());
    if !args.dry_run {
        *tracing = Tracing::start(&args.otel, &setup.settings, &setup.env, printer)?;
    }
    let jobs = args.jobs.map_or_else(jobs::default, usize::from);
    if let Some(config) = args.config() {
        let allowed = (args.allow_private_hosts, args.allow_path.as_slice());
        let root = setup.settings.workspace_dir();
        let config = super::import::as_suite(config, &root, printer)?;
        if args.watch && matches!(config, std::borrow::Cow::Owned(_)) {
            return Err(CliError::new(ErrorKind::Usage, "`--watch` needs case files of youBencha")
                .hint("convert the suite with `yb import`, and watch the result"));
        }
        let (suite, files) = load::suite_and_files(&config, allowed, &setup, args.strict, printer);
        if let Some(watch) = watch.as_deref_mut() {
            watch.loaded(suite.as_ref(), &files, &setup)?;
        }
        let Some(suite) = suite else { return Ok(Preparation::Done(ExitCode::Usage)) };
        let mut options = PlanOptions::of(&suite);
        options.allow_private_hosts = args.allow_private_hosts;
        // Absolute, because a resumed run keeps them.
        options.allow_paths =
            args.allow_path.iter().filter_map(|path| std::path::absolute(path).ok()).collect();
        options.delete_workspace = args.delete_workspace;
        apply(args, &mut options)?;
        let selection = Selection::new(args.repeat, args.filter.clone());
        let mut ready =
            setup.prepare(&suite, &selection, &options).await.map_err(|e| refused(args, e, printer))?;
        let rerun_of = match watch {
            Some(watch) => match watch.select(&mut ready, printer) {
                WatchSelection::All => None,
                WatchSelection::RerunOf(run) => Some(run),
                WatchSelection::Nothing(code) => return Ok(Preparation::Done(code)),
            },
            None => None,
        };
        return begin(args, setup, ready, options, jobs, rerun_of, printer).await;
    }
    let (run, rerun) = find_earlier_run(args, &setup.settings)?;
    let plan = Plan::read(&run.plan())?;
    let changed = plan.changed_files();
    if !changed.is_empty() && rerun != Some(RerunKind::Failed) {
        return Err(RunError::Changed { run: run.id(), files: changed }.into());
    }
    let private = plan.options.allow_private_hosts || args.allow_private_hosts;
    let paths = [plan.options.allow_paths.as_slice(), args.allow_path.as_slice()].concat();
    let Some(suite) = load::suite(&plan.config, (private, &paths), &setup, args.strict, printer) else {
        return Ok(Preparation::Done(ExitCode::Usage));
    };
    let mut options = plan.options.clone();
    apply(args, &mut options)?;
    if rerun == Some(RerunKind::Failed) {
        let unchanged = match changed.is_empty() {
            true => setup.rerun_failed(&run, &plan, &suite).await,
            false => Err(RunError::Changed { run: run.id(), files: changed }),
        };
        let ready = match unchanged {
            Err(RunError::Changed { .. }) => {
                let found = setup.rerun_edited(&run, &plan, &suite).await;
                let (ready, edited) = found.map_err(|e| refused(args, e, printer))?;
                printer.note(edited_note(&run.id(), &edited));
                ready
            }
            other => other.map_err(|e| refused(args, e, printer))?,
        };
        return begin(args, setup, ready, options, jobs, Some(run.id()), printer).await;
    }
    if args.dry_run {
        let info = run::RunInfo::read(run)?;
        dry_run::show(args, &PlannedRun::of_pending(&info, options.max_cost_usd, jobs), printer);
        return Ok(Preparation::Done(ExitCode::Passed));
    }
    workspace::end_leftovers(run.root(), &setup.settings, printer);
    let lost = rerun == Some(RerunKind::Infra);
    yb_engine::gates::check(&options.gates, run.root())?;
    let mut open =
        setup.resume(run, plan, &suite, lost, jobs).await.map_err(|e| refused(args, e, printer))?;
    open.plan.options.gates.clone_from(&options.gates);
    Ok(Preparation::Run(Box::new(open), Box::new(setup), limits(args, &options)))
}

fn limits(args: &RunArgs, options: &PlanOptions) -> ExecutionLimits {
    let mut limits = ExecutionLimits::from_options(options);
    limits.check_untouched = !args.no_check;
    limits
}

async fn begin(
    args: &RunArgs,
    setup: RunContext,
    ready: PreparedRun,
    options: PlanOptions,
    jobs: usize,
    rerun_of: Option<String>,
    printer: &mut Printer,
) -> Result<Preparation, CliError> {
    if args.dry_run {
        dry_run::show(args, &PlannedRun::of(&ready, options.max_cost_usd, jobs), printer);
        return Ok(Preparation::Done(ExitCode::Passed));
    }
    workspace::end_leftovers(&ready.root, &setup.settings, printer);
    let jobs = jobs.min(ready.trials().count());
    let limits = limits(args, &options);
    let open = ready.start(options, jobs, rerun_of).await?;
    Ok(Preparation::Run(Box::new(open), Box::new(setup), limits))
}

/// Applies the options of the command line, which override the file.
fn apply(args: &RunArgs, options: &mut PlanOptions) -> Result<(), CliError> {
    options.retries = args.retries.unwrap_or(options.retries);
    options.max_cost_usd = args.max_cost.or(options.max_cost_usd);
    options.isolation = args.isolation.or(options.isolation);
    options.gates = gates(std::mem::take(&mut options.gates), &args.gates)?;
    options.network = args.network.or(options.network);
    options.steps |= args.steps;
    tapes(args, &mut options.tape)?;
    for (name, limit) in &args.limit {
        options.limits.set(name, *limit);
    }
    Ok(())
}

/// Applies the tape options. Paths are absolute, because a resumed run keeps them.
fn tapes(args: &RunArgs, options: &mut TapeOptions) -> Result<(), CliError> {
    let whole = |path: &Option<PathBuf>| {
        path.as_ref().map(std::path::absolute).transpose().map_err(CliError::failed_to("find the tapes"))
    };
    options.record = whole(&args.record)?.or(options.record.take());
    options.replay = whole(&args.replay)?.or(options.replay.take());
    options.full_requests |= args.full_requests;
    if args.lenient {
        options.mode = Some(TapeMode::Lenient);
    }
    if args.exact {
        options.mode = Some(TapeMode::Exact);
    }
    options.speed = args.speed.or(options.speed);
    options.faults.extend(args.faults.iter().cloned());
    if let Some(step) = args.fork {
        options.fork = Some(ForkAt::new(step, args.model.clone()));
    }
    Ok(())
}

/// Merges gates with those of the command line.
pub(super) fn gates(gates: Gates, settings: &[GateOverride]) -> Result<Gates, CliError> {
    gates.with(settings).map_err(|reason| CliError::new(ErrorKind::Usage, reason))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RerunKind {
    Failed,
    Infra,
}

/// Says what a rerun of an edited suite runs.
fn edited_note(run: &str, edited: &BTreeSet<String>) -> String {
    let cases = edited.iter().map(|case| format!("`{case}`")).collect::<Vec<_>>().join(", ");
    match edited.len() {
        0 => format!("note: files changed since {run}, but no case; rerunning the failed trials"),
        _ => format!("note: edited since {run}: {cases}; rerunning all their trials, and those that failed"),
    }
}

/// Finds the run to resume or to rerun.
fn find_earlier_run(args: &RunArgs, settings: &Settings) -> Result<(RunDir, Option<RerunKind>), CliError> {
    let root = std::path::absolute(settings.workspace_dir())
        .map_err(CliError::failed_to("find the workspace directory"))?;
    match (&args.resume, args.rerun.as_deref()) {
        (Some(Some(name)), _) => Ok((run::find_run(&root, name)?, None)),
        (_, Some([which, name])) => {
            let kind = match which.as_str() {
                "failed" => RerunKind::Failed,
                "infra" => RerunKind::Infra,
                other => {
                    return Err(CliError::new(
                        ErrorKind::Usage,
                        format!("expected `failed` or `infra` after `--rerun`: `{other}`"),
                    )
                    .hint("example: `yb run --rerun failed latest`"));
                }
            };
            Ok((run::find_run(&root, name)?, Some(kind)))
        }
        _ => Ok((run::newest_unfinished(&root)?, None)),
    }
}

/// Executes the trials and handles signals.
async fn work(
    args: &RunArgs,
    open: ActiveRun,
    setup: &RunContext,
    limits: &ExecutionLimits,
    signals: &mut Signals,
    mut view: Option<&mut super::view::BesideRun>,
    printer: &mut Printer,
) -> Result<RunOutcome, CliError> {
    let followed = FollowedRun { dir: open.run.clone(), pause: setup.pause.clone() };
    let reporter: Box<dyn Reporter> = if args.quiet {
        Box::new(QuietReporter)
    } else if args.json {
        Box::new(JsonReporter)
    } else if printer.can_redraw() {
        Box::new(LiveReporter::new(&open.plan, &open.state, followed))
    } else {
        Box::new(LineReporter::new(&open.plan, open.state.tally().done, followed))
    };
    let screen = Screen::new(reporter, printer);
    let mut ticks = tokio::time::interval(Screen::TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (control_sender, mut control) = mpsc::channel(8);
    let observer = view.as_ref().map(|view| view.controls());
    let mut on_event = |event: RunnerEvent<'_>| {
        if let Some(observer) = &observer {
            observer.observe(&event);
        }
        screen.handle(&event);
    };
    let working = open.execute(limits, &mut control, &mut on_event);
    tokio::pin!(working);
    let mut interrupted = false;
    loop {
        tokio::select! {
            over = &mut working => return over.map_err(CliError::from),
            request = signals.next() => match request {
                SignalRequest::Interrupt if !interrupted => {
                    interrupted = true;
                    let _ = control_sender.send(Control::Drain).await;
                }
                SignalRequest::Interrupt | SignalRequest::Terminate => {
                    let _ = control_sender.send(Control::Kill).await;
                }
                SignalRequest::Suspend => {
                    setup.pause.pause();
                    let _ = tokio::time::timeout(SUSPEND_TIMEOUT, setup.pause.wait_until_idle()).await;
                    screen.clear();
                    suspend_process();
                    setup.pause.resume();
                }
            },
            action = requested(&mut view) => match action {
                RunAction::LetFinish => {
                    interrupted = true;
                    let _ = control_sender.send(Control::Drain).await;
                }
                RunAction::Stop => {
                    let _ = control_sender.send(Control::Kill).await;
                }
                RunAction::RerunLost => {
                    if let Some(view) = &mut view {
                        view.rerun_lost = true;
                    }
                }
                _ => {}
            },
            _ = ticks.tick() => screen.tick(),
        }
    }
}

/// Waits for a request of a page; never returns without pages.
async fn requested(view: &mut Option<&mut super::view::BesideRun>) -> RunAction {
    match view {
        Some(view) => view.next_request().await,
        None => std::future::pending().await,
    }
}

fn finish(
    args: &RunArgs,
    run: &RunDir,
    plan: &Plan,
    (over, elapsed): (&RunOutcome, Duration),
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    let code = summary::exit_code(over);
    if args.json {
        summary::json(run, over, code, printer);
    } else {
        report::summary::show(run, plan, &over.state, elapsed, printer);
        if let Some(report) = &over.gates {
            report::gates::show(report, printer);
        }
    }
    if let Some(mistake) = &over.config_error {
        printer.error(&CliError::from(mistake));
    }
    Ok(code)
}

/// Prints several problems one by one; the returned error has their number.
fn refused(args: &RunArgs, error: RunError, printer: &mut Printer) -> CliError {
    if let (true, RunError::Refused { problems }) = (args.json, &error) {
        for PreflightProblem { affected, error, code, .. } in problems {
            printer.json(&json!({
                "v": JSON_VERSION,
                "event": "refused",
                "trials": affected,
                "code": code,
                "error": error.to_string(),
                "hints": error.hints(),
            }));
        }
    }
    if let RunError::Refused { problems } = &error
        && problems.len() > 1
    {
        for PreflightProblem { affected: of, error, .. } in problems {
            let edge = CliError::from(error);
            let of = of.join(", ");
            let text = format!("{of}: {}", edge.message());
            printer
                .error(&edge.hints().iter().fold(CliError::new(edge.kind(), text), |e, hint| e.hint(hint)));
        }
    }
    error.into()
}

impl From<&TrialError> for CliError {
    fn from(error: &TrialError) -> Self {
        let kind = match error {
            TrialError::Unavailable { .. } => ErrorKind::Agent,
            error if error.is_configuration() => ErrorKind::Usage,
            _ => ErrorKind::Infrastructure,
        };
        error.hints().into_iter().fold(Self::new(kind, error.to_string()), Self::hint)
    }
}

impl From<RunError> for CliError {
    fn from(error: RunError) -> Self {
        let kind = match &error {
            RunError::Refused { problems } => {
                let codes = problems.iter().map(|problem| Self::from(&problem.error).exit_code());
                match ExitCode::strongest(codes) {
                    ExitCode::Usage => ErrorKind::Usage,
                    ExitCode::Agent => ErrorKind::Agent,
                    _ => ErrorKind::Infrastructure,
                }
            }
            RunError::Io { .. }
            | RunError::Journal(_)
            | RunError::Damaged { .. }
            | RunError::Modified { .. }
            | RunError::Baseline(BaselineError::Modified { .. })
            | RunError::DiskFull { .. }
            | RunError::Checkout(_) => ErrorKind::Infrastructure,
            _ => ErrorKind::Usage,
        };
        error.hints().into_iter().fold(Self::new(kind, error.to_string()), Self::hint)
    }
}
