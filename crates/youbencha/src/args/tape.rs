//! Arguments of `yb tape`.

use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct RecordArgs {
    /// Program and arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,

    /// Tape to write; existing files are not overwritten
    #[arg(short, long, value_name = "FILE", default_value = "recorded.tape")]
    pub(crate) output: PathBuf,

    /// Model API [default: by program name, else `anthropic`]
    #[arg(long, value_enum)]
    pub(crate) api: Option<Api>,

    /// URL of the API [default: the variable of the API, else the vendor]
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: Option<String>,

    /// Record system prompts and tool descriptions in full instead of hashes
    #[arg(long)]
    pub(crate) full_requests: bool,

    /// Redact the value of this environment variable, in addition to detected secrets; repeatable
    #[arg(long = "secret", value_name = "VARIABLE")]
    pub(crate) secrets: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Api {
    /// Messages API, with `ANTHROPIC_BASE_URL`
    Anthropic,
    /// Responses and Chat Completions APIs, with `OPENAI_BASE_URL`
    Openai,
    /// Gemini API, with `GOOGLE_GEMINI_BASE_URL`
    Gemini,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TapeShowArgs {
    /// Tape
    pub(crate) tape: PathBuf,

    /// Only this lane
    #[arg(long, value_name = "NAME")]
    pub(crate) lane: Option<String>,

    /// Print complete texts
    #[arg(long)]
    pub(crate) full: bool,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TapeDiffArgs {
    /// First tape
    pub(crate) one: PathBuf,
    /// Second tape
    pub(crate) other: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TapeVerifyArgs {
    /// Tapes
    #[arg(required = true, value_name = "TAPE")]
    pub(crate) tapes: Vec<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TapeRedactArgs {
    /// Tape to copy
    pub(crate) tape: PathBuf,

    /// Tape to write; existing files are not overwritten
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// Redact the value of this environment variable; repeatable
    #[arg(long = "secret", value_name = "VARIABLE", required = true)]
    pub(crate) secrets: Vec<String>,
}
