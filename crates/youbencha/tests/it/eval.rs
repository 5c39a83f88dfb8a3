//! `yb eval`: grading a directory and re-grading a recorded run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use insta::assert_snapshot;
use serde_json::{Value, json};
use yb_testkit::TestContext;
use yb_testkit::git::Repo;

use crate::YB;
use crate::small_suite::{SUITE, world};

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Returns every file below a directory with its content, except `leave`.
fn files(root: &Path, leave: &[&str]) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if leave.contains(&name.as_str()) {
                continue;
            }
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                let path = entry.path().strip_prefix(root).unwrap().to_owned();
                found.insert(path, std::fs::read(entry.path()).unwrap());
            }
        }
    }
    found
}

/// Returns the newest directory of `root/<below>`.
fn newest(root: &Path, below: &str, prefix: &str) -> PathBuf {
    let entries = std::fs::read_dir(root.join(below)).unwrap().map(|entry| entry.unwrap().path());
    let named = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(prefix);
    entries.filter(named).max().unwrap()
}

fn run_dir(context: &TestContext) -> PathBuf {
    newest(&context.dir(), ".youbencha-workspace/runs", "run-")
}

fn gradings(context: &TestContext) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(run_dir(context).join("gradings")) else { return Vec::new() };
    let found = entries.map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = found.filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

fn here() -> TestContext {
    let mut context = TestContext::new();
    context.filter(r"eval-\d{4}-\d\d-\d\dT[\d-]+Z", "[EVAL]").filter(r"eval-\[TIMESTAMP\][\w-]*", "[EVAL]");
    std::fs::create_dir(context.dir().join("work")).unwrap();
    Repo::init(context.dir().join("work"))
        .write("greet.sh", "echo Hello\n")
        .write("test.sh", "test \"$(sh greet.sh Ada)\" = 'Hello, Ada'\n")
        .write(".gitignore", "*.log\n")
        .commit("start");
    std::fs::write(context.dir().join("work/greet.sh"), "echo \"Hello, $1\"\n").unwrap();
    std::fs::write(context.dir().join("work/noise.log"), "x\n").unwrap();
    context
}

#[test]
fn eval_grades_a_directory_against_its_last_commit() {
    let context = here();
    context.write(
        "eval.yaml",
        "name: greeting
description: The script greets by name.
directory: work
evaluators:
  - { name: git-diff, config: { assertions: { max_files_changed: 1 } } }
  - { name: command, config: { argv: [sh, test.sh] } }
  - { name: files, config: { assertions: { unchanged: [test.sh], absent: [noise.log] } } }
",
    );
    let before = files(&context.dir().join("work"), &[]);
    let outcome = context.command(YB).args(["eval", "-c", "eval.yaml"]).run();
    assert_snapshot!(outcome.snapshot(), @"
    exit code: 0
    ----- stdout -----
    greeting: passed
      git-diff: passed: ✓ 1 file changed (+1/-1 lines)
      command: passed (in-process): ✓ exited with code 0
      files: passed: ✓ 2 of 2 checks passed
      artifacts: .youbencha-eval/[EVAL]/artifacts
    ----- stderr -----
    ");
    assert_eq!(files(&context.dir().join("work"), &[]), before, "nothing of it is changed");
    let results = read(&newest(&context.dir(), ".youbencha-eval", "eval-").join("artifacts/results.json"));
    let work = context.dir().join("work").canonicalize().unwrap();
    assert_eq!(results["test_case"]["repo"], format!("file://{}", work.display()));
    assert_eq!(results["test_case"]["branch"], "eval-only");
    assert_eq!(results["test_case"]["commit"], "manual");
    assert_eq!(results["agent"]["type"], "manual");
    assert_eq!(results["summary"]["overall_status"], "passed");
    let log = read(&newest(&context.dir(), ".youbencha-eval", "eval-").join("artifacts/youbencha-log.json"));
    assert_eq!((&log["agent"]["name"], &log["model"]["name"]), (&json!("manual"), &json!("none")));
    assert_eq!(log["messages"].as_array().unwrap().len(), 1);
}

/// A file as in the documentation of the original: paths relative to the working directory, a directory to compare with, no version.
#[test]
fn eval_reads_a_file_of_the_original() {
    let context = here();
    std::fs::create_dir_all(context.dir().join("expected")).unwrap();
    for name in ["test.sh", ".gitignore"] {
        std::fs::copy(context.dir().join("work").join(name), context.dir().join("expected").join(name))
            .unwrap();
    }
    std::fs::write(context.dir().join("expected/greet.sh"), "echo \"Hello, $1!\"\n").unwrap();
    std::fs::create_dir(context.dir().join("evals")).unwrap();
    context.write(
        "evals/eval.json",
        json!({
            "name": "auth", "description": "By hand.", "directory": "./work", "expected_directory": "./expected",
            "output_dir": "./out",
            "evaluators": [
                { "name": "git-diff", "config": { "base_commit": "HEAD", "assertions": { "max_total_changes": 1 } } },
                { "name": "expected-diff", "config": { "threshold": 0.9 } },
            ],
            "post_evaluation": [{ "name": "database", "config": { "type": "json-file", "output_path": "history.jsonl" } }],
        })
        .to_string(),
    );
    let outcome = context.command(YB).args(["eval", "-c", "evals/eval.json", "--json"]).run();
    assert_eq!(outcome.code, Some(1), "{}{}", outcome.stdout, outcome.stderr);
    let results: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(
        results["evaluators"][0]["message"],
        "✗ 1 file changed (+1/-1 lines): `greet.sh` | Violations: total_changes (2) exceeds max_total_changes (1)"
    );
    assert_eq!(results["evaluators"][1]["status"], "passed", "{}", results["evaluators"][1]["message"]);
    assert_eq!(results["test_case"]["expected_branch"], "eval-only-expected");
    assert!(newest(&context.dir(), "out", "eval-").join("artifacts/git-diff.patch").is_file());
    assert!(context.dir().join("evals/history.jsonl").is_file());
}

#[test]
fn eval_of_a_plain_directory_treats_all_files_as_new() {
    let context = here();
    std::fs::remove_dir_all(context.dir().join("work/.git")).unwrap();
    context.write("eval.yaml", "directory: work\nevaluators: [{ name: git-diff, config: { assertions: { max_files_changed: 1 } } }]\n");
    let outcome = context.command(YB).args(["eval", "-c", "eval.yaml"]).run();
    assert_eq!(outcome.code, Some(1), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stderr.contains("not a git repository: all files count as added"), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("files_changed (3) exceeds"), "{}", outcome.stdout);
    for (text, why) in [
        ("youbencha: 1\ndirectory: nowhere\nevaluators: [git-diff]\n", "no such directory"),
        ("youbencha: 1\ndirectory: work\nevalators: [git-diff]\n", "did you mean `evaluators`"),
        ("evaluators: [git-diff]\n", "has no `directory` to grade"),
    ] {
        context.write("eval.yaml", text);
        let outcome = context.command(YB).args(["eval", "-c", "eval.yaml"]).run();
        assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(why), "{why}: {}", outcome.stderr);
    }
}

/// A context with a finished run of three trials.
fn recorded() -> TestContext {
    let mut context = world();
    context.filter(r"\d{4}-\[HEX\]|0\d{3}-[0-9a-f]{8}", "[GRADING]");
    context.write("suite.yaml", SUITE);
    let outcome = context.command(YB).args(["run", "-c", "suite.yaml", "--quiet"]).run();
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    context
}

#[test]
fn regrade_is_deterministic_and_keeps_the_run() {
    let context = recorded();
    let run = run_dir(&context);
    let before = files(&run, &["gradings"]);
    // Only recorded files are needed.
    std::fs::rename(context.dir().join("repo"), context.dir().join("gone")).unwrap();
    std::fs::create_dir(context.dir().join("repo")).unwrap();
    for trial in ["one", "two", "none"] {
        std::fs::remove_dir_all(run.join(format!("trials/greeting--{trial}--1/attempt-1/src-modified")))
            .unwrap();
    }
    let outcome = context.command(YB).args(["eval", "--from", "latest"]).run();
    assert_snapshot!(outcome.snapshot(), @r"
    exit code: 1
    ----- stdout -----
    case      variant  passed before  passed now
    greeting  one      1/1            1/1
    greeting  two      0/1            0/1
    greeting  none     1/1            1/1
    3 trials re-graded, 0 changed
      grading: .youbencha-workspace/runs/[RUN]/gradings/[GRADING]
    ----- stderr -----
    [1/3] graded
    [2/3] graded
    [3/3] graded
    ");
    assert_eq!(context.command(YB).args(["eval", "--from", "latest", "--quiet"]).run().code, Some(1));
    let made = gradings(&context);
    assert_eq!(made.len(), 2, "{made:?}");
    let (one, two) = (files(&made[0], &["timings.json"]), files(&made[1], &["timings.json"]));
    assert_eq!(one, two, "the same input gives the same files");
    assert!(made[1].join("timings.json").is_file());
    let verdict = "trials/greeting--two--1/evaluators/1-git-diff/verdict.json";
    let first = run.join("trials/greeting--two--1/attempt-1/artifacts/evaluators/1-git-diff/verdict.json");
    assert_eq!(std::fs::read(made[0].join(verdict)).unwrap(), std::fs::read(first).unwrap());
    let after = files(&run, &["gradings", "src-modified"]);
    let before: BTreeMap<_, _> =
        before.into_iter().filter(|(path, _)| !path.to_str().unwrap().contains("src-modified")).collect();
    assert_eq!(after, before, "what was recorded stays as it is");
    let grading = read(&made[0].join("grading.json"));
    assert_eq!(grading["trials"].as_array().unwrap().len(), 3);
    assert!(grading["files"][0]["digest"].is_string() && grading["trials"][0]["grade_digest"].is_string());
    let results = read(&made[0].join("results.json"));
    assert_eq!(results["outcomes"], json!({ "passed": 2, "failed": 1 }));
    // The patch exists where it is named.
    assert!(made[0].join("trials/greeting--two--1/git-diff.patch").is_file());
}

#[test]
fn regrade_with_other_evaluators_changes_outcomes() {
    let context = recorded();
    context.write(
        "strict.yaml",
        "youbencha: 1
evaluators:
  - { name: files, config: { assertions: { exists: [a] } } }
  - { name: command, config: { shell: test -e a } }
  - { name: budget, config: { assertions: { max_duration: 5m } } }
",
    );
    let outcome = context.command(YB).args(["eval", "--from", "latest", "-c", "strict.yaml"]).run();
    assert_eq!(outcome.code, Some(1), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("greeting--one--1: passed → failed"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("greeting--two--1: failed → passed"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("3 trials re-graded, 3 changed"), "{}", outcome.stdout);
    let outcome = context.command(YB).args(["eval", "--from", "latest", "-c", "strict.yaml", "--json"]).run();
    let printed: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(printed["outcomes"], json!({ "passed": 1, "failed": 2 }));
    assert_eq!(printed["exit_code"], 1);
    let outcome = context.command(YB).args(["show", "latest", "greeting--two--1", "--grading", "1"]).run();
    assert!(
        outcome.stdout.contains("two: passed") && outcome.stdout.contains("command: passed (in-process): ✓"),
        "{}{}",
        outcome.stdout,
        outcome.stderr
    );
    let outcome = context.command(YB).args(["show", "latest", "--grading", "7"]).run();
    assert_eq!(outcome.code, Some(2));
    assert!(
        outcome.stderr.contains("has no grading `7`") && outcome.stderr.contains("0001-"),
        "{}",
        outcome.stderr
    );
    // The results of the run are unchanged.
    assert_eq!(
        read(&run_dir(&context).join("results.json"))["outcomes"],
        json!({ "passed": 2, "failed": 1 })
    );
}

#[test]
fn regrade_rejects_a_changed_log() {
    let context = recorded();
    let log = run_dir(&context).join("trials/greeting--two--1/attempt-1/artifacts/youbencha-log.json");
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, text.replacen("\"success\"", "\"failed\"", 1)).unwrap();
    let outcome = context.command(YB).args(["eval", "--from", "latest"]).run();
    assert!(
        outcome.stdout.contains("→ grader_error: the log does not match its recorded digest"),
        "{}",
        outcome.stdout
    );
    assert_eq!(outcome.code, Some(5), "{}", outcome.stdout);
}

#[test]
fn regrade_failed_only_repeats_failures_and_grader_errors() {
    let context = world();
    let case = |judge: &str| {
        let nonce = r#"n=$(sed -n 's/.*"answer_to": "\([0-9a-f]*\)".*/\1/p' | tail -1)"#;
        let judge = format!("{nonce}; {judge}");
        json!({ "youbencha": 1, "name": "greeting", "description": "d", "repo": "repo",
            "agent": { "type": "command", "config": { "prompt": "Greet by name.", "command": { "argv": ["sh", "-c", "date +%N > new"] } } },
            "evaluators": [{ "name": "agentic-judge", "config": { "type": "command", "assertions": { "a": "x" },
                "command": { "argv": ["sh", "-c", judge] } } }] })
        .to_string()
    };
    context.write("case.yaml", case("echo I do not know."));
    let outcome = context.command(YB).args(["run", "-c", "case.yaml", "--quiet"]).run();
    assert_eq!(outcome.code, Some(5), "{}{}", outcome.stdout, outcome.stderr);
    // A rerun would be another trial.
    let outcome = context.command(YB).args(["run", "--rerun", "infra", "latest"]).run();
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    context.write("case.yaml", case(r#"printf '{"answer_to":"%s","metrics":{"a":0.9}}' "$n""#));
    let outcome = context.command(YB).args(["eval", "--from", "latest", "--failed-only"]).run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("grader_error → passed"), "{}", outcome.stdout);
    assert_eq!(
        std::fs::read_dir(run_dir(&context).join("trials/greeting--default--1"))
            .unwrap()
            .filter(|entry| { entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with("attempt-") })
            .count(),
        1
    );
    // A trial that failed is graded again.
    let failing = r#"[{"name":"files","config":{"assertions":{"exists":["none"]}}}]"#;
    let mut case: Value = serde_json::from_str(&context.read("case.yaml")).unwrap();
    case["evaluators"] = serde_json::from_str(failing).unwrap();
    context.write("case.yaml", case.to_string());
    assert_eq!(context.command(YB).args(["run", "-c", "case.yaml", "--quiet"]).run().code, Some(1));
    context.write("case.yaml", context.read("case.yaml").replace("none", "new"));
    let outcome = context.command(YB).args(["eval", "--from", "latest", "--failed-only"]).run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("failed → passed"), "{}", outcome.stdout);
}

#[test]
fn directory_that_the_original_would_read_elsewhere_is_a_warning() {
    let context = here();
    let text =
        "directory: .\nevaluators: [{ name: git-diff, config: { assertions: { max_files_changed: 9 } } }]\n";
    context.write("evals/eval.yaml", text);
    let eval = || {
        let command = context.command(YB).args(["eval", "-c", "evals/eval.yaml"]);
        command.env("PATH", std::env::var_os("PATH").unwrap()).run()
    };
    let warned = eval();
    assert!(warned.stderr.contains("`.` is relative to this file"), "{}", warned.stderr);
    context.write("evals/eval.yaml", format!("youbencha: 1\n{text}"));
    let strict = eval();
    assert!(!strict.stderr.contains("is relative to this file"), "{}", strict.stderr);
}

#[test]
fn run_is_found_by_a_path_of_the_original_layout() {
    let context = recorded();
    let run = run_dir(&context);
    let id = run.file_name().unwrap().to_string_lossy().into_owned();
    let report = |from: &str| {
        context.command(YB).args(["report", "--from", from, "--format", "json", "--output", "-"]).run()
    };
    let found = report(&format!(".youbencha-workspace/{id}/artifacts/results.json"));
    assert_eq!(found.code, Some(0), "{}", found.stderr);
    assert!(found.stdout.contains(&id), "{}", found.stdout);
    // A glob that matches nothing reaches the program unexpanded.
    let glob = report(".youbencha-workspace/run-*/artifacts/results.json");
    assert_eq!(glob.code, Some(2), "{}", glob.stderr);
    assert!(glob.stderr.contains("`latest` is the newest"), "{}", glob.stderr);
}
