//! `yb check`, and the warning of `yb run`: a case is worth its money if doing nothing fails and its solution passes.

use serde_json::{Value, json};
use yb_testkit::{Outcome, TestContext};

use crate::YB;

/// A context with a project whose hidden test wants `two` in `a.txt`.
fn world() -> TestContext {
    let context = TestContext::new();
    context.write("project/a.txt", "one\n");
    context.write("tests/test.sh", "grep -q two a.txt\n");
    context
}

/// Writes a case with these further keys, whose agent does nothing.
fn write(context: &TestContext, evaluators: &Value, more: &Value) {
    let mut case = json!({ "youbencha": 1, "name": "two", "description": "d", "directory": "project",
        "agent": { "type": "command", "config": { "prompt": "x", "command": { "argv": ["true"] } } },
        "evaluators": evaluators });
    for (key, value) in more.as_object().unwrap() {
        case[key] = value.clone();
    }
    context.write("case.yaml", case.to_string());
}

fn tested() -> Value {
    json!([{ "name": "command", "config": { "argv": ["sh", "test.sh"], "hidden": { "test.sh": "tests/test.sh" } } }])
}

fn check(context: &TestContext, more: &[&str]) -> Outcome {
    context.command(YB).args(["check", "case.yaml"]).args(more).run()
}

fn assert_check(context: &TestContext, more: &[&str], code: i32, wanted: &[&str]) {
    let outcome = check(context, more);
    assert_eq!(outcome.code, Some(code), "{}{}", outcome.stdout, outcome.stderr);
    for wanted in wanted {
        let printed = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(printed.contains(wanted), "{wanted}: {printed}");
    }
}

#[test]
fn init_case_fails_an_agent_that_does_nothing_and_is_proven() {
    let context = TestContext::new();
    context.run(YB, ["init"]);
    let outcome = context.run(YB, ["check", "testcase.yaml"]);
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    let text = context.read("testcase.yaml");
    let line = text.lines().find(|line| line.trim_start().starts_with("argv: [sh, -c")).unwrap();
    let idle = text.replace(line, "      argv: ['true']");
    assert_ne!(idle, text);
    context.write("testcase.yaml", idle);
    let outcome = context.run(YB, ["run", "testcase.yaml"]);
    assert_eq!(outcome.code, Some(1), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("command: failed"), "{}", outcome.stdout);
}

#[test]
fn check_proves_a_case_with_every_kind_of_solution() {
    let context = world();
    context.write("solved/a.txt", "two\n");
    context.write("fix.patch", "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n");
    for solution in [
        json!({ "solution": { "directory": "solved" } }),
        json!({ "solution": { "patch": "fix.patch" } }),
        json!({ "solution": { "command": "echo two > a.txt" } }),
        json!({ "expected": "fix.patch", "expected_source": "patch" }),
        json!({ "expected": "solved", "expected_source": "directory" }),
    ] {
        write(&context, &tested(), &solution);
        assert_check(&context, &["--repeat", "2"], 0, &["failed 2/2", "passed 2/2", "1 of 1 case proven"]);
    }
    // A branch of a repository.
    for line in ["init -q -b main", "add -A", "commit -qm one", "checkout -qb fixed"] {
        git(&context, line);
    }
    context.write("project/a.txt", "two\n");
    git(&context, "commit -qam two");
    git(&context, "checkout -q main");
    write(&context, &tested(), &json!({ "solution": { "branch": "fixed" } }));
    let case = context
        .read("case.yaml")
        .replace("\"directory\":\"project\"", "\"repo\":\"project\",\"branch\":\"main\"");
    context.write("case.yaml", case);
    assert_check(&context, &["--repeat", "1"], 0, &["proven"]);
}

fn git(context: &TestContext, line: &str) {
    let outcome = context
        .command("git")
        .args(["-C", "project", "-c", "user.name=x", "-c", "user.email=x@localhost"])
        .args(line.split(' '))
        .run();
    assert_eq!(outcome.code, Some(0), "{line}: {}", outcome.stderr);
}

#[test]
fn check_reports_what_is_wrong_with_a_case() {
    let context = world();
    let idle = json!([{ "name": "git-diff", "config": { "assertions": { "max_files_changed": 3 } } }]);
    write(&context, &idle, &json!({ "solution": { "command": "echo two > a.txt" } }));
    assert_check(&context, &[], 1, &["passes untouched", "two: nop: git-diff: ✓ 0 files changed"]);
    write(&context, &tested(), &json!({ "solution": { "command": "echo three > a.txt" } }));
    assert_check(&context, &[], 1, &["solution fails", "two: oracle: command: ✗ exited with code 1"]);
    write(&context, &tested(), &json!({ "solution": { "command": "exit 7" } }));
    assert_check(&context, &[], 1, &["solution fails", "two: oracle: `exit 7`: exited with code 7"]);
    write(&context, &tested(), &json!({}));
    assert_check(&context, &[], 5, &["no solution", "hint: add a reference solution"]);
    // A grader that changes its mind.
    let count = context.root().join("count");
    std::fs::write(&count, "0").unwrap();
    let line = format!(
        "n=$(cat {0}); echo $((n + 1)) > {0}; grep -q two a.txt && test $((n % 2)) = 0",
        count.display()
    );
    let flaky = json!([{ "name": "command", "config": { "argv": ["sh", "-c", line] } }]);
    write(&context, &flaky, &json!({ "isolation": "none", "solution": { "command": "echo two > a.txt" } }));
    assert_check(&context, &["--repeat", "4"], 1, &["flaky", "passed 2/4"]);
    for (solution, wanted) in [
        (json!({}), "empty `solution`"),
        (json!({ "patch": "a", "command": "b" }), "several solutions"),
        (json!({ "patch": "none.patch" }), "failed to read the solution"),
        (json!({ "branch": "x" }), "`solution.branch` requires `repo`"),
    ] {
        write(&context, &tested(), &json!({ "solution": solution }));
        assert_check(&context, &[], 2, &[wanted]);
    }
}

#[test]
fn check_is_cached_until_something_that_decides_changes() {
    let context = world();
    write(&context, &tested(), &json!({ "solution": { "command": "echo two > a.txt" } }));
    let outcome = check(&context, &["--json"]);
    let printed: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(printed["cases"][0]["proof"], "proven", "{printed}");
    assert_eq!(printed["cases"][0]["nop"]["outcomes"], json!(["failed", "failed", "failed"]));
    assert_eq!(printed["cases"][0]["oracle"]["evaluators"][0]["name"], "command");
    let is_cached = |more: &[&str]| {
        let outcome = check(&context, more);
        assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
        outcome.stdout.contains("proven (cached)")
    };
    assert!(is_cached(&[]) && is_cached(&["--repeat", "2"]));
    assert!(!is_cached(&["--repeat", "4"]), "not as often");
    assert!(!is_cached(&["--no-cache"]));
    context.write("case.yaml", context.read("case.yaml").replace("\"prompt\":\"x\"", "\"prompt\":\"y\""));
    assert!(is_cached(&[]), "the agent decides nothing");
    context.write("tests/test.sh", "grep -q two a.txt # changed\n");
    assert!(!is_cached(&[]) && is_cached(&[]));
    context.write("project/b.txt", "more");
    assert!(!is_cached(&[]) && is_cached(&[]));
    context.write("case.yaml", context.read("case.yaml").replace("echo two", "printf 'two'"));
    assert!(!is_cached(&[]) && is_cached(&[]));
    // No agent is needed, and nothing of the checks remains.
    assert!(!context.dir().join(".youbencha-workspace/runs").exists());
    let left = std::fs::read_dir(context.dir().join(".youbencha-workspace/checks")).unwrap();
    assert_eq!(left.count(), 0);
}

#[test]
fn check_calls_judges_only_on_request_and_grades_no_log_of_a_solution() {
    let context = world();
    let calls = context.root().join("calls");
    let nonce = r#"n=$(sed -n 's/.*"answer_to": "\([0-9a-f]*\)".*/\1/p' | tail -1)"#;
    let judge = format!(
        r#"{nonce}; echo x >> {}; printf '{{"answer_to":"%s","metrics":{{"a":0.9}}}}' "$n""#,
        calls.display()
    );
    let mut evaluators = tested();
    evaluators.as_array_mut().unwrap().extend([
        json!({ "name": "agentic-judge", "config": { "type": "command", "assertions": { "a": "x" },
            "command": { "argv": ["sh", "-c", judge] } } }),
        json!({ "name": "budget", "config": { "assertions": { "max_cost_usd": 1 } } }),
    ]);
    let more = json!({ "isolation": "none", "solution": { "command": "echo two > a.txt" } });
    write(&context, &evaluators, &more);
    let wanted = ["proven", "left out: `agentic-judge`: costs money", "oracle: left out: `budget`"];
    assert_check(&context, &["--repeat", "1"], 0, &wanted);
    assert!(!calls.exists());
    assert_check(&context, &["--repeat", "1", "--judges"], 0, &["proven"]);
    assert_eq!(std::fs::read_to_string(&calls).unwrap().lines().count(), 2);
    // Only a judge can fail this one.
    evaluators.as_array_mut().unwrap().remove(0);
    write(&context, &evaluators, &more);
    assert_check(&context, &["--repeat", "1"], 5, &["undecided"]);
}

#[test]
fn check_of_a_suite_checks_each_case_once_for_all_variants() {
    let context = world();
    write(&context, &tested(), &json!({ "solution": { "command": "echo two > a.txt" } }));
    let variants = json!([{ "name": "a" }, { "name": "b" }]);
    let other = json!({ "name": "idle", "description": "d", "directory": "project",
        "agent": { "type": "command", "config": { "prompt": "x", "command": { "argv": ["true"] } } },
        "evaluators": ["git-diff"] });
    context.write(
        "suite.yaml",
        json!({ "youbencha": 1, "name": "s", "cases": ["case.yaml", other], "variants": variants })
            .to_string(),
    );
    let outcome = context.run(YB, ["check", "suite.yaml", "--repeat", "1"]);
    assert_eq!(outcome.code, Some(1), "{}{}", outcome.stdout, outcome.stderr);
    let rows: Vec<&str> = outcome.stdout.lines().filter(|line| line.starts_with("two ")).collect();
    assert_eq!(rows.len(), 1, "{}", outcome.stdout);
    assert!(outcome.stdout.contains("1 of 2 cases proven"), "{}", outcome.stdout);
    let outcome = context.run(YB, ["check", "suite.yaml", "--filter", "case=two"]);
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
}

/// Variants that lay other files have start trees of their own.
#[test]
fn check_proves_each_variant_with_another_start_and_runs_say_so() {
    let context = world();
    write(&context, &tested(), &json!({ "solution": { "command": "echo two > a.txt" } }));
    context.write("done/a.txt", "two\n");
    let variants = json!([{ "name": "plain" }, { "name": "solved", "files": { "a.txt": "done/a.txt" } }, { "name": "same" }]);
    context.write(
        "suite.yaml",
        json!({ "youbencha": 1, "name": "s", "cases": ["case.yaml"], "variants": variants }).to_string(),
    );
    let run = || {
        let outcome = context.run(YB, ["run", "suite.yaml", "--no-check", "--quiet"]);
        assert_eq!(outcome.code, Some(1), "{}{}", outcome.stdout, outcome.stderr);
        let shown = context.run(YB, ["show", "latest", "--json"]);
        let results: Value = serde_json::from_str(&shown.stdout).unwrap();
        let of = |trial: &Value| trial["proof"].as_str().unwrap().to_owned();
        results["trials"].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(run(), ["unchecked"; 3]);
    let shown = context.run(YB, ["show", "latest"]);
    assert!(shown.stdout.contains("0 of 1 case proven; not: `two` (unchecked)"), "{}", shown.stdout);

    let checked = context.run(YB, ["check", "suite.yaml", "--repeat", "1"]);
    assert_eq!(checked.code, Some(1), "{}{}", checked.stdout, checked.stderr);
    for row in ["two / plain, same", "two / solved", "1 of 2 checks proven"] {
        assert!(checked.stdout.contains(row), "{row}: {}", checked.stdout);
    }
    assert_eq!(run(), ["proven", "passes_untouched", "proven"]);
    let show = |args: &[&str]| context.command(YB).args(["show", "latest"]).args(args).run().stdout;
    assert!(show(&[]).contains("0 of 1 case proven; not: `two` (passes untouched)"), "{}", show(&[]));
    let (proven, not) = (show(&["two--plain--1"]), show(&["two--solved--1"]));
    assert!(proven.contains("check: proven: the start fails"), "{proven}");
    assert!(not.contains("check: unproven: passes untouched"), "{not}");
    for (format, wanted) in [("markdown", "| Checks | 0 of 1 case proven"), ("html", "0 of 1 case proven")] {
        let file = format!("report.{format}");
        let outcome = context.run(YB, ["report", "--format", format, "--output", file.as_str()]);
        assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
        assert!(context.read(&file).contains(wanted), "{format}: {}", context.read(&file));
    }
    // The report links the output of the test.
    let html = context.read("report.html");
    let folder = context.dir().canonicalize().unwrap();
    assert!(html.contains(&format!("href=\"file://{}/", folder.display())), "{html}");
    assert!(html.contains("evaluators/1-command/output.log\">evaluators/1-command/output.log</a>"), "{html}");
    // The plan, whose digest is in the journal, has it.
    let verified = context.run(YB, ["verify", "latest"]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.stdout, verified.stderr);
}

#[test]
fn run_warns_of_a_case_that_passes_untouched_once_it_knows() {
    const WARNING: &str = "warning: case `two` passes an agent that does nothing";
    let context = world();
    let idle = json!([{ "name": "git-diff", "config": { "assertions": { "max_files_changed": 3 } } }]);
    write(&context, &idle, &json!({}));
    let run = |more: &[&str]| context.command(YB).args(["run", "case.yaml"]).args(more).run();
    for _ in 0..2 {
        let outcome = run(&[]);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        assert_eq!(outcome.stderr.matches(WARNING).count(), 1, "{}", outcome.stderr);
    }
    let outcome = run(&["--json", "--repeat", "3"]);
    let line = outcome.stdout.lines().find(|line| line.contains("progress_warning")).unwrap();
    assert!(line.contains("does nothing"), "{line}");
    assert!(!run(&["--no-check"]).stderr.contains(WARNING));
    // The result is that of the check.
    assert_check(&context, &["--repeat", "1"], 1, &["passes untouched (cached)"]);
    write(&context, &tested(), &json!({}));
    let outcome = run(&[]);
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains(WARNING), "{}", outcome.stderr);
    // A hook may make what the test wants: the start tree that a trial has is graded.
    let hook =
        json!({ "pre_execution": [{ "name": "script", "config": { "command": "echo two > a.txt" } }] });
    write(&context, &tested(), &hook);
    assert!(run(&[]).stderr.contains(WARNING));
    let left = std::fs::read_dir(context.dir().join(".youbencha-workspace/checks")).unwrap();
    assert_eq!(left.count(), 0);
}
