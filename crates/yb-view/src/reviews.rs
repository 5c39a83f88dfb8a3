//! Labels of people on trials and on verdicts of evaluators: append-only lines beside the run.

use std::fs::{self, File};
use std::io::{self, Write as _};

use serde::{Deserialize, Serialize};
use yb_engine::run::RunDir;

/// The file of labels in a run's directory.
const FILE: &str = "reviews.jsonl";
/// The version of a line.
const VERSION: u32 = 1;

/// A label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Label {
    Pass,
    Fail,
    Unsure,
}

impl Label {
    pub(crate) const ALL: [Self; 3] = [Self::Pass, Self::Fail, Self::Unsure];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Unsure => "unsure",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|label| label.as_str() == text)
    }
}

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Review {
    /// Version of the line.
    pub(crate) v: u32,
    /// When it was written, ISO 8601.
    pub(crate) at: String,
    /// The folder of the trial.
    pub(crate) trial: String,
    /// The evaluator whose verdict is labeled; absent if the trial is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) evaluator: Option<String>,
    pub(crate) label: Label,
    /// The category of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) category: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
}

impl Review {
    pub(crate) fn new(trial: &str, label: Label) -> Self {
        let at = jiff::Timestamp::now().to_string();
        Self { v: VERSION, at, trial: trial.to_owned(), evaluator: None, label, category: None, note: None }
    }
}

/// All labels of a run.
#[derive(Debug, Default)]
pub(crate) struct Reviews {
    /// In the order in which they were written.
    pub(crate) reviews: Vec<Review>,
    /// Lines that can't be read.
    pub(crate) skipped: usize,
}

impl Reviews {
    /// Returns the categories that were used, without duplicates.
    pub(crate) fn categories(&self) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.reviews.iter().filter_map(|review| review.category.as_deref()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Reads the labels of a run.
pub(crate) fn read(run: &RunDir) -> Reviews {
    let text = fs::read_to_string(run.path().join(FILE)).unwrap_or_default();
    let mut found = Reviews::default();
    for line in text.lines() {
        match serde_json::from_str(line) {
            Ok(review) => found.reviews.push(review),
            Err(_) => found.skipped += 1,
        }
    }
    found
}

/// Appends a label.
pub(crate) fn append(run: &RunDir, review: &Review) -> io::Result<()> {
    let mut line = serde_json::to_vec(review)?;
    line.push(b'\n');
    let path = run.path().join(FILE);
    if path.symlink_metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Err(io::Error::other("not a regular file"));
    }
    let mut file = File::options().create(true).append(true).open(path)?;
    file.write_all(&line)?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_appended_and_damaged_lines_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::at(folder.path());
        assert!(read(&run).reviews.is_empty());
        let first = Review::new("a--b--1", Label::Fail);
        append(&run, &first).unwrap();
        let second =
            Review { category: Some("wrong file".to_owned()), ..Review::new("a--b--2", Label::Unsure) };
        fs::write(
            folder.path().join(FILE),
            [fs::read(folder.path().join(FILE)).unwrap(), b"nonsense\n".to_vec()].concat(),
        )
        .unwrap();
        append(&run, &second).unwrap();
        let found = read(&run);
        assert_eq!((found.reviews.clone(), found.skipped), (vec![first, second], 1));
        assert_eq!(found.categories(), ["wrong file"]);
    }
}
