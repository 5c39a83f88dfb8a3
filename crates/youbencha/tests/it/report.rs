//! `yb report`: output paths and errors.

use std::fs;
use std::path::PathBuf;

use insta::assert_snapshot;
use serde_json::Value;
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::{Outcome, RealClaude, RecordedRun, TestContext};

use crate::YB;
use crate::small_suite::{SUITE, world};

fn yb(context: &TestContext, args: &[&str]) -> Outcome {
    context.run(YB, args)
}

/// A context with a recorded run, and its directory.
fn recorded(run: &RecordedRun) -> (TestContext, PathBuf) {
    let context = TestContext::new();
    let folder = run.write(&context.dir().join(".youbencha-workspace"));
    (context, folder)
}

fn small() -> RecordedRun {
    RecordedRun { cases: vec!["one".to_owned()], repeats: 1, ..RecordedRun::example() }
}

/// A real run in every format.
#[test]
fn report_is_written_next_to_the_results() {
    let context = world();
    context.write("suite.yaml", SUITE);
    let ran = yb(&context, &["run", "-c", "suite.yaml", "--jobs", "2", "--quiet"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert_snapshot!(yb(&context, &["report"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    wrote .youbencha-workspace/runs/[RUN]/report.md
    ----- stderr -----
    ");
    for (format, file) in [
        ("md", "report.md"),
        ("markdown", "report.md"),
        ("json", "report.json"),
        ("html", "report.html"),
        ("junit", "report.junit.xml"),
        ("csv", "report.csv"),
        ("github", "report.github.md"),
    ] {
        let outcome = yb(&context, &["report", "--from", "latest", "--format", format]);
        assert!(outcome.stdout.trim_end().ends_with(file), "{}{}", outcome.stdout, outcome.stderr);
        let text = context.read(outcome.stdout.trim_start_matches("wrote ").trim_end());
        assert!(text.contains("greeting"), "{format}: {text}");
        assert!(
            text.contains("files_changed (3) exceeds") || text.contains("files\\_changed (3) exceeds"),
            "{format}"
        );
    }
    let json = yb(&context, &["report", "--format", "json", "--output", "-"]);
    let report: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(report["runs"][0]["outcomes"]["passed"], 2);
    assert_snapshot!(yb(&context, &["report", "--format", "github", "--output", "-"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    ### ❌ nightly: 2/3 passed (66.7%)

    | | case | variant | passed | median time |
    | --- | --- | --- | ---: | ---: |
    | ✅ | greeting | one | 1/1 | [TIME] |
    | ❌ | greeting | two | 0/1 | [TIME] |
    | ✅ | greeting | none | 1/1 | [TIME] |

    <details><summary>1 trial that did not pass</summary>

    - **greeting / two** failed: ``git-diff: ✗ 3 files changed (+0/-0 lines): `a`, `b`, `c` | Violations: files_changed (3) exceeds max_files_changed (2)``

    </details>

    <sub>run `[RUN]` · full report: `yb report --format html`</sub>

    ----- stderr -----
    ");
}

#[test]
fn report_of_one_trial_is_written_next_to_its_results() {
    let (context, run) = recorded(&small());
    let artifacts = run.join("trials/one--sonnet--1/attempt-1/artifacts");
    let results = artifacts.join("results.json");
    let outcome = yb(&context, &["report", "--from", results.to_str().unwrap()]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let text = fs::read_to_string(artifacts.join("report.md")).unwrap();
    assert!(text.starts_with("# youBencha Evaluation Report\n"), "{text}");
    let outcome =
        yb(&context, &["report", "--from", artifacts.to_str().unwrap(), "--format", "csv", "-o", "-"]);
    assert_eq!(outcome.stdout.lines().count(), 2, "{}", outcome.stdout);
}

#[test]
fn report_output_path_is_respected() {
    let (context, run) = recorded(&small());
    let name = run.file_name().unwrap().to_str().unwrap();
    let outcome =
        yb(&context, &["report", "--from", &name[..10], "--format", "html", "--output", "a/b/page.html"]);
    assert_eq!(
        (outcome.code, outcome.stdout.as_str()),
        (Some(0), "wrote a/b/page.html\n"),
        "{}",
        outcome.stderr
    );
    assert!(context.read("a/b/page.html").starts_with("<!doctype html>"));
    let outcome = yb(&context, &["report", "--format", "html", "--output", "folder"]);
    assert_eq!(outcome.stdout, "wrote folder/index.html\n");
    // No temporary file is left.
    assert_eq!(fs::read_dir(context.dir().join("folder")).unwrap().count(), 1);
    let twice =
        yb(&context, &["report", "--from", name, "--from", "latest", "--format", "csv", "--output", "-"]);
    assert_eq!(twice.stdout.lines().count(), 7, "{}", twice.stdout);
}

#[test]
fn many_trials_are_a_directory_of_pages() {
    let (context, run) = recorded(&RecordedRun { repeats: 4, ..RecordedRun::example() });
    assert_snapshot!(yb(&context, &["report", "--format", "html"]).stdout.replace(run.file_name().unwrap().to_str().unwrap(), "[RUN]"), @"wrote .youbencha-workspace/runs/[RUN]/report/index.html and 60 pages");
    assert!(run.join("report/index.html").is_file());
    assert_eq!(fs::read_dir(run.join("report/trials")).unwrap().count(), 60);
    assert_snapshot!(yb(&context, &["report", "--format", "html", "--output", "x.html"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: a report of more than 50 trials needs a directory: `x.html`
    hint: pass a directory: `--output report`
    ");
}

#[test]
fn report_of_missing_results_is_an_error() {
    let (context, _run) = recorded(&small());
    context.write("other.json", "{\"name\": 1}");
    assert_snapshot!(yb(&context, &["report", "--from", "other.json"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: not the results of a trial: `other.json`: `test_case.name` is missing
    hint: pass a run or the `results.json` of one trial; list runs: `yb list runs`
    ");
    assert_snapshot!(yb(&context, &["report", "--from", "some/results.json"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: no run or results found: `some/results.json`
    hint: pass the name or directory of a run, or the `results.json` of one trial
    hint: runs are in `runs` of the workspace directory; `latest` is the newest
    ");
    assert_snapshot!(yb(&context, &["report", "--from", "nothing"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: no run matches `nothing` in `[TEMP]/work/.youbencha-workspace/runs`
    hint: `yb list runs` shows all runs
    ");
    let unknown = yb(&context, &["report", "--format", "pdf"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.stderr.contains("markdown, json, html, junit, csv, github"), "{}", unknown.stderr);
}

#[cfg(unix)]
#[test]
fn report_is_not_written_through_a_link() {
    let (context, _run) = recorded(&small());
    let target = context.write("mine", "mine");
    std::os::unix::fs::symlink(&target, context.dir().join("report.csv")).unwrap();
    let outcome = yb(&context, &["report", "--format", "csv", "--output", "report.csv"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stdout);
    assert_eq!(context.read("mine"), "mine");
}

/// The page has the conversation of the real CLI with tool calls and results, and no secrets.
#[test]
fn real_claude_is_reported_with_its_conversation() {
    let script = "
tape: 1
lanes:
  main:
    - { say: I look first., tools: [{ Bash: { command: cat greet.sh, description: Look } }] }
    - { tools: [{ Bash: { command: 'echo changed > greet.sh; echo $ANTHROPIC_API_KEY', description: Fix } }] }
    - { say: Done <b>now</b>., usage: { input: 100, output: 20 } }
";
    let server =
        MockServer::start(Script::parse(script, &Vars::new()).unwrap(), &MockServerOptions::default())
            .unwrap();
    let (claude, context) = (RealClaude::new(), world());
    let key = "not-a-real-key-but-a-secret";
    context.write(
        "case.yaml",
        "
youbencha: 1
name: greeting
description: The script greets by name.
repo: repo
isolation: external
agent: { type: claude-code, model: claude-opus-5-5, config: { prompt: Greet by name., permission_mode: bypassPermissions } }
evaluators: [{ name: git-diff, config: { assertions: { max_files_changed: 1 } } }]
",
    );
    let command = context.command(YB).env("ANTHROPIC_BASE_URL", server.base_url());
    // Allows the CLI to bypass permissions as root.
    let command =
        command.env("ANTHROPIC_API_KEY", key).env("YB_CLAUDE", claude.program()).env("IS_SANDBOX", "1");
    let ran = command.args(["run", "-c", "case.yaml", "-q"]).run();
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let page = yb(&context, &["report", "--format", "html", "--output", "-"]).stdout;
    for expected in [
        "Greet by name.",
        "I look first.",
        "<b>Bash</b><code>cat greet.sh</code>",
        "echo Hello!",
        "Done &lt;b&gt;now&lt;/b&gt;.",
        "<span class=\"a\" data-n=\"1\">+changed</span>",
        "self-reported",
        "claude-opus-5-5",
    ] {
        assert!(page.contains(expected), "{expected}\n{page}");
    }
    assert!(!page.contains(key));
    let table = yb(&context, &["report", "--format", "csv", "--output", "-"]).stdout;
    let row: Vec<&str> = table.lines().nth(1).unwrap().split(',').collect();
    assert_eq!((row[6], row[8], row[9]), ("claude-code", "passed", "1"));
    assert!(row[12].parse::<f64>().unwrap() > 0.0, "the agent reported its cost: {table}");
}
