//! Arguments of `yb suggest-testcase`.

use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct SuggestArgs {
    /// Agent type; `command` runs the program after `--`
    #[arg(long, value_name = "TYPE")]
    pub(crate) agent: String,

    /// Repository or directory written by an agent; inspected in a copy
    #[arg(long, value_name = "DIR")]
    pub(crate) output_dir: PathBuf,

    /// File with custom instructions
    #[arg(long, value_name = "PATH")]
    pub(crate) agent_file: Option<PathBuf>,

    /// Path of the new case file
    #[arg(long, value_name = "PATH", default_value = "testcase-suggestion.yaml")]
    pub(crate) save: PathBuf,

    /// Program for `--agent command`; `{prompt}` or `{prompt_file}` is replaced, otherwise stdin is used
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<String>,
}
