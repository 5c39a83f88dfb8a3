//! Local repositories and directories that a case may use: a case file from somebody else reads no other directory of the machine.

use std::os::unix::fs::symlink;

use serde_json::json;
use yb_testkit::git::Repo;
use yb_testkit::{Outcome, TestContext};

use crate::YB;
use crate::small_suite::world;

fn case(key: &str, path: &str) -> String {
    json!({
        "name": "c", "description": "A case.", key: path, "isolation": "none",
        "agent": { "type": "command", "config": { "prompt": "x", "command": { "argv": ["true"] } } },
        "evaluators": ["git-diff"],
    })
    .to_string()
}

fn validate(context: &TestContext, key: &str, path: &str, more: &[&str]) -> Outcome {
    context.write("cases/case.yaml", case(key, path));
    context.run(YB, ["validate", "cases/case.yaml"].iter().chain(more))
}

#[track_caller]
fn assert_refused(outcome: &Outcome, key: &str) {
    assert_eq!(outcome.code, Some(2), "{}{}", outcome.stdout, outcome.stderr);
    assert!(
        outcome.stdout.contains(&format!("error: `{key}` is outside of the project: ")),
        "{}",
        outcome.stdout
    );
    assert!(
        outcome.stdout.contains("hint: if you trust the case, allow it: `--allow-path "),
        "{}",
        outcome.stdout
    );
}

#[test]
fn directories_outside_of_the_project_are_refused() {
    let context = world();
    let outside = context.root().join("outside");
    std::fs::create_dir(&outside).unwrap();
    Repo::init(&outside).write("secret", "x").commit("start");
    std::fs::create_dir(context.dir().join("cases")).unwrap();
    symlink(&outside, context.dir().join("cases/link")).unwrap();
    let url = format!("file://{}", outside.display());
    let absolute = outside.to_str().unwrap();
    for path in ["file:///etc", "/etc", "../../outside", "link", &url, absolute] {
        assert_refused(&validate(&context, "repo", path, &[]), "repo");
    }
    for path in ["/etc", "../../outside", "link"] {
        assert_refused(&validate(&context, "directory", path, &[]), "directory");
    }
    // Refused before anything is copied.
    let ran = context.run(YB, ["run", "cases/case.yaml"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("is outside of the project"), "{}", ran.stderr);
    assert!(!context.dir().join(".youbencha-workspace/runs").exists());
}

#[test]
fn directories_of_the_project_and_allowed_ones_are_used() {
    let context = world();
    let repo = context.dir().join("repo");
    let url = format!("file://{}", repo.display());
    for path in ["../repo", repo.to_str().unwrap(), &url] {
        let outcome = validate(&context, "repo", path, &[]);
        assert_eq!(outcome.code, Some(0), "{path}: {}", outcome.stdout);
    }
    let outside = context.root().join("outside");
    std::fs::create_dir(&outside).unwrap();
    Repo::init(&outside).write("file", "x").commit("start");
    let root = context.root().to_str().unwrap();
    assert_eq!(validate(&context, "repo", "../../outside", &["--allow-path", root]).code, Some(0));
    let ran = context.run(YB, ["run", "cases/case.yaml", "--allow-path", "../outside", "--quiet"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    // The permission is a part of the plan, so that a rerun has it too.
    let again = context.run(YB, ["eval", "--from", "latest", "-c", "cases/case.yaml"]);
    assert_eq!(again.code, Some(0), "{}{}", again.stdout, again.stderr);
    // From elsewhere, the repository that encloses the case file is its project.
    std::fs::create_dir(context.dir().join("elsewhere")).unwrap();
    std::fs::write(repo.join("case.yaml"), case("repo", ".")).unwrap();
    let elsewhere = context.command(YB).args(["validate", "../repo/case.yaml"]);
    assert_eq!(elsewhere.current_dir(context.dir().join("elsewhere")).run().code, Some(0));
}
