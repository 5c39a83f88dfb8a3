//! Arguments of `yb report`.

use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
    /// Run name or directory, or `results.json` of a trial; repeatable
    #[arg(long, value_name = "RUN|PATH", default_value = "latest")]
    pub(crate) from: Vec<String>,

    /// Baseline, run or file to compare the run with; two `--from` are compared too
    #[arg(long, value_name = "BASELINE|RUN|PATH")]
    pub(crate) against: Option<String>,

    /// Report format
    #[arg(short, long, value_enum, default_value_t = ReportFormat::Markdown)]
    pub(crate) format: ReportFormat,

    /// Output path; `-` means stdout [default: `report.…` next to the results of the first run]
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ReportFormat {
    /// Complete report as Markdown
    #[value(alias = "md")]
    Markdown,
    /// Complete report as JSON
    Json,
    /// Web page, or a directory of pages for more than 50 trials
    Html,
    /// JUnit XML for CI systems
    Junit,
    /// One row per trial
    Csv,
    /// Short pull request comment
    Github,
    /// `benchmark.json` and `grading.json` of skill evals, in a directory
    SkillBenchmark,
}

impl ReportFormat {
    /// Returns the default file name.
    pub(crate) fn file_name(self) -> &'static str {
        match self {
            Self::Markdown => "report.md",
            Self::Json => "report.json",
            Self::Html => "report.html",
            Self::Junit => "report.junit.xml",
            Self::Csv => "report.csv",
            Self::Github => "report.github.md",
            Self::SkillBenchmark => "skill-benchmark",
        }
    }
}
