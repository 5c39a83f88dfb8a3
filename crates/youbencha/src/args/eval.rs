//! Arguments of `yb eval`.

use std::path::PathBuf;

use yb_engine::case::Isolation;

use super::OtelArgs;
use super::runs::{dollars, isolation};

#[derive(Debug, clap::Args)]
pub(crate) struct EvalArgs {
    /// Eval file; with `--from`, a case, suite or eval file to use instead of that of the run
    #[arg(value_name = "FILE", required_unless_present_any = ["from", "config"], conflicts_with = "config")]
    file: Option<PathBuf>,

    /// Same as FILE
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Re-grade the trials of this run from their recordings
    #[arg(long, value_name = "RUN")]
    pub(crate) from: Option<String>,

    /// Grade the directory with this ATIF trajectory as the log of the agent; without `directory`, only the trajectory
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub(crate) trajectory: Option<PathBuf>,

    /// Only trials that failed or could not be graded
    #[arg(long, requires = "from")]
    pub(crate) failed_only: bool,

    /// Number of trials graded at once [default: by memory and cores]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,

    /// Stop when the judges have cost this amount
    #[arg(long, value_name = "USD", value_parser = dollars, requires = "from")]
    pub(crate) max_cost: Option<f64>,

    /// Override the isolation of grading processes
    #[arg(long, value_name = "LEVEL", value_parser = isolation)]
    pub(crate) isolation: Option<Isolation>,

    /// Print a JSON object
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) json: bool,

    /// Print only the results
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Treat warnings as errors
    #[arg(long)]
    pub(crate) strict: bool,

    #[command(flatten)]
    pub(crate) otel: OtelArgs,
}

impl EvalArgs {
    /// Returns the file, given as an argument or with `--config`.
    pub(crate) fn config(&self) -> Option<&PathBuf> {
        self.file.as_ref().or(self.config.as_ref())
    }
}
