//! Recorded runs in the formats of other tools, and trajectories of other tools as logs.
//!
//! ```text
//! Run (yb-report) ──▶ TrialRecord: log, results ──▶ Conversation ──▶ ATIF, Inspect, Harbor
//!                                              └──▶ tables ──▶ CSV, Parquet, Arrow; predictions of SWE-bench
//! ```
//!
//! The crate neither prints nor chooses paths: it hands each file to the caller. The same recorded run gives the same bytes.

mod atif;
mod conversation;
mod harbor;
mod inspect;
mod record;
mod swebench;
mod tables;
mod zip;

use std::io;
use std::path::PathBuf;

use yb_report::Run;

pub use atif::{ATIF_VERSION, AtifError, is_atif, read_atif};
pub use conversation::{Conversation, Step, StepSource, Thread, ToolUse};
pub use record::TrialRecord;

use tables::TableFormat;

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// A trajectory per trial, in the Agent Trajectory Interchange Format.
    Atif,
    /// A log of Inspect per variant.
    Inspect,
    /// A job directory of Harbor.
    Harbor,
    /// Four tables as Parquet files.
    Parquet,
    /// Four tables as Arrow files.
    Arrow,
    /// Four tables as CSV.
    Csv,
    /// Predictions of SWE-bench.
    Swebench,
}

/// An error of an export.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// A recorded file can't be read.
    #[error("failed to read `{}`: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A file of the export can't be written.
    #[error("failed to write `{path}`")]
    Write {
        /// The file, relative to the output.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// The run has nothing that the format can hold.
    #[error("nothing to export: {0}")]
    Empty(&'static str),
}

/// What an export wrote and left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ExportSummary {
    /// The number of files.
    pub files: usize,
    /// The number of exported trials.
    pub trials: usize,
    /// Trials that were left out, each with the reason.
    pub skipped: Vec<String>,
}

/// Receives each file of an export: its path with `/` between parts, relative to the output, and its content.
pub type Sink<'a> = dyn FnMut(&str, &[u8]) -> io::Result<()> + 'a;

/// Exports the trials of a run that ran.
///
/// # Errors
/// If a recorded file can't be read, a file can't be written, or there is nothing to export.
pub fn export(run: &Run, format: Format, sink: &mut Sink<'_>) -> Result<ExportSummary, ExportError> {
    let mut output = Output { sink, summary: ExportSummary::default() };
    match format {
        Format::Atif => output.each(run, |output, record| {
            output
                .write(&format!("{}.json", file_name(&record.trial.name)), &pretty(&atif::trajectory(record)))
        })?,
        Format::Inspect => inspect::export(run, &mut output)?,
        Format::Harbor => harbor::export(run, &mut output)?,
        Format::Parquet => tables::export(run, TableFormat::Parquet, &mut output)?,
        Format::Arrow => tables::export(run, TableFormat::Arrow, &mut output)?,
        Format::Csv => tables::export(run, TableFormat::Csv, &mut output)?,
        Format::Swebench => swebench::export(run, &mut output)?,
    }
    if output.summary.trials == 0 {
        return Err(ExportError::Empty("no trial of the run has a log of its agent"));
    }
    Ok(output.summary)
}

/// The files that were written so far.
struct Output<'a, 'b> {
    sink: &'a mut Sink<'b>,
    summary: ExportSummary,
}

impl Output<'_, '_> {
    fn write(&mut self, path: &str, content: &[u8]) -> Result<(), ExportError> {
        self.summary.files += 1;
        (self.sink)(path, content).map_err(|source| ExportError::Write { path: path.to_owned(), source })
    }

    /// Reads the trials one after the other: the log of a trial may be large.
    fn each(
        &mut self,
        run: &Run,
        mut export: impl FnMut(&mut Self, &TrialRecord<'_>) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        for trial in &run.trials {
            match TrialRecord::read(run, trial)? {
                Some(record) => {
                    export(self, &record)?;
                    self.summary.trials += 1;
                }
                None => self.summary.skipped.push(format!("{}: {}", trial.name, trial.outcome.name)),
            }
        }
        Ok(())
    }
}

/// Returns a name as a part of a path.
fn file_name(name: &str) -> String {
    let safe = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let name: String = name.chars().map(safe).collect();
    let name = name.trim_start_matches('.');
    if name.is_empty() { "unnamed".to_owned() } else { name.to_owned() }
}

fn pretty(value: &serde_json::Value) -> Vec<u8> {
    // A value of strings, numbers and lists can always be written.
    let mut text = serde_json::to_vec_pretty(value).unwrap_or_default();
    text.push(b'\n');
    text
}
