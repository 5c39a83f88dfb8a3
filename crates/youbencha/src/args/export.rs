//! Arguments of `yb export`.

use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    /// Run name or directory, or `results.json` of a trial
    #[arg(value_name = "RUN|PATH", default_value = "latest")]
    pub(crate) run: String,

    /// Format
    #[arg(short, long, value_enum)]
    pub(crate) format: ExportFormat,

    /// Directory to write to [default: `exports/FORMAT` next to the results of the run]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,

    /// Only these trials, by name; repeatable
    #[arg(short, long, value_name = "TRIAL")]
    pub(crate) trial: Vec<String>,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ExportFormat {
    /// Trajectory per trial (Agent Trajectory Interchange Format 1.8)
    Atif,
    /// Inspect log (`.eval`) per variant
    Inspect,
    /// Harbor job directory
    Harbor,
    /// Tables of trials, turns, tool calls and verdicts as Parquet
    Parquet,
    /// The same tables as Arrow files (Feather)
    Arrow,
    /// The same tables as CSV
    Csv,
    /// SWE-bench predictions, a JSONL file per variant and repeat
    Swebench,
}

impl ExportFormat {
    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Atif => "atif",
            Self::Inspect => "inspect",
            Self::Harbor => "harbor",
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
            Self::Csv => "csv",
            Self::Swebench => "swebench",
        }
    }
}
