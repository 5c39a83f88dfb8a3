//! What can be typed after `yb`.

mod compare;
mod config;
mod eval;
mod examples;
mod look;
mod otel;
mod prompt;
mod report;
mod runs;
mod setup;
mod suggest;
mod tape;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use yb_tape::Vars;

use crate::exit_code::ExitCode;

pub(crate) use compare::{BaselineCommand, CompareArgs, GateArgs, IndexCommand};
pub(crate) use config::{
    ConfigCommand, ConfigGetArgs, ConfigInitArgs, ConfigListArgs, ConfigSetArgs, ConfigUnsetArgs,
};
pub(crate) use eval::EvalArgs;
pub(crate) use look::{DoctorArgs, ListArgs, ListKind};
pub(crate) use otel::OtelArgs;
pub(crate) use prompt::{
    FilledArgs, PromptCommand, PromptRenderArgs, PromptRunArgs, PromptTestArgs, QueryArgs,
};
pub(crate) use report::{ReportArgs, ReportFormat};
pub(crate) use runs::{CleanArgs, RunArgs, ShowArgs};
pub(crate) use setup::{CompletionsArgs, InitArgs, InstallAgentsArgs, ManArgs};
pub(crate) use suggest::SuggestArgs;
pub(crate) use tape::{Api, RecordArgs, TapeDiffArgs, TapeRedactArgs, TapeShowArgs, TapeVerifyArgs};

/// Run, replay, grade and trace coding agents.
// Without a command it is a usage error that shows the help: an empty variable in a CI job must not pass.
#[derive(Debug, Parser)]
#[command(name = "yb", bin_name = "yb", version, arg_required_else_help = true)]
#[command(after_long_help = ExitCode::table())]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Ask Claude Code one question
    ///
    /// The answer goes to stdout while it is written, what it cost to stderr. Uses your own login.
    #[command(after_long_help = examples::ASK)]
    Ask(AskArgs),

    /// Keep a run's results under a name, to compare later runs with
    #[command(subcommand, arg_required_else_help = true, after_long_help = examples::BASELINE)]
    Baseline(BaselineCommand),

    /// Remove runs that nobody needs any more
    ///
    /// Shows what would go, and how large it is; only `--yes` removes it. A run that is being worked on is never
    /// removed, one that is unfinished only by its name or with `--all`.
    #[command(after_long_help = examples::CLEAN)]
    Clean(CleanArgs),

    /// Compare two runs case by case, and tell whether it got worse
    ///
    /// Exits with 0 when the pass rate is not lower by more than the tolerance, with 1 when it is, and with 5 when nobody can
    /// tell yet. docs/concepts/statistics.md explains how that is decided.
    #[command(after_long_help = examples::COMPARE)]
    Compare(CompareArgs),

    /// Print a script that completes commands and options in a shell
    #[command(after_long_help = examples::COMPLETIONS)]
    Completions(CompletionsArgs),

    /// Show and change settings
    #[command(subcommand, arg_required_else_help = true, after_long_help = examples::CONFIG)]
    Config(ConfigCommand),

    /// See Claude Code be recorded, replayed and graded, offline and for nothing
    ///
    /// Makes a folder with a repository, a suite of two variants and a scripted model, runs the suite, replays it, and writes a report. Claude
    /// Code is installed with npm into a private directory the first time, about 350 MB; without npm, or with `--no-download`, a scripted agent
    /// that is built in takes its place.
    #[command(after_long_help = examples::DEMO)]
    Demo(DemoArgs),

    /// Check what running cases needs: git, agents, containment, disk, memory
    ///
    /// Nothing is changed, no model is asked, and no credential is read. Exits with 0 when nothing is a problem, with 3 when no
    /// agent can be used, with 4 when git or the machine is the problem.
    #[command(after_long_help = examples::DOCTOR)]
    Doctor(DoctorArgs),

    /// Ask again whether a run holds its gates
    ///
    /// Exits with 0 when every gate holds, with 1 when one does not, and with 5 when nobody can tell.
    #[command(after_long_help = examples::GATE)]
    Gate(GateArgs),

    /// The index over all runs of this project, a SQLite file
    #[command(subcommand, arg_required_else_help = true, after_long_help = examples::INDEX)]
    Index(IndexCommand),
    /// Grade a directory that is there, or grade a recorded run again
    ///
    /// With `-c` alone, the file names a directory and what grades it; results go to `.youbencha-eval`. With `--from`, the trials
    /// of a run are graded again, offline, from what was recorded: a new grading is kept in the run's `gradings`, and what the
    /// run said stays as it is. No agent runs; judges do.
    #[command(after_long_help = examples::EVAL)]
    Eval(EvalArgs),

    /// Write a case that runs at once, offline: `testcase.yaml` and a tiny project
    #[command(after_long_help = examples::INIT)]
    Init(InitArgs),

    /// Install the judge's definition for agents, or agents' programs
    ///
    /// Without `--cli` it writes `.github/agents/agentic-judge.md` and `.claude/agents/agentic-judge.md` into the working directory, and says of each file
    /// whether it was created, skipped or overwritten.
    #[command(after_long_help = examples::INSTALL_AGENTS)]
    InstallAgents(InstallAgentsArgs),

    /// List the agents and evaluators that a case may name, or the runs of this project
    #[command(after_long_help = examples::LIST)]
    List(ListArgs),

    /// Make manual pages
    // For those who package `yb`; described in docs/reference/commands.md.
    #[command(hide = true, after_long_help = examples::MAN)]
    Man(ManArgs),

    /// Fill in prompt files, ask with them, test them
    ///
    /// A prompt file says which model is asked and for what, and has messages with expressions, branches and loops in them;
    /// docs/guides/prompts.md has the format.
    #[command(subcommand, arg_required_else_help = true, after_long_help = examples::PROMPT)]
    Prompt(PromptCommand),

    /// Turn a run into a page, Markdown, JSON, CSV, JUnit or a pull request comment
    ///
    /// The same run gives the same bytes at any time. HTML is one file for up to 50 trials, otherwise a folder with a page for each; it
    /// needs no network.
    #[command(after_long_help = examples::REPORT)]
    Report(ReportArgs),

    /// Run cases: the agents, what they changed, and whether that holds
    ///
    /// Everything is kept below `.youbencha-workspace/runs`: each agent's log, its changes as a patch, the results, and
    /// a journal from which a run that was stopped goes on. Ctrl-C lets running trials end; a second one ends them.
    #[command(after_long_help = examples::RUN)]
    Run(RunArgs),

    /// Print the JSON Schema of case, suite or eval files, or of results
    #[command(after_long_help = examples::SCHEMA)]
    Schema(SchemaArgs),

    /// An agent that asks the Messages API at `ANTHROPIC_BASE_URL` on this machine and does what it answers
    // The program of a case's `command` agent in the demo, in tests and in benches.
    #[command(hide = true)]
    ScriptedAgent,

    /// Show a run or a trial: what it came to, what was said, what was changed
    ///
    /// Runs and trials go by the beginning of their names; `latest` is the newest run.
    #[command(after_long_help = examples::SHOW)]
    Show(ShowArgs),

    /// Let an agent propose a case, out of what an agent left
    ///
    /// The agent works in a copy of the directory. Its case is checked; if something is wrong with it, the agent is told and asked once more.
    /// Only a valid case is saved, and it is not run. Model and time come from the settings (`agent.model`, `agent.timeout_ms`).
    #[command(after_long_help = examples::SUGGEST)]
    SuggestTestcase(SuggestArgs),

    /// Stand in for an agent's model API: script, record, replay, look
    #[command(subcommand, arg_required_else_help = true, after_long_help = examples::TAPE)]
    Tape(TapeCommand),

    /// Check case and suite files and show everything that is wrong; nothing is started
    #[command(after_long_help = examples::VALIDATE)]
    Validate(ValidateArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct AskArgs {
    /// The question; without it, or with `-`, stdin
    pub(crate) prompt: Option<String>,

    /// Print one JSON object with text, model, tokens, cost, session and duration
    #[arg(long)]
    pub(crate) json: bool,

    /// Go on with an earlier session
    #[arg(long, value_name = "SESSION")]
    pub(crate) resume: Option<String>,

    /// The model, by name or alias
    #[arg(long)]
    pub(crate) model: Option<String>,

    /// Stop when the answer has cost this much
    #[arg(long, value_name = "USD")]
    pub(crate) max_budget_usd: Option<f64>,

    /// Stop after this many turns
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) max_turns: u32,

    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub(crate) timeout: u64,

    /// Tools that need no permission, such as `Bash,Edit`; by default it may only look
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    pub(crate) allowed_tools: Vec<String>,

    /// Where Claude Code is: a program, or a folder with `node_modules` [default: searched]
    #[arg(long, value_name = "PATH")]
    pub(crate) claude: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) otel: OtelArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SchemaArgs {
    /// Which file's
    #[arg(value_enum, default_value_t = SchemaOf::Case)]
    pub(crate) of: SchemaOf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SchemaOf {
    /// A case
    Case,
    /// A suite
    Suite,
    /// What `yb eval -c` reads
    Eval,
    /// The `results.json` of a run
    RunResults,
    /// What `yb compare --json` prints
    Comparison,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ValidateArgs {
    /// The case or suite files, YAML or JSON
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// A case or suite file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Show what each valid case or suite says
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// Make warnings errors
    #[arg(long)]
    pub(crate) strict: bool,

    /// Allow repositories on hosts inside a private network
    #[arg(long)]
    pub(crate) allow_private_hosts: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Where Claude Code is: a program, or a folder with `node_modules` [default: installed by `yb`]
    #[arg(long, value_name = "DIR")]
    pub(crate) agents_dir: Option<PathBuf>,

    /// Install nothing: without Claude Code, the built-in agent takes its place
    #[arg(long)]
    pub(crate) no_download: bool,

    /// The folder that is made [default: a new one for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TapeCommand {
    /// Compare what two tapes say, turn by turn; exits with 1 where they differ
    #[command(after_long_help = examples::TAPE_DIFF)]
    Diff(TapeDiffArgs),

    /// Run a command with a recorder between it and its model
    ///
    /// The command has this terminal, and finds its model's API by the variable that it reads anyway. Keys and tokens are passed on, and are
    /// never on the tape. Exits with 0 when the command does, otherwise with 1.
    #[command(after_long_help = examples::TAPE_RECORD)]
    Record(RecordArgs),

    /// Copy a tape without secrets that nobody knew of when it was recorded
    #[command(after_long_help = examples::TAPE_REDACT)]
    Redact(TapeRedactArgs),

    /// Serve a scripted model, or a recorded tape, on loopback until Ctrl-C
    ///
    /// Prints the address and the environment that points Claude Code to it, then one line for each request.
    /// Being stopped by a signal is its only end, so its exit code is 130.
    #[command(after_long_help = examples::TAPE_SERVE)]
    Serve(ServeArgs),

    /// Show what is on a tape: its conversations, turn by turn
    #[command(after_long_help = examples::TAPE_SHOW)]
    Show(TapeShowArgs),

    /// Check that tapes are whole; exits with 1 where one is not
    #[command(after_long_help = examples::TAPE_VERIFY)]
    Verify(TapeVerifyArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// The script, a YAML file, or a tape
    pub(crate) script: PathBuf,

    /// Port on 127.0.0.1; 0 takes any free one
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) port: u16,

    /// Set a variable that the script uses as `{{NAME}}`, or a directory of a tape, such as `workspace`; may be repeated
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) vars: Vec<(String, String)>,
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected `NAME=VALUE`")?;
    if !Vars::is_valid_name(name) {
        return Err(format!("not a variable name: `{name}`"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::{Args, variable};

    #[test]
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_variable_has_a_name_and_any_value() {
        assert_eq!(variable("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert_eq!(variable("a="), Ok(("a".into(), String::new())));
        assert_eq!(variable("a"), Err("expected `NAME=VALUE`".into()));
        assert_eq!(variable("1a=x"), Err("not a variable name: `1a`".into()));
    }
}
