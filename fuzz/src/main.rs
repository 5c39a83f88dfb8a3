//! Fuzzes every parser of files and streams that others write: `cargo run -p fuzz -- [--seconds N] [TARGET…]`.
//!
//! Runs on stable Rust: workers mutate seeds from the repository, and keep inputs that cause new behavior. See
//! docs/design/security-tests.md.
#![expect(clippy::print_stdout, reason = "the results are printed")]
#![expect(clippy::print_stderr, reason = "errors are printed")]
#![expect(
    clippy::disallowed_methods,
    reason = "workers are this program, with limits that they set for themselves"
)]

#[cfg(not(unix))]
compile_error!("the limits of the workers need Unix");

mod corpus;
mod hunt;
mod mutate;
mod random;
mod targets;
mod worker;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;

use crate::hunt::{Hunt, TargetReport};
use crate::targets::{TARGETS, Target};
use crate::worker::Work;

/// Fuzzes every parser of files and streams that others write.
#[derive(Debug, Parser)]
#[command(name = "fuzz")]
struct Arguments {
    /// Targets [default: all]
    targets: Vec<String>,
    /// Time for each target
    #[arg(long, default_value_t = 30, value_name = "N")]
    seconds: u64,
    /// Any text; the same seed gives the same inputs [default: the current time]
    #[arg(long)]
    seed: Option<String>,
    /// Targets at the same time [default: number of CPUs]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Directory for inputs that fail
    #[arg(long, default_value = "target/fuzz-failures", value_name = "DIR")]
    failures: PathBuf,
    /// Check one input of one target
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// List the targets
    #[arg(long)]
    list: bool,
    /// Maximum CPU time for one input
    #[arg(long, default_value_t = 10, value_name = "N")]
    cpu_seconds: u64,
    /// Run as a worker with its files in this directory
    #[arg(long, hide = true, value_name = "DIR")]
    worker: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    let selected = select(&arguments.targets)?;
    if arguments.list {
        for target in selected {
            println!("{:<10} {}", target.name, target.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let text = arguments.seed.clone().unwrap_or_else(now);
    let seed = random::seed_of(&text);
    let time = Duration::from_secs(arguments.seconds);
    let max_cpu = Duration::from_secs(arguments.cpu_seconds);
    if let (Some(directory), [target]) = (&arguments.worker, selected.as_slice()) {
        let work = match &arguments.replay {
            Some(file) => Work::Replay(file.clone()),
            None => Work::Explore { seed, time },
        };
        return worker::run(target, directory.clone(), work, max_cpu);
    }
    let hunt = Hunt { failures: arguments.failures.clone(), seed: text, time, max_cpu };
    if let Some(file) = &arguments.replay {
        let [target] = selected.as_slice() else {
            return Err(io::Error::other("`--replay` needs one target"));
        };
        return hunt.replay(target, file);
    }
    let jobs = arguments.jobs.or_else(|| thread::available_parallelism().ok().map(Into::into)).unwrap_or(1);
    println!(
        "{} targets, {} s each, {jobs} at once, seed `{}`",
        selected.len(),
        arguments.seconds,
        hunt.seed
    );
    let reports = explore_all(&hunt, &selected, jobs)?;
    let sum = |count: fn(&TargetReport) -> u64| reports.iter().map(count).sum::<u64>();
    let (inputs, failures) = (sum(|report| report.inputs), sum(|report| report.failures));
    println!("fuzz: {} targets, {inputs} inputs, {failures} failures", reports.len());
    Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn select(names: &[String]) -> io::Result<Vec<&'static Target>> {
    if names.is_empty() {
        return Ok(TARGETS.iter().collect());
    }
    names
        .iter()
        .map(|name| {
            let known = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
            targets::find(name).ok_or_else(|| {
                io::Error::other(format!("unknown target: `{name}`; expected one of {}", known()))
            })
        })
        .collect()
}

/// Fuzzes targets, some at the same time, and prints each report when it is complete.
fn explore_all(hunt: &Hunt, targets: &[&'static Target], jobs: usize) -> io::Result<Vec<TargetReport>> {
    let next = AtomicUsize::new(0);
    let reports = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let all: Vec<_> = (0..jobs.clamp(1, targets.len()))
            .map(|_| {
                scope.spawn(|| -> io::Result<()> {
                    while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let started = Instant::now();
                        let report = hunt.explore(target)?;
                        let mut reports = reports.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        report.print(target, started.elapsed());
                        reports.push(report);
                    }
                    Ok(())
                })
            })
            .collect();
        let failed = || Err(io::Error::other("a thread panicked"));
        all.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| failed()))
    })?;
    Ok(reports.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

fn now() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().to_string()
}
