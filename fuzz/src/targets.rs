//! The targets: one file for each format that others write.

mod case;
mod config;
mod diagnostics;
mod frames;
mod journal;
mod limits;
mod prompt;
mod redaction;
mod results;
mod script;
mod sse;
mod suite;
mod tape;
mod yaml;

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};

use crate::corpus::Seeds;

/// A parser with the properties that must hold for any input.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) seeds: fn() -> io::Result<Seeds>,
    /// Returns the violated property, as `property: detail`. A panic, an abort, a hang and excessive memory are violations of
    /// every target.
    pub(crate) check: fn(&mut Probe, &[u8]) -> Result<(), String>,
}

pub(crate) const TARGETS: &[Target] = &[
    case::TARGET,
    suite::TARGET,
    config::TARGET,
    yaml::TARGET,
    prompt::TARGET,
    script::TARGET,
    tape::TARGET,
    sse::TARGET,
    journal::TARGET,
    results::TARGET,
    frames::TARGET,
    redaction::TARGET,
];

pub(crate) fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().chain([&limits::TARGET]).find(|target| target.name == name)
}

/// A directory for the files of a check, and the behavior that the input caused.
pub(crate) struct Probe {
    dir: PathBuf,
    features: Vec<u64>,
}

impl Probe {
    pub(crate) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), features: Vec::new() }
    }

    /// Returns a path in the directory.
    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Writes a file into the directory.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, String> {
        let path = self.path(name);
        fs::write(&path, bytes).map_err(|error| format!("fuzzer can't write a file: {error}"))?;
        Ok(path)
    }

    /// Removes a file that a check wrote.
    fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.path(name));
    }

    /// Records a behavior. An input with a new one becomes a seed: without instrumented code, the messages and the shape of
    /// the result show which branches an input has reached.
    fn saw(&mut self, behavior: &(impl Hash + ?Sized)) {
        let mut hasher = DefaultHasher::new();
        behavior.hash(&mut hasher);
        self.features.push(hasher.finish());
    }

    /// Records a message without the values in it.
    fn saw_message(&mut self, message: &str) {
        let end = message.find([':', '`', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
        self.saw(&message[..end.unwrap_or(message.len())]);
    }

    /// Takes the behaviors of the last check.
    pub(crate) fn take_features(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.features)
    }
}

/// Fails with the property and a detail.
fn require(holds: bool, property: &str, detail: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{property}: {}", detail())) }
}

/// Returns the logarithm of a size, so that sizes of the same magnitude are the same behavior.
fn magnitude(size: usize) -> u32 {
    usize::BITS - size.leading_zeros()
}
