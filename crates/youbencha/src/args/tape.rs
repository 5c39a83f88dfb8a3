//! Arguments of the commands around tapes.

use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct RecordArgs {
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,

    /// The tape to make; one that is there is never written over
    #[arg(short, long, value_name = "FILE", default_value = "recorded.tape")]
    pub(crate) output: PathBuf,

    /// Whose API it asks: `anthropic`, `openai` or `gemini` [default: by the program's name, else `anthropic`]
    #[arg(long, value_enum)]
    pub(crate) api: Option<Api>,

    /// Where that is [default: what the program's own variable says, else the vendor's address]
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: Option<String>,

    /// Keep the agent's own prompts and tool descriptions too, not only their hashes
    #[arg(long)]
    pub(crate) full_requests: bool,

    /// Keep the value of this variable off the tape, as well as all that look like secrets; may be repeated
    #[arg(long = "secret", value_name = "VARIABLE")]
    pub(crate) secrets: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Api {
    /// Messages, by `ANTHROPIC_BASE_URL`
    Anthropic,
    /// Responses and Chat Completions, by `OPENAI_BASE_URL`
    Openai,
    /// Gemini, by `GOOGLE_GEMINI_BASE_URL`
    Gemini,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TapeShowArgs {
    /// The tape
    pub(crate) tape: PathBuf,

    /// Only this conversation
    #[arg(long, value_name = "NAME")]
    pub(crate) lane: Option<String>,

    /// Whole texts, not only their first lines
    #[arg(long)]
    pub(crate) full: bool,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TapeDiffArgs {
    /// A tape
    pub(crate) one: PathBuf,
    /// Another
    pub(crate) other: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TapeVerifyArgs {
    /// The tapes
    #[arg(required = true, value_name = "TAPE")]
    pub(crate) tapes: Vec<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TapeRedactArgs {
    /// The tape, which stays as it is
    pub(crate) tape: PathBuf,

    /// The new tape; one that is there is never written over
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// A variable whose value is not to be on the new tape; may be repeated
    #[arg(long = "secret", value_name = "VARIABLE", required = true)]
    pub(crate) secrets: Vec<String>,
}
