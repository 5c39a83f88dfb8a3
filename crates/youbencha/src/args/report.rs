//! Arguments of `yb report`.

use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
    /// A run by the beginning of its name, a run's directory, or a trial's `results.json`; may be repeated
    #[arg(long, value_name = "RUN|PATH", default_value = "latest")]
    pub(crate) from: Vec<String>,

    /// What to make
    #[arg(short, long, value_enum, default_value_t = ReportFormat::Markdown)]
    pub(crate) format: ReportFormat,

    /// Where to write it; `-` is stdout [default: `report.…` beside the results of the first `--from`]
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ReportFormat {
    /// Everything, as text with tables
    #[value(alias = "md")]
    Markdown,
    /// Everything, for programs
    Json,
    /// A page, or with more than 50 trials a folder of pages
    Html,
    /// XML for CI systems
    Junit,
    /// A row for each trial
    Csv,
    /// A short comment for a pull request
    Github,
}

impl ReportFormat {
    /// What a file of it is called.
    pub(crate) fn file_name(self) -> &'static str {
        match self {
            Self::Markdown => "report.md",
            Self::Json => "report.json",
            Self::Html => "report.html",
            Self::Junit => "report.junit.xml",
            Self::Csv => "report.csv",
            Self::Github => "report.github.md",
        }
    }
}
