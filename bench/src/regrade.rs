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
    // The workspace path contains the trial's name, so all trees differ.
    let world = World::new("pwd >> a.txt; pwd > dir-1/new.txt", MANY)?;
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
    row(&format!("{MANY} trials recorded"), &format!("{:.1} s", began.elapsed().as_secs_f64()), None);
    let run = world.run()?.ok_or("no run")?;
    let mut times = Vec::new();
    for _ in 0..3 {
        let began = Instant::now();
        let mut command = Command::new(std::env::current_exe()?.with_file_name("yb"));
        command
            .args(["eval", "--from", "latest", "-c", "evaluators.yaml", "--quiet"])
            .current_dir(world.path());
        let output = command.stdin(Stdio::null()).output()?;
        times.push(began.elapsed());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if !said.contains("1,000 trials re-graded") {
            return Err(format!("{said}{}", String::from_utf8_lossy(&output.stderr)).into());
        }
    }
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
    row("regrading, median of three", &format!("{:.2} s", median(&mut times).as_secs_f64()), None);
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
    Ok(())
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
