//! Runs workers, confirms and minimizes the inputs that fail, and reports them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::random::seed_of;
use crate::targets::Target;
use crate::worker::{self, FOUND, HUNG, KNOWN, Numbers, VIOLATION, identity};

/// The maximum number of failures of a target; one bug often has many.
const MAX_FAILURES: u64 = 10;
/// The maximum time for minimizing one input.
const MAX_MINIMIZING: Duration = Duration::from_secs(20);

/// A run over some targets.
pub(crate) struct Hunt {
    pub(crate) failures: PathBuf,
    pub(crate) seed: String,
    pub(crate) time: Duration,
    pub(crate) max_cpu: Duration,
}

/// The result of a target.
#[derive(Debug, Default)]
pub(crate) struct TargetReport {
    pub(crate) inputs: u64,
    pub(crate) failures: u64,
    behaviors: u64,
    lines: Vec<String>,
}

impl TargetReport {
    pub(crate) fn print(&self, target: &Target, elapsed: Duration) {
        let rate = self.inputs as f64 / elapsed.as_secs_f64().max(0.001);
        println!(
            "{:<10} {:>9} inputs {rate:>7.0}/s {:>6} behaviors {:>3} failures",
            target.name, self.inputs, self.behaviors, self.failures
        );
        for line in &self.lines {
            println!("  {line}");
        }
    }
}

impl Hunt {
    /// Fuzzes a target for its time. A worker ends with its first failure; the next one goes on with other inputs.
    pub(crate) fn explore(&self, target: &Target) -> io::Result<TargetReport> {
        let mut report = TargetReport::default();
        let end = Instant::now() + self.time;
        let mut known = BTreeSet::new();
        for round in 0.. {
            let rest = end.saturating_duration_since(Instant::now());
            if rest < Duration::from_secs(1) && round > 0 || report.failures >= MAX_FAILURES {
                break;
            }
            let directory = scratch()?;
            fs::write(directory.path().join(KNOWN), known.iter().cloned().collect::<Vec<_>>().join("\n"))?;
            let mut command = self.worker_of(target, directory.path())?;
            command.arg(format!("--seconds={}", rest.as_secs().max(1)));
            command.arg(format!("--seed={} {} {round}", self.seed, target.name));
            let status = command.status()?;
            let numbers = Numbers::read(directory.path());
            report.inputs += numbers.inputs;
            report.behaviors = report.behaviors.max(numbers.behaviors);
            if status.success() {
                break;
            }
            if status.code() == Some(2) {
                return Err(io::Error::other(format!("the worker of `{}` could not run", target.name)));
            }
            let input = worker::last_input(directory.path())?;
            let found = describe(status, directory.path());
            match self.check_alone(target, &input)? {
                Some(again) if identity(&again) == identity(&found) => {
                    known.insert(identity(&found).to_owned());
                    report.failures += 1;
                    let (file, size) = self.keep(target, &input, &again)?;
                    report.lines.push(format!("FAILED {}", shortened(&again)));
                    report.lines.push(format!(
                        "  {} ({size} bytes); repeat: cargo run -p fuzz -- {} --replay {0}",
                        file.display(),
                        target.name
                    ));
                }
                other => report.lines.push(format!(
                    "not repeatable alone, so not counted: {} (alone: {})",
                    shortened(&found),
                    other.as_deref().map_or("passed", shortened)
                )),
            }
        }
        Ok(report)
    }

    /// Checks one input and prints the result.
    pub(crate) fn replay(&self, target: &Target, file: &Path) -> io::Result<ExitCode> {
        match self.check_alone(target, &fs::read(file)?)? {
            None => {
                println!("{}: passed", target.name);
                Ok(ExitCode::SUCCESS)
            }
            Some(violation) => {
                println!("{}: {violation}", target.name);
                Ok(ExitCode::FAILURE)
            }
        }
    }

    /// Minimizes an input and writes it to a file.
    fn keep(&self, target: &Target, input: &[u8], violation: &str) -> io::Result<(PathBuf, usize)> {
        let small = self.minimize(target, input, identity(violation))?;
        fs::create_dir_all(&self.failures)?;
        let name = format!("{}-{:016x}", target.name, seed_of(identity(violation)));
        let file = self.failures.join(name);
        fs::write(&file, &small)?;
        Ok((file, small.len()))
    }

    fn worker_of(&self, target: &Target, directory: &Path) -> io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(target.name).arg("--worker").arg(directory);
        command.arg(format!("--cpu-seconds={}", self.max_cpu.as_secs()));
        // Messages of a worker that aborts are part of the result, not of the output.
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(directory.join("stderr"))?);
        // A backtrace takes seconds.
        command.env("RUST_BACKTRACE", "0");
        Ok(command)
    }

    /// Checks an input in a process of its own. Returns the violation, if there is one.
    fn check_alone(&self, target: &Target, input: &[u8]) -> io::Result<Option<String>> {
        let directory = scratch()?;
        let file = directory.path().join("replay");
        fs::write(&file, input)?;
        let mut command = self.worker_of(target, directory.path())?;
        let status = command.arg("--replay").arg(&file).status()?;
        Ok((!status.success()).then(|| describe(status, directory.path())))
    }

    /// Removes ever smaller pieces of an input while it fails in the same way.
    fn minimize(&self, target: &Target, input: &[u8], wanted: &str) -> io::Result<Vec<u8>> {
        let end = Instant::now() + MAX_MINIMIZING;
        let mut best = input.to_vec();
        let mut size = best.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < best.len() {
                if Instant::now() > end {
                    return Ok(best);
                }
                let mut candidate = best.clone();
                candidate.drain(at..(at + size).min(best.len()));
                let fails =
                    self.check_alone(target, &candidate)?.is_some_and(|found| identity(&found) == wanted);
                if fails {
                    best = candidate;
                } else {
                    at += size;
                }
            }
            size /= 2;
        }
        Ok(best)
    }
}

fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(300)]
}

/// A directory in memory if there is one: inputs and files are written thousands of times per second.
fn scratch() -> io::Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir())
    } else {
        tempfile::tempdir()
    }
}

fn describe(status: ExitStatus, directory: &Path) -> String {
    let said = || fs::read_to_string(directory.join("stderr")).unwrap_or_default();
    match (status.code(), status.signal()) {
        (Some(code), _) if code == i32::from(FOUND) => {
            fs::read_to_string(directory.join(VIOLATION)).unwrap_or_else(|error| error.to_string())
        }
        (Some(code), _) if code == i32::from(HUNG) => {
            "an input takes too much CPU time: over the limit".to_owned()
        }
        (Some(code), _) => format!("exit code {code}: {}", said().trim()),
        (None, signal) => {
            let text = said();
            let cause = if text.contains("memory allocation") {
                "an input takes at most 512 MiB"
            } else if text.contains("overflowed its stack") {
                "an input takes at most 2 MiB of stack"
            } else {
                "no abort"
            };
            format!("{cause}: signal {}: {}", signal.unwrap_or(0), text.trim())
        }
    }
}
