//! Arguments of `yb eval`.

use std::path::PathBuf;

use yb_engine::case::Isolation;

use super::runs::{dollars, isolation};

#[derive(Debug, clap::Args)]
pub(crate) struct EvalArgs {
    /// What grades, and which directory; with `--from`, another case, suite or eval file than the run's own
    #[arg(short, long, value_name = "FILE", required_unless_present = "from")]
    pub(crate) config: Option<PathBuf>,

    /// Grade the trials of this run again, from what was recorded
    #[arg(long, value_name = "RUN")]
    pub(crate) from: Option<String>,

    /// Only trials that no evaluator could say anything about: those that came to `grader_error`
    #[arg(long, requires = "from")]
    pub(crate) failed_only: bool,

    /// How many trials at once, where commands or judges grade [default: as many as memory and cores allow]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,

    /// Begin nothing more when judges have cost this much
    #[arg(long, value_name = "USD", value_parser = dollars, requires = "from")]
    pub(crate) max_cost: Option<f64>,

    /// What stands between what is run for grading and the machine, instead of what the files say
    #[arg(long, value_name = "LEVEL", value_parser = isolation)]
    pub(crate) isolation: Option<Isolation>,

    /// Print one JSON object
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) json: bool,

    /// Print nothing but the results
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Make warnings about the files errors
    #[arg(long)]
    pub(crate) strict: bool,
}
