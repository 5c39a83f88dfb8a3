//! Arguments of `yb prompt`.

use std::path::PathBuf;

use clap::Subcommand;
use yb_claude::PermissionMode;

use super::runs::dollars;
use super::{OtelArgs, examples};

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum PromptCommand {
    /// Print the messages of a prompt and the resulting query
    #[command(after_long_help = examples::PROMPT_RENDER)]
    Render(PromptRenderArgs),

    /// Run a prompt with Claude Code
    ///
    /// Streams a text, or prints an object as JSON that matches its schema.
    #[command(after_long_help = examples::PROMPT_RUN)]
    Run(PromptRunArgs),

    /// Test a prompt with every row of its dataset
    ///
    /// Each row becomes a case of a suite in the workspace directory, so `yb show`, `yb report`, `yb compare`, gates and
    /// `yb run --resume` work as for other runs.
    #[command(after_long_help = examples::PROMPT_TEST)]
    Test(PromptTestArgs),
}

// A prompt file and its props. No doc comment: it would replace the description of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct FilledArgs {
    /// Prompt file, `*.prompt.mdx`
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Props as a JSON object [default: `test_settings` of the prompt]
    #[arg(long, value_name = "JSON", conflicts_with = "props_file")]
    pub(crate) props: Option<String>,

    /// File with the props as a JSON object; `-` means stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) props_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) query: QueryArgs,
}

// Defaults for prompts that do not set them; no doc comment, as above.
#[derive(Debug, clap::Args)]
pub(crate) struct QueryArgs {
    /// Limit the number of turns of prompts without `max_calls`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,

    /// Stop an answer when its cost reaches this amount
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub(crate) max_budget_usd: Option<f64>,

    /// Permission mode: `default`, `acceptEdits`, `plan`, `dontAsk`, `auto` or `bypassPermissions`
    #[arg(long, value_name = "MODE", value_parser = permission_mode)]
    pub(crate) permission_mode: Option<PermissionMode>,

    /// Allow tools without permission prompts, such as `Read,Grep`
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    pub(crate) allowed_tools: Vec<String>,

    /// Deny tools
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    pub(crate) disallowed_tools: Vec<String>,

    /// Prepend the system prompt of Claude Code
    #[arg(long)]
    pub(crate) preset: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PromptRenderArgs {
    #[command(flatten)]
    pub(crate) filled: FilledArgs,

    /// Print a JSON object with name, messages and query
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PromptRunArgs {
    #[command(flatten)]
    pub(crate) filled: FilledArgs,

    /// Print a JSON object with answer, model, cost, turns, duration and session
    #[arg(long)]
    pub(crate) json: bool,

    /// Path to Claude Code: a program or a directory with `node_modules` [default: search]
    #[arg(long, value_name = "PATH")]
    pub(crate) claude: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) otel: OtelArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PromptTestArgs {
    /// Prompt file, `*.prompt.mdx`
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Dataset as JSON lines [default: `test_settings` of the prompt]
    #[arg(long, value_name = "FILE")]
    pub(crate) dataset: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) query: QueryArgs,

    /// Number of repeats of each row
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) repeat: Option<u32>,

    /// Number of rows at once [default: by memory and cores]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,

    /// Print the plan and the estimated cost without running anything
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Stop the run when its cost reaches this amount; trials that it cuts stay pending
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub(crate) max_cost: Option<f64>,

    /// Add or override a gate, such as `min_pass_rate=0.9` (see `yb help gates`); repeatable
    #[arg(long = "gate", value_name = "KEY=VALUE", value_parser = gate)]
    pub(crate) gates: Vec<String>,

    /// Override the isolation: `auto`, `bubblewrap`, `landlock`, `none` or `external`
    #[arg(long, value_name = "LEVEL", value_parser = super::runs::isolation)]
    pub(crate) isolation: Option<yb_engine::case::Isolation>,

    /// Print events as lines of JSON
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) json: bool,

    /// Print only the results
    #[arg(short, long)]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) otel: OtelArgs,
}

fn permission_mode(text: &str) -> Result<PermissionMode, String> {
    text.parse().map_err(|error: yb_claude::UnknownValue| error.to_string())
}

/// Validates a gate; `yb run` parses it again.
fn gate(text: &str) -> Result<String, String> {
    yb_engine::gates::GateOverride::parse(text).map(|_| text.to_owned())
}
