//! Further processes of a script: children, daemons, fork storms. Each runs this program with its steps as an
//! argument. A process calls `setsid` itself, so `fork` is not needed.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::content::Vars;
use super::script::{Child, ChildEnv, Group, Pipes, Storm};

/// The hidden first argument of a process started by another one.
pub(crate) const STEPS_FLAG: &str = "--play";

/// Linux rejects single arguments of 128 KiB or more.
const MAX_STEPS_BYTES: usize = 100 * 1024;

/// Bounds that keep the machine usable for other tests.
const MAX_CONCURRENT: u32 = 200;
const MAX_TOTAL: u32 = 5000;

/// Spawns further processes of a script with the state that they inherit.
pub(crate) struct Spawner<'a> {
    pub(crate) vars: &'a Vars,
    pub(crate) deadline_ms: u64,
}

impl Spawner<'_> {
    /// Returns a command that runs this program with the given steps.
    fn command(&self, steps: &[Value], group: Group) -> Result<Command, String> {
        let setsid = group == Group::Session;
        let part = json!({
            "steps": steps, "vars": self.vars, "deadline_ms": self.deadline_ms, "setsid": setsid,
        })
        .to_string();
        if part.len() > MAX_STEPS_BYTES {
            return Err(format!(
                "steps of a child are too large (maximum {MAX_STEPS_BYTES} bytes): {}",
                part.len()
            ));
        }
        let mut command = Command::new(program());
        command.arg0(std::env::args_os().next().unwrap_or_else(|| OsString::from("fake-agent")));
        command.arg(STEPS_FLAG).arg(part);
        if group == Group::Own {
            command.process_group(0);
        }
        Ok(command)
    }

    /// Starts children.
    pub(crate) fn child(&self, child: &Child) -> Result<(), String> {
        if child.count > MAX_CONCURRENT {
            return Err(format!("too many concurrent children (maximum {MAX_CONCURRENT}): {}", child.count));
        }
        let mut started = Vec::new();
        for _ in 0..child.count {
            let mut command = self.command(&child.steps.raw, child.group)?;
            if child.pipes == Pipes::Close {
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            }
            if child.env == ChildEnv::Clear {
                command.env_clear();
            }
            started.push(command.spawn().map_err(|error| format!("start a child: {error}"))?);
        }
        if child.wait {
            for mut process in started {
                process.wait().map_err(|error| format!("wait for a child: {error}"))?;
            }
        }
        Ok(())
    }

    /// Double-forks: a process in a new session starts the daemon and exits.
    pub(crate) fn daemon(&self, raw: &Value) -> Result<(), String> {
        let starter = json!({ "child": raw });
        let mut command = self.command(&[starter], Group::Session)?;
        let status = command.status().map_err(|error| format!("start a daemon: {error}"))?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("intermediate process of a daemon failed: {status}"))
        }
    }

    /// Starts the first generation of a fork storm.
    pub(crate) fn storm(&self, storm: &Storm, raw: &Value) -> Result<(), String> {
        if storm.width > MAX_CONCURRENT || storm.width.saturating_mul(storm.generations) > MAX_TOTAL {
            return Err(format!(
                "a storm is limited to {MAX_CONCURRENT} concurrent and {MAX_TOTAL} total processes"
            ));
        }
        for _ in 0..storm.width {
            self.next_generation(raw, storm)?;
        }
        Ok(())
    }

    /// Starts the next process of a chain.
    pub(crate) fn hop(&self, storm: &Storm, raw: &Value) -> Result<(), String> {
        let mut next = raw.clone();
        next["generations"] = json!(storm.generations - 1);
        self.next_generation(&next, storm)
    }

    fn next_generation(&self, raw: &Value, storm: &Storm) -> Result<(), String> {
        let mut command = self.command(&[json!({ "hop": raw })], storm.group)?;
        command.spawn().map(drop).map_err(|error| format!("start a storm: {error}"))
    }

    /// Starts a helper, in its own session and without pipes, that resumes this process later.
    pub(crate) fn waker(&self, after_ms: u64) -> Result<(), String> {
        let wake = json!({ "wake": { "pid": std::process::id(), "after_ms": after_ms } });
        let mut command = self.command(&[wake], Group::Session)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(drop).map_err(|error| format!("start a waker: {error}"))
    }

    /// Re-executes this program with an empty environment. Returns only on failure.
    pub(crate) fn reexec(&self, rest: &[Value]) -> String {
        match self.command(rest, Group::Same) {
            Ok(mut command) => format!("re-execute: {}", command.env_clear().exec()),
            Err(error) => error,
        }
    }
}

/// Returns this program, even if its file was removed or replaced.
fn program() -> OsString {
    if cfg!(target_os = "linux") {
        return OsString::from("/proc/self/exe");
    }
    std::env::current_exe().map(OsString::from).unwrap_or_default()
}
