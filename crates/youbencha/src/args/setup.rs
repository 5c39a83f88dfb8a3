//! Arguments of the commands that prepare a project or a shell.

use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// Replace the files that are there already
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct InstallAgentsArgs {
    /// Replace the files that are there already
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Write a page for each command into this directory [default: the page of `yb` to stdout]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
