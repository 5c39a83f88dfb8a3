//! `yb demo`.

use std::path::{Path, PathBuf};

use insta::assert_snapshot;
use yb_testkit::{Browser, RealClaude, TestContext};

use crate::YB;

fn world() -> TestContext {
    let mut context = TestContext::new();
    context
        .filter(r"/\S*/claude-code-[a-z0-9-]+/claude", "[CLAUDE]")
        .filter(r"run-\d{4}-\d\d-\d\d-(\d+|\[HEX\])", "[RUN]")
        .filter("yb-demo-[A-Za-z0-9]+", "yb-demo-[ID]")
        .filter(r"isolation: \w+", "isolation: [LEVEL]");
    context
}

fn path() -> String {
    std::env::var("PATH").unwrap()
}

fn folder(stdout: &str) -> PathBuf {
    stdout
        .lines()
        .find_map(|line| line.strip_prefix("  cd "))
        .map_or_else(|| panic!("no folder: {stdout}"), PathBuf::from)
}

#[test]
fn real_claude_is_recorded_replayed_graded_and_reported() {
    let agents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../agents");
    let context = world();
    let demo = context.command(YB).arg("demo").arg("--agents-dir").arg(agents).env("PATH", path());
    let outcome = demo.timeout(std::time::Duration::from_secs(150)).run();
    assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.stdout, outcome.stderr);
    // Progress on stderr has no fixed order.
    assert_snapshot!(context.filtered(&outcome.stdout), @r"
    1. Create a repository with a failing test, two prompt variants and a scripted model
       [TEMP]/tmp/yb-demo-[ID]
       agent: Claude Code: [CLAUDE]

    2. Run, record and grade both variants; one fails a hidden test
       $ yb run suite.yaml --record tapes
    case      variant  passed  median time  cost
    greeting  terse    0/1     [TIME]  $0.00
    greeting  careful  1/1     [TIME]  $0.00

    variant  passed  pass rate  95% interval     cost   tokens
    terse    0/1     0.0%       0.0% to 79.3%    $0.00  927
    careful  1/1     100.0%     20.7% to 100.0%  $0.00  1,959
    cannot tell whether `careful` is better than `terse`: 0.0% → 100.0%, +100.0 pp (95% bounds -34.4 to +100.0 pp, p = 1.000)


    ✗ greeting / terse: failed: command-hidden: exited with code 1 | expected exit code 0
        │ FAIL: somebody without a name

    2 of 2 trials: 1 passed, 1 failed, $0.00 in [TIME]; isolation: [LEVEL]
    gates: passed
      min_pass_rate  passed  50.0% (minimum 50.0%), 1 of 2 trials

    3. Replay from the tapes: the agent and its tools are real, no API is called
       $ yb run suite.yaml --replay tapes
    case      variant  passed  median time  cost
    greeting  terse    0/1     [TIME]  $0.00
    greeting  careful  1/1     [TIME]  $0.00

    variant  passed  pass rate  95% interval     cost   tokens
    terse    0/1     0.0%       0.0% to 79.3%    $0.00  927
    careful  1/1     100.0%     20.7% to 100.0%  $0.00  1,959
    cannot tell whether `careful` is better than `terse`: 0.0% → 100.0%, +100.0 pp (95% bounds -34.4 to +100.0 pp, p = 1.000)


    ✗ greeting / terse: failed: command-hidden: exited with code 1 | expected exit code 0
        │ FAIL: somebody without a name

    2 of 2 trials: 1 passed, 1 failed, $0.00 in [TIME]; isolation: [LEVEL]
    gates: passed
      min_pass_rate  passed  50.0% (minimum 50.0%), 1 of 2 trials
       2 of 2 trials ended with identical files and verdicts

    4. Write a report
       $ yb report --format html --output report.html
    wrote report.html
       open file://[TEMP]/tmp/yb-demo-[ID]/report.html

    Next steps:
      cd [TEMP]/tmp/yb-demo-[ID]
      cat suite.yaml model.yaml
      yb show latest greeting--careful--1 --transcript
      yb tape show tapes/greeting--careful--1.tape
      yb run suite.yaml --replay tapes
    ");
    let tapes = folder(&outcome.stdout).join("tapes");
    let shown = context.command(YB).args(["tape", "show"]).arg(tapes.join("greeting--careful--1.tape")).run();
    assert!(shown.stdout.contains("I read the test first."), "{}", shown.stdout);
    // Tapes do not contain prompts of vendors.
    let all =
        context.command(YB).args(["tape", "show", "--json"]).arg(tapes.join("greeting--terse--1.tape")).run();
    assert!(!all.stdout.contains("You are Claude Code"), "{}", all.stdout);
}

/// Without an installed agent; opens the report in a browser.
#[test]
fn demo_without_claude_code_uses_the_built_in_agent() {
    let context = world();
    let dir = context.dir().join("demo");
    let outcome =
        context.command(YB).args(["demo", "--no-download", "--dir", "demo"]).env("PATH", path()).run();
    assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("agent: built-in scripted agent"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("2 of 2 trials ended with identical files"), "{}", outcome.stdout);
    assert_eq!(folder(&outcome.stdout), dir);

    let mut browser = Browser::start();
    browser.open(&format!("file://{}", dir.join("report.html").display()));
    let text = browser.eval("document.body.innerText").to_string();
    for words in ["demo", "greeting", "terse", "careful", "passed", "failed"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(browser.console_errors().is_empty(), "{:?}", browser.console_errors());

    // The printed commands work in that directory.
    let again = context.command(YB).args(["run", "suite.yaml", "--replay", "tapes", "--quiet"]);
    let again = again.current_dir(&dir).env("PATH", path()).run();
    assert_eq!(again.code, Some(0), "{}\n{}", again.stdout, again.stderr);
    let twice =
        context.command(YB).args(["demo", "--no-download", "--dir", "demo"]).env("PATH", path()).run();
    assert_eq!(twice.code, Some(2), "{}", twice.stderr);
    assert!(twice.stderr.contains("directory is not empty"), "{}", twice.stderr);
}

#[test]
fn demo_without_npm_uses_the_built_in_agent_and_rejects_a_missing_agents_dir() {
    let context = world();
    let empty = context.root().join("no-agents");
    std::fs::create_dir(&empty).unwrap();
    let outcome = context.command(YB).arg("demo").arg("--agents-dir").arg(&empty).env("PATH", path()).run();
    assert_eq!(outcome.code, Some(3), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("failed to find Claude Code"), "{}", outcome.stderr);
    // Everything but npm.
    let bin = context.root().join("bin");
    std::fs::create_dir(&bin).unwrap();
    for dir in std::env::split_paths(&path()) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name != "npm" {
                let _ = std::os::unix::fs::symlink(entry.path(), bin.join(name));
            }
        }
    }
    let outcome = context.command(YB).arg("demo").env("PATH", &bin).run();
    assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("npm was not found"), "{}", outcome.stdout);
}

#[test]
fn demo_pins_the_tested_version() {
    let source = include_str!("../../src/commands/demo/agent.rs");
    assert!(source.contains(&format!("VERSION: &str = \"{}\"", RealClaude::pinned_version())));
}
