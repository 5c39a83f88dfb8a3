//! `yb demo`: writes an example project and runs `yb run`, replay and `yb report` in it.

mod agent;
mod folder;

use std::path::Path;

use yb_engine::Extensions;
use yb_engine::run::{RunResults, find_run};

use crate::args::{self, DemoArgs};
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;

/// The commands of the demo, to be repeated by the user.
const RUN: [&str; 4] = ["run", "suite.yaml", "--record", "tapes"];
const REPLAY: [&str; 4] = ["run", "suite.yaml", "--replay", "tapes"];
const REPORT: [&str; 5] = ["report", "--format", "html", "--output", "report.html"];
/// The default workspace directory, independent of the settings of the user.
const WORKSPACE: &str = ".youbencha-workspace";

pub(super) fn run(
    args: &DemoArgs,
    extensions: &Extensions,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    let Some(agent) = agent::choose(args, printer)? else { return Ok(ExitCode::Interrupted) };
    let folder = folder::make(args.dir.as_deref(), &agent)?;
    // From here on, the demo runs the commands that a user would type in that directory.
    std::env::set_current_dir(&folder).map_err(CliError::failed_to("change to the demo directory"))?;
    printer.line("1. Create a repository with a failing test, two prompt variants and a scripted model");
    printer.line(format_args!("   {}", folder.display()));
    printer.line(format_args!("   agent: {}", agent.describe()));

    printer.line("\n2. Run, record and grade both variants; one fails a hidden test");
    let code = run_command(&RUN, extensions, printer)?;
    if code != ExitCode::Passed {
        return Ok(code);
    }
    let recorded = results(&folder)?;

    printer.line("\n3. Replay from the tapes: the agent and its tools are real, no API is called");
    let code = run_command(&REPLAY, extensions, printer)?;
    if code != ExitCode::Passed {
        return Ok(code);
    }
    let replayed = results(&folder)?;
    let same = count_identical(&recorded, &replayed);
    printer.line(format_args!(
        "   {same} of {} trials ended with identical files and verdicts",
        recorded.trials.len()
    ));

    printer.line("\n4. Write a report");
    let code = run_command(&REPORT, extensions, printer)?;
    if code != ExitCode::Passed {
        return Ok(code);
    }
    printer.line(format_args!("   open file://{}", folder.join("report.html").display()));

    printer.line("\nNext steps:");
    printer.line(format_args!("  cd {}", folder.display()));
    for line in [
        "cat suite.yaml model.yaml",
        "yb show latest greeting--careful--1 --transcript",
        "yb tape show tapes/greeting--careful--1.tape",
    ] {
        printer.line(format_args!("  {line}"));
    }
    printer.line(format_args!("  yb {}", REPLAY.join(" ")));
    Ok(if same == recorded.trials.len() { ExitCode::Passed } else { ExitCode::Failed })
}

/// Runs `yb` with these arguments.
fn run_command(words: &[&str], extensions: &Extensions, printer: &mut Printer) -> Result<ExitCode, CliError> {
    printer.line(format_args!("   $ yb {}", words.join(" ")));
    let args = args::parse_from(std::iter::once("yb").chain(words.iter().copied()))
        .map_err(|error| CliError::new(ErrorKind::Usage, error.to_string()))?;
    super::run(&args, extensions, printer)
}

/// Reads the results of the newest run.
fn results(folder: &Path) -> Result<RunResults, CliError> {
    let run = find_run(&folder.join(WORKSPACE), "latest")?;
    Ok(RunResults::read(&run.path().join("results.json"))?)
}

/// Counts the trials with equal outcomes and end trees.
fn count_identical(one: &RunResults, other: &RunResults) -> usize {
    let pairs = one.trials.iter().zip(&other.trials);
    let end = |trial: &yb_engine::run::TrialResults| trial.result().and_then(|result| result.trees.clone());
    pairs
        .filter(|(one, other)| one.outcome == other.outcome && end(one).is_some() && end(one) == end(other))
        .count()
}
