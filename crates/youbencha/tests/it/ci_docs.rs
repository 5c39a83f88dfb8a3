//! Runs the shell scripts of docs/guides/ci.md with `yb` on the PATH and a suite of the `command` agent.

use std::path::Path;

use yb_testkit::Outcome;

use crate::YB;
use crate::suites::{BAD, GOOD, World, suite};

/// Returns the `sh` blocks of a page by the name in their first comment.
fn block(name: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/ci.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mark = format!("```sh\n# {name}\n");
    let start =
        page.find(&mark).unwrap_or_else(|| panic!("no block `{name}` in docs/guides/ci.md")) + mark.len();
    let end = start + page[start..].find("```").unwrap();
    page[start..end].to_owned()
}

/// Returns the script of a workflow step.
fn step(name: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/ci.md");
    let page = std::fs::read_to_string(page).unwrap();
    let at = page.find(&format!("- name: {name}\n")).unwrap_or_else(|| panic!("no step `{name}`"));
    let rest = &page[at..];
    let script = &rest[rest.find("run: |\n").unwrap() + 7..];
    let indent = script.len() - script.trim_start().len();
    let lines = script.lines().take_while(|line| line.len() > indent && line[..indent].trim().is_empty());
    lines.map(|line| format!("{}\n", &line[indent..])).collect()
}

fn sh(world: &World, script: &str) -> Outcome {
    let bin = Path::new(YB).parent().unwrap().display().to_string();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
    let out = world.context.root().join("summary.md");
    world
        .context
        .command("/bin/sh")
        .args(["-e", "-c", script])
        .env("PATH", path)
        .env("GITHUB_STEP_SUMMARY", out)
        .env("GITHUB_REF_NAME", "main")
        .env("CI_COMMIT_BRANCH", "main")
        .env("CI_DEFAULT_BRANCH", "main")
        .run()
}

const GATES: &str = "repeats: 6\ngates: { no_regression: { against: main, on_inconclusive: pass } }";

#[test]
fn github_workflow_steps_run() {
    let world = World::with(&suite(&["one"], &[("v", GOOD)], GATES));
    let first = sh(&world, &step("Run the suite"));
    assert_eq!(first.code, Some(0), "{}{}", first.stdout, first.stderr);
    let kept = sh(&world, &step("Keep the baseline"));
    assert_eq!(kept.code, Some(0), "{}", kept.stderr);
    assert!(world.path(".youbencha-workspace/baselines/main.json").is_file());
    let printed = sh(&world, &step("Say what changed"));
    assert_eq!(printed.code, Some(0), "{}{}", printed.stdout, printed.stderr);
    let summary = std::fs::read_to_string(world.context.root().join("summary.md")).unwrap();
    assert!(summary.contains("pass rate"), "{summary}");
    world.context.write("suite.yaml", suite(&["one"], &[("v", BAD)], GATES));
    assert_eq!(sh(&world, &step("Run the suite")).code, Some(1));
}

#[test]
fn gitlab_job_script_runs() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/ci.md");
    let page = std::fs::read_to_string(page).unwrap();
    let job = &page[page.find("```yaml\n# .gitlab-ci.yml").unwrap()..];
    let script = &job[job.find("  script:\n").unwrap() + 10..];
    let lines: String = script
        .lines()
        .map_while(|line| line.strip_prefix("    - "))
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(lines.lines().count() >= 2, "{lines}");
    let world = World::with(&suite(&["one"], &[("v", GOOD)], GATES));
    let first = sh(&world, &lines);
    assert_eq!(first.code, Some(0), "{}{}", first.stdout, first.stderr);
    assert!(world.path(".youbencha-workspace/baselines/main.json").is_file());
    world.context.write("suite.yaml", suite(&["one"], &[("v", BAD)], GATES));
    assert_eq!(sh(&world, &lines).code, Some(1));
}

#[test]
fn exit_code_script_runs() {
    for (agent, said) in [(GOOD, "not worse"), (BAD, "worse: do not merge")] {
        let world = World::with(&suite(&["one"], &[("v", GOOD)], "repeats: 6"));
        world.suite(&["--quiet"]).run();
        assert_eq!(world.context.run(YB, ["baseline", "set", "main"]).code, Some(0));
        let gates = "repeats: 6\ngates: { no_regression: { against: main, tolerance: 0.4 } }";
        world.context.write("suite.yaml", suite(&["one"], &[("v", agent)], gates));
        let printed = sh(&world, &block("what to do with the exit code"));
        assert!(printed.stdout.contains(said), "{}{}", printed.stdout, printed.stderr);
    }
}
