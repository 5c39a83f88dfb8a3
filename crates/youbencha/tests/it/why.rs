//! Why a trial failed: the failing tests, with what their runner printed, in every view.

use serde_json::Value;
use yb_testkit::git::Repo;
use yb_testkit::{Outcome, TestContext};

use crate::YB;

const SECRET: &str = "s3cret-token-of-the-case";

/// A suite whose tests fail for one variant. The runner prints paths of the machine, times, a secret and control characters.
fn failing() -> TestContext {
    let context = TestContext::new();
    let repo = context.dir().join("repo");
    std::fs::create_dir(&repo).unwrap();
    Repo::init(&repo).write("sum.py", "def add(a, b): return a - b\n").commit("start");
    let runner = r#"
printf '\033[31mE  noise on stdout\033[0m\n1 failed in 0.0%s seconds\n' "$$"
if grep -q 'a + b' sum.py; then
  echo '<testsuite><testcase classname="tests" name="adds"/></testsuite>' > report.xml; exit 0
fi
cat > report.xml <<EOF
<testsuite><testcase classname="tests" name="adds" time="0.$$"><failure message="assert -1 == 3">$PWD/sum.py:1: in add
&lt;b&gt;@everyone \`touch x\`&lt;/b&gt; &#x202e;$DEPLOY_TOKEN at 0x7f00dead$$
E  assert -1 == 3 (0.$$s)</failure></testcase><testcase classname="tests" name="fine"/></testsuite>
EOF
exit 1
"#;
    context.write("runner.sh", runner);
    context.write(
        "suite.yaml",
        format!(
            r#"
youbencha: 1
name: nightly
cases:
  - name: sum
    description: Adds.
    repo: repo
    isolation: none
    env: {{ DEPLOY_TOKEN: {SECRET} }}
    agent: {{ type: command, config: {{ prompt: Fix the sum. }} }}
    evaluators:
      - name: command
        config:
          argv: [sh, runner.sh]
          env: {{ DEPLOY_TOKEN: {SECRET} }}
          hidden: {{ runner.sh: runner.sh }}
          report: {{ format: junit, file: report.xml }}
variants:
  - {{ name: good, type: command, config: {{ command: {{ argv: [sh, -c, "sed -i 's/a - b/a + b/' sum.py"] }} }} }}
  - {{ name: bad, type: command, config: {{ command: {{ argv: [sh, -c, "echo x > note"] }} }} }}
repeats: 2
"#
        ),
    );
    context
}

fn yb(context: &TestContext, args: &[&str]) -> Outcome {
    context.run(YB, args)
}

fn report(context: &TestContext, format: &str) -> String {
    let outcome = yb(context, &["report", "--format", format, "--output", "-"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    outcome.stdout
}

/// Returns the verdict files of a trial.
fn verdict(context: &TestContext, path: &str) -> (String, Value) {
    let text = context.read(path);
    let value = serde_json::from_str(&text).unwrap();
    (text, value)
}

fn run_dir(context: &TestContext) -> String {
    let shown = yb(context, &["show", "--json"]);
    let run: Value = serde_json::from_str(&shown.stdout).unwrap();
    format!(".youbencha-workspace/runs/{}", run["run"].as_str().unwrap())
}

#[test]
fn failing_tests_and_their_lines_are_in_every_view() {
    let context = failing();
    let ran = yb(&context, &["run", "-c", "suite.yaml", "--jobs", "1"]);
    assert_eq!(ran.code, Some(1), "{}{}", ran.stdout, ran.stderr);
    let assertion = "E  assert -1 == 3 (…)";
    // As they happen, and again at the end, where repeats with the same reason are one entry.
    let reason = "command: exited with code 1, 1 test passed, 1 failed: `tests::adds` | expected exit code 0";
    assert_eq!(ran.stderr.matches("sum / bad #1: failed in ").count(), 1, "{}", ran.stderr);
    assert_eq!(ran.stderr.matches(reason).count(), 2, "{}", ran.stderr);
    assert_eq!(ran.stderr.matches(assertion).count(), 2, "{}", ran.stderr);
    assert!(
        ran.stdout.contains(&format!("✗ sum / bad: failed (2 times): {reason}\n    ✗ tests::adds\n")),
        "{}",
        ran.stdout
    );
    assert_eq!(ran.stdout.matches(assertion).count(), 1, "{}", ran.stdout);

    let dir = run_dir(&context);
    let own = format!("{dir}/trials/sum--bad--1/attempt-1/artifacts/evaluators/1-command");
    let (text, verdict) = verdict(&context, &format!("{own}/verdict.json"));
    assert_eq!(verdict["failures"][0]["test"], "tests::adds");
    let lines: Vec<&str> = verdict["failures"][0]["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line.as_str().unwrap())
        .collect();
    assert_eq!(
        lines,
        ["sum.py:1: in add", "<b>@everyone `touch x`</b> \u{202e}[REDACTED:DEPLOY_TOKEN] at 0x…", assertion]
    );
    assert!(!text.contains(context.dir().to_str().unwrap()), "a verdict has no path of the machine: {text}");
    assert!(context.dir().join(&own).join("output.log").is_file());

    let shown = yb(&context, &["show", "sum--bad--1"]).stdout;
    assert!(shown.contains("    ✗ tests::adds\n    │ sum.py:1: in add\n"), "{shown}");
    assert!(shown.contains(r"\u{202e}[REDACTED:DEPLOY_TOKEN]"), "{shown}");
    assert!(shown.contains(&format!("    output: {own}/output.log\n")), "{shown}");
    let passing = yb(&context, &["show", "sum--good--1"]).stdout;
    assert!(!passing.contains("output.log") && !passing.contains("✗"), "{passing}");

    let html = report(&context, "html");
    assert!(html.contains("<span class=\"c-fail\">✗</span> tests::adds"), "{html}");
    assert!(
        html.contains("&lt;b&gt;@everyone `touch x`&lt;/b&gt; ⟨U+202E⟩[REDACTED:DEPLOY_TOKEN]"),
        "{html}"
    );
    for format in ["markdown", "junit", "github"] {
        let document = report(&context, format);
        let needed = ["tests::adds", "sum.py:1: in add", assertion];
        assert!(needed.iter().all(|text| document.contains(text)), "{format}: {document}");
        assert!(!document.contains(SECRET) && !document.contains("\u{202e}"), "{format}: {document}");
    }
    let junit = report(&context, "junit");
    assert!(junit.contains("expected exit code 0\ncommand: tests::adds\n    sum.py:1: in add"), "{junit}");
    let journal = context.read(format!("{dir}/journal.jsonl"));
    assert!(journal.contains("1 failed: `tests::adds`") && !journal.contains(SECRET), "{journal}");
}

/// Times, process ids, addresses and directories in the output do not change the verdict.
#[test]
fn verdict_with_lines_of_the_runner_is_the_same_after_regrading() {
    let context = failing();
    yb(&context, &["run", "-c", "suite.yaml", "-q", "-f", "variant=bad"]);
    let dir = run_dir(&context);
    let (before, _) = verdict(
        &context,
        &format!("{dir}/trials/sum--bad--1/attempt-1/artifacts/evaluators/1-command/verdict.json"),
    );
    let graded = yb(&context, &["eval", "--from", "latest", "--json"]);
    let grading: Value = serde_json::from_str(&graded.stdout).unwrap_or_else(|_| panic!("{}", graded.stderr));
    let id = grading["grading"].as_str().unwrap();
    let (after, _) = verdict(
        &context,
        &format!("{dir}/gradings/{id}/trials/sum--bad--1/evaluators/1-command/verdict.json"),
    );
    assert_eq!(before, after);
}

#[test]
fn end_of_the_output_tells_why_without_a_report() {
    let context = failing();
    let suite = context.read("suite.yaml");
    context.write("suite.yaml", suite.replace("          report: { format: junit, file: report.xml }\n", ""));
    let ran = yb(&context, &["run", "-c", "suite.yaml", "--jobs", "1"]);
    assert!(ran.stdout.contains("    │ E  noise on stdout\n    │ 1 failed in …\n"), "{}", ran.stdout);
    let shown = yb(&context, &["show", "sum--bad--1"]).stdout;
    assert!(shown.contains("    │ 1 failed in …\n"), "{shown}");
}

#[test]
fn message_of_git_diff_names_the_files() {
    let context = crate::small_suite::world();
    context.write("suite.yaml", crate::small_suite::SUITE);
    let ran = yb(&context, &["run", "-c", "suite.yaml", "--filter", "variant=two"]);
    assert!(
        ran.stdout.contains("✗ 3 files changed (+0/-0 lines): `a`, `b`, `c` | Violations: "),
        "{}",
        ran.stdout
    );
}
