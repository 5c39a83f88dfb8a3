//! A trivial trial compared with an equivalent shell script, further ones, and `yb --version` compared with hello-world.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Failure;
use crate::stats::{children_cpu, median, ms, row};

const ROUNDS: usize = 20;
/// The trials of a run that shows what each further one takes.
const FURTHER: u32 = 100;
const FILES: usize = 50;

const CASE: &str = "youbencha: 1
name: trivial
description: One file is changed.
repo: repo
agent: { type: command, config: { prompt: Change one file., command: { argv: [sh, -c, 'cat > /dev/null; echo more >> f1'] } } }
evaluators: [{ name: git-diff, config: { assertions: { max_files_changed: 1 } } }]
";

/// The equivalent shell script: a clone, the agent, the diff statistics, the patch, and a second clone for grading.
const SCRIPT: &str = "set -e
git clone -q repo by-hand/work
cd by-hand/work
echo 'Change one file.' | sh -c 'cat > /dev/null; echo more >> f1'
git add -A
git diff --cached --numstat > ../numstat
git diff --cached > ../patch
cd ../..
git clone -q repo by-hand/again
";

pub(crate) fn run() -> Result<(), Failure> {
    let yb = sibling_program("yb")?;
    let directory = tempfile::tempdir()?;
    let world = directory.path();
    make_repository(&world.join("repo"))?;
    std::fs::write(world.join("case.yaml"), CASE)?;
    let (mut by_hand, mut ours) = (Vec::new(), Vec::new());
    let (mut cpu_by_hand, mut our_cpu) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..ROUNDS {
        std::fs::create_dir(world.join("by-hand"))?;
        let before = children_cpu()?;
        by_hand.push(timed(Command::new("sh").args(["-c", SCRIPT]).current_dir(world))?);
        let between = children_cpu()?;
        std::fs::remove_dir_all(world.join("by-hand"))?;
        ours.push(timed(Command::new(&yb).args(["run", "-c", "case.yaml"]).current_dir(world))?);
        cpu_by_hand += between.saturating_sub(before);
        our_cpu += children_cpu()?.saturating_sub(between);
        std::fs::remove_dir_all(world.join(".youbencha-workspace"))?;
    }
    let (by_hand, ours) = (median(&mut by_hand), median(&mut ours));
    row("equivalent shell script", &ms(by_hand), None);
    row("yb run, cold cache", &ms(ours), None);
    let ratio = ours.as_secs_f64() / by_hand.as_secs_f64();
    row("yb run / shell script", &format!("{ratio:.2}"), Some(("at most 1.4", ratio <= 1.4)));
    row("CPU of all processes: shell script", &ms(cpu_by_hand / ROUNDS as u32), None);
    row("CPU of all processes: yb run", &ms(our_cpu / ROUNDS as u32), None);
    let ratio = our_cpu.as_secs_f64() / cpu_by_hand.as_secs_f64();
    row("CPU: yb run / shell script", &format!("{ratio:.2}"), Some(("at most 1.4", ratio <= 1.4)));
    let further = further_trials(&yb, world)?;
    row(
        "CPU of all processes, each further trial",
        &ms(further),
        Some(("at most 12 ms", further.as_millis() < 12)),
    );
    let runtime = tokio::runtime::Runtime::new()?;
    let run = yb_supervise::Command::new(&yb).args(["run", "-c", "case.yaml"]).current_dir(world);
    let report = runtime.block_on(run.run());
    let peak = report.usage.peak_rss_of_largest_process as f64 / 1e6;
    row("peak resident memory", &format!("{peak:.1} MB"), Some(("below 30 MB", peak < 30.0)));
    version(&yb, world)
}

/// Returns the CPU time that a run of many trials takes more than one of a single trial, for each of them.
fn further_trials(yb: &Path, world: &Path) -> Result<Duration, Failure> {
    let run = |repeats: u32| -> Result<Duration, Failure> {
        let before = children_cpu()?;
        let repeats = repeats.to_string();
        timed(Command::new(yb).args(["run", "-c", "case.yaml", "--repeat", &repeats]).current_dir(world))?;
        Ok(children_cpu()?.saturating_sub(before))
    };
    run(1)?;
    let one = run(1)?;
    Ok(run(1 + FURTHER)?.saturating_sub(one) / FURTHER)
}

fn version(yb: &Path, world: &Path) -> Result<(), Failure> {
    let (source, hello) = (world.join("hello.rs"), world.join("hello"));
    std::fs::write(&source, "fn main() { println!(\"yb 0.1.0\"); }")?;
    timed(Command::new("rustc").args(["-O", "-o"]).arg(&hello).arg(&source))?;
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS * 10 {
        bare.push(timed(&mut Command::new(&hello))?);
        ours.push(timed(Command::new(yb).arg("--version"))?);
    }
    let (bare, ours) = (median(&mut bare), median(&mut ours));
    row("hello-world", &ms(bare), None);
    row("yb --version", &ms(ours), None);
    let ratio = ours.as_secs_f64() / bare.as_secs_f64();
    row("yb --version / hello-world", &format!("{ratio:.2}"), Some(("at most 4", ratio <= 4.0)));
    Ok(())
}

fn timed(command: &mut Command) -> Result<Duration, Failure> {
    let began = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if status.success() { Ok(began.elapsed()) } else { Err(format!("{command:?}: {status}").into()) }
}

fn make_repository(path: &Path) -> Result<(), Failure> {
    std::fs::create_dir(path)?;
    for number in 0..FILES {
        std::fs::write(path.join(format!("f{number}")), format!("line {number}\n").repeat(50))?;
    }
    let script = "git init -q -b main && git add -A && git -c user.name=b -c user.email=b@localhost commit -q -m start";
    timed(Command::new("sh").args(["-c", script]).current_dir(path))?;
    Ok(())
}

/// Returns the path of a program of the same build.
fn sibling_program(name: &str) -> Result<PathBuf, Failure> {
    let path = std::env::current_exe()?.with_file_name(name);
    if path.exists() { Ok(path) } else { Err("build it first: `cargo build --release -p youbencha`".into()) }
}
