//! Checks git, and lists other versions on PATH, a common source of confusion.

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
    /// Its version output, or how running it failed.
    description: String,
}

pub(super) async fn check(path: Option<&str>) -> Vec<Finding> {
    let mut candidates = Vec::new();
    for program in on_path(path.unwrap_or_default()) {
        candidates.push(probe(program).await);
    }
    let Some((first, others)) = candidates.split_first() else {
        return vec![Finding::problem(CHECK, "not found on PATH", format!("install git {MIN_GIT} or newer"))];
    };
    let enough = |candidate: &Candidate| candidate.version.is_some_and(|version| version >= MIN_GIT);
    let mut findings = vec![if enough(first) {
        Finding::ok(CHECK, format!("{}: {}", first.description, first.path.display()))
    } else {
        let fix = match others.iter().find(|other| enough(other)) {
            Some(newer) => {
                let folder = newer.path.parent().unwrap_or(Path::new("")).display().to_string();
                format!("put `{folder}` first in PATH: its git is {}", newer.description)
            }
            None => format!("install git {MIN_GIT} or newer"),
        };
        Finding::problem(
            CHECK,
            format!("too old or broken, {}: {}", first.description, first.path.display()),
            fix,
        )
    }];
    for other in others {
        findings
            .push(Finding::ok(CHECK, format!("{}, not used: {}", other.description, other.path.display())));
    }
    findings
}

/// Lists the programs on PATH, without links to the same file.
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

async fn probe(path: PathBuf) -> Candidate {
    let report = Command::new(&path).arg("--version").deadline(DEADLINE).run().await;
    let output =
        report.output.captured().map(|captured| captured.text().text.into_owned()).unwrap_or_default();
    let version = GitVersion::parse(&output).filter(|_| report.success());
    let line = output.lines().next().unwrap_or_default();
    let description = if version.is_some() {
        line.trim_start_matches("git version ").to_owned()
    } else {
        report.end.to_string()
    };
    Candidate { path, version, description }
}
