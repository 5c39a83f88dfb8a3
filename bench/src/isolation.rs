//! What a sandbox adds to starting a process that does nothing, and to work with git.

use std::path::Path;
use std::time::{Duration, Instant};

use yb_supervise::{Command, Launch, Sandbox};

use crate::Failure;
use crate::stats::{median, ms, row};

const ROUNDS: usize = 200;
const GIT_ROUNDS: usize = 7;

/// Many small files and processes, as agents' tools make them.
const GIT: &str = "rm -rf repo && git init -q repo && cd repo && git config user.email a@b && git config user.name a
for n in $(seq 60); do echo $n > f$n; git add f$n; git commit -qm $n; git status --porcelain > /dev/null; done";

pub(crate) fn run() -> Result<(), Failure> {
    if let Err(why) = Sandbox::probe() {
        row("bubblewrap", &format!("not possible here: {why}"), None);
        return Ok(());
    }
    let runtime = tokio::runtime::Runtime::new()?;
    let dir = tempfile::tempdir()?;
    let timed = |sandboxed: bool, program: &str, args: &[&str]| -> Result<Duration, Failure> {
        let began = Instant::now();
        let mut command = Command::new(program).args(args).launch(Launch::Contained).current_dir(dir.path());
        command = command.env("HOME", dir.path());
        if sandboxed {
            command = command.sandbox(sandbox(dir.path()));
        }
        let report = runtime.block_on(command.run());
        let took = began.elapsed();
        if report.success() { Ok(took) } else { Err(report.end.to_string().into()) }
    };
    let (mut none, mut bubblewrap) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        none.push(timed(false, "/bin/true", &[])?);
        bubblewrap.push(timed(true, "/bin/true", &[])?);
    }
    let (none, bubblewrap) = (median(&mut none), median(&mut bubblewrap));
    let more = bubblewrap.saturating_sub(none);
    row("none: spawn-to-report of /bin/true", &ms(none), None);
    row("bubblewrap", &ms(bubblewrap), None);
    row("bubblewrap: more than none", &ms(more), Some(("at most 15 ms", more.as_millis() < 15)));

    let (mut none, mut bubblewrap) = (vec![], vec![]);
    for _ in 0..GIT_ROUNDS {
        none.push(timed(false, "/bin/sh", &["-euc", GIT])?);
        bubblewrap.push(timed(true, "/bin/sh", &["-euc", GIT])?);
    }
    let (none, bubblewrap) = (median(&mut none), median(&mut bubblewrap));
    let ratio = bubblewrap.as_secs_f64() / none.as_secs_f64();
    row("none: 60 commits with git", &ms(none), None);
    row("bubblewrap / none", &format!("{ratio:.2}"), Some(("at most 1.1", ratio <= 1.1)));
    Ok(())
}

fn sandbox(directory: &Path) -> Sandbox {
    Sandbox::new().writable(directory)
}
