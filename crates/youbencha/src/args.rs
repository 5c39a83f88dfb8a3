//! The command line arguments of `yb`.

mod browse;
mod check;
mod compare;
mod config;
mod eval;
mod examples;
mod export;
mod help;
mod inspect;
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

pub(crate) use browse::{DiffArgs, OpenArgs, TrendArgs, ViewArgs};
pub(crate) use check::CheckArgs;
pub(crate) use compare::{BaselineCommand, CompareArgs, GateArgs, IndexCommand};
pub(crate) use config::{
    ConfigCommand, ConfigGetArgs, ConfigInitArgs, ConfigListArgs, ConfigSetArgs, ConfigUnsetArgs,
};
pub(crate) use eval::EvalArgs;
pub(crate) use export::{ExportArgs, ExportFormat};
pub(crate) use help::{HelpArgs, command, parse, parse_from};
pub(crate) use inspect::{DoctorArgs, ListArgs, ListKind, VerifyArgs};
pub(crate) use otel::OtelArgs;
pub(crate) use prompt::{
    FilledArgs, PromptCommand, PromptRenderArgs, PromptRunArgs, PromptTestArgs, QueryArgs,
};
pub(crate) use report::{ReportArgs, ReportFormat};
pub(crate) use runs::{CleanArgs, RunArgs, ShowArgs};
pub(crate) use setup::{
    CompletionsArgs, ImportArgs, InitArgs, InstallAgentsArgs, ManArgs, SelfCommand, SelfDoctorArgs,
};
pub(crate) use suggest::SuggestArgs;
pub(crate) use tape::{Api, RecordArgs, TapeDiffArgs, TapeRedactArgs, TapeShowArgs, TapeVerifyArgs};

/// Run, replay, grade and trace coding agents
// Without a command, help is a usage error: an empty variable in a CI job must not pass.
#[derive(Debug, Parser)]
#[command(
    name = "yb",
    bin_name = "yb",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Send one prompt to Claude Code
    ///
    /// Streams the answer to stdout and prints cost and time to stderr. Uses your own login.
    #[command(after_long_help = examples::ASK)]
    Ask(AskArgs),

    /// Manage baselines: named results to compare runs with
    #[command(subcommand, arg_required_else_help = true, after_long_help = examples::BASELINE)]
    Baseline(BaselineCommand),

    /// Prove cases without an agent: untouched they fail, solved they pass
    ///
    /// Grades the start tree (*nop*) and the reference solution (*oracle*) of each case, in the sandbox and with the evaluators of a
    /// trial. The solution is `solution` of the case, or `expected`. Exits with 0 if every case is proven, 1 if one passes untouched, if
    /// its solution fails or if gradings differ, and 5 if that can't be decided, such as without a solution. Results are cached by the
    /// files, commits and version that decide them.
    #[command(after_long_help = examples::CHECK)]
    Check(CheckArgs),

    /// Remove runs and cached repositories
    ///
    /// Lists what would be removed, with sizes; pass `--yes` to remove it. Running runs are never removed, unfinished ones only by
    /// name or with `--all`.
    #[command(after_long_help = examples::CLEAN)]
    Clean(CleanArgs),

    /// Compare two runs and detect regressions
    ///
    /// Exits with 0 if the pass rate did not drop by more than the tolerance, 1 if it did, and 5 if the results are inconclusive.
    /// See `yb help statistics` for the method.
    #[command(after_long_help = examples::COMPARE)]
    Compare(CompareArgs),

    /// Generate shell completions
    #[command(after_long_help = examples::COMPLETIONS)]
    Completions(CompletionsArgs),

    /// Show and edit settings
    #[command(subcommand, arg_required_else_help = true, after_long_help = examples::CONFIG)]
    Config(ConfigCommand),

    /// Run, record, replay and grade Claude Code in an offline demo
    ///
    /// Creates a directory with a repository, a suite of two variants and a scripted model, runs the suite, replays it and writes a
    /// report. Claude Code is installed with npm into a private directory on first use (about 350 MB); without npm or with
    /// `--no-download`, a built-in scripted agent is used.
    #[command(after_long_help = examples::DEMO)]
    Demo(DemoArgs),

    /// Show the difference between the results of two trials
    ///
    /// Compares the end trees, of two trials of a run or of two runs. Known secrets are redacted, and control characters are made
    /// visible.
    #[command(after_long_help = examples::DIFF)]
    Diff(DiffArgs),

    /// Check git, agents, containment, isolation, disk and memory
    ///
    /// Changes nothing, calls no model and reads no credentials. Exits with 0 if there is no problem, 3 if no agent is usable, and 4 if
    /// git or the machine is the problem.
    #[command(after_long_help = examples::DOCTOR)]
    Doctor(DoctorArgs),

    /// Re-evaluate the gates of a run
    ///
    /// Exits with 0 if all gates pass, 1 if one fails, and 5 if the results are inconclusive.
    #[command(after_long_help = examples::GATE)]
    Gate(GateArgs),

    /// Rebuild or query the SQLite index of all runs
    #[command(subcommand, arg_required_else_help = true, after_long_help = examples::INDEX)]
    Index(IndexCommand),

    /// Grade a directory, or re-grade a recorded run
    ///
    /// With a file alone, grades the directory named in the file; results are written to `.youbencha-eval`. With `--from`, re-grades the
    /// trials of a run from their recordings; the new grading is stored in `gradings` of the run, and the original results are kept.
    /// Runs no agents except judges.
    #[command(after_long_help = examples::EVAL)]
    Eval(EvalArgs),

    /// Export a run to ATIF, Inspect, Harbor, data frames or SWE-bench predictions
    ///
    /// Writes files that other tools read. The same run always gives the same files. Text is exported as it was recorded, without known
    /// secrets.
    #[command(after_long_help = examples::EXPORT)]
    Export(ExportArgs),

    /// Print help of a command or topic
    Help(HelpArgs),

    /// Convert a suite of another tool to case and suite files
    ///
    /// Reads a plugin with `evals/`, a skill with `evals/evals.json`, an AgentV eval file or a promptfoo configuration. What has no
    /// counterpart is listed. `yb run` and `yb validate` convert such a suite themselves.
    #[command(after_long_help = examples::IMPORT)]
    Import(ImportArgs),

    /// Create an example case that runs offline
    #[command(after_long_help = examples::INIT)]
    Init(InitArgs),

    /// Install agent CLIs, or the judge definition
    ///
    /// Without `--cli`, writes `.github/agents/agentic-judge.md` and `.claude/agents/agentic-judge.md` into the working directory.
    #[command(after_long_help = examples::INSTALL_AGENTS)]
    InstallAgents(InstallAgentsArgs),

    /// List agents, evaluators or runs
    #[command(after_long_help = examples::LIST)]
    List(ListArgs),

    /// Generate manual pages
    // Hidden: for packagers.
    #[command(hide = true, after_long_help = examples::MAN)]
    Man(ManArgs),

    /// Open the report of a run, or the workspace of a trial
    ///
    /// Writes the HTML report next to the results of the run and opens it in the browser; the workspace of a trial is opened as a
    /// directory. Without a display, prints the path and exits with 4.
    #[command(after_long_help = examples::OPEN)]
    Open(OpenArgs),

    /// Render, run and test prompt files
    ///
    /// See `yb help prompts` for the format.
    #[command(subcommand, arg_required_else_help = true, after_long_help = examples::PROMPT)]
    Prompt(PromptCommand),

    /// Write a report as HTML, Markdown, JSON, CSV, JUnit or a pull request comment
    ///
    /// Output is deterministic. HTML is a single file for up to 50 trials, and otherwise a directory with a page per trial; pages make no
    /// network requests.
    #[command(after_long_help = examples::REPORT)]
    Report(ReportArgs),

    /// Run agents on cases and grade the results
    ///
    /// Writes logs, patches, results and a journal below `.youbencha-workspace/runs`. Ctrl-C waits for running trials, a second Ctrl-C
    /// kills them; `--resume` continues the run. See `yb help cases` and `yb help suites` for the file formats.
    #[command(after_long_help = examples::RUN)]
    Run(RunArgs),

    /// Print JSON Schemas of files and outputs
    #[command(after_long_help = examples::SCHEMA)]
    Schema(SchemaArgs),

    /// Run the built-in agent against the Messages API at `ANTHROPIC_BASE_URL`
    // Hidden: the `command` agent of the demo, tests and benchmarks.
    #[command(hide = true)]
    ScriptedAgent,

    /// Show how this program was installed and how to update it
    #[command(subcommand, name = "self", arg_required_else_help = true, after_long_help = examples::SELF)]
    Self_(SelfCommand),

    /// Show a run or a trial
    ///
    /// Runs and trials are named by a unique prefix; `latest` is the newest run, `latest~1` the one before.
    #[command(after_long_help = examples::SHOW)]
    Show(ShowArgs),

    /// Let an agent propose a case from the output of an agent
    ///
    /// The agent works in a copy of the directory. An invalid case is returned to the agent once for correction; only a valid case is
    /// saved, and it is not run. Model and timeout come from the settings (`agent.model`, `agent.timeout_ms`).
    #[command(after_long_help = examples::SUGGEST)]
    SuggestTestcase(SuggestArgs),

    /// Mock, record and replay model API traffic
    #[command(subcommand, arg_required_else_help = true, after_long_help = examples::TAPE)]
    Tape(TapeCommand),

    /// Show pass rate, cost and time over the runs of a suite
    ///
    /// Lists the runs of a suite, newest last. The pass rate is the mean of the cases with its 95% confidence interval; the bar shows
    /// the rate and the upper bound.
    #[command(after_long_help = examples::TREND)]
    Trend(TrendArgs),

    /// Check case and suite files
    #[command(after_long_help = examples::VALIDATE)]
    Validate(ValidateArgs),

    /// Check that a run was not changed since it was recorded
    ///
    /// Checks the chain of the journal, the plan, the results, all artifacts, trees and tapes. Exits with 0 if all of them are as recorded
    /// and 1 if one is not. With `--sign`, an intact run is signed with an SSH key; `--verify-with` checks the signature.
    #[command(after_long_help = examples::VERIFY)]
    Verify(VerifyArgs),

    /// Serve pages about all runs, live, on 127.0.0.1
    ///
    /// Prints the URL, which has a random token, and opens it in the browser. Pages of running trials update themselves. Runs until
    /// Ctrl-C, with exit code 130.
    #[command(after_long_help = examples::VIEW)]
    View(ViewArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct AskArgs {
    /// Prompt [default: stdin, also with `-`]
    pub(crate) prompt: Option<String>,

    /// Print a JSON object with text, model, tokens, cost, session and duration
    #[arg(long)]
    pub(crate) json: bool,

    /// Continue an earlier session
    #[arg(long, value_name = "SESSION")]
    pub(crate) resume: Option<String>,

    /// Model name or alias
    #[arg(long)]
    pub(crate) model: Option<String>,

    /// Stop when the cost reaches this amount
    #[arg(long, value_name = "USD")]
    pub(crate) max_budget_usd: Option<f64>,

    /// Limit the number of turns
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) max_turns: u32,

    /// Limit the time in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub(crate) timeout: u64,

    /// Allow tools without permission prompts, such as `Bash,Edit` [default: read-only tools]
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    pub(crate) allowed_tools: Vec<String>,

    /// Path to Claude Code: a program or a directory with `node_modules` [default: search]
    #[arg(long, value_name = "PATH")]
    pub(crate) claude: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) otel: OtelArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SchemaArgs {
    /// Schema to print
    #[arg(value_enum, default_value_t = SchemaOf::Case)]
    pub(crate) of: SchemaOf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SchemaOf {
    /// Case file
    Case,
    /// Suite file
    Suite,
    /// Eval file, the input of `yb eval`
    Eval,
    /// `results.json` of a run
    RunResults,
    /// Output of `yb compare --json`
    Comparison,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ValidateArgs {
    /// Case or suite files (YAML or JSON)
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Same as FILE
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Print the content of each valid file
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// Treat warnings as errors
    #[arg(long)]
    pub(crate) strict: bool,

    /// Allow repositories on private networks
    #[arg(long)]
    pub(crate) allow_private_hosts: bool,

    /// Allow local repositories and directories below DIR; those of the case's project and of the working directory need no permission
    #[arg(long, value_name = "DIR")]
    pub(crate) allow_path: Vec<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Path to Claude Code: a program or a directory with `node_modules` [default: install]
    #[arg(long, value_name = "DIR")]
    pub(crate) agents_dir: Option<PathBuf>,

    /// Do not install Claude Code; use the built-in agent if it is missing
    #[arg(long)]
    pub(crate) no_download: bool,

    /// Directory to create [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum TapeCommand {
    /// Compare two tapes turn by turn
    ///
    /// Exits with 1 if they differ.
    #[command(after_long_help = examples::TAPE_DIFF)]
    Diff(TapeDiffArgs),

    /// Record the model API traffic of a command
    ///
    /// Runs the command in this terminal and redirects its model API with the environment variable that it reads. Credentials are
    /// forwarded but never recorded. Exits with 0 if the command does, and otherwise with 1.
    #[command(after_long_help = examples::TAPE_RECORD)]
    Record(RecordArgs),

    /// Copy a tape with further secrets redacted
    #[command(after_long_help = examples::TAPE_REDACT)]
    Redact(TapeRedactArgs),

    /// Serve a scripted model or a tape on loopback
    ///
    /// Prints the address, the environment variables for Claude Code, and a line for each request. Runs until Ctrl-C, with exit code 130.
    #[command(after_long_help = examples::TAPE_SERVE)]
    Serve(ServeArgs),

    /// Show the conversations on a tape
    #[command(after_long_help = examples::TAPE_SHOW)]
    Show(TapeShowArgs),

    /// Check the integrity of tapes
    ///
    /// Exits with 1 if a tape is damaged.
    #[command(after_long_help = examples::TAPE_VERIFY)]
    Verify(TapeVerifyArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// Script (YAML) or tape
    pub(crate) script: PathBuf,

    /// Port on 127.0.0.1; 0 means any free port
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) port: u16,

    /// Set a script variable `{{NAME}}`, or a directory of a tape such as `workspace`; repeatable
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) vars: Vec<(String, String)>,
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected `NAME=VALUE`")?;
    if !Vars::is_valid_name(name) {
        return Err(format!("invalid variable name: `{name}`"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::variable;

    #[test]
    fn command_definition_is_valid() {
        super::command().debug_assert();
    }

    #[test]
    fn variable_has_a_name_and_any_value() {
        assert_eq!(variable("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert_eq!(variable("a="), Ok(("a".into(), String::new())));
        assert_eq!(variable("a"), Err("expected `NAME=VALUE`".into()));
        assert_eq!(variable("1a=x"), Err("invalid variable name: `1a`".into()));
    }
}
