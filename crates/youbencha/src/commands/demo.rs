//! `yb demo`: everything once, on a machine that has nothing yet. It writes files and then does what anybody could type.

mod agent;
mod folder;

use std::path::Path;

use clap::Parser as _;
use yb_engine::Extensions;
use yb_engine::run::{RunResults, find_run};

use crate::args::{Args, DemoArgs};
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;

/// What is done, as it can be typed again in the folder.
const RUN: [&str; 5] = ["run", "-c", "suite.yaml", "--record", "tapes"];
const REPLAY: [&str; 5] = ["run", "-c", "suite.yaml", "--replay", "tapes"];
const REPORT: [&str; 5] = ["report", "--format", "html", "--output", "report.html"];
/// Where the engine keeps its runs; said once more, so that no setting of the user's leads elsewhere.
const WORKSPACE: &str = ".youbencha-workspace";

pub(super) fn run(
    args: &DemoArgs,
    extensions: &Extensions,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    let Some(agent) = agent::choose(args, printer)? else { return Ok(ExitCode::Interrupted) };
    let folder = folder::make(args.dir.as_deref(), &agent)?;
    // From here on this is what a user would do in that folder.
    std::env::set_current_dir(&folder).map_err(CliError::failed_to("go to the demo's folder"))?;
    printer.line("1. A repository with a failing test, two ways to ask for help, and a scripted model");
    printer.line(format_args!("   {}", folder.display()));
    printer.line(format_args!("   agent: {}", agent.told()));

    printer.line("\n2. Both variants run, are recorded and graded: one forgets what a hidden test asks for");
    let code = typed(&RUN, extensions, printer)?;
    if code != ExitCode::Passed {
        return Ok(code);
    }
    let recorded = results(&folder)?;

    printer.line(
        "\n3. The same again from the tapes: the agent and its tools are real, the model is asked nothing",
    );
    let code = typed(&REPLAY, extensions, printer)?;
    if code != ExitCode::Passed {
        return Ok(code);
    }
    let replayed = results(&folder)?;
    let same = same(&recorded, &replayed);
    printer.line(format_args!(
        "   {same} of {} trials came to the same files and the same verdicts",
        recorded.trials.len()
    ));

    printer.line("\n4. A report");
    let code = typed(&REPORT, extensions, printer)?;
    if code != ExitCode::Passed {
        return Ok(code);
    }
    printer.line(format_args!("   open it: file://{}", folder.join("report.html").display()));

    printer.line("\nLook around, and do it again by hand:");
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

/// Does what `yb` with these arguments does.
fn typed(words: &[&str], extensions: &Extensions, printer: &mut Printer) -> Result<ExitCode, CliError> {
    printer.line(format_args!("   $ yb {}", words.join(" ")));
    let args = Args::try_parse_from(std::iter::once("yb").chain(words.iter().copied()))
        .map_err(|error| CliError::new(ErrorKind::Usage, error.to_string()))?;
    super::run(&args, extensions, printer)
}

/// What the newest run came to.
fn results(folder: &Path) -> Result<RunResults, CliError> {
    let run = find_run(&folder.join(WORKSPACE), "latest")?;
    Ok(RunResults::read(&run.path().join("results.json"))?)
}

/// How many trials left the same tree and came to the same.
fn same(one: &RunResults, other: &RunResults) -> usize {
    let pairs = one.trials.iter().zip(&other.trials);
    let end = |trial: &yb_engine::run::TrialResults| trial.result().and_then(|result| result.trees.clone());
    pairs
        .filter(|(one, other)| one.outcome == other.outcome && end(one).is_some() && end(one) == end(other))
        .count()
}
