//! `yb init`: what it writes runs at once, without network, login or key.

use insta::assert_snapshot;
use yb_testkit::TestContext;

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
        outcome.stdout.contains("git-diff: passed: ✓ 1 changed files (+1/-1 lines)"),
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
