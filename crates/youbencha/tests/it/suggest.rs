//! `yb suggest-testcase`: only a valid case is saved, after at most one correction.

use std::path::Path;

use insta::assert_snapshot;
use serde_json::Value;
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::git::Repo;
use yb_testkit::{FakeAgent, Outcome, RealClaude, TestContext};

use crate::YB;

const GOOD: &str = "youbencha: 1
name: greeting
description: The script greets by name.
directory: out
agent: { type: claude-code, config: { prompt: Make greet.sh greet by name. } }
evaluators: [{ name: git-diff, config: { assertions: { max_files_changed: 1 } } }]
";

/// A context with the output directory of an agent.
fn world() -> TestContext {
    let mut context = TestContext::new();
    context.filter(r"suggest-\d{4}-\d\d-\d\d-\[HEX\]", "[SUGGESTION]");
    context.write("out/greet.sh", "echo \"Hello, $1!\"\n");
    context
}

/// Runs a fake agent with this script and the prompt on stdin.
fn ask(context: &TestContext, script: &str) -> Outcome {
    let agent = FakeAgent::in_dir(context.root().join("agent")).script(script);
    let args = ["suggest-testcase", "--agent", "command", "--output-dir", "out", "--"];
    context.command(YB).args(args).arg(agent).run()
}

fn say(text: &str) -> String {
    format!("- read_stdin: {{}}\n- print: {{ text: {} }}\n", serde_json::to_string(text).unwrap())
}

fn kept(context: &TestContext) -> std::path::PathBuf {
    let all = context.dir().join(".youbencha-workspace/suggestions");
    let mut all: Vec<_> = std::fs::read_dir(all).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn valid_suggestion_is_saved() {
    let context = world();
    let outcome = ask(&context, &say(&format!("I looked at it.\n```yaml\n{GOOD}```\n")));
    assert_snapshot!(outcome.snapshot(), @r"
    exit code: 0
    ----- stdout -----
    saved testcase-suggestion.yaml

    Review it, then run it:
      yb run testcase-suggestion.yaml
    ----- stderr -----
    command is working
    ");
    assert_eq!(context.read("testcase-suggestion.yaml"), GOOD);
    assert_eq!(context.run(YB, ["validate", "testcase-suggestion.yaml"]).code, Some(0));
    assert!(!kept(&context).join("work").exists() && kept(&context).join("round-1/answer.yaml").exists());
    yb_testkit::assert_no_process_in(&context.dir());
}

#[test]
fn invalid_suggestion_is_returned_once_and_not_saved() {
    let context = world();
    let bad = GOOD.replace("max_files_changed", "max_file_changed").replace("directory: out\n", "");
    let outcome = ask(&context, &say(&format!("```yaml\n{bad}```\n")));
    assert_snapshot!(outcome.snapshot(), @r"
    exit code: 1
    ----- stdout -----
    no case: invalid, after 2 attempts
    agent output: [TEMP]/work/.youbencha-workspace/suggestions/[SUGGESTION]
    ----- stderr -----
    command is working
    the case is invalid
    command is working
    the case is invalid
    error: missing key: `repo`
     --> testcase-suggestion.yaml:1:1
    1 | youbencha: 1
      | ^^^^^^^^^
      = key: `repo`
      = expected: a URL or a path as `repo`, a path as `directory`, or an `environment`

    warning: vacuous: it asserts nothing, so it always passes: `git-diff`
     --> testcase-suggestion.yaml:5:22
    5 | evaluators: [{ name: git-diff, config: { assertions: { max_file_changed: 1 } } }]
      |                      ^^^^^^^^
      = key: `evaluators[0]`
    hint: add assertions under `config.assertions`

    error: unknown key: `max_file_changed`
     --> testcase-suggestion.yaml:5:56
    5 | evaluators: [{ name: git-diff, config: { assertions: { max_file_changed: 1 } } }]
      |                                                        ^^^^^^^^^^^^^^^^
      = key: `evaluators[0].config.assertions.max_file_changed`
    hint: did you mean `max_files_changed`?
    ");
    assert!(!context.dir().join("testcase-suggestion.yaml").exists());
    assert_eq!(std::fs::read_to_string(kept(&context).join("round-2/answer.yaml")).unwrap(), bad);
}

#[test]
fn answer_without_a_case_is_retried() {
    let context = world();
    let outcome = ask(&context, &say("I'd rather not."));
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stdout.contains("no case: none in the answer, after 2 attempts"), "{}", outcome.stdout);
}

/// The second prompt contains the errors, and a valid second answer is saved.
#[test]
fn corrected_suggestion_is_saved() {
    let context = world();
    let program = context.write(
        "agent.sh",
        format!(
            "cat > prompt\nif grep -q 'missing key: `repo`' prompt; then\ncat > testcase-suggestion.yaml <<'END'\n{GOOD}END\n\
             else echo 'name: x' > testcase-suggestion.yaml; fi\n"
        ),
    );
    let args =
        ["suggest-testcase", "--agent", "command", "--output-dir", "out", "--save", "new.yaml", "--", "sh"];
    let outcome = context.command(YB).args(args).arg(program).run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(context.read("new.yaml"), GOOD);
    assert!(outcome.stderr.contains("the case is invalid"), "{}", outcome.stderr);
}

#[test]
fn failing_agent_is_exit_code_1_with_its_output() {
    let context = world();
    let outcome = ask(&context, "- print: { text: no idea, to: stderr }\n- exit: 3\n");
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("no case: ") && outcome.stdout.contains("code 3"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("agent output: "), "{}", outcome.stdout);
}

/// The agent gets a copy, the last commit, the schema, and custom instructions without front matter.
#[test]
fn agent_gets_a_copy_schema_and_instructions() {
    let context = TestContext::new();
    let repo = context.dir().join("out");
    std::fs::create_dir(&repo).unwrap();
    Repo::init(&repo).write("greet.sh", "echo Hello!\n").commit("start");
    context.write("out/greet.sh", "echo Hello, $1!\n");
    context.write("mine.md", "---\nname: mine\n---\nDo it my way.\n");
    let script = "test -e ../files && exit; cat > ../seen; ls > ../files; cat output/greet.sh committed/greet.sh > ../both; rm -r output";
    let args = ["suggest-testcase", "--agent", "command", "--output-dir", "out", "--agent-file", "mine.md"];
    let outcome = context.command(YB).args(args).args(["--", "sh", "-c", script]).run();
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    let seen = |name: &str| std::fs::read_to_string(kept(&context).join(name)).unwrap();
    assert_eq!(seen("files"), "case.schema.json\ncommitted\noutput\n");
    assert_eq!(seen("both"), "echo Hello, $1!\necho Hello!\n");
    assert_eq!(context.read("out/greet.sh"), "echo Hello, $1!\n", "the original is not touched");
    let prompt = seen("seen");
    assert!(prompt.starts_with("Do it my way.") && !prompt.contains("name: mine"), "{prompt}");
    assert!(prompt.contains("`repo: \"out\"` and `commit: "), "{prompt}");
    assert!(prompt.contains("`git-diff`") && !prompt.contains("`copilot-cli`"), "{prompt}");
}

#[test]
fn invalid_arguments_are_rejected_before_the_agent_starts() {
    let context = world();
    context.write("there.yaml", "mine");
    let asked = |args: &[&str]| {
        let outcome = context.command(YB).arg("suggest-testcase").args(args).run();
        assert_eq!(outcome.code, Some(2), "{}", outcome.stdout);
        outcome.stderr
    };
    let stderr = asked(&["--agent", "aider", "--output-dir", "out"]);
    assert!(stderr.contains("unknown agent: `aider`") && stderr.contains("`claude-code`"), "{stderr}");
    assert!(asked(&["--agent", "command", "--output-dir", "out"]).contains("after `--`"));
    assert!(asked(&["--agent", "claude-code", "--output-dir", "out", "--", "x"]).contains("after `--`"));
    assert!(asked(&["--agent", "claude-code", "--output-dir", "nowhere"]).contains("no such directory"));
    let saved = asked(&["--agent", "claude-code", "--output-dir", "out", "--save", "cases/new.yaml"]);
    assert!(saved.contains("no such directory: `cases`") && saved.contains("mkdir -p cases"), "{saved}");
    let saved = asked(&["--agent", "claude-code", "--output-dir", "out", "--save", "there.yaml"]);
    assert!(saved.contains("file exists: `there.yaml`"), "{saved}");
    assert!(!context.dir().join(".youbencha-workspace").exists());
}

/// With a scripted model: the first case is invalid, the second is written with a tool.
#[test]
fn real_claude_suggests_a_case_and_corrects_it() {
    let good = serde_json::to_string(GOOD).unwrap();
    let script = format!(
        "
tape: 1
lanes:
  second:
    match: What was wrong with your first answer
    replies:
      - {{ say: I correct it., tools: [{{ Write: {{ file_path: testcase-suggestion.yaml, content: {good} }} }}] }}
      - say: Done.
  main:
    - {{ say: I look first., tools: [{{ Read: {{ file_path: output/greet.sh }} }}] }}
    - say: \"Here it is.\\n```yaml\\nname: greeting\\n```\"
"
    );
    let server =
        MockServer::start(Script::parse(&script, &Vars::new()).unwrap(), &MockServerOptions::default())
            .unwrap();
    let (context, claude) = (world(), RealClaude::new());
    let args = ["suggest-testcase", "--agent", "claude-code", "--output-dir", "out", "--save", "cases.yaml"];
    let outcome = context
        .command(YB)
        .args(args)
        .env("ANTHROPIC_BASE_URL", server.base_url())
        .env("ANTHROPIC_API_KEY", "not-a-real-key-but-a-secret")
        .env("YB_CLAUDE", claude.program())
        .run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(context.read("cases.yaml"), GOOD);
    assert_eq!(server.unscripted().len(), 0);
    let frames = std::fs::read_to_string(kept(&context).join("round-1/frames.jsonl")).unwrap();
    let frames: Vec<Value> = frames.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let init = frames.iter().find(|frame| frame["subtype"] == "init").unwrap();
    assert!(init["tools"].as_array().unwrap().iter().all(|tool| tool != "Bash"), "{}", init["tools"]);
    assert!(Path::new(init["cwd"].as_str().unwrap()).ends_with("work"));
    yb_testkit::assert_no_process_in(&context.dir());
}

#[test]
fn suggest_without_the_agent_is_exit_code_3() {
    let context = world();
    let args = ["suggest-testcase", "--agent", "claude-code", "--output-dir", "out"];
    let outcome = context.command(YB).args(args).env("YB_CLAUDE", "/no/such/claude").run();
    assert_eq!(outcome.code, Some(3), "{}", outcome.stderr);
    assert!(!context.dir().join(".youbencha-workspace").exists());
}
