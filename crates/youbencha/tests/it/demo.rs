//! `yb demo`, as the README promises it.

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
    // On stderr two trials tell what they do, in any order.
    assert_snapshot!(context.filtered(&outcome.stdout), @r"
    1. A repository with a failing test, two ways to ask for help, and a scripted model
       [TEMP]/tmp/yb-demo-[ID]
       agent: Claude Code: [CLAUDE]

    2. Both variants run, are recorded and graded: one forgets what a hidden test asks for
       $ yb run -c suite.yaml --record tapes
    case      variant  passed  median time  cost
    greeting  terse    0/1     [TIME]        $0.0000
    greeting  careful  1/1     [TIME]        $0.0000
    2 of 2 trials: 1 passed, 1 failed, $0.0000; isolation: [LEVEL]
    gates: held
      held         min_pass_rate: 1 of 2 trials passed (50.0 %), at least 50.0 % has to

    3. The same again from the tapes: the agent and its tools are real, the model is asked nothing
       $ yb run -c suite.yaml --replay tapes
    case      variant  passed  median time  cost
    greeting  terse    0/1     [TIME]        $0.0000
    greeting  careful  1/1     [TIME]        $0.0000
    2 of 2 trials: 1 passed, 1 failed, $0.0000; isolation: [LEVEL]
    gates: held
      held         min_pass_rate: 1 of 2 trials passed (50.0 %), at least 50.0 % has to
       2 of 2 trials came to the same files and the same verdicts

    4. A report
       $ yb report --format html --output report.html
    wrote report.html
       open it: file://[TEMP]/tmp/yb-demo-[ID]/report.html

    Look around, and do it again by hand:
      cd [TEMP]/tmp/yb-demo-[ID]
      cat suite.yaml model.yaml
      yb show latest greeting--careful--1 --transcript
      yb tape show tapes/greeting--careful--1.tape
      yb run -c suite.yaml --replay tapes
    ");
    let tapes = folder(&outcome.stdout).join("tapes");
    let shown = context.command(YB).args(["tape", "show"]).arg(tapes.join("greeting--careful--1.tape")).run();
    assert!(shown.stdout.contains("I read the test first."), "{}", shown.stdout);
    // A vendor's own prompts are on no tape.
    let all =
        context.command(YB).args(["tape", "show", "--json"]).arg(tapes.join("greeting--terse--1.tape")).run();
    assert!(!all.stdout.contains("You are Claude Code"), "{}", all.stdout);
}

/// The same without any agent on the machine, and its report in a browser.
#[test]
fn without_claude_code_the_built_in_agent_does_it_and_the_report_opens() {
    let context = world();
    let dir = context.dir().join("demo");
    let outcome =
        context.command(YB).args(["demo", "--no-download", "--dir", "demo"]).env("PATH", path()).run();
    assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("agent: the scripted one that is built in"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("2 of 2 trials came to the same"), "{}", outcome.stdout);
    assert_eq!(folder(&outcome.stdout), dir);

    let mut browser = Browser::start();
    browser.open(&format!("file://{}", dir.join("report.html").display()));
    let text = browser.eval("document.body.innerText").to_string();
    for words in ["demo", "greeting", "terse", "careful", "passed", "failed"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(browser.console_errors().is_empty(), "{:?}", browser.console_errors());

    // What it printed can be typed: in that folder, by hand.
    let again = context.command(YB).args(["run", "-c", "suite.yaml", "--replay", "tapes", "--quiet"]);
    let again = again.current_dir(&dir).env("PATH", path()).run();
    assert_eq!(again.code, Some(0), "{}\n{}", again.stdout, again.stderr);
    let twice =
        context.command(YB).args(["demo", "--no-download", "--dir", "demo"]).env("PATH", path()).run();
    assert_eq!(twice.code, Some(2), "{}", twice.stderr);
    assert!(twice.stderr.contains("the folder is not empty"), "{}", twice.stderr);
}

#[test]
fn without_npm_it_says_so_and_an_agent_that_is_named_must_be_there() {
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
    assert!(outcome.stdout.contains("there is no npm to install it with"), "{}", outcome.stdout);
}

#[test]
fn the_pinned_version_is_the_one_that_tests_run() {
    let source = include_str!("../../src/commands/demo/agent.rs");
    assert!(source.contains(&format!("VERSION: &str = \"{}\"", RealClaude::pinned_version())));
}
