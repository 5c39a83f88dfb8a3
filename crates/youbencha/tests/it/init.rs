//! `yb init`: what it writes runs at once, without network, login or key.

use insta::assert_snapshot;
use yb_tape::{Script, Server, ServerOptions, Vars};
use yb_testkit::{RealClaude, TestContext};

use crate::YB;

#[test]
fn the_case_runs_as_the_last_words_say() {
    let context = TestContext::new();
    let outcome = context.run(YB, ["init"]);
    assert_snapshot!(outcome.snapshot(), @r"
    exit code: 0
    ----- stdout -----
    wrote testcase.yaml
    wrote testcase-project/greet.sh
    wrote testcase-project/test.sh

    Run it, offline and for nothing:
      yb run -c testcase.yaml

    Then read testcase.yaml: one line of it gives the same task to Claude Code.
    ----- stderr -----
    ");
    let next = outcome.stdout.lines().find_map(|line| line.trim().strip_prefix("yb ")).unwrap();
    assert_eq!(next, "run -c testcase.yaml");
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
fn one_line_makes_it_a_case_for_claude_code() {
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
fn what_is_there_is_named_and_left_alone() {
    let context = TestContext::new();
    context.write("testcase-project/test.sh", "mine");
    assert_snapshot!(context.run(YB, ["init"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: already there: `testcase-project/test.sh`
    hint: `yb init --force` replaces them; nothing was changed
    ");
    assert_eq!(context.read("testcase-project/test.sh"), "mine");
    assert!(!context.dir().join("testcase.yaml").exists());
    assert_eq!(context.run(YB, ["init", "--force"]).code, Some(0));
    assert_ne!(context.read("testcase-project/test.sh"), "mine");
}

#[test]
fn force_does_not_follow_a_link_out() {
    let context = TestContext::new();
    let elsewhere = context.root().join("elsewhere");
    std::fs::write(&elsewhere, "mine").unwrap();
    std::os::unix::fs::symlink(&elsewhere, context.dir().join("testcase.yaml")).unwrap();
    let outcome = context.run(YB, ["init", "--force"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stdout);
    assert!(outcome.stderr.contains("a link is not written through"), "{}", outcome.stderr);
    assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "mine");
    assert!(!context.dir().join("testcase-project").exists());
}

/// The line that the comments name is the only one to change; in a sandbox, the one about isolation too.
#[test]
fn real_claude_does_the_same_task_with_one_line_changed() {
    let script = "
tape: 1
lanes:
  main:
    - tools: [{ Bash: { command: 'echo ''echo \"Hello, $1!\"'' > greet.sh && sh test.sh', description: Fix } }]
    - say: Done.
";
    let server =
        Server::start(Script::parse(script, &Vars::new()).unwrap(), &ServerOptions::default()).unwrap();
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
