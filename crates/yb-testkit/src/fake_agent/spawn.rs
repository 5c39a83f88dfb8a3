//! Further processes of a script: children, daemons, storms. Each is this program again, with its steps as
//! an argument; a session is made by the process that wants one, so nothing here needs `fork`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::content::Vars;
use super::script::{Child, ChildEnv, Group, Pipes, Storm};

/// The hidden first argument of a process that another one started.
pub(crate) const PLAY_FLAG: &str = "--play";

/// Linux takes no single argument of 128 KiB or more.
const MOST_STEPS: usize = 100 * 1024;

/// A storm stays small enough for a machine that runs other tests too.
const MOST_AT_ONCE: u32 = 200;
const MOST_IN_ALL: u32 = 5000;

/// What every process of a script hands to the next one.
pub(crate) struct Inheritance<'a> {
    pub(crate) vars: &'a Vars,
    pub(crate) deadline_ms: u64,
}

impl Inheritance<'_> {
    /// This program again, for the given steps.
    fn command(&self, steps: &[Value], group: Group) -> Result<Command, String> {
        let setsid = group == Group::Session;
        let part = json!({
            "steps": steps, "vars": self.vars, "deadline_ms": self.deadline_ms, "setsid": setsid,
        })
        .to_string();
        if part.len() > MOST_STEPS {
            return Err(format!("the steps of a child take at most {MOST_STEPS} bytes: {}", part.len()));
        }
        let mut command = Command::new(program());
        command.arg0(std::env::args_os().next().unwrap_or_else(|| OsString::from("fake-agent")));
        command.arg(PLAY_FLAG).arg(part);
        if group == Group::Own {
            command.process_group(0);
        }
        Ok(command)
    }

    /// Starts a child, as often as the step says.
    pub(crate) fn child(&self, child: &Child) -> Result<(), String> {
        if child.count > MOST_AT_ONCE {
            return Err(format!("at most {MOST_AT_ONCE} children at once, found: {}", child.count));
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

    /// The double fork: a process with a session of its own starts the daemon and exits; this one has waited.
    pub(crate) fn daemon(&self, raw: &Value) -> Result<(), String> {
        let starter = json!({ "child": raw });
        let mut command = self.command(&[starter], Group::Session)?;
        let status = command.status().map_err(|error| format!("start a daemon: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("the starter of a daemon failed: {status}")) }
    }

    /// Starts the first generation of a storm.
    pub(crate) fn storm(&self, storm: &Storm, raw: &Value) -> Result<(), String> {
        if storm.width > MOST_AT_ONCE || storm.width.saturating_mul(storm.generations) > MOST_IN_ALL {
            return Err(format!("a storm has at most {MOST_AT_ONCE} at once and {MOST_IN_ALL} in all"));
        }
        for _ in 0..storm.width {
            self.next_generation(raw, storm)?;
        }
        Ok(())
    }

    /// Starts the process that follows in a line of a storm, one generation fewer before it.
    pub(crate) fn hop(&self, storm: &Storm, raw: &Value) -> Result<(), String> {
        let mut next = raw.clone();
        next["generations"] = json!(storm.generations - 1);
        self.next_generation(&next, storm)
    }

    fn next_generation(&self, raw: &Value, storm: &Storm) -> Result<(), String> {
        let mut command = self.command(&[json!({ "hop": raw })], storm.group)?;
        command.spawn().map(drop).map_err(|error| format!("start a storm: {error}"))
    }

    /// Starts a process that continues this one later, in a session of its own and without its pipes.
    pub(crate) fn waker(&self, after_ms: u64) -> Result<(), String> {
        let wake = json!({ "wake": { "pid": std::process::id(), "after_ms": after_ms } });
        let mut command = self.command(&[wake], Group::Session)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(drop).map_err(|error| format!("start a waker: {error}"))
    }

    /// Becomes this program again, with an empty environment; returns only when that fails.
    pub(crate) fn reexec(&self, rest: &[Value]) -> String {
        match self.command(rest, Group::Same) {
            Ok(mut command) => format!("execute itself: {}", command.env_clear().exec()),
            Err(error) => error,
        }
    }
}

/// This program, also when its file is gone or was replaced.
fn program() -> OsString {
    if cfg!(target_os = "linux") {
        return OsString::from("/proc/self/exe");
    }
    std::env::current_exe().map(OsString::from).unwrap_or_default()
}
