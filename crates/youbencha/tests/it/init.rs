//! `yb init`: the example runs offline and without credentials.

use insta::assert_snapshot;
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::{RealClaude, TestContext};

use crate::YB;

#[test]
fn init_prints_a_command_that_runs_the_case() {
    let context = TestContext::new();
    let outcome = context.run(YB, ["init"]);
    assert_snapshot!(outcome.snapshot(), @r"
    exit code: 0
    ----- stdout -----
    wrote testcase.yaml
    wrote testcase-project/greet.sh
    wrote testcase-hidden/test.sh

    Run it, offline and without API calls:
      yb check testcase.yaml    # prove that its graders fail an agent that does nothing
      yb run testcase.yaml

    Then edit testcase.yaml: one line switches to Claude Code.
    ----- stderr -----
    ");
    let next = outcome.stdout.lines().rev().find_map(|line| line.trim().strip_prefix("yb ")).unwrap();
    assert_eq!(next, "run testcase.yaml");
    let outcome = context.run(YB, next.split(' '));
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert!(
        outcome.stdout.contains("git-diff: passed: ✓ 1 file changed (+1/-1 lines)"),
        "{}",
        outcome.stdout
    );
    let outcome = context.run(YB, ["validate", "--strict", "testcase.yaml"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stdout);
    assert_eq!(context.read("testcase-project/greet.sh"), "echo \"Hello!\"\n", "the agent works on a copy");
}

#[test]
fn init_case_switches_to_claude_code_with_one_line() {
    let context = TestContext::new();
    context.run(YB, ["init"]);
    let text = context.read("testcase.yaml");
    let changed = text.replace("\n  type: command\n", "\n  type: claude-code\n");
    assert_ne!(changed, text);
    context.write("testcase.yaml", changed);
    let outcome = context.run(YB, ["validate", "--strict", "-v", "testcase.yaml"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("agent:      claude-code"), "{}", outcome.stdout);
}

#[test]
fn init_keeps_existing_files() {
    let context = TestContext::new();
    context.write("testcase-hidden/test.sh", "mine");
    assert_snapshot!(context.run(YB, ["init"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: files exist: `testcase-hidden/test.sh`
    hint: pass `--force` to replace them; nothing was changed
    ");
    assert_eq!(context.read("testcase-hidden/test.sh"), "mine");
    assert!(!context.dir().join("testcase.yaml").exists());
    assert_eq!(context.run(YB, ["init", "--force"]).code, Some(0));
    assert_ne!(context.read("testcase-hidden/test.sh"), "mine");
}

#[test]
fn init_force_follows_no_link() {
    let context = TestContext::new();
    let elsewhere = context.root().join("elsewhere");
    std::fs::write(&elsewhere, "mine").unwrap();
    std::os::unix::fs::symlink(&elsewhere, context.dir().join("testcase.yaml")).unwrap();
    let outcome = context.run(YB, ["init", "--force"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stdout);
    assert!(outcome.stderr.contains("refusing to write through a symbolic link"), "{}", outcome.stderr);
    assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "mine");
    assert!(!context.dir().join("testcase-project").exists());
}

/// Only the line named in the comments is changed, and in a sandbox the isolation.
#[test]
fn real_claude_does_the_same_task_with_one_line_changed() {
    let script = "
tape: 1
lanes:
  main:
    - tools: [{ Bash: { command: 'echo ''echo \"Hello, $1!\"'' > greet.sh && sh greet.sh Ada', description: Fix } }]
    - say: Done.
";
    let server =
        MockServer::start(Script::parse(script, &Vars::new()).unwrap(), &MockServerOptions::default())
            .unwrap();
    let (context, claude) = (TestContext::new(), RealClaude::new());
    context.run(YB, ["init"]);
    let text = context.read("testcase.yaml").replace("\n  type: command\n", "\n  type: claude-code\n");
    context.write("testcase.yaml", text.replace("# isolation: external", "isolation: external"));
    let outcome = context
        .command(YB)
        .args(["run", "-c", "testcase.yaml"])
        .env("ANTHROPIC_BASE_URL", server.base_url())
        .env("ANTHROPIC_API_KEY", "not-a-real-key-but-a-secret")
        .env("YB_CLAUDE", claude.program())
        .run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("agent: claude-code succeeded"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("1 file changed (+1/-1 lines)"), "{}", outcome.stdout);
}
