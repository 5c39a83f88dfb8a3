//! Runs the steps of a script.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, getppid, kill_current_process_group, kill_process};
use serde_json::Value;

use super::content::{Vars, interpolate};
use super::scheduler::{StepScheduler, cpu_ms, now_ms};
use super::script::{Expect, Flood, OnSignal, Print, ReadStdin, SendSignal, Step, Steps, Storm, Target};
use super::spawn::Spawner;
use super::stdio::{self, LineRead, Stdin, WriteOutcome};
use super::{Failure, dump, files, signals};

/// Large enough that a flood is limited by its reader.
const FLOOD_CHUNK: usize = 256 * 1024;

/// The state of one process of a script.
pub(crate) struct ScriptRunner {
    deadline_ms: u64,
    vars: Vars,
    stdin: Stdin,
    scheduler: StepScheduler,
    /// Memory allocated by `allocate_mib`.
    ballast: Vec<Vec<u8>>,
}

impl ScriptRunner {
    /// Creates a runner whose process is killed at the deadline (in terms of [`now_ms`]).
    pub(crate) fn new(deadline_ms: u64, vars: Vars) -> Self {
        let left_s = deadline_ms.saturating_sub(now_ms()).div_ceil(1000);
        signals::set_alarm(u32::try_from(left_s).unwrap_or(u32::MAX));
        Self {
            deadline_ms,
            vars,
            stdin: Stdin::default(),
            scheduler: StepScheduler::default(),
            ballast: Vec::new(),
        }
    }

    /// Runs all steps. Returns the exit code, 0 by default.
    pub(crate) fn run(&mut self, steps: &Steps) -> Result<i32, Failure> {
        let code = self.run_steps(steps)?;
        self.scheduler.wait_for_handler();
        Ok(code.unwrap_or(0))
    }

    /// Runs steps until one of them exits, and returns its exit code.
    fn run_steps(&mut self, steps: &Steps) -> Result<Option<i32>, Failure> {
        for (index, step) in steps.parsed.iter().enumerate() {
            self.scheduler.wait_for_handler();
            match step {
                Step::Exit(code) => return Ok(Some(*code)),
                Step::Hop(storm) => {
                    self.hop(storm, &steps.raw[index]["hop"])?;
                    return Ok(Some(0));
                }
                Step::ClearEnv => return Err(self.spawner().reexec(&steps.raw_after(index)).into()),
                Step::Daemon(_) => self.spawner().daemon(&steps.raw[index]["daemon"])?,
                Step::Storm(storm) => self.spawner().storm(storm, &steps.raw[index]["storm"])?,
                step => self.step(step)?,
            }
        }
        Ok(None)
    }

    fn step(&mut self, step: &Step) -> Result<(), Failure> {
        match step {
            Step::Print(print) => self.print(print)?,
            Step::Flood(flood) => self.flood(flood)?,
            Step::SleepMs(millis) => self.scheduler.sleep(*millis),
            Step::Write(write) => {
                files::replace(&self.path(&write.options.path)?, &write.content.bytes(&self.vars)?)?;
            }
            Step::Append(append) => {
                files::append(&self.path(&append.options.path)?, append, &self.vars, &self.scheduler)?;
            }
            Step::Delete(path) => files::delete(&self.path(path)?)?,
            Step::Commit(commit) => files::commit(commit)?,
            Step::PidFile(path) => self.pid_file(path)?,
            Step::WaitForFile(wait) => self.wait_for_file(&wait.path, wait.timeout_ms)?,
            Step::Dump(dump) => {
                if dump.read_stdin {
                    self.read_stdin(&ReadStdin::default())?;
                }
                let text = format!("{:#}\n", dump::process_state(self.stdin.seen()));
                files::replace(&self.path(&dump.path)?, text.as_bytes())?;
            }
            Step::ReadStdin(read) => self.read_stdin(read)?,
            Step::Expect(expect) => self.expect(expect)?,
            Step::Close(streams) => streams.iter().try_for_each(|stream| stdio::close(*stream))?,
            Step::Ignore(names) => names.iter().for_each(|name| signals::ignore(name.0)),
            Step::OnSignal(handler) => self.on_signal(handler)?,
            Step::Child(child) => self.spawner().child(child)?,
            Step::Wake(wake) => {
                self.scheduler.sleep(wake.after_ms);
                let pid = Pid::from_raw(wake.pid).ok_or("no such pid".to_owned())?;
                send_signal(pid, Signal::CONT)?;
            }
            Step::Stop => send_signal(getpid(), Signal::STOP)?,
            Step::WakeMeMs(millis) => self.spawner().waker(*millis)?,
            Step::Signal(signal) => signal_to(signal)?,
            Step::AllocateMib(mib) => self.ballast.push(std::hint::black_box(vec![1; mib * 1024 * 1024])),
            Step::BurnMs(millis) => self.burn(*millis),
            Step::Die(name) => die(name.0)?,
            Step::Exit(_) | Step::Hop(_) | Step::ClearEnv | Step::Daemon(_) | Step::Storm(_) => {}
        }
        Ok(())
    }

    fn spawner(&self) -> Spawner<'_> {
        Spawner { vars: &self.vars, deadline_ms: self.deadline_ms }
    }

    fn path(&self, path: &str) -> Result<PathBuf, String> {
        interpolate(path, &self.vars).map(PathBuf::from)
    }

    fn print(&self, print: &Print) -> Result<(), String> {
        let bytes = print.content.bytes(&self.vars)?;
        for round in 0..print.options.times.unwrap_or(1) {
            if round > 0 {
                self.scheduler.sleep(print.options.every_ms);
            }
            self.scheduler.wait_for_handler();
            if stdio::send(print.options.to, &bytes)? == WriteOutcome::BrokenPipe {
                break;
            }
        }
        Ok(())
    }

    fn flood(&self, flood: &Flood) -> Result<(), String> {
        let chunks = flood_chunks(flood);
        let mut left = flood.bytes;
        for chunk in chunks.iter().cycle() {
            let length = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len());
            self.scheduler.wait_for_handler();
            if length == 0 || stdio::send(flood.to, &chunk[..length])? == WriteOutcome::BrokenPipe {
                break;
            }
            left -= u64::try_from(length).unwrap_or_default();
        }
        Ok(())
    }

    fn pid_file(&self, path: &str) -> Result<(), String> {
        let process = crate::process::Process::current();
        files::replace(&self.path(path)?, format!("{process}\n").as_bytes())
    }

    fn wait_for_file(&self, path: &str, timeout_ms: u64) -> Result<(), Failure> {
        let path = self.path(path)?;
        let end = now_ms() + timeout_ms;
        while !path.exists() {
            if now_ms() > end {
                return Err(Failure::Unexpected(format!("no {} after {timeout_ms} ms", path.display())));
            }
            self.scheduler.sleep(5);
        }
        Ok(())
    }

    fn read_stdin(&mut self, read: &ReadStdin) -> Result<(), String> {
        let mut left = read.bytes.unwrap_or(u64::MAX);
        while left > 0 {
            let chunk = read.chunk.unwrap_or(256 * 1024).min(usize::try_from(left).unwrap_or(usize::MAX));
            let count = self.stdin.read(chunk)?;
            if count == 0 {
                break;
            }
            left -= u64::try_from(count).unwrap_or_default().min(left);
            if read.every_ms > 0 {
                self.scheduler.sleep(read.every_ms);
            }
            self.scheduler.wait_for_handler();
        }
        Ok(())
    }

    fn expect(&mut self, expect: &Expect) -> Result<(), Failure> {
        let timeout_ms = expect.timeout_ms.unwrap_or(10_000);
        let deadline_ms = now_ms() + timeout_ms;
        loop {
            let line = match self.stdin.line(deadline_ms)? {
                LineRead::Line(line) => String::from_utf8_lossy(&line).into_owned(),
                LineRead::Eof => {
                    return Err(Failure::Unexpected("stdin ended before the expected line".to_owned()));
                }
                LineRead::TimedOut => {
                    return Err(Failure::Unexpected(format!(
                        "timed out waiting for a line on stdin after {timeout_ms} ms"
                    )));
                }
            };
            let json: Value = serde_json::from_str(&line).unwrap_or_default();
            match mismatch(expect, &line, &json) {
                None => {
                    for (name, pointer) in &expect.capture {
                        let value = json.pointer(pointer).cloned().ok_or_else(|| {
                            Failure::Unexpected(format!("no value to capture at `{pointer}` in: {line}"))
                        })?;
                        self.vars.insert(name.clone(), value);
                    }
                    return Ok(());
                }
                Some(_) if expect.skip_others => {}
                Some(reason) => return Err(Failure::Unexpected(format!("{reason} in line: {line}"))),
            }
        }
    }

    /// Starts a thread that handles the signals by running the steps.
    fn on_signal(&mut self, handler: &OnSignal) -> Result<(), Failure> {
        let scheduler = self.scheduler.for_handler()?;
        let caught: Vec<Signal> = handler.signals.iter().map(|name| name.0).collect();
        signals::block(&caught);
        let mut runner = Self {
            deadline_ms: self.deadline_ms,
            vars: self.vars.clone(),
            stdin: Stdin::default(),
            scheduler,
            ballast: Vec::new(),
        };
        let handler = handler.clone();
        std::thread::spawn(move || {
            while signals::wait_for(&caught).is_some() {
                runner.scheduler.set_handling(true);
                match runner.run_steps(&handler.steps) {
                    Ok(code) => {
                        if let Some(code) = code.or(handler.exit) {
                            exit_process(code);
                        }
                    }
                    Err(failure) => exit_process(super::report(&failure)),
                }
                runner.scheduler.set_handling(false);
            }
        });
        Ok(())
    }

    fn hop(&self, storm: &Storm, raw: &Value) -> Result<(), String> {
        self.scheduler.sleep(storm.every_ms);
        if storm.generations > 1 {
            return self.spawner().hop(storm, raw);
        }
        self.scheduler.sleep(storm.linger_ms);
        Ok(())
    }

    fn burn(&self, millis: u64) {
        let end = cpu_ms() + millis;
        let mut sum = 0_u64;
        while cpu_ms() < end {
            for number in 0..10_000_u64 {
                sum = std::hint::black_box(sum.wrapping_add(number));
            }
            self.scheduler.wait_for_handler();
        }
    }
}

/// Returns the chunks that a flood repeats: complete lines, or the parts of one long line.
fn flood_chunks(flood: &Flood) -> Vec<Vec<u8>> {
    let Some(line) = flood.line.map(|line| usize::try_from(line.max(1)).unwrap_or(usize::MAX)) else {
        return vec![vec![b'x'; FLOOD_CHUNK]];
    };
    if line <= FLOOD_CHUNK {
        let mut one = vec![b'x'; line];
        one[line - 1] = b'\n';
        return vec![one.repeat(FLOOD_CHUNK / line)];
    }
    let mut chunks = vec![vec![b'x'; FLOOD_CHUNK]; line / FLOOD_CHUNK];
    let mut end = vec![b'x'; line % FLOOD_CHUNK];
    if end.is_empty() {
        end = chunks.pop().unwrap_or_default();
    }
    let last = end.len() - 1;
    end[last] = b'\n';
    chunks.push(end);
    chunks
}

/// Exits the process from the signal handler thread.
#[expect(clippy::exit, reason = "only the main thread could return an exit code")]
fn exit_process(code: i32) -> ! {
    std::process::exit(code)
}

/// Returns why a line does not match.
fn mismatch(expect: &Expect, line: &str, json: &Value) -> Option<String> {
    if let Some(text) = expect.contains.as_ref().filter(|text| !line.contains(text.as_str())) {
        return Some(format!("expected the text `{text}`"));
    }
    expect.fields.iter().find_map(|(pointer, wanted)| match json.pointer(pointer) {
        Some(found) if found == wanted => None,
        Some(found) => Some(format!("expected {wanted} at `{pointer}`, found {found}")),
        None => Some(format!("expected {wanted} at `{pointer}`, found nothing")),
    })
}

fn signal_to(step: &SendSignal) -> Result<(), String> {
    match step.to {
        Target::Itself => send_signal(getpid(), step.signal.0),
        Target::Parent => send_signal(getppid().ok_or("this process has no parent")?, step.signal.0),
        Target::Group => {
            kill_current_process_group(step.signal.0).map_err(|error| format!("signal the group: {error}"))
        }
    }
}

fn send_signal(pid: Pid, signal: Signal) -> Result<(), String> {
    kill_process(pid, signal).map_err(|error| format!("signal {signal:?} to {pid:?}: {error}"))
}

/// Kills this process by a signal, without a core dump.
fn die(signal: Signal) -> Result<(), String> {
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::setrlimit(rustix::process::Resource::Core, none)
        .map_err(|error| format!("setrlimit: {error}"))?;
    if signal != Signal::KILL && signal != Signal::STOP {
        signals::restore(signal);
    }
    send_signal(getpid(), signal)?;
    // The signal may be delivered to another thread, slightly later.
    std::thread::sleep(Duration::from_secs(5));
    Err(format!("survived {signal:?}"))
}
