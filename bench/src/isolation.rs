//! What a sandbox adds to starting a process that does nothing, and to work with git.

use std::time::{Duration, Instant};

use yb_supervise::{Command, EgressRules, Launch, ResourceLimits, Sandbox, SandboxKind};

use crate::Failure;
use crate::stats::{median, ms, row};

const ROUNDS: usize = 200;
const GIT_ROUNDS: usize = 7;

/// Many small files and processes, as agents' tools make them.
const GIT: &str = "rm -rf repo && git init -q repo && cd repo && git config user.email a@b && git config user.name a
for n in $(seq 60); do echo $n > f$n; git add f$n; git commit -qm $n; git status --porcelain > /dev/null; done";

pub(crate) fn run() -> Result<(), Failure> {
    let runtime = tokio::runtime::Runtime::new()?;
    let dir = tempfile::tempdir()?;
    let timed = |level: Level, program: &str, args: &[&str]| -> Result<Duration, Failure> {
        let began = Instant::now();
        let mut command = Command::new(program).args(args).launch(Launch::Contained).current_dir(dir.path());
        command = command.env("HOME", dir.path());
        if level.limits {
            let limits = ResourceLimits::new().memory(8 << 30).processes(1024);
            command = command.limits(limits).growth_quota([dir.path()], None, 10 << 30);
        }
        if let Some(kind) = level.kind {
            let sandbox = Sandbox::new().kind(kind).writable(dir.path());
            command = command.sandbox(if level.exits { sandbox.egress(EgressRules::new()) } else { sandbox });
        }
        let report = runtime.block_on(command.run());
        let took = began.elapsed();
        if report.success() { Ok(took) } else { Err(report.end.to_string().into()) }
    };
    let levels: Vec<Level> = LEVELS.into_iter().filter(Level::works).collect();
    let all = |rounds: usize, program: &str, args: &[&str]| -> Result<Vec<Duration>, Failure> {
        let mut times = vec![Vec::new(); levels.len()];
        for _ in 0..rounds {
            for (level, times) in levels.iter().zip(&mut times) {
                times.push(timed(*level, program, args)?);
            }
        }
        Ok(times.iter_mut().map(|times| median(times)).collect())
    };
    let started = all(ROUNDS, "/bin/true", &[])?;
    row("none: spawn-to-report of /bin/true", &ms(started[0]), None);
    for (level, took) in levels.iter().zip(&started).skip(1) {
        let more = took.saturating_sub(started[0]);
        let bar = level.most_ms.map(|most| (level.bar, more < Duration::from_millis(most)));
        row(&format!("{}: more than none", level.name), &ms(more), bar);
    }
    let worked = all(GIT_ROUNDS, "/bin/sh", &["-euc", GIT])?;
    row("none: 60 commits with git", &ms(worked[0]), None);
    for (level, took) in levels.iter().zip(&worked).skip(1) {
        let ratio = took.as_secs_f64() / worked[0].as_secs_f64();
        row(&format!("{} / none", level.name), &format!("{ratio:.2}"), Some(("at most 1.1", ratio <= 1.1)));
    }
    Ok(())
}

/// What is measured, each against the first.
const LEVELS: [Level; 5] = [
    Level { name: "none", kind: None, limits: false, exits: false, most_ms: None, bar: "" },
    Level {
        name: "bubblewrap",
        kind: Some(SandboxKind::Bubblewrap),
        limits: false,
        exits: false,
        most_ms: Some(15),
        bar: "at most 15 ms",
    },
    Level {
        name: "landlock",
        kind: Some(SandboxKind::Landlock),
        limits: false,
        exits: false,
        most_ms: Some(2),
        bar: "at most 2 ms",
    },
    Level { name: "limits", kind: None, limits: true, exits: false, most_ms: None, bar: "" },
    Level {
        name: "bubblewrap, model-only",
        kind: Some(SandboxKind::Bubblewrap),
        limits: true,
        exits: true,
        most_ms: Some(15),
        bar: "at most 15 ms",
    },
];

#[derive(Debug, Clone, Copy)]
struct Level {
    name: &'static str,
    kind: Option<SandboxKind>,
    limits: bool,
    exits: bool,
    most_ms: Option<u64>,
    bar: &'static str,
}

impl Level {
    fn works(&self) -> bool {
        match self.kind.map(SandboxKind::probe) {
            Some(Err(why)) => {
                row(self.name, &format!("not possible here: {why}"), None);
                false
            }
            _ => true,
        }
    }
}
