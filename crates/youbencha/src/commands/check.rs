//! `yb check`: proves cases without an agent: the start tree must fail, the reference solution must pass.

use serde_json::json;
use yb_engine::Extensions;
use yb_engine::check::{CaseCheck, CheckOptions, Proof, SideCheck};
use yb_engine::evaluate::EvaluatorStatus;
use yb_engine::outcome::Outcome;
use yb_engine::run::{PlanOptions, RunContext, Selection};
use yb_engine::trial::TrialError;
use yb_figures::plural;

use super::run::{jobs, load};
use crate::agents;
use crate::args::CheckArgs;
use crate::error::CliError;
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::report::JSON_VERSION;
use crate::signals::Signals;
use crate::table::Table;
use crate::workspace::{self, display_path};

pub(super) fn run(
    args: &CheckArgs,
    extensions: &Extensions,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(CliError::failed_to("start"))?;
    runtime.block_on(async {
        let mut signals = Signals::listen().map_err(CliError::failed_to("listen for signals"))?;
        tokio::select! {
            done = check(args, extensions, printer) => done,
            // Dropping the future kills the processes of evaluators.
            () = signals.stop() => Ok(ExitCode::Interrupted),
        }
    })
}

async fn check(
    args: &CheckArgs,
    extensions: &Extensions,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    let (settings, found) = load::settings(false)?;
    if !load::show(found, args.strict, printer) {
        return Ok(ExitCode::Usage);
    }
    let setup = RunContext::new(settings, agents::environment(), extensions.clone());
    let allowed = (args.allow_private_hosts, args.allow_path.as_slice());
    let Some(suite) = load::suite(&args.file, allowed, &setup, args.strict, printer) else {
        return Ok(ExitCode::Usage);
    };
    workspace::end_leftovers(&setup.root(&suite)?, &setup.settings, printer);
    let mut plan = PlanOptions::of(&suite);
    plan.allow_private_hosts = args.allow_private_hosts;
    plan.isolation = args.isolation.or(plan.isolation);
    let jobs = args.jobs.map_or_else(jobs::default, usize::from);
    let mut options = CheckOptions::new(args.repeat, jobs);
    (options.judges, options.fresh) = (args.judges, args.no_cache);
    let mut done: Vec<(usize, Result<CaseCheck, TrialError>)> = Vec::new();
    let selection = Selection::new(None, args.filter.clone());
    setup.check(&suite, &selection, &plan, &options, &mut |at, result| done.push((at, result))).await?;
    done.sort_by_key(|(at, _)| *at);
    let mut codes = Vec::new();
    let mut checks = Vec::new();
    for (_, result) in done {
        match result {
            Ok(check) => {
                codes.push(exit_code(check.proof));
                checks.push(check);
            }
            Err(error) => {
                let error = CliError::from(&error);
                codes.push(error.exit_code());
                printer.error(&error);
            }
        }
    }
    let code = ExitCode::strongest(codes);
    if args.json {
        printer.pretty_json(&json!({ "v": JSON_VERSION, "cases": checks, "exit_code": code.code() }));
    } else {
        show(&checks, printer);
    }
    Ok(code)
}

fn exit_code(proof: Proof) -> ExitCode {
    match proof {
        Proof::Proven => ExitCode::Passed,
        Proof::PassesUntouched | Proof::SolutionFails | Proof::Flaky => ExitCode::Failed,
        _ => ExitCode::Inconclusive,
    }
}

/// Returns the name of a check: that of the case, with its variants if they are checked one by one.
fn label(check: &CaseCheck) -> String {
    match check.variants.as_slice() {
        [] => check.case.clone(),
        variants => format!("{} / {}", check.case, variants.join(", ")),
    }
}

fn show(checks: &[CaseCheck], printer: &mut Printer) {
    let mut table = Table::new(&["case", "nop", "oracle", "flaky", "result"]);
    for check in checks {
        let sides = [Some(&check.nop), check.oracle.as_ref()];
        let mut flaky: Vec<&str> = sides.into_iter().flatten().flat_map(SideCheck::flaky).collect();
        flaky.dedup();
        let cached = sides.into_iter().flatten().all(|side| side.cached);
        let result = format!("{}{}", check.proof.as_str(), if cached { " (cached)" } else { "" });
        let oracle = check.oracle.as_ref().map(counts).unwrap_or_default();
        table.row(vec![label(check), counts(&check.nop), oracle, flaky.join(", "), result]);
    }
    if !checks.is_empty() {
        printer.text(&table.to_string());
    }
    for check in checks {
        explain(check, printer);
    }
    let proven = checks.iter().filter(|check| check.proof == Proof::Proven).count();
    let noun = if checks.iter().all(|check| check.variants.is_empty()) { "case" } else { "check" };
    printer.line(format_args!("{} of {} proven", proven, plural(checks.len(), noun)));
}

/// Returns the outcomes with their numbers, such as `failed 3/3`.
fn counts(side: &SideCheck) -> String {
    let mut seen: Vec<Outcome> = side.outcomes.clone();
    seen.sort_unstable();
    seen.dedup();
    let count = |outcome: &Outcome| side.outcomes.iter().filter(|other| *other == outcome).count();
    let all = side.outcomes.len();
    let each: Vec<String> = seen.iter().map(|one| format!("{one} {}/{all}", count(one))).collect();
    each.join(", ")
}

/// Prints why a case is not proven, and what was left out.
fn explain(check: &CaseCheck, printer: &mut Printer) {
    let side = |name: &str, side: &SideCheck, wanted: EvaluatorStatus, printer: &mut Printer| {
        if let Some(error) = &side.error {
            printer.line(format_args!("{}: {name}: {error}", label(check)));
        }
        for one in side.evaluators.iter().filter(|one| one.statuses.iter().any(|status| *status != wanted)) {
            printer.line(format_args!("{}: {name}: {}: {}", label(check), one.name, one.message));
        }
    };
    match check.proof {
        Proof::Proven => {}
        // An agent that does nothing fails if a single evaluator fails it: all of them passed.
        Proof::PassesUntouched => side("nop", &check.nop, EvaluatorStatus::Failed, printer),
        Proof::NoSolution => {
            printer.note("hint: add a reference solution: `solution: { patch: FILE }`, or `directory`, `branch`, `command`");
        }
        _ => {
            if check.nop.outcome() != Some(Outcome::Failed) {
                side("nop", &check.nop, EvaluatorStatus::Failed, printer);
            }
            if let Some(oracle) = &check.oracle {
                side("oracle", oracle, EvaluatorStatus::Passed, printer);
            }
        }
    }
    for one in &check.left_out {
        let which = if one.nop { "" } else { "oracle: " };
        printer.note(format_args!("{}: {which}left out: `{}`: {}", label(check), one.name, one.reason));
    }
    if let Some(path) = &check.artifacts {
        printer.note(format_args!("{}: artifacts: {}", label(check), display_path(path)));
    }
}
