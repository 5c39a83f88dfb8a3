//! Arguments of the commands that prepare a project or a shell.

#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// Replace the files that are there already
    #[arg(long)]
    pub(crate) force: bool,
}
