//! Arguments of `yb list` and `yb doctor`.

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Kind to list [default: agents and evaluators]
    #[arg(value_enum)]
    pub(crate) what: Option<ListKind>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ListKind {
    /// Agents with availability and version
    Agents,
    /// Evaluators
    Evaluators,
    /// Runs of this project, newest last
    Runs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
