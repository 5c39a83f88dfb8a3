//! Regrading of a thousand recorded trials with distinct trees: duration and determinism.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Failure;
use crate::runs::World;
use crate::stats::{median, row};

const MANY: usize = 1000;
const BOUND: Duration = Duration::from_secs(10);
const EVALUATORS: &str = r#"{ "youbencha": 1, "evaluators": [
  { "name": "git-diff", "config": { "assertions": { "max_files_changed": 5 } } },
  { "name": "files", "config": { "assertions": { "exists": ["dir-1/file-1.txt"], "unchanged": ["dir-2/**"],
      "contains": { "a.txt": "one--default" } } } },
  { "name": "trajectory", "config": { "assertions": { "max_turns": 100, "tools_forbidden": ["WebFetch"] } } },
  { "name": "budget", "config": { "assertions": { "max_duration": "10m" } } } ] }"#;

pub(crate) fn run() -> Result<(), Failure> {
    let world = recorded(MANY)?;
    let mut times = Vec::new();
    for _ in 0..3 {
        times.push(regrade(&world, "1,000 trials re-graded")?);
    }
    let run = world.run()?.ok_or("no run")?;
    let gradings: Vec<PathBuf> = {
        let mut found: Vec<_> = fs::read_dir(run.join("gradings"))?
            .map(|entry| entry.map(|one| one.path()))
            .collect::<Result<_, _>>()?;
        found.sort();
        found
    };
    let first = files(&gradings[0])?;
    let same =
        gradings[1..].iter().map(|one| files(one)).all(|other| other.is_ok_and(|other| other == first));
    let worst = times.iter().max().copied().unwrap_or_default();
    let typical = median(&mut times);
    row("regrading, median of three", &format!("{:.2} s", typical.as_secs_f64()), None);
    row(
        "graded again, worst of three",
        &format!("{:.2} s", worst.as_secs_f64()),
        Some(("below 10 s", worst < BOUND)),
    );
    row(
        &format!("{} files but timings.json", first.len()),
        if same { "the same" } else { "not the same" },
        Some(("byte for byte", same)),
    );

    let larger = recorded(3 * MANY)?;
    let mut times = Vec::new();
    for _ in 0..3 {
        times.push(regrade(&larger, "3,000 trials re-graded")?);
    }
    let three_times = median(&mut times);
    let exponent = (three_times.as_secs_f64() / typical.as_secs_f64()).ln() / 3_f64.ln();
    row("3,000 trials, median of three", &format!("{:.2} s", three_times.as_secs_f64()), None);
    row("growth with trials, exponent", &format!("{exponent:.2}"), Some(("at most 1.05", exponent <= 1.05)));
    Ok(())
}

/// Records trials with distinct trees.
fn recorded(trials: usize) -> Result<World, Failure> {
    // The workspace path contains the trial's name, so all trees differ.
    let world = World::new("pwd >> a.txt; pwd > dir-1/new.txt", trials)?;
    for folder in 0..5 {
        let folder = world.path().join(format!("tree/dir-{folder}"));
        fs::create_dir(&folder)?;
        for file in 0..10 {
            fs::write(folder.join(format!("file-{file}.txt")), format!("{file}\n").repeat(50))?;
        }
    }
    fs::write(world.path().join("evaluators.yaml"), EVALUATORS)?;
    let began = Instant::now();
    world.start(&["-c", "suite.yaml", "--quiet"])?.wait()?;
    row(&format!("{trials} trials recorded"), &format!("{:.1} s", began.elapsed().as_secs_f64()), None);
    let packs = fs::read_dir(world.run()?.ok_or("no run")?.join("objects.git/objects/pack"))?;
    row(
        "packs",
        &packs.flatten().filter(|file| file.path().extension() == Some("pack".as_ref())).count().to_string(),
        None,
    );
    Ok(world)
}

/// Regrades the last run.
fn regrade(world: &World, expected: &str) -> Result<Duration, Failure> {
    let began = Instant::now();
    let mut command = Command::new(world.yb());
    command.args(["eval", "--from", "latest", "-c", "evaluators.yaml", "--quiet"]).current_dir(world.path());
    let output = command.stdin(Stdio::null()).output()?;
    let took = began.elapsed();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if said.contains(expected) {
        return Ok(took);
    }
    Err(format!("{said}{}", String::from_utf8_lossy(&output.stderr)).into())
}

/// Returns all files of a grading except the timings.
fn files(root: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>, Failure> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && entry.file_name() != "timings.json" {
                found.insert(entry.path().strip_prefix(root)?.to_owned(), fs::read(entry.path())?);
            }
        }
    }
    Ok(found)
}
