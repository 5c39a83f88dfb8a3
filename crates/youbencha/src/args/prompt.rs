//! Arguments of `yb prompt`.

use std::path::PathBuf;

use clap::Subcommand;
use yb_claude::PermissionMode;

use super::runs::dollars;
use super::{OtelArgs, examples};

#[derive(Debug, Subcommand)]
pub(crate) enum PromptCommand {
    /// Show what a prompt says with its props, and the query that it comes to; no model is asked
    #[command(after_long_help = examples::PROMPT_RENDER)]
    Render(PromptRenderArgs),

    /// Ask Claude Code with a prompt: a text as it is written, an object as JSON that satisfies its schema
    #[command(after_long_help = examples::PROMPT_RUN)]
    Run(PromptRunArgs),

    /// Run a prompt with every row of its dataset, and hold the answers against what is expected
    ///
    /// Each row becomes a case of a suite, which is kept in the workspace: so there are results, a journal, `yb show`, `yb report`,
    /// `yb compare` and gates, and `yb run --resume` goes on with a run that was stopped.
    #[command(after_long_help = examples::PROMPT_TEST)]
    Test(PromptTestArgs),
}

/// A prompt and what it is filled in with.
#[derive(Debug, clap::Args)]
pub(crate) struct FilledArgs {
    /// The prompt file, `*.prompt.mdx`
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// The props as a JSON object [default: those of `test_settings`]
    #[arg(long, value_name = "JSON", conflicts_with = "props_file")]
    pub(crate) props: Option<String>,

    /// A file with the props, a JSON object; `-` is stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) props_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) query: QueryArgs,
}

/// What holds where a prompt says nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct QueryArgs {
    /// The most turns, of prompts without `max_calls`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,

    /// Stop when an answer has cost this much
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub(crate) max_budget_usd: Option<f64>,

    /// What Claude Code may do without being asked: `default`, `acceptEdits`, `plan`, `dontAsk`, `auto` or `bypassPermissions`
    #[arg(long, value_name = "MODE", value_parser = permission_mode)]
    pub(crate) permission_mode: Option<PermissionMode>,

    /// Tools that need no permission, such as `Read,Grep`
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    pub(crate) allowed_tools: Vec<String>,

    /// Tools that are denied
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    pub(crate) disallowed_tools: Vec<String>,

    /// Put Claude Code's own system prompt before the prompt's
    #[arg(long)]
    pub(crate) preset: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PromptRenderArgs {
    #[command(flatten)]
    pub(crate) filled: FilledArgs,

    /// Print one JSON object with name, messages and query
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PromptRunArgs {
    #[command(flatten)]
    pub(crate) filled: FilledArgs,

    /// Print one JSON object with the answer, model, tokens, cost, session and duration
    #[arg(long)]
    pub(crate) json: bool,

    /// Where Claude Code is: a program, or a folder with `node_modules` [default: searched]
    #[arg(long, value_name = "PATH")]
    pub(crate) claude: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) otel: OtelArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PromptTestArgs {
    /// The prompt file, `*.prompt.mdx`
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Rows as JSON lines, instead of the dataset of `test_settings`
    #[arg(long, value_name = "FILE")]
    pub(crate) dataset: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) query: QueryArgs,

    /// Ask with every row so many times
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) repeat: Option<u32>,

    /// How many rows at once [default: as many as memory and cores allow]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,

    /// Show what would be asked and what it may cost; start nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Stop the whole run when it has cost this much
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub(crate) max_cost: Option<f64>,

    /// What the results have to hold, beside or instead of `score_thresholds`: `min_pass_rate=0.9`; may be repeated
    #[arg(long = "gate", value_name = "KEY=VALUE", value_parser = gate)]
    pub(crate) gates: Vec<String>,

    /// What stands between the agent and the machine: `auto`, `bubblewrap`, `landlock`, `none` or `external`
    #[arg(long, value_name = "LEVEL", value_parser = super::runs::isolation)]
    pub(crate) isolation: Option<yb_engine::case::Isolation>,

    /// Print every event as a line of JSON on stdout
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) json: bool,

    /// Print nothing but the results
    #[arg(short, long)]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) otel: OtelArgs,
}

fn permission_mode(text: &str) -> Result<PermissionMode, String> {
    text.parse().map_err(|error: yb_claude::UnknownValue| error.to_string())
}

/// Checked here, and read where runs are.
fn gate(text: &str) -> Result<String, String> {
    yb_engine::gates::GateOverride::parse(text).map(|_| text.to_owned())
}
