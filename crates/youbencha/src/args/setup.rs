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
    /// Install this version of an agent's program with npm, for all projects: `codex@0.166.0`; may be repeated
    ///
    /// It goes to `youbencha/tools` below `$XDG_DATA_HOME` or `~/.local/share`, or to `$YB_TOOLS_DIR`, beside other versions, and a case or
    /// variant chooses it with `version:`. The judge's definition is not touched.
    #[arg(long, value_name = "NAME@VERSION")]
    pub(crate) cli: Vec<String>,

    /// Replace the files that are there already
    #[arg(long, conflicts_with = "cli")]
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
