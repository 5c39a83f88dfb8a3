//! Plays steps in their order, each for real.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, getppid, kill_current_process_group, kill_process};
use serde_json::Value;

use super::content::{Vars, fill_in};
use super::script::{Expect, Flood, OnSignal, Print, ReadStdin, SendSignal, Step, Steps, Storm, Target};
use super::spawn::Inheritance;
use super::stage::{Stage, cpu_ms, now_ms};
use super::stdio::{self, Line, Sent, Stdin};
use super::{Failure, dump, files, signals};

/// Large enough that a flood is limited by its reader.
const FLOOD_CHUNK: usize = 256 * 1024;

/// One process of a script.
pub(crate) struct Player {
    deadline_ms: u64,
    vars: Vars,
    stdin: Stdin,
    stage: Stage,
    /// Memory that `allocate_mib` took and keeps.
    ballast: Vec<Vec<u8>>,
}

impl Player {
    /// A player whose process ends at the deadline (on the clock of [`now_ms`]), whatever happens.
    pub(crate) fn new(deadline_ms: u64, vars: Vars) -> Self {
        let left_s = deadline_ms.saturating_sub(now_ms()).div_ceil(1000);
        signals::end_after(u32::try_from(left_s).unwrap_or(u32::MAX));
        Self { deadline_ms, vars, stdin: Stdin::default(), stage: Stage::default(), ballast: Vec::new() }
    }

    /// Plays all steps; the exit code is 0 where none of them says another.
    pub(crate) fn perform(&mut self, steps: &Steps) -> Result<i32, Failure> {
        let code = self.play(steps)?;
        self.stage.give_way();
        Ok(code.unwrap_or(0))
    }

    /// The exit code, once a step asks to exit.
    fn play(&mut self, steps: &Steps) -> Result<Option<i32>, Failure> {
        for (index, step) in steps.parsed.iter().enumerate() {
            self.stage.give_way();
            match step {
                Step::Exit(code) => return Ok(Some(*code)),
                Step::Hop(storm) => {
                    self.hop(storm, &steps.raw[index]["hop"])?;
                    return Ok(Some(0));
                }
                Step::ClearEnv => return Err(self.heirs().reexec(&steps.raw_after(index)).into()),
                Step::Daemon(_) => self.heirs().daemon(&steps.raw[index]["daemon"])?,
                Step::Storm(storm) => self.heirs().storm(storm, &steps.raw[index]["storm"])?,
                step => self.step(step)?,
            }
        }
        Ok(None)
    }

    fn step(&mut self, step: &Step) -> Result<(), Failure> {
        match step {
            Step::Print(print) => self.print(print)?,
            Step::Flood(flood) => self.flood(flood)?,
            Step::SleepMs(millis) => self.stage.nap(*millis),
            Step::Write(write) => {
                files::replace(&self.path(&write.options.path)?, &write.content.bytes(&self.vars)?)?;
            }
            Step::Append(append) => {
                files::append(&self.path(&append.options.path)?, append, &self.vars, &self.stage)?;
            }
            Step::Delete(path) => files::delete(&self.path(path)?)?,
            Step::Commit(commit) => files::commit(commit)?,
            Step::PidFile(path) => self.pid_file(path)?,
            Step::WaitForFile(wait) => self.wait_for_file(&wait.path, wait.timeout_ms)?,
            Step::Dump(dump) => {
                if dump.read_stdin {
                    self.read_stdin(&ReadStdin::default())?;
                }
                let text = format!("{:#}\n", dump::everything(self.stdin.seen()));
                files::replace(&self.path(&dump.path)?, text.as_bytes())?;
            }
            Step::ReadStdin(read) => self.read_stdin(read)?,
            Step::Expect(expect) => self.expect(expect)?,
            Step::Close(streams) => streams.iter().try_for_each(|stream| stdio::close(*stream))?,
            Step::Ignore(names) => names.iter().for_each(|name| signals::ignore(name.0)),
            Step::OnSignal(handler) => self.on_signal(handler)?,
            Step::Child(child) => self.heirs().child(child)?,
            Step::Wake(wake) => {
                self.stage.nap(wake.after_ms);
                let pid = Pid::from_raw(wake.pid).ok_or("no such pid".to_owned())?;
                send_signal(pid, Signal::CONT)?;
            }
            Step::Stop => send_signal(getpid(), Signal::STOP)?,
            Step::WakeMeMs(millis) => self.heirs().waker(*millis)?,
            Step::Signal(signal) => signal_to(signal)?,
            Step::AllocateMib(mib) => self.ballast.push(std::hint::black_box(vec![1; mib * 1024 * 1024])),
            Step::BurnMs(millis) => self.burn(*millis),
            Step::Die(name) => die(name.0)?,
            Step::Exit(_) | Step::Hop(_) | Step::ClearEnv | Step::Daemon(_) | Step::Storm(_) => {}
        }
        Ok(())
    }

    fn heirs(&self) -> Inheritance<'_> {
        Inheritance { vars: &self.vars, deadline_ms: self.deadline_ms }
    }

    fn path(&self, path: &str) -> Result<PathBuf, String> {
        fill_in(path, &self.vars).map(PathBuf::from)
    }

    fn print(&self, print: &Print) -> Result<(), String> {
        let bytes = print.content.bytes(&self.vars)?;
        for round in 0..print.options.times.unwrap_or(1) {
            if round > 0 {
                self.stage.nap(print.options.every_ms);
            }
            self.stage.give_way();
            if stdio::send(print.options.to, &bytes)? == Sent::Broken {
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
            self.stage.give_way();
            if length == 0 || stdio::send(flood.to, &chunk[..length])? == Sent::Broken {
                break;
            }
            left -= u64::try_from(length).unwrap_or_default();
        }
        Ok(())
    }

    fn pid_file(&self, path: &str) -> Result<(), String> {
        let process = crate::process::Process::this();
        files::replace(&self.path(path)?, format!("{process}\n").as_bytes())
    }

    fn wait_for_file(&self, path: &str, timeout_ms: u64) -> Result<(), Failure> {
        let path = self.path(path)?;
        let end = now_ms() + timeout_ms;
        while !path.exists() {
            if now_ms() > end {
                return Err(Failure::Unexpected(format!("no {} after {timeout_ms} ms", path.display())));
            }
            self.stage.nap(5);
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
                self.stage.nap(read.every_ms);
            }
            self.stage.give_way();
        }
        Ok(())
    }

    fn expect(&mut self, expect: &Expect) -> Result<(), Failure> {
        let timeout_ms = expect.timeout_ms.unwrap_or(10_000);
        let deadline_ms = now_ms() + timeout_ms;
        loop {
            let line = match self.stdin.line(deadline_ms)? {
                Line::Read(line) => String::from_utf8_lossy(&line).into_owned(),
                Line::End => {
                    return Err(Failure::Unexpected("stdin ended before the expected line".to_owned()));
                }
                Line::TimedOut => {
                    return Err(Failure::Unexpected(format!(
                        "no expected line on stdin after {timeout_ms} ms"
                    )));
                }
            };
            let json: Value = serde_json::from_str(&line).unwrap_or_default();
            match mismatch(expect, &line, &json) {
                None => {
                    for (name, pointer) in &expect.capture {
                        let value = json.pointer(pointer).cloned().ok_or_else(|| {
                            Failure::Unexpected(format!("nothing at `{pointer}` to capture in: {line}"))
                        })?;
                        self.vars.insert(name.clone(), value);
                    }
                    return Ok(());
                }
                Some(_) if expect.skip_others => {}
                Some(reason) => return Err(Failure::Unexpected(format!("{reason}, in the line: {line}"))),
            }
        }
    }

    /// From now on the signals are taken by a thread that plays the handler's steps.
    fn on_signal(&mut self, handler: &OnSignal) -> Result<(), Failure> {
        let stage = self.stage.for_handler()?;
        let caught: Vec<Signal> = handler.signals.iter().map(|name| name.0).collect();
        signals::hold_back(&caught);
        let mut player = Self {
            deadline_ms: self.deadline_ms,
            vars: self.vars.clone(),
            stdin: Stdin::default(),
            stage,
            ballast: Vec::new(),
        };
        let handler = handler.clone();
        std::thread::spawn(move || {
            while signals::wait_for(&caught).is_some() {
                player.stage.set_handling(true);
                match player.play(&handler.steps) {
                    Ok(code) => {
                        if let Some(code) = code.or(handler.exit) {
                            leave(code);
                        }
                    }
                    Err(failure) => leave(super::report(&failure)),
                }
                player.stage.set_handling(false);
            }
        });
        Ok(())
    }

    fn hop(&self, storm: &Storm, raw: &Value) -> Result<(), String> {
        self.stage.nap(storm.every_ms);
        if storm.generations > 1 {
            return self.heirs().hop(storm, raw);
        }
        self.stage.nap(storm.linger_ms);
        Ok(())
    }

    fn burn(&self, millis: u64) {
        let end = cpu_ms() + millis;
        let mut sum = 0_u64;
        while cpu_ms() < end {
            for number in 0..10_000_u64 {
                sum = std::hint::black_box(sum.wrapping_add(number));
            }
            self.stage.give_way();
        }
    }
}

/// What a flood repeats: whole lines, or the parts of one long line.
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

/// Ends the process from the thread that plays a signal's steps, where returning from `main` is no way out.
#[expect(clippy::exit, reason = "only the main thread could return an exit code")]
fn leave(code: i32) -> ! {
    std::process::exit(code)
}

/// Why a line is not the expected one.
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

/// Dies by a signal, without a core file.
fn die(signal: Signal) -> Result<(), String> {
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::setrlimit(rustix::process::Resource::Core, none)
        .map_err(|error| format!("setrlimit: {error}"))?;
    if signal != Signal::KILL && signal != Signal::STOP {
        signals::restore(signal);
    }
    send_signal(getpid(), signal)?;
    // A signal to oneself may be delivered to another thread a moment later.
    std::thread::sleep(Duration::from_secs(5));
    Err(format!("survived {signal:?}"))
}
