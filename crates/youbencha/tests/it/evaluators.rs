//! Evaluators end to end: cases, verdicts and exit codes.

use std::path::{Path, PathBuf};

use insta::assert_snapshot;
use serde_json::Value;
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::git::Repo;
use yb_testkit::{Outcome, RealClaude, TestContext};

use crate::YB;

/// Creates a repository with a script that adds numbers, and its test.
fn world() -> TestContext {
    let mut context = TestContext::new();
    context.filter(r"run-\d{4}-\d\d-\d\d-\[HEX\]", "[RUN]");
    std::fs::create_dir(context.dir().join("repo")).unwrap();
    Repo::init(context.dir().join("repo"))
        .write("add.sh", "echo 0\n")
        .write("test.sh", "test \"$(sh add.sh 1 2)\" = 3\n")
        .write("notes.txt", "one\ntwo\nthree\n")
        .commit("start");
    context
}

const HONEST: &str = "echo 'echo $(($1 + $2))' > add.sh";

/// Builds a case with a shell agent; `rest` has the evaluators.
fn case(agent: &str, rest: &str) -> String {
    let agent = serde_json::to_string(agent).unwrap();
    format!(
        "youbencha: 1
name: adding
description: The script adds two numbers.
repo: repo
agent: {{ type: command, config: {{ prompt: Let it add., command: {{ argv: [sh, -c, {agent}] }} }} }}
{rest}"
    )
}

fn run(context: &TestContext, text: &str) -> Outcome {
    context.write("case.yaml", text);
    context.command(YB).args(["run", "-c", "case.yaml"]).run()
}

/// Returns the artifacts of the newest run.
fn artifacts(context: &TestContext) -> PathBuf {
    let runs = context.dir().join(".youbencha-workspace/runs");
    let mut runs: Vec<_> = std::fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().path()).collect();
    runs.sort();
    runs.pop().unwrap().join("artifacts")
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn results(context: &TestContext) -> Value {
    read(&artifacts(context).join("results.json"))
}

/// Runs a case with a single evaluator and returns the outcome and its message.
fn verdict(context: &TestContext, agent: &str, evaluator: &str) -> (String, String) {
    let outcome = run(context, &case(agent, &format!("evaluators: [{evaluator}]")));
    assert!(outcome.code.is_some_and(|code| code != 2), "{}", outcome.stderr);
    let results = results(context);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&results["outcome"]), text(&results["evaluators"][0]["message"]))
}

#[track_caller]
fn assert_verdict(context: &TestContext, agent: &str, evaluator: &str, expected: (&str, &str)) {
    let (outcome, message) = verdict(context, agent, evaluator);
    assert_eq!((outcome.as_str(), message.as_str()), expected);
}

#[test]
fn case_with_every_evaluator_passes() {
    let context = world();
    context.write("expected.patch", "--- a/add.sh\n+++ b/add.sh\n@@ -1 +1 @@\n-echo 0\n+echo $(($1 + $2))\n");
    let rest = r"
expected_source: patch
expected: expected.patch
evaluators:
  - { name: git-diff, config: { assertions: { max_files_changed: 1 }, exclude: ['*.txt'] } }
  - { name: expected-diff, config: { threshold: 1.0 } }
  - { name: command, config: { argv: [sh, test.sh], restore: [test.sh] } }
  - { name: command-lint, config: { shell: 'sh -n add.sh && wc -l < add.sh', metrics: { lines: { regex: '(\d+)', max: 5 } } } }
  - { name: files, config: { assertions: { exists: [add.sh], absent: ['*.orig'], unchanged: [test.sh], contains: { add.sh: '$1' }, matches: { notes.txt: '(?m)^two$' } } } }
  - { name: budget, config: { assertions: { max_duration: 5m } } }
";
    let outcome = run(&context, &case(HONEST, rest));
    assert_snapshot!(outcome.snapshot(), @r"
    exit code: 0
    ----- stdout -----
    adding: passed
      agent: command succeeded after [TIME]
      isolation: bubblewrap
      git-diff: passed: ✓ 1 file changed (+1/-1 lines)
      expected-diff: passed: ✓ Similarity: 100.0% (threshold: 100.0%) | Files: 3 matched, 0 changed
      command: passed (in-process): ✓ exited with code 0
      command-lint: passed (in-process): ✓ exited with code 0
      files: passed: ✓ 5 of 5 checks passed
      budget: passed: ✓ 1 of 1 limits met
      artifacts: .youbencha-workspace/runs/[RUN]/trials/adding--default--1/attempt-1/artifacts
    ----- stderr -----
    workspace [TEMP]/work/.youbencha-workspace/runs/[RUN]/trials/adding--default--1/attempt-1/src-modified
    running agent `command`
    captured the end tree
    hint: inspect the trial: yb show latest
    ");
    let results = results(&context);
    assert_eq!(results["evaluators"][3]["metrics"]["lines"], 1.0);
    assert_eq!(results["evaluators"][3]["checks"][1]["threshold"], 1.0);
    let folder = artifacts(&context).join("evaluators");
    let mut names: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["1-git-diff", "2-expected-diff", "3-command", "4-command-lint", "5-files", "6-budget"]
    );
    for file in ["2-expected-diff/expected-diff-report.json", "3-command/output.log", "5-files/verdict.json"]
    {
        assert!(folder.join(file).is_file(), "{file}");
    }
    // Grading leaves neither trees nor hidden files.
    assert!(!artifacts(&context).join("../private").exists());
}

#[test]
fn verdicts_are_deterministic() {
    let context = world();
    let rest = "
evaluators:
  - { name: git-diff, config: { assertions: { max_files_changed: 1 } } }
  - { name: files, config: { assertions: { unchanged: [test.sh] } } }
  - { name: command, config: { argv: [sh, test.sh] } }
";
    let seen = || -> Vec<Vec<u8>> {
        assert_eq!(run(&context, &case(HONEST, rest)).code, Some(0));
        let folder = artifacts(&context).join("evaluators");
        let file = |name: &str| std::fs::read(folder.join(name).join("verdict.json")).unwrap();
        ["1-git-diff", "2-files", "3-command"].into_iter().map(file).collect()
    };
    let first = seen();
    assert_eq!(first, seen());
    let text = String::from_utf8(first.concat()).unwrap();
    assert!(!text.contains("duration") && !text.contains("timestamp"), "{text}");
    let journal = std::fs::read_to_string(artifacts(&context).with_file_name("journal.jsonl")).unwrap();
    assert!(journal.contains("evaluators/1-git-diff/verdict.json"), "{journal}");
}

#[test]
fn files_evaluator_reads_the_object_store() {
    let context = world();
    context.write("schema.json", r#"{"type": "object", "required": ["name"]}"#);
    let files = |assertions: &str| format!("{{ name: files, config: {{ assertions: {{ {assertions} }} }} }}");
    let agent =
        "echo '{\"nam\": 1}' > out.json; rm notes.txt; ln -s out.json link.json; mkdir d; echo x > d/x.orig";
    for (assertions, message) in [
        ("exists: ['d/*.orig', out.json]", "✓ 2 of 2 checks passed"),
        (
            "exists: [notes.txt, 'e/**']",
            "✗ 0 of 2 checks passed | no file matches `notes.txt`; no file matches `e/**`",
        ),
        ("absent: ['**/*.orig']", "✗ 0 of 1 checks passed | must not exist: `d/x.orig`"),
        (
            "contains: { out.json: [nam, name] }",
            "✗ 1 of 2 checks passed | `out.json` does not contain `name`",
        ),
        // Links are not followed.
        ("contains: { link.json: out }", "✗ 0 of 1 checks passed | file not found or too large: `link.json`"),
        (
            "matches: { out.json: '^\\{\"n', test.sh: ^nothing }",
            "✗ 1 of 2 checks passed | `test.sh` does not match `^nothing`",
        ),
        (
            "json_schema: { out.json: schema.json }",
            "✗ 0 of 1 checks passed | `out.json` does not satisfy its schema: \"name\" is a required property",
        ),
        ("json_schema: { out.json: { type: object } }", "✓ 1 of 1 checks passed"),
        (
            "json_schema: { test.sh: { type: object } }",
            "✗ 0 of 1 checks passed | `test.sh` is not JSON: expected ident at line 1 column 2",
        ),
        ("unchanged: ['*.sh']", "✓ 1 of 1 checks passed"),
        ("unchanged: ['*.txt', 'd']", "✗ 0 of 2 checks passed | changed: `notes.txt`; changed: `d/x.orig`"),
    ] {
        let (_, found) = verdict(&context, agent, &files(assertions));
        assert_eq!(found, message, "{assertions}");
    }
}

#[test]
fn changing_protected_files_counts_as_cheating() {
    let context = world();
    let evaluator = "{ name: files, config: { tampering: true, assertions: { unchanged: [test.sh] } } }";
    assert_verdict(&context, HONEST, evaluator, ("passed", "✓ 1 of 1 checks passed"));
    assert_verdict(
        &context,
        "echo true > test.sh",
        evaluator,
        ("cheating", "✗ 0 of 1 checks passed | changed: `test.sh`"),
    );
    assert_eq!(results(&context)["evaluators"][0]["cheating"], "changed protected files: `test.sh`");
}

#[test]
fn hidden_files_exist_only_for_grading() {
    let context = world();
    context.write("graders/hidden.sh", "test \"$(sh add.sh 20 22)\" = 42 && echo 'ok 1 - adds'\n");
    let evaluator = "{ name: command, config: { argv: [sh, tests/hidden.sh], hidden: { tests/hidden.sh: graders/hidden.sh }, \
                     report: { format: tap }, expect: { tests: [adds] } } }";
    let looks =
        format!("{HONEST}; find / -name hidden.sh -not -path '/proc/*' 2>/dev/null > found; test ! -s found");
    assert_verdict(&context, &looks, evaluator, ("passed", "✓ exited with code 0, 1 test passed, 0 failed"));
    // A link or directory in its place is replaced.
    for agent in [
        "mkdir tests; echo 'echo ok 1 - adds' > tests/hidden.sh",
        "mkdir -p tests/hidden.sh/x; echo y > tests/hidden.sh/x/y",
        "ln -s /tmp tests",
    ] {
        let (outcome, message) = verdict(&context, agent, evaluator);
        assert_eq!(outcome, "failed", "{agent}: {message}");
        assert!(message.contains("did not pass: `adds`"), "{agent}: {message}");
    }
}

#[test]
fn hidden_directory_replaces_an_existing_one() {
    let context = world();
    context.write("graders/tests/run.sh", "test ! -e tests/conftest && sh test.sh\n");
    let evaluator =
        "{ name: command, config: { argv: [sh, tests/run.sh], hidden: { tests: graders/tests } } }";
    let agent = format!("{HONEST}; mkdir tests; touch tests/conftest");
    assert_verdict(
        &context,
        &agent,
        evaluator,
        ("passed", "✓ exited with code 0, left out: `tests/conftest`"),
    );
}

#[test]
fn edited_tests_are_restored_before_grading() {
    let context = world();
    let plain = "{ name: command, config: { argv: [sh, test.sh], restore: [] } }";
    let usual = "{ name: command, config: { argv: [sh, test.sh] } }";
    let restored = "{ name: command, config: { argv: [sh, test.sh], restore: ['test*'] } }";
    let agent = "echo true > test.sh";
    assert_verdict(&context, agent, plain, ("passed", "✓ exited with code 0"));
    let expected = ("failed", "✗ exited with code 1, restored: `test.sh` | expected exit code 0");
    for evaluator in [usual, restored] {
        assert_verdict(&context, agent, evaluator, expected);
        assert_verdict(&context, "rm test.sh", evaluator, expected);
    }
    assert_verdict(&context, HONEST, restored, ("passed", "✓ exited with code 0"));
}

#[test]
fn test_report_must_be_written_by_the_command() {
    let context = world();
    let report = "<testsuite><testcase classname=\"t\" name=\"adds\"/></testsuite>";
    context.write("graders/run.sh", format!(". ./add.sh; echo '{report}' > report.xml\n"));
    let evaluator = "{ name: command, config: { shell: sh run.sh, hidden: { run.sh: graders/run.sh }, \
                     report: { format: junit, file: report.xml }, expect: { tests: [t.adds] } } }";
    assert_verdict(&context, "true", evaluator, ("passed", "✓ exited with code 0, 1 test passed, 0 failed"));
    // Code under test can end its runner with exit code 0, and a report can be there before.
    let forged = format!("echo 'exit 0' > add.sh; echo '{report}' > report.xml");
    let expected = (
        "failed",
        "✗ exited with code 0, 0 tests passed, 0 failed | report not written: `report.xml`; did not pass: `t.adds`",
    );
    assert_verdict(&context, &forged, evaluator, expected);
    let linked = format!("echo 'exit 0' > add.sh; echo '{report}' > other.xml; ln -s other.xml report.xml");
    assert_verdict(&context, &linked, evaluator, expected);
}

#[test]
fn failing_command_fails_the_trial_and_unusable_program_is_a_grader_error() {
    let context = world();
    for (agent, config, expected) in [
        (
            "echo 'exit 7' > add.sh",
            "argv: [sh, add.sh], expect: { exit_code: [3, 7] }",
            ("passed", "✓ exited with code 7"),
        ),
        (
            "echo 'kill -9 $$' > add.sh",
            "argv: [sh, add.sh]",
            ("failed", "✗ exited with code 137 | expected exit code 0"),
        ),
        (
            "echo 'sleep 60' > add.sh",
            "argv: [sh, add.sh], timeout: 300ms",
            ("failed", "✗ timed out after 300ms | expected exit code 0"),
        ),
        (
            "rm add.sh",
            "argv: [./add.sh]",
            ("failed", "✗ no such program in the tree: `./add.sh` | expected exit code 0"),
        ),
        (
            "ln -sf /bin/true add.sh",
            "argv: [./add.sh]",
            ("failed", "✗ no such program in the tree: `./add.sh` | expected exit code 0"),
        ),
        (
            "true",
            "argv: [/etc/passwd]",
            ("grader_error", "Evaluator error: program is not executable: `/etc/passwd`"),
        ),
        // Programs of the agent with system names are not found.
        (
            "mkdir bin; for i in sh true bin/sh bin/true; do printf 'exit 9' > $i; chmod +x $i; done",
            "argv: ['true']",
            ("passed", "✓ exited with code 0"),
        ),
        (
            "true",
            "argv: [echo, hello], expect: { output: '^hel+o', no_output: bye }",
            ("passed", "✓ exited with code 0"),
        ),
        (
            "true",
            "argv: [echo, bye], expect: { output: hello, no_output: bye }",
            ("failed", "✗ exited with code 0 | the output does not match `hello`; the output matches `bye`"),
        ),
    ] {
        assert_verdict(&context, agent, &format!("{{ name: command, config: {{ {config} }} }}"), expected);
    }
    let outcome =
        run(&context, &case("true", "evaluators: [{ name: command, config: { argv: [/etc/passwd] } }]"));
    assert_eq!(outcome.code, Some(5), "{}", outcome.stdout);
    yb_testkit::assert_no_process_in(&context.dir());
}

#[test]
fn command_evaluator_sees_only_its_tree() {
    let context = world();
    context.write("secret-of-the-case.txt", "hidden\n");
    let look = "test -z \"$(find / -name secret-of-the-case.txt -not -path '/proc/*' 2>/dev/null)\" && test ! -e ../../../artifacts && \
                test \"$(pwd)\" != / && test -e add.sh && test ! -e .git && test \"$HOME\" != / && touch \"$HOME/x\" && env";
    let config =
        format!("{{ shell: {}, env: {{ GIVEN: yes-it-is }} }}", serde_json::to_string(look).unwrap());
    let text = case("true", &format!("evaluators: [{{ name: command, config: {config} }}]"));
    context.write("case.yaml", text);
    let outcome = context
        .command(YB)
        .args(["run", "-c", "case.yaml"])
        .env("PRIVATE_OF_THE_USER", "not-for-graders")
        .run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    let said = std::fs::read_to_string(artifacts(&context).join("evaluators/1-command/output.log")).unwrap();
    assert!(said.contains("GIVEN=yes-it-is") && !said.contains("PRIVATE_OF_THE_USER"), "{said}");
}

#[test]
fn prepare_runs_once_and_the_end_tree_is_laid_over_it() {
    let context = world();
    let rest = r"
prepare:
  - date +%s%N > stamp; echo prepared > notes.txt; mkdir modules; ln -s ../add.sh modules/add
  - { command: touch second, working_dir: modules }
  - ln -s $(command -v sh) tool
evaluators:
  - { name: command-tool, config: { argv: [./tool, -c, 'exit 0'] } }
  - { name: command, config: { shell: 'test -L modules/add && test -e modules/second && cat stamp && cat notes.txt && test ! -e test.sh', restore: [], metrics: { stamp: { regex: '^(\d+)' } }, expect: { output: three } } }
";
    let agent = "rm test.sh; test ! -e stamp";
    let stamp = || {
        let outcome = run(&context, &case(agent, rest));
        assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
        results(&context)["evaluators"][1]["metrics"]["stamp"].as_f64().unwrap()
    };
    let first = stamp();
    assert!(first > 0.0);
    assert_eq!(first.to_bits(), stamp().to_bits());
    assert_eq!(
        std::fs::read_dir(context.dir().join(".youbencha-workspace/cache/prepared")).unwrap().count(),
        2
    );
}

#[test]
fn failing_prepare_stops_before_the_agent() {
    let context = world();
    let rest = "
prepare: ['echo no packages here; exit 3']
evaluators: [{ name: command, config: { argv: [sh, test.sh] } }]
";
    let text = case("touch ran", rest);
    context.write("case.yaml", text);
    let outcome = context.command(YB).args(["run", "-c", "case.yaml", "--retries", "0"]).run();
    assert_eq!(outcome.code, Some(4), "{}{}", outcome.stdout, outcome.stderr);
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(said.contains("prepare failed") && said.contains("no packages here"), "{said}");
    assert!(!said.contains("command is working"), "{said}");
}

#[test]
fn expected_result_may_be_a_branch_commit_directory_or_patch() {
    let context = world();
    let git = |args: &[&str]| {
        let output = yb_testkit::git::command(&context.dir().join("repo")).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["checkout", "-q", "-b", "solution"]);
    context.write("repo/add.sh", "echo $(($1 + $2))\n");
    git(&["commit", "-qam", "solution"]);
    let commit = git(&["rev-parse", "HEAD"]).trim().to_owned();
    git(&["checkout", "-q", "-"]);
    for (name, content) in [
        ("add.sh", "echo $(($1 + $2))\n"),
        ("test.sh", "test \"$(sh add.sh 1 2)\" = 3\n"),
        ("notes.txt", "one\ntwo\nthree\n"),
    ] {
        context.write(format!("solution/{name}"), content);
    }
    context.write("solution.patch", "--- a/add.sh\n+++ b/add.sh\n@@ -1 +1 @@\n-echo 0\n+echo $(($1 + $2))\n");
    for (source, expected) in [
        ("branch", "solution"),
        ("commit", commit.as_str()),
        ("directory", "solution"),
        ("patch", "solution.patch"),
    ] {
        let rest = format!("expected_source: {source}\nexpected: {expected}\nevaluators: [expected-diff]\n");
        let outcome = run(&context, &case(HONEST, &rest));
        assert_eq!(outcome.code, Some(0), "{source}: {}{}", outcome.stdout, outcome.stderr);
        let found = results(&context);
        assert_eq!(
            found["evaluators"][0]["message"],
            "✓ Similarity: 100.0% (threshold: 80.0%) | Files: 3 matched, 0 changed",
            "{source}"
        );
        let outcome = run(&context, &case("rm notes.txt; touch new; printf 'echo 0' > add.sh", &rest));
        assert_eq!(outcome.code, Some(1), "{source}");
        let found = results(&context);
        assert_eq!(found["evaluators"][0]["metrics"]["least_similar"][0]["similarity"], 0.0);
        assert_eq!(found["evaluators"][0]["metrics"]["files_removed"], 1);
    }
    let rest = "expected_source: branch\nexpected: no-such-branch\nevaluators: [expected-diff]\n";
    let outcome = run(&context, &case("true", rest));
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("no-such-branch"), "{}", outcome.stderr);
}

#[test]
fn large_and_binary_files_are_compared_in_bounded_time() {
    let context = world();
    let line = |n: usize| format!("{n} this is a line of a large file, and there are many of them\n");
    let large: String = (0..160_000).map(line).collect();
    assert!(large.len() > 10_000_000);
    context.write("wanted/large.txt", large.replacen("5000 this", "5000 that", 1));
    context.write("wanted/data.bin", vec![0_u8; 10_000_000]);
    context.write("start/large.txt", &large);
    context.write("start/data.bin", vec![7_u8; 10_000_000]);
    let text = case("true", "expected_source: directory\nexpected: wanted\nevaluators: [expected-diff]\n")
        .replace("repo: repo", "directory: start");
    let outcome = run(&context, &text);
    assert_eq!(outcome.code, Some(1), "{}{}", outcome.stdout, outcome.stderr);
    let found = results(&context);
    let files = found["evaluators"][0]["metrics"]["file_similarities"].as_array().unwrap();
    let similarity =
        |path: &str| files.iter().find(|file| file["path"] == path).unwrap()["similarity"].as_f64().unwrap();
    assert!(similarity("large.txt") > 0.999 && similarity("large.txt") < 1.0);
    assert!(similarity("data.bin") < 0.001);
}

#[test]
fn unreported_usage_does_not_pass_a_budget() {
    let context = world();
    let expected = ("failed", "✗ 0 of 1 limits met | tokens not reported");
    assert_verdict(
        &context,
        HONEST,
        "{ name: budget, config: { assertions: { max_tokens: 10 } } }",
        expected,
    );
    let evaluator = "{ name: trajectory, config: { assertions: { tools_forbidden: [WebFetch] } } }";
    let expected = ("failed", "✗ 0 tool calls, 0 failed (self-reported) | the agent reported no tool calls");
    assert_verdict(&context, HONEST, evaluator, expected);
}

#[test]
fn skipped_evaluator_is_a_grader_error_unless_another_fails() {
    let context = world();
    let unable = "{ name: command, config: { argv: [/etc/passwd] } }";
    let rest = |more: &str| format!("evaluators: [{unable}, {more}]");
    let files = |file: &str| format!("{{ name: files, config: {{ assertions: {{ exists: [{file}] }} }} }}");
    let outcome = run(&context, &case("true", &rest(&files("add.sh"))));
    assert_eq!((outcome.code, results(&context)["outcome"].as_str()), (Some(5), Some("grader_error")));
    let found = results(&context);
    assert_eq!(found["summary"]["overall_status"], "partial");
    assert_eq!(found["evaluators"][0]["error"]["message"], "program is not executable: `/etc/passwd`");
    let outcome = run(&context, &case("true", &rest(&files("none"))));
    assert_eq!((outcome.code, results(&context)["outcome"].as_str()), (Some(1), Some("failed")));
}

#[test]
fn unset_variable_is_reported_before_the_run_starts() {
    let context = world();
    let rest = "evaluators: [{ name: command, config: { argv: [env], env: [NOT_SET_ANYWHERE] } }]";
    let outcome = run(&context, &case("true", rest));
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("`NOT_SET_ANYWHERE`"), "{}", outcome.stderr);
    assert!(!context.dir().join(".youbencha-workspace").exists());
}

#[test]
fn command_secrets_are_not_written_to_files() {
    let context = world();
    let rest = "evaluators: [{ name: command, config: { shell: 'echo $MY_TOKEN', env: [MY_TOKEN] } }]";
    context.write("case.yaml", case("true", rest));
    let outcome =
        context.command(YB).args(["run", "-c", "case.yaml"]).env("MY_TOKEN", "a-secret-of-the-user").run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    let said = std::fs::read_to_string(artifacts(&context).join("evaluators/1-command/output.log")).unwrap();
    assert_eq!(said, "[REDACTED:MY_TOKEN]\n");
}

#[test]
fn real_claude_is_graded_by_trajectory_and_budget() {
    let script = "
tape: 1
lanes:
  main:
    replies:
      - tools: [{ Read: { file_path: '{{workspace}}/add.sh' } }]
      - tools: [{ Bash: { command: 'echo \"echo \\$((\\$1 + \\$2))\" > add.sh', description: Write it } }]
      - tools: [{ Bash: { command: sh test.sh, description: Test it } }]
      - say: It adds now.
";
    let context = world();
    let server = MockServer::start(
        Script::parse(script, &Vars::new().with("workspace", ".")).unwrap(),
        &MockServerOptions::default(),
    )
    .unwrap();
    let text = "youbencha: 1
name: adding
description: The script adds two numbers.
repo: repo
agent: { type: claude-code, config: { prompt: Let it add., permission_mode: bypassPermissions } }
evaluators:
  - { name: trajectory, config: { assertions: { tools_used: [Read, 'Bash(sh test.sh)'], tools_forbidden: [WebFetch, 'Bash(git *)'], order: [Read, Bash], counts: { Bash: { min: 2, max: 2 } }, max_repeated_calls: 0, max_turns: 10 } } }
  - { name: budget, config: { assertions: { max_tokens: 100000, max_cost_usd: 1, max_turns: 10, max_duration: 5m } } }
  - { name: command, config: { argv: [sh, test.sh], restore: [test.sh] } }
  - { name: trajectory-no, config: { assertions: { tools_forbidden: [Bash] } } }
";
    context.write("case.yaml", text);
    let outcome = context
        .command(YB)
        .args(["run", "-c", "case.yaml"])
        .env("ANTHROPIC_BASE_URL", server.base_url())
        .env("ANTHROPIC_API_KEY", "not-a-real-key")
        .env("YB_CLAUDE", RealClaude::new().program())
        .run();
    assert_eq!(outcome.code, Some(1), "{}{}", outcome.stdout, outcome.stderr);
    let found = results(&context);
    let statuses: Vec<&str> =
        found["evaluators"].as_array().unwrap().iter().filter_map(|one| one["status"].as_str()).collect();
    assert_eq!(statuses, ["passed", "passed", "passed", "failed"], "{:#}", found["evaluators"]);
    assert_eq!(found["evaluators"][0]["trust"], "self-reported");
    assert_eq!(found["evaluators"][0]["metrics"]["by_tool"]["Bash"], 2);
    assert_eq!(found["evaluators"][1]["metrics"]["usage_source"], "self-reported");
}

#[test]
fn evaluator_errors_have_a_location() {
    let context = world();
    let rest = r"
evaluators:
  - { name: command, config: { shell: a, argv: [b], hidden: { x: none }, expect: { output: '(', tests: 3 } } }
  - { name: command-2, config: { metrics: { m: { min: 1 } }, env: { 1X: y } } }
  - { name: files, config: { assertions: { matches: { a: '[' }, json_schema: { a: { type: nothing } }, exist: [a] } } }
  - { name: trajectory }
  - { name: expected-diff, config: { threshold: 2 } }
expected_source: directory
expected: nowhere
";
    context.write("case.yaml", case("true", rest));
    let outcome = context.command(YB).args(["validate", "case.yaml"]).run();
    assert_snapshot!(outcome.snapshot(), @r#"
    exit code: 2
    ----- stdout -----
    error: two commands: `argv` and `shell`
     --> case.yaml:8:32
    8 |   - { name: command, config: { shell: a, argv: [b], hidden: { x: none }, expect: { output: '(', test
      |                                ^^^^^
      = key: `evaluators[0].config.shell`
    hint: use only one of them

    error: failed to read the hidden file (no such file): `none`
     --> case.yaml:8:66
    8 | mand, config: { shell: a, argv: [b], hidden: { x: none }, expect: { output: '(', tests: 3 } } }
      |                                                   ^^^^
      = key: `evaluators[0].config.hidden.x`
    hint: use a path in or below the directory of the case file

    error: invalid regular expression (unclosed group): `(`
     --> case.yaml:8:92
    8 | argv: [b], hidden: { x: none }, expect: { output: '(', tests: 3 } } }
      |                                                   ^^^
      = key: `evaluators[0].config.expect.output`
    hint: YAML keeps a backslash as it is within single quotes

    error: `tests` needs a `report`
     --> case.yaml:8:97
    8 |  [b], hidden: { x: none }, expect: { output: '(', tests: 3 } } }
      |                                                   ^^^^^
      = key: `evaluators[0].config.expect.tests`
    hint: name the report that the command writes: `report: { format: junit, file: report.xml }`

    error: no command
     --> case.yaml:9:32
    9 |   - { name: command-2, config: { metrics: { m: { min: 1 } }, env: { 1X: y } } }
      |                                ^
      = key: `evaluators[1].config`
      = expected: `argv`, a list, or `shell`, a line for `sh`

    error: needs exactly one of `regex` and `json`
     --> case.yaml:9:45
    9 |   - { name: command-2, config: { metrics: { m: { min: 1 } }, env: { 1X: y } } }
      |                                             ^
      = key: `evaluators[1].config.metrics.m`
      = expected: `regex`, or `json` with a pointer such as `/totals/percent`

    error: invalid name: `1X`
     --> case.yaml:9:69
    9 |   - { name: command-2, config: { metrics: { m: { min: 1 } }, env: { 1X: y } } }
      |                                                                     ^^
      = key: `evaluators[1].config.env`
      = expected: a variable name: letters, digits and `_`, not starting with a digit

    error: invalid regular expression (unclosed character class): `[`
      --> case.yaml:10:58
    10 | ame: files, config: { assertions: { matches: { a: '[' }, json_schema: { a: { type: nothing } }, exis
       |                                                   ^^^
       = key: `evaluators[2].config.assertions.matches.a`
    hint: YAML keeps a backslash as it is within single quotes

    error: invalid JSON Schema: "nothing" is not valid under any of the schemas listed in the 'anyOf' keyword
      --> case.yaml:10:83
    10 | ertions: { matches: { a: '[' }, json_schema: { a: { type: nothing } }, exist: [a] } } }
       |                                                   ^
       = key: `evaluators[2].config.assertions.json_schema.a`
    hint: references to other files are not followed

    error: unknown key: `exist`
      --> case.yaml:10:104
    10 |  a: '[' }, json_schema: { a: { type: nothing } }, exist: [a] } } }
       |                                                   ^^^^^
       = key: `evaluators[2].config.assertions.exist`
    hint: did you mean `exists`?

    warning: vacuous: it asserts nothing, so it always passes: `trajectory`
      --> case.yaml:11:13
    11 |   - { name: trajectory }
       |             ^^^^^^^^^^
       = key: `evaluators[3]`
    hint: add assertions under `config.assertions`

    error: wrong value: `2`
      --> case.yaml:12:49
    12 |   - { name: expected-diff, config: { threshold: 2 } }
       |                                                 ^
       = key: `evaluators[4].config.threshold`
       = expected: a number from 0 to 1

    error: failed to read the expected result (no such file): `nowhere`
      --> case.yaml:14:11
    14 | expected: nowhere
       |           ^^^^^^^
       = key: `expected`
    hint: the path is relative to the directory of the case file and must stay below it

    invalid: 1 file, 12 errors, 1 warning
    ----- stderr -----
    "#);
}
