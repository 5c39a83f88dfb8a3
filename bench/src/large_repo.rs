//! Trials in a repository of 50,000 files, 0.5 GB and 2,000 commits, of which the agent changes five files, beside git itself: CPU of
//! all processes, and disk.

use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::Failure;
use crate::runs::World;
use crate::stats::row;

const FILES: usize = 50_000;
const COMMITS: usize = 2000;
const FURTHER: usize = 2;
const AGENT: &str = "for n in 1 2 3 4 5; do echo more >> d00$n/s0/f0000$n.txt; done";

pub(crate) fn run() -> Result<(), Failure> {
    let world = World::new(AGENT, 1)?;
    let origin = world.path().join("origin");
    create_origin(&origin)?;
    let clone = world.path().join("clone");
    let before = children_cpu()?;
    git(&["clone", "--quiet", "--no-local", &text(&origin), &text(&clone)])?;
    for number in 1..=5 {
        let mut file = fs::File::options().append(true).open(clone.join(path_of(number)))?;
        file.write_all(b"more\n")?;
    }
    git(&["-C", &text(&clone), "add", "--all"])?;
    git(&["-C", &text(&clone), "diff", "--cached"])?;
    let by_git = children_cpu()? - before;
    let floor = disk(&clone);
    fs::remove_dir_all(&clone)?;

    let first = trials(&world, 1)?;
    let one = trials(&world, 1)?;
    let run_of_one = disk(&world.run()?.ok_or("no run")?);
    let many = trials(&world, 1 + FURTHER)?;
    let run_of_many = disk(&world.run()?.ok_or("no run")?);
    let further = (many - one) / FURTHER as f64;
    let growth = run_of_many.saturating_sub(run_of_one) / FURTHER as u64;
    row("git clone, add, diff", &format!("{by_git:.2} s"), None);
    row("disk of the clone", &format!("{:.0} MB", floor as f64 / 1e6), None);
    let ratio = first / by_git;
    row("first trial", &format!("{first:.2} s"), None);
    row("first trial, of git", &format!("{ratio:.2} x"), Some(("at most 1.5 x", ratio <= 1.5)));
    row("a run with one trial, repository cached", &format!("{one:.2} s"), None);
    row("each further trial", &format!("{further:.2} s"), Some(("at most 0.3 s", further <= 0.3)));
    let megabytes = growth as f64 / 1e6;
    row(
        "disk of each further trial",
        &format!("{megabytes:.1} MB"),
        Some(("at most 1.1 MB", megabytes <= 1.1)),
    );
    Ok(())
}

/// Runs a suite, and returns the CPU time of all its processes in seconds.
fn trials(world: &World, repeats: usize) -> Result<f64, Failure> {
    let case = json!({ "name": "large", "description": "Five files change.", "repo": "origin",
        "agent": { "type": "command", "config": { "prompt": "Change five files.",
            "command": { "argv": ["sh", "-c", AGENT] } } },
        "evaluators": [{ "name": "git-diff", "config": { "assertions": { "max_files_changed": 5 } } }] });
    let suite = json!({ "youbencha": 1, "name": "bench", "cases": [case], "repeats": repeats });
    fs::write(world.path().join("suite.yaml"), suite.to_string())?;
    let before = children_cpu()?;
    let (code, said) = world.start(&["-c", "suite.yaml", "--jobs", "1"])?.wait()?;
    if code != Some(0) {
        return Err(format!("exit code {code:?}: {said}").into());
    }
    Ok(children_cpu()? - before)
}

/// The CPU time of all processes below this one that have ended, in seconds.
fn children_cpu() -> Result<f64, Failure> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 =
        fields.get(13..15).into_iter().flatten().filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn path_of(number: usize) -> String {
    format!("d{:03}/s{}/f{number:05}.txt", number % 500, number / 500 % 10)
}

/// Writes about ten kilobytes of text that compress as source code does.
fn content(number: usize, seed: &mut u64) -> Vec<u8> {
    let mut text = format!("// {number}\n").into_bytes();
    while text.len() < 10_000 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.extend_from_slice(
            format!("    let value{} = {};\n", *seed >> 56, (*seed >> 40) & 0xffff).as_bytes(),
        );
    }
    text
}

fn create_origin(path: &Path) -> Result<(), Failure> {
    git(&["init", "--quiet", "--initial-branch=main", &text(path)])?;
    let mut import = Command::new("git")
        .args(["-C", &text(path), "fast-import", "--quiet", "--done"])
        .stdin(Stdio::piped())
        .spawn()?;
    let mut input = BufWriter::new(import.stdin.take().ok_or("no stdin")?);
    let mut seed = 1;
    for commit in 0..COMMITS {
        writeln!(
            input,
            "commit refs/heads/main\ncommitter a <a@b> {} +0000\ndata 1\nx",
            1_000_000_000 + commit
        )?;
        let changed = if commit == 0 { 0..FILES } else { commit * 7 % FILES..commit * 7 % FILES + 3 };
        for number in changed {
            let text = content(number, &mut seed);
            writeln!(input, "M 100644 inline {}\ndata {}", path_of(number % FILES), text.len())?;
            input.write_all(&text)?;
            writeln!(input)?;
        }
    }
    writeln!(input, "done")?;
    input.into_inner()?;
    if import.wait()?.success() { Ok(()) } else { Err("git fast-import failed".into()) }
}

fn git(args: &[&str]) -> Result<(), Failure> {
    let status = Command::new("git").args(args).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(format!("git {args:?}: {status}").into()) }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The allocated size of a directory.
fn disk(path: &Path) -> u64 {
    yb_supervise::disk_usage(path)
}
