//! Arguments of `yb suggest-testcase`.

use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct SuggestArgs {
    /// The agent to ask: `claude-code`, or `command` for the program behind `--`
    #[arg(long, value_name = "TYPE")]
    pub(crate) agent: String,

    /// The repository or directory that an agent left; it is looked at in a copy
    #[arg(long, value_name = "DIR")]
    pub(crate) output_dir: PathBuf,

    /// Your own instructions, instead of the usual ones
    #[arg(long, value_name = "PATH")]
    pub(crate) agent_file: Option<PathBuf>,

    /// Where the case goes; it must not be there yet
    #[arg(long, value_name = "PATH", default_value = "testcase-suggestion.yaml")]
    pub(crate) save: PathBuf,

    /// The program for `--agent command`, with `{prompt}` or `{prompt_file}` where the prompt belongs, or else on stdin
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<String>,
}
