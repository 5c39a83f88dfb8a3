//! Arguments of `yb check`.

use std::path::PathBuf;

use yb_engine::case::Isolation;

use super::runs::isolation;

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// Case or suite file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// How often each is graded, to find evaluators that are flaky
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeat: u32,

    /// Include evaluators that cost money
    #[arg(long)]
    pub(crate) judges: bool,

    /// Check only matching cases: `GLOB`, `case=GLOB` or `tag=GLOB`; repeatable
    #[arg(short, long, value_name = "FILTER", value_parser = yb_engine::run::Filter::parse)]
    pub(crate) filter: Vec<yb_engine::run::Filter>,

    /// Number of cases checked at once [default: by memory and cores]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,

    /// Override the isolation of the cases
    #[arg(long, value_name = "LEVEL", value_parser = isolation)]
    pub(crate) isolation: Option<Isolation>,

    /// Check again what an earlier check of the same files and commits has decided
    #[arg(long)]
    pub(crate) no_cache: bool,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,

    /// Treat warnings as errors
    #[arg(long)]
    pub(crate) strict: bool,

    /// Allow repositories on private networks
    #[arg(long)]
    pub(crate) allow_private_hosts: bool,

    /// Allow local repositories and directories below DIR; those of the case's project and of the working directory need no permission
    #[arg(long, value_name = "DIR")]
    pub(crate) allow_path: Vec<PathBuf>,
}
