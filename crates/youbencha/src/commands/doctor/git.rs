//! Which git is used, and which others are on PATH: two of different age are a common surprise.

use std::path::{Path, PathBuf};
use std::time::Duration;

use yb_engine::repo::{GitVersion, MIN_GIT};
use yb_supervise::Command;

use super::Finding;

const CHECK: &str = "git";
const DEADLINE: Duration = Duration::from_secs(10);

/// A git on PATH.
struct Candidate {
    path: PathBuf,
    version: Option<GitVersion>,
    /// What it says about itself, or how asking it went.
    said: String,
}

pub(super) async fn check(path: Option<&str>) -> Vec<Finding> {
    let mut candidates = Vec::new();
    for program in on_path(path.unwrap_or_default()) {
        candidates.push(ask(program).await);
    }
    let Some((first, others)) = candidates.split_first() else {
        return vec![Finding::problem(CHECK, "not on PATH", format!("install git {MIN_GIT} or newer"))];
    };
    let enough = |candidate: &Candidate| candidate.version.is_some_and(|version| version >= MIN_GIT);
    let mut findings = vec![if enough(first) {
        Finding::ok(CHECK, format!("{}: {}", first.said, first.path.display()))
    } else {
        let fix = match others.iter().find(|other| enough(other)) {
            Some(newer) => {
                let folder = newer.path.parent().unwrap_or(Path::new("")).display().to_string();
                format!("put `{folder}` first in PATH: its git is {}", newer.said)
            }
            None => format!("install git {MIN_GIT} or newer"),
        };
        Finding::problem(CHECK, format!("too old or broken, {}: {}", first.said, first.path.display()), fix)
    }];
    for other in others {
        findings.push(Finding::ok(CHECK, format!("{}, not used: {}", other.said, other.path.display())));
    }
    findings
}

/// Each program once, however many links lead to it.
fn on_path(path: &str) -> Vec<PathBuf> {
    let name = format!("git{}", std::env::consts::EXE_SUFFIX);
    let mut known = Vec::new();
    std::env::split_paths(path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(&name))
        .filter(|program| program.is_file())
        .filter(|program| {
            let real = program.canonicalize().unwrap_or_else(|_| program.clone());
            let new = !known.contains(&real);
            known.push(real);
            new
        })
        .collect()
}

async fn ask(path: PathBuf) -> Candidate {
    let report = Command::new(&path).arg("--version").deadline(DEADLINE).run().await;
    let output =
        report.output.captured().map(|captured| captured.text().text.into_owned()).unwrap_or_default();
    let version = GitVersion::parse(&output).filter(|_| report.success());
    let line = output.lines().next().unwrap_or_default();
    let said = if version.is_some() {
        line.trim_start_matches("git version ").to_owned()
    } else {
        report.end.to_string()
    };
    Candidate { path, version, said }
}
