//! `yb demo`, as the README promises it.

use std::path::Path;

use insta::assert_snapshot;
use yb_testkit::TestContext;

use crate::YB;

/// Runs the real CLI, so its name puts it into the group of those tests.
#[test]
fn real_claude_fixes_the_tiny_repository() {
    let agents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../agents");
    let mut context = TestContext::new();
    context
        .filter(r"/\S*/claude-code-[a-z0-9-]+/claude", "[CLAUDE]")
        .filter("yb-demo-[A-Za-z0-9]+", "yb-demo-[ID]");
    context.filter(r"\((cgroup|subreaper|sweep)\)", "([MEANS])");
    let path = std::env::var_os("PATH").unwrap();
    let outcome = context.command(YB).arg("demo").arg("--agents-dir").arg(agents).env("PATH", path).run();
    assert_snapshot!(outcome.snapshot(), @r#"
    exit code: 0
    ----- stdout -----
    1. A repository with a failing test
       [TEMP]/tmp/yb-demo-[ID]/repo: FAIL

    2. A scripted model on this machine: no account, no network, no cost
       http://127.0.0.1:[PORT]

    3. The real agent, with its real tools, under supervision
       [CLAUDE]
       > Make `greet.sh NAME` greet by name, so that test.sh passes.
       says   I read the test first.
       tool   Read test.sh
       says   The greeting has no name in it yet. I add one.
       tool   Write greet.sh
       says   Now the test.
       tool   Bash sh test.sh
       says   Done. `greet.sh` greets by name, and the test passes.

    4. What it left
       --- a/greet.sh
       +++ b/greet.sh
       -echo "Hello!"
       +echo "Hello, ${1:-world}!"
       test.sh: pass
       agent: exited with code 0 after [TIME], [TIME] of CPU, nothing left running ([MEANS])

    passed: 4 model calls, all answered by the script
    ----- stderr -----
    "#);
    assert_eq!(
        std::fs::read_dir(context.root().join("tmp")).unwrap().count(),
        0,
        "the demo leaves nothing behind"
    );
}

#[test]
fn without_an_agent_it_says_where_it_looked() {
    let mut context = TestContext::new();
    context.filter("searched: .*", "searched: [PLACES]");
    let outcome = context.command(YB).arg("demo").env("PATH", context.dir()).run();
    assert_snapshot!(outcome.snapshot(), @r"
    exit code: 3
    ----- stdout -----
    ----- stderr -----
    error: failed to find Claude Code
      caused by: `claude` was not found; searched: [PLACES]
    hint: install it: `npm install -g @anthropic-ai/claude-code`
    hint: or set `YB_CLAUDE` to its path
    ");
}
