//! Cases with an environment: another root, images, Dockerfiles and Harbor tasks.

use serde_json::{Value, json};
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::{Outcome, RealClaude, TestContext, tiny_root};

use crate::YB;

/// A context with a tiny root in `root`.
fn world() -> TestContext {
    let context = TestContext::new();
    tiny_root(&context.dir().join("root"));
    context
}

fn case(agent: &str, more: &Value) -> Value {
    let mut case = json!({ "youbencha": 1, "name": "rooted", "description": "d",
        "environment": { "rootfs": "root", "workdir": "/app", "env": { "COLOR": "blue" } },
        "agent": { "type": "command", "config": { "prompt": "x", "command": { "argv": ["sh", "-c", agent] } } },
        "evaluators": [] });
    for (key, value) in more.as_object().unwrap() {
        case[key] = value.clone();
    }
    case
}

fn assert_run(outcome: &Outcome, code: i32, wanted: &[&str]) {
    let printed = format!("{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.code, Some(code), "{printed}");
    for wanted in wanted {
        assert!(printed.contains(wanted), "{wanted}: {printed}");
    }
}

#[test]
fn agent_and_evaluators_run_in_the_root_of_the_case() {
    let context = world();
    context.write("root/app/greeting", "hello\n");
    let agent = "grep -q tiny /etc/os-release && test $(id -u) = 0 && test $(pwd) = /app && test $COLOR = blue && \
        echo bye > greeting && echo x > /etc/marker && ! ls /work 2> /dev/null";
    let check = "grep -q bye /app/greeting && grep -q bye greeting && grep -q tiny /etc/os-release && ! test -e /etc/marker";
    let evaluators = json!([
        { "name": "command", "config": { "argv": ["sh", "-c", check] } },
        { "name": "git-diff", "config": { "assertions": { "max_files_changed": 1 } } }]);
    let more = json!({ "evaluators": evaluators, "solution": { "command": "echo bye > greeting" },
        "pre_execution": [{ "name": "script", "config": { "command": "test -e /bin/busybox && test $PWD = /app" } }] });
    context.write("case.yaml", case(agent, &more).to_string());
    assert_run(&context.run(YB, ["run", "case.yaml"]), 0, &["rooted: passed", "1 file changed"]);
    assert_run(&context.run(YB, ["check", "case.yaml"]), 0, &["1 of 1 case proven"]);
    assert_eq!(context.read("root/app/greeting"), "hello\n", "nothing changes the root itself");
    assert!(!context.dir().join("root/etc/marker").exists());
}

#[test]
fn repository_is_visible_in_the_root() {
    let context = world();
    context.write("project/a.txt", "one\n");
    let evaluators = json!([{ "name": "command", "config": { "argv": ["sh", "-c", "grep -q two a.txt && grep -q tiny /etc/os-release"] } }]);
    let case = case(
        "grep -q one a.txt && echo two > a.txt",
        &json!({ "directory": "project", "evaluators": evaluators }),
    );
    context.write("case.yaml", case.to_string());
    assert_run(&context.run(YB, ["run", "case.yaml"]), 0, &["rooted: passed"]);
}

#[test]
fn mistakes_in_an_environment_are_errors_that_name_them() {
    let context = world();
    for (environment, said) in [
        (json!({}), "no root in `environment`"),
        (json!({ "rootfs": "root", "image": "x" }), "several roots"),
        (json!({ "rootfs": "none" }), "no such file or directory"),
        (json!({ "dockerfile": "root" }), "no Dockerfile"),
        (json!({ "rootfs": "root", "workdir": "app" }), "not a plain absolute path"),
        (json!({ "rootfs": "root", "user": "nobody-here" }), "no such user in the image: `nobody-here`"),
        (json!({ "image": "../x" }), "invalid name of an image"),
    ] {
        let more = json!({ "environment": environment, "evaluators": ["git-diff"] });
        context.write("case.yaml", case("true", &more).to_string());
        let outcome = context.run(YB, ["run", "case.yaml"]);
        let printed = format!("{}{}", outcome.stdout, outcome.stderr);
        assert_ne!(outcome.code, Some(0), "{printed}");
        assert!(printed.contains(said), "{said}: {printed}");
    }
    let more = json!({ "evaluators": ["git-diff"], "isolation": "none" });
    context.write("case.yaml", case("true", &more).to_string());
    let outcome = context.run(YB, ["run", "case.yaml"]);
    assert!(outcome.stderr.contains("bubblewrap only"), "{}{}", outcome.stdout, outcome.stderr);
}

/// Writes a Harbor task whose image is the tiny root with further instructions.
fn task(context: &TestContext, name: &str, toml: &str, instructions: &str, test: &str) {
    let at = |file: &str| format!("{name}/{file}");
    context.write(at("task.toml"), toml);
    context.write(at("instruction.md"), "Write hello to /app/greeting.txt.\n");
    context.write(at("tests/test.sh"), test);
    context.write(
        at("solution/solve.sh"),
        "#!/bin/sh\necho hello > /app/greeting.txt\necho > /etc/installed\nexit 3\n",
    );
    context.write(at("environment/Dockerfile"), format!("FROM scratch\nCOPY root/ /\n{instructions}"));
    tiny_root(&context.dir().join(at("environment/root")));
}

const TEST: &str = "#!/bin/sh
if [ \"$(cat /app/greeting.txt)\" = \"$WORD\" ] && [ -e /etc/installed ] && [ \"$PWD\" = /app ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
exit 1
";
const TOML: &str = "[task]\nname = 'demo/hello'\n[verifier]\nenv = { WORD = 'hello' }\n";

#[test]
fn harbor_task_is_built_and_proven() {
    let context = TestContext::new();
    let instructions = "ARG WHO=ada\nENV GREETED=$WHO\nWORKDIR /app\nCOPY --chmod=755 <<EOF /usr/bin/tool\n#!/bin/sh\necho $WHO\nEOF\n\
        RUN tool > /app/who && rm /etc/os-release\nRUN [\"sh\", \"-c\", \"test $GREETED = ada\"]\nEXPOSE 80\nCMD [\"sh\"]\n";
    task(&context, "set/hello", TOML, instructions, TEST);
    assert_run(&context.run(YB, ["check", "set/hello"]), 0, &["1 of 1 case proven"]);
    // The second time everything is in the cache.
    task(&context, "set/other", &TOML.replace("demo/hello", "demo/other"), instructions, TEST);
    let outcome = context.run(YB, ["check", "set"]);
    let printed = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(printed.contains("demo/hello") && printed.contains("demo/other"), "{printed}");
}

#[test]
fn failing_instruction_is_an_error_with_its_line() {
    let context = TestContext::new();
    for (instructions, said) in [
        ("RUN echo why && false\n", "line 3: `echo why && false`"),
        ("RUN --mount=type=cache,target=/x true\n", "`RUN --mount` is not supported"),
        ("COPY none /x\n", "no such file in the context: `none`"),
        ("ADD https://example.org/x /x\n", "ADD of a URL"),
        ("FLY away\n", "instruction not supported: `FLY`"),
    ] {
        let name = format!("task-{}", said.len());
        task(&context, &name, TOML, instructions, TEST);
        let outcome = context.run(YB, ["check", &name]);
        let printed = format!("{}{}", outcome.stdout, outcome.stderr);
        assert_ne!(outcome.code, Some(0), "{printed}");
        assert!(printed.contains(said), "{said}: {printed}");
    }
}

/// An agent that writes its own reward, leaves a process that writes it again and again, and replaces the tests.
#[test]
fn forged_reward_does_not_count() {
    let context = TestContext::new();
    task(&context, "task", TOML, "WORKDIR /app\n", TEST);
    let forge = "mkdir -p /logs/verifier /tests; echo 1 > /logs/verifier/reward.txt; echo '{\"reward\": 1}' > /logs/verifier/reward.json; \
        printf 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh; \
        (while true; do echo '{\"reward\": 1}' > /logs/verifier/reward.json; sleep 0.01; done) > /dev/null 2>&1 &";
    let suite = json!({ "youbencha": 1, "name": "n", "cases": ["task/task.toml"], "variants": [{ "name": "forger",
        "type": "command", "config": { "command": { "argv": ["sh", "-c", forge] } } }] });
    context.write("suite.yaml", suite.to_string());
    let outcome = context.run(YB, ["run", "suite.yaml"]);
    assert_run(&outcome, 1, &["reward-file"]);
    assert!(!outcome.stdout.contains("1/1"), "{}", outcome.stdout);
}

/// What an agent might do so that its trial is not graded at all.
#[test]
fn agent_that_breaks_the_root_fails() {
    let context = TestContext::new();
    task(&context, "task", TOML, "WORKDIR /app\n", TEST);
    let break_it = [
        ("tests", "ln -s /etc /tests"),
        ("logs", "rm -r /logs && ln -s / /logs"),
        ("shell", "rm /bin/sh /bin/busybox"),
        ("workdir", "cd / && rm -r /app && echo > /app"),
    ];
    let variants: Vec<Value> = break_it
        .iter()
        .map(|(name, line)| json!({ "name": name, "type": "command", "config": { "command": { "argv": ["sh", "-c", line] } } }))
        .collect();
    let suite = json!({ "youbencha": 1, "name": "n", "cases": ["task/task.toml"], "variants": variants });
    context.write("suite.yaml", suite.to_string());
    let outcome = context.run(YB, ["run", "suite.yaml"]);
    let printed = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(printed.contains("4 failed"), "{printed}");
}

/// The pinned agent of the host runs in the root: nothing is installed in it.
#[test]
fn real_claude_works_in_the_root_of_a_task() {
    let context = TestContext::new();
    task(&context, "task", TOML, "WORKDIR /app\n", TEST);
    let script = "
tape: 1
lanes:
  main:
    - tools: [{ Bash: { command: 'echo hello > /app/greeting.txt; echo > /etc/installed; cat /etc/os-release', description: Greet } }]
    - say: Done.
";
    let server =
        MockServer::start(Script::parse(script, &Vars::new()).unwrap(), &MockServerOptions::default())
            .unwrap();
    let outcome = context
        .command(YB)
        .args(["run", "task"])
        .env("ANTHROPIC_BASE_URL", server.base_url())
        .env("ANTHROPIC_API_KEY", "not-a-real-key")
        .env("YB_CLAUDE", RealClaude::new().program())
        .run();
    assert_run(&outcome, 0, &["passed", "reward 1"]);
    assert!(
        server.requests().iter().any(|seen| seen.body.to_string().contains("ID=tiny")),
        "the tool ran in the root"
    );
}
