//! Arguments of the commands that only look.

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// What to list [default: agents and evaluators]
    #[arg(value_enum)]
    pub(crate) what: Option<ListKind>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ListKind {
    /// The agents, with availability and version
    Agents,
    /// The evaluators, and whether this version runs them
    Evaluators,
    /// The runs of this project, the newest last
    Runs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
