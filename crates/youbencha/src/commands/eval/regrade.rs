//! `yb eval --from`: re-grades a recorded run and shows what changed.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use yb_engine::case::is_eval_file;
use yb_engine::evaluate::EvaluatorStatus;
use yb_engine::outcome::{Outcome, PassCredit};
use yb_engine::run::{
    self, GraderSource, Grading, RegradeOptions, RegradedTrial, RunContext, RunInfo, StopReason,
};
use yb_figures::{money, plural};

use super::super::run::{jobs, load, summary};
use super::eval_file;
use crate::args::EvalArgs;
use crate::error::CliError;
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::table::Table;
use crate::tracing::{GradingTrace, Tracing};
use crate::workspace::{self, display_path};

/// The maximum number of listed trials.
const LISTED: usize = 20;

pub(super) async fn run(
    args: &EvalArgs,
    name: &str,
    setup: &RunContext,
    tracing: &Tracing,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    let root = std::path::absolute(setup.settings.workspace_dir())
        .map_err(CliError::failed_to("find the workspace directory"))?;
    let mut info = RunInfo::read(run::find_run(&root, name)?)?;
    workspace::end_leftovers(info.run.root(), &setup.settings, printer);
    let file = args.config().cloned().unwrap_or_else(|| info.plan.config.clone());
    let file = file.as_path();
    let jobs = args.jobs.map_or_else(jobs::default, usize::from);
    let trace = tracing.grading(&info.plan.name);
    let mut how = RegradeOptions::new(args.failed_only, jobs, args.max_cost);
    how.trace = trace.as_ref().map(GradingTrace::node);
    info.plan.options.isolation = args.isolation.or(info.plan.options.isolation);
    let grading = if is_eval_file(file) {
        let Some(eval) = eval_file(args, file, setup, printer) else { return Ok(ExitCode::Usage) };
        grade(args, &info, setup, GraderSource::File(&eval), &how, printer).await?
    } else {
        let allowed = (info.plan.options.allow_private_hosts, info.plan.options.allow_paths.as_slice());
        let Some(suite) = load::suite(file, allowed, setup, args.strict, printer) else {
            return Ok(ExitCode::Usage);
        };
        grade(args, &info, setup, GraderSource::Suite(&suite), &how, printer).await?
    };
    if let Some(trace) = trace {
        trace.end(grading.trials.iter().map(|trial| trial.after));
    }
    let code = exit_code(&grading);
    if args.json {
        printer.pretty_json(&as_json(&info, &grading, code));
    } else {
        show(&info, &grading, printer);
    }
    Ok(code)
}

/// Grades with progress: a redrawn status line, or a few lines.
async fn grade(
    args: &EvalArgs,
    info: &RunInfo,
    setup: &RunContext,
    graders: GraderSource<'_>,
    how: &RegradeOptions,
    printer: &mut Printer,
) -> Result<Grading, CliError> {
    let live = printer.can_redraw() && !args.quiet;
    let mut drawn = std::time::Instant::now();
    let mut on_progress = |one: &RegradedTrial, done: usize, total: usize| {
        if args.quiet {
            return;
        }
        if live {
            if drawn.elapsed().as_millis() > 100 || done == total {
                drawn = std::time::Instant::now();
                printer.set_status_lines(vec![format!("grading {done}/{total}: {}", one.trial).into()]);
            }
        } else if done == total || done.is_multiple_of((total / 10).max(1)) {
            printer.note(format_args!("[{done}/{total}] graded"));
        }
    };
    let graded = setup.regrade(info, graders, how, &mut on_progress).await;
    if live {
        printer.clear_status_lines();
    }
    Ok(graded?)
}

fn exit_code(grading: &Grading) -> ExitCode {
    let outcomes = grading.state.trials().filter_map(|(_, trial)| trial.result());
    let codes = outcomes.map(|result| summary::of(result.outcome));
    let stopped = matches!(grading.stopped, Some(StopReason::Budget)).then_some(ExitCode::Inconclusive);
    ExitCode::strongest(codes.chain(stopped))
}

#[derive(Default)]
struct Row {
    before: usize,
    after: usize,
    graded: usize,
    left_out: usize,
    usd: Option<f64>,
}

fn show(info: &RunInfo, grading: &Grading, printer: &mut Printer) {
    let mut order: Vec<(&str, &str)> = Vec::new();
    let mut rows: BTreeMap<usize, Row> = BTreeMap::new();
    for one in &grading.trials {
        let Some(trial) = info.plan.trials.iter().find(|trial| trial.folder == one.trial) else { continue };
        let name = (trial.case.as_str(), trial.variant.as_str());
        let place = order.iter().position(|known| *known == name).unwrap_or_else(|| {
            order.push(name);
            order.len() - 1
        });
        let row = rows.entry(place).or_default();
        row.graded += 1;
        row.before += usize::from(one.before == Outcome::Passed);
        match one.after.pass_credit() {
            PassCredit::One => row.after += 1,
            PassCredit::Zero => {}
            _ => row.left_out += 1,
        }
        if let Some(usd) = one.judge_usd {
            row.usd = Some(row.usd.unwrap_or(0.0) + usd);
        }
    }
    let mut table = Table::new(&["case", "variant", "passed before", "passed now", "excluded", "judge cost"]);
    for ((case, variant), row) in order.iter().zip(rows.values()) {
        let some = |count: usize| if count == 0 { String::new() } else { count.to_string() };
        table.row(vec![
            (*case).to_owned(),
            (*variant).to_owned(),
            format!("{}/{}", row.before, row.graded),
            format!("{}/{}", row.after, row.graded),
            some(row.left_out),
            row.usd.map(money).unwrap_or_default(),
        ]);
    }
    printer.text(&table.to_string());
    let changed: Vec<&RegradedTrial> = grading.trials.iter().filter(|one| one.before != one.after).collect();
    for one in changed.iter().take(LISTED) {
        let failed = one.evaluators.iter().filter(|graded| graded.status != EvaluatorStatus::Passed);
        let failed: Vec<&str> = failed.map(|graded| graded.name.as_str()).collect();
        let why = match &one.error {
            Some(why) => format!(": {why}"),
            None if failed.is_empty() => String::new(),
            None => format!(": {}", failed.join(", ")),
        };
        printer.line(format_args!("{}: {} → {}{why}", one.trial, one.before, one.after));
    }
    if changed.len() > LISTED {
        printer.line(format_args!("and {} more; `--json` lists all", changed.len() - LISTED));
    }
    let stopped = if grading.stopped.is_some() { "; stopped: budget exhausted" } else { "" };
    printer.line(format_args!(
        "{} re-graded, {} changed{stopped}",
        plural(grading.trials.len(), "trial"),
        changed.len()
    ));
    printer.line(format_args!("  grading: {}", display_path(&grading.path)));
}

fn as_json(info: &RunInfo, grading: &Grading, code: ExitCode) -> Value {
    let trials: Vec<Value> = grading
        .trials
        .iter()
        .map(|one| {
            json!({
                "trial": one.trial,
                "before": one.before,
                "outcome": one.after,
                "evaluators": one.evaluators,
                "judge_usd": one.judge_usd,
                "error": one.error,
            })
        })
        .collect();
    json!({
        "run": info.run.id(),
        "grading": grading.id,
        "directory": grading.path,
        "outcomes": grading.state.tally().outcomes,
        "stopped": grading.stopped,
        "trials": trials,
        "exit_code": code.code(),
    })
}
