//! The recorded files of one trial.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use yb_engine::adapter::{AnswerUsage, OmittedItem, answer_usage, for_each_omitted};
use yb_engine::log::{FILE_NAME, LogMessage, YouBenchaLog};
use yb_report::{OutcomeClass, Run, Trial};

use crate::ExportError;

const RESULTS: &str = "results.json";
const PATCH: &str = "git-diff.patch";
/// The most messages that are read from the frames of a trial, because its log leaves them out.
const MAX_OMITTED: usize = 50_000;

/// A trial with its log and its results.
#[derive(Debug)]
#[non_exhaustive]
pub struct TrialRecord<'a> {
    /// The run.
    pub run: &'a Run,
    /// The trial.
    pub trial: &'a Trial,
    /// The log of its agent.
    pub log: YouBenchaLog,
    /// All messages: those of the log, and those that it leaves out.
    pub messages: Vec<LogMessage>,
    /// The number of messages that are not in `messages`.
    pub missing_messages: u64,
    /// The usage of each message of the assistant; empty if it is not known.
    pub usage: Vec<Option<AnswerUsage>>,
    /// The `results.json` of the trial; null if there is none.
    pub results: Value,
}

impl<'a> TrialRecord<'a> {
    /// Reads the files of a trial; `None` if it has no log.
    ///
    /// # Errors
    /// If a file can't be read.
    pub fn read(run: &'a Run, trial: &'a Trial) -> Result<Option<Self>, ExportError> {
        let Some(folder) = &trial.artifacts else { return Ok(None) };
        let path = folder.join(FILE_NAME);
        if !is_regular_file(&path) {
            return Ok(None);
        }
        let log = YouBenchaLog::read(&path).map_err(|error| failed(&path, &chain(&error)))?;
        let (messages, missing_messages) = messages(&log, folder)?;
        let usage = usage(&log, folder)?;
        let path = folder.join(RESULTS);
        let results = if is_regular_file(&path) {
            let bytes = fs::read(&path).map_err(|error| failed(&path, &error.to_string()))?;
            serde_json::from_slice(&bytes).map_err(|error| failed(&path, &error.to_string()))?
        } else {
            Value::Null
        };
        Ok(Some(Self { run, trial, log, messages, missing_messages, usage, results }))
    }

    /// Returns the verdicts of the evaluators.
    pub(crate) fn verdicts(&self) -> impl Iterator<Item = &Value> {
        self.results["evaluators"].as_array().into_iter().flatten()
    }

    /// Returns 1 for a pass, 0 for a failure, and nothing if the trial does not count.
    pub(crate) fn score(&self) -> Option<f64> {
        match self.trial.outcome.class {
            OutcomeClass::Passed => Some(1.0),
            OutcomeClass::Failed => Some(0.0),
            _ => None,
        }
    }

    /// Reads the changes of the agent.
    ///
    /// # Errors
    /// If the patch can't be read.
    pub(crate) fn patch(&self) -> Result<Option<String>, ExportError> {
        let Some(path) = self.trial.artifacts.as_ref().map(|folder| folder.join(PATCH)) else {
            return Ok(None);
        };
        if !is_regular_file(&path) {
            return Ok(None);
        }
        let bytes = fs::read(&path).map_err(|error| failed(&path, &error.to_string()))?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

fn failed(path: &Path, reason: &str) -> ExportError {
    ExportError::Read { path: path.to_owned(), reason: reason.to_owned() }
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn is_regular_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_file())
}

/// The file of frames, if it was kept.
fn frames(log: &YouBenchaLog, folder: &Path) -> Option<PathBuf> {
    let name = log.output.frames.as_ref()?;
    Some(folder.join(name)).filter(|path| is_regular_file(path))
}

/// Returns all messages, and the number of those that can't be read.
fn messages(log: &YouBenchaLog, folder: &Path) -> Result<(Vec<LogMessage>, u64), ExportError> {
    let Some(omitted) = log.omitted.as_ref().filter(|omitted| omitted.messages > 0) else {
        return Ok((log.messages.clone(), 0));
    };
    let before = usize::try_from(omitted.messages_before).unwrap_or(usize::MAX).min(log.messages.len());
    let (first, last) = log.messages.split_at(before);
    let mut all = first.to_vec();
    if let Some(path) = frames(log, folder) {
        let read = |error: std::io::Error| failed(&path, &error.to_string());
        let mut input = yb_engine::frames::open(&path).map_err(read)?;
        for_each_omitted(log, &mut input, &mut |item| {
            if let OmittedItem::Message(message) = item
                && all.len() < before + MAX_OMITTED
            {
                all.push(message);
            }
        })
        .map_err(read)?;
    }
    let missing = omitted.messages.saturating_sub((all.len() - before) as u64);
    all.extend_from_slice(last);
    Ok((all, missing))
}

fn usage(log: &YouBenchaLog, folder: &Path) -> Result<Vec<Option<AnswerUsage>>, ExportError> {
    let Some(path) = frames(log, folder) else { return Ok(Vec::new()) };
    let read = |error: std::io::Error| failed(&path, &error.to_string());
    let mut input = yb_engine::frames::open(&path).map_err(read)?;
    answer_usage(log, &mut input).map_err(read)
}
