//! The worker process: checks inputs one after another, within limits on time and memory.
//!
//! Each input is on disk before it is checked, so that the input that aborted, hung or exhausted the memory is known.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::corpus::Seeds;
use crate::mutate::{Material, mutate};
use crate::random::Random;
use crate::targets::{Probe, Target};

/// The file with the input that is being checked: its length as eight bytes, and the input.
pub(crate) const INPUT: &str = "input";
/// The file with the first violation.
pub(crate) const VIOLATION: &str = "violation";
/// The file with the identities of violations that are already reported.
pub(crate) const KNOWN: &str = "known";
/// The file with the numbers of a worker that ended by itself.
pub(crate) const NUMBERS: &str = "numbers";

/// The exit code of a worker that found a violation.
pub(crate) const FOUND: u8 = 3;
/// The exit code of a worker whose input took too long.
pub(crate) const HUNG: u8 = 4;

/// The maximum time for one input, also on a machine under load: a read that blocks takes no CPU time.
const MAX_TIME: Duration = Duration::from_secs(90);
/// The maximum address space for one input, above what the worker has at its start. The largest input is 128 KiB; the parser of
/// prompts reserves a stack of 256 MiB.
const MAX_MEMORY: u64 = 512 << 20;
/// The stack of a thread of the async runtime that `yb` runs on.
const STACK: usize = 2 << 20;
/// The maximum number of inputs in the corpus.
const MAX_CORPUS: usize = 10_000;

/// The work of a worker.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    /// Mutate the seeds for some time.
    Explore { seed: u64, time: Duration },
    /// Check one input.
    Replay(PathBuf),
}

/// Counts of a worker that ended by itself.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Numbers {
    pub(crate) inputs: u64,
    pub(crate) behaviors: u64,
}

impl Numbers {
    pub(crate) fn read(directory: &Path) -> Self {
        let text = fs::read_to_string(directory.join(NUMBERS)).unwrap_or_default();
        let mut numbers = text.split(' ').map(|number| number.parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        Self { inputs: next(), behaviors: next() }
    }

    fn write(self, directory: &Path) -> io::Result<()> {
        fs::write(directory.join(NUMBERS), format!("{} {}", self.inputs, self.behaviors))
    }
}

/// Reads the input of a worker that died.
pub(crate) fn last_input(directory: &Path) -> io::Result<Vec<u8>> {
    let bytes = fs::read(directory.join(INPUT))?;
    let (length, input) = bytes.split_first_chunk::<8>().ok_or(io::ErrorKind::UnexpectedEof)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    Ok(input[..length.min(input.len())].to_vec())
}

/// Runs a worker. This thread watches the time.
pub(crate) fn run(
    target: &'static Target,
    directory: PathBuf,
    work: Work,
    max_cpu: Duration,
) -> io::Result<ExitCode> {
    let started = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&started);
    let checking = thread::Builder::new().stack_size(STACK).spawn(move || {
        let mut worker = Worker::new(target, directory, counter)?;
        worker.run(&work)
    })?;
    let mut last = (0, Instant::now(), cpu_time());
    while !checking.is_finished() {
        thread::sleep(Duration::from_millis(20));
        let current = started.load(Ordering::Relaxed);
        let (input, since, cpu) = last;
        if current != input {
            last = (current, Instant::now(), cpu_time());
        } else if current > 0 && (cpu_time().saturating_sub(cpu) > max_cpu || since.elapsed() > MAX_TIME) {
            // The thread can't be ended, so it ends with the process.
            return Ok(ExitCode::from(HUNG));
        }
    }
    checking.join().unwrap_or_else(|_| Err(io::Error::other("the checking thread panicked")))
}

struct Worker {
    target: &'static Target,
    directory: PathBuf,
    probe: Probe,
    input: File,
    /// Counts the inputs, for the thread that watches the time.
    started: Arc<AtomicU64>,
    panicked: Arc<Mutex<Option<String>>>,
    known: HashSet<String>,
}

impl Worker {
    fn new(target: &'static Target, directory: PathBuf, started: Arc<AtomicU64>) -> io::Result<Self> {
        let panicked = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&panicked);
        panic::set_hook(Box::new(move |info| {
            let message = info.payload_as_str().unwrap_or("no message");
            let place = info.location().map(|at| format!("{}:{}", at.file(), at.line())).unwrap_or_default();
            *slot.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(format!("panic at {place}: {message}"));
        }));
        let files = directory.join("files");
        fs::create_dir_all(&files)?;
        let known = fs::read_to_string(directory.join(KNOWN)).unwrap_or_default();
        Ok(Self {
            target,
            probe: Probe::new(&files),
            input: File::create(directory.join(INPUT))?,
            directory,
            started,
            panicked,
            known: known.lines().map(str::to_owned).collect(),
        })
    }

    fn run(&mut self, work: &Work) -> io::Result<ExitCode> {
        match work {
            Work::Explore { seed, time } => self.explore(*seed, *time),
            Work::Replay(file) => {
                let input = fs::read(file)?;
                limit_memory()?;
                Ok(if self.passes(&input)? { ExitCode::SUCCESS } else { ExitCode::from(FOUND) })
            }
        }
    }

    fn explore(&mut self, seed: u64, time: Duration) -> io::Result<ExitCode> {
        let seeds = (self.target.seeds)()?;
        let words = seeds.words();
        let Seeds { inputs: mut corpus, .. } = seeds;
        let mut random = Random::new(seed);
        let mut behaviors = HashSet::new();
        limit_memory()?;
        let end = Instant::now() + time;
        let mut numbers = Numbers::default();
        let originals = corpus.len();
        while Instant::now() < end {
            // The seeds themselves first.
            let input = match usize::try_from(numbers.inputs) {
                Ok(at) if at < originals => corpus[at].clone(),
                _ => mutate(&mut random, &Material { corpus: &corpus, words: &words }),
            };
            if !self.passes(&input)? {
                numbers.write(&self.directory)?;
                return Ok(ExitCode::from(FOUND));
            }
            numbers.inputs += 1;
            let before = behaviors.len();
            behaviors.extend(self.probe.take_features());
            if behaviors.len() > before && corpus.len() < MAX_CORPUS {
                corpus.push(input);
            }
            numbers.behaviors = behaviors.len() as u64;
        }
        numbers.write(&self.directory)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Checks an input. A violation is written to its file, unless it is known.
    fn passes(&mut self, input: &[u8]) -> io::Result<bool> {
        self.input.write_all_at(&(input.len() as u64).to_le_bytes(), 0)?;
        self.input.write_all_at(input, 8)?;
        self.started.fetch_add(1, Ordering::Relaxed);
        let check = self.target.check;
        let result = panic::catch_unwind(AssertUnwindSafe(|| check(&mut self.probe, input)));
        let violation = match result {
            Ok(Ok(())) => return Ok(true),
            Ok(Err(violation)) => violation,
            Err(_) => {
                let mut panicked = self.panicked.lock().unwrap_or_else(PoisonError::into_inner);
                panicked.take().unwrap_or_else(|| "panic".to_owned())
            }
        };
        if self.known.contains(identity(&violation)) {
            return Ok(true);
        }
        let mut file = File::create(self.directory.join(VIOLATION))?;
        file.write_all(violation.as_bytes())?;
        Ok(false)
    }
}

/// Returns the part of a violation that identifies it: the property, or the place of a panic.
pub(crate) fn identity(violation: &str) -> &str {
    violation.split(": ").next().unwrap_or(violation)
}

/// Returns the CPU time of this process so far; zero where it is unknown.
fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The fields after the name, which may contain anything: user time and system time are the 12th and 13th.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// Limits the address space, so that an allocation that is too large fails and aborts the worker.
fn limit_memory() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Resource, Rlimit, setrlimit};
        let status = fs::read_to_string("/proc/self/status")?;
        let size = status
            .lines()
            .find_map(|line| line.strip_prefix("VmSize:")?.trim().strip_suffix(" kB")?.parse().ok());
        let kilobytes: u64 = size.ok_or_else(|| io::Error::other("no `VmSize` in `/proc/self/status`"))?;
        let limit = Some((kilobytes << 10) + MAX_MEMORY);
        setrlimit(Resource::As, Rlimit { current: limit, maximum: limit })?;
        // A core dump for each abort would fill the disk.
        setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    }
    Ok(())
}
