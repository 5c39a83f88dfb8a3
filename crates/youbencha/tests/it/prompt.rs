//! `yb prompt`: render, run and test.

use insta::assert_snapshot;
use serde_json::Value;
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::{Invocation, RealClaude, TestContext};

use crate::YB;

const GREET: &str = "\
---
name: greet
text_config:
  model_name: claude-opus-5-5
  max_calls: 2
  temperature: 0.3
input_schema:
  type: object
  properties: { name: { type: string }, towns: { type: array, items: { type: string } } }
  required: [name]
test_settings:
  props: { name: ann, towns: [oslo, rome] }
---
import Rules from './rules.mdx'

<System><Rules tone=\"kind\" /></System>

<User>
  Greet {capitalize(props.name)}.

  <If condition={props.towns}>
    She likes:

    <ForEach arr={props.towns}>
      {(town) => (<>- {upper(town)}</>)}
    </ForEach>
  </If>
</User>
";

const VERDICT: &str = "\
---
name: verdict
object_config:
  model_name: claude-opus-5-5
  schema:
    type: object
    properties: { good: { type: boolean } }
    required: [good]
test_settings:
  dataset: ./rows.jsonl
  score_thresholds: { json: 0.5 }
---
<User>Is {props.what} good? Say $\\{no_variable\\}.</User>
";

fn context() -> TestContext {
    let context = TestContext::new();
    context.write("greet.prompt.mdx", GREET);
    context.write("rules.mdx", "Be {props.tone} and brief.");
    context.write("verdict.prompt.mdx", VERDICT);
    context
}

#[test]
fn render_prints_messages_and_query() {
    let outcome = context().run(YB, ["prompt", "render", "greet.prompt.mdx", "--max-budget-usd", "0.5"]);
    assert_snapshot!(outcome.snapshot(), @r#"
    exit code: 0
    ----- stdout -----
    [system]
    Be kind and brief.

    [user]
    Greet Ann.

    She likes:

    - OSLO
    - ROME

    [query]
    {
      "maxBudgetUsd": 0.5,
      "maxTurns": 2,
      "model": "claude-opus-5-5",
      "permissionMode": "default",
      "systemPrompt": "Be kind and brief."
    }
    ----- stderr -----
    warning: options of `text_config` in `greet` are not supported by the Claude Agent SDK and ignored: `temperature`
    "#);
    let outcome =
        context().run(YB, ["prompt", "render", "verdict.prompt.mdx", "--json", "--props", "{\"what\": 1}"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let shown: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(shown["messages"][0]["content"], "Is 1 good? Say ${no_variable}.");
    assert_eq!(shown["query"]["prompt"], "Is 1 good? Say ${no_variable}.");
    assert_eq!(shown["query"]["options"]["outputFormat"]["type"], "json_schema");
}

#[test]
fn prompt_errors_have_a_location() {
    let context = context();
    let wrong = context.run(YB, ["prompt", "render", "greet.prompt.mdx", "--props", "{\"towns\": 1}"]);
    assert_snapshot!(wrong.snapshot(), @r#"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: props do not match `input_schema` of `greet`: "name" is a required property; `/towns`: 1 is not of type "array"
    "#);
    context.write(
        "bad.prompt.mdx",
        "---\ntext_config: { model_name: m }\n---\n<User>\n  {props.a b}\n</User>\n",
    );
    assert_snapshot!(context.run(YB, ["prompt", "run", "bad.prompt.mdx"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: bad.prompt.mdx:5:12: unexpected name: `b`
    ");
    context.write(
        "image.prompt.mdx",
        "---\nimage_config: { model_name: m }\n---\n<ImagePrompt>A cat</ImagePrompt>\n",
    );
    assert_snapshot!(context.run(YB, ["prompt", "run", "image.prompt.mdx"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: the Claude Agent SDK can't generate images: `image`
    hint: call the API of an image model, or register it as a tool and use `text_config`
    ");
    assert_snapshot!(context.run(YB, ["prompt", "test", "greet.prompt.mdx"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: greet.prompt.mdx: the prompt has no dataset
    hint: set `test_settings: { dataset: ./rows.jsonl }`
    ");
    assert_snapshot!(context.run(YB, ["prompt", "render", "greet.prompt.mdx", "--props", "{"]).snapshot(), @r#"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: props are not valid JSON
      caused by: EOF while parsing an object at line 1 column 1
    hint: example: `--props '{"name": "Ann"}'`
    "#);
}

/// The real CLI and a scripted model.
struct Real {
    context: TestContext,
    claude: RealClaude,
    server: MockServer,
}

impl Real {
    fn new(script: &str) -> Self {
        let script = Script::parse(script, &Vars::new()).unwrap();
        let server = MockServer::start(script, &MockServerOptions::default()).unwrap();
        let mut context = context();
        context.filter(r"\$\d+\.\d+", "[COST]").filter(r"\d+ tokens", "[TOKENS] tokens");
        Self { context, claude: RealClaude::new(), server }
    }

    fn yb(&self, args: &[&str]) -> Invocation {
        let program = self.claude.program().to_str().unwrap().to_owned();
        let command = self.context.command(YB).envs(self.claude.env(&self.server.base_url()));
        command.env("YB_CLAUDE", program).arg("prompt").args(args)
    }

    fn run(&self, args: &[&str]) -> Invocation {
        self.yb(&["run"]).args(args).arg("--claude").arg(self.claude.program())
    }

    fn asked(&self) -> String {
        self.server.requests().iter().map(|seen| seen.body.to_string()).collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn real_claude_writes_the_text_of_a_prompt() {
    let real = Real::new("{ tape: 1, lanes: { main: [ { say: 'Hello, Ann.', pace: { chunk: 3 } } ] } }");
    let outcome = real.run(&["greet.prompt.mdx"]).run();
    assert_snapshot!(outcome.snapshot(), @r"
    exit code: 0
    ----- stdout -----
    Hello, Ann.
    ----- stderr -----
    warning: options of `text_config` in `greet` are not supported by the Claude Agent SDK and ignored: `temperature`
    claude-opus-5-5, [COST], [TIME], session [UUID]
    ");
    let asked = real.asked();
    assert!(asked.contains("Be kind and brief.") && asked.contains("- ROME"), "{asked}");
    let outcome = real.run(&["greet.prompt.mdx", "--json"]).run();
    let printed: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(
        (printed["answer"].as_str(), printed["model"].as_str()),
        (Some("Hello, Ann."), Some("claude-opus-5-5"))
    );
}

#[test]
fn real_claude_answers_a_prompt_as_a_trace() {
    let real = Real::new("{ tape: 1, lanes: { main: [ { say: 'Hello, Ann.' } ] } }");
    let outcome = real.run(&["greet.prompt.mdx", "--otel-file", "trace.jsonl"]).run();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let spans = yb_testkit::spans_in_file(&real.context.dir().join("trace.jsonl"));
    let agent = spans.iter().find(|span| span.name.starts_with("invoke_agent")).unwrap();
    assert_eq!(agent.attributes["agentmark.prompt_name"], "greet", "{agent:?}");
    let chat = spans.iter().find(|span| span.name.starts_with("chat")).unwrap();
    assert_eq!(chat.parent_id, agent.span_id, "{spans:?}");
    assert!(!real.context.read("trace.jsonl").contains("Hello, Ann."));
}

#[test]
fn real_claude_gives_the_object_of_a_prompt() {
    let real = Real::new(
        "{ tape: 1, lanes: { main: [ { tools: [ { StructuredOutput: { good: true } } ] }, { say: Done. } ] } }",
    );
    let outcome = real.run(&["verdict.prompt.mdx", "--props", "{\"what\": \"it\"}"]).run();
    assert_snapshot!(outcome.snapshot(), @r#"
    exit code: 0
    ----- stdout -----
    {
      "good": true
    }
    ----- stderr -----
    claude-opus-5-5, [COST], [TIME], session [UUID]
    "#);
}

#[test]
fn real_claude_without_an_object_fails() {
    let real = Real::new("{ tape: 1, lanes: { main: [ { say: No. }, { say: No. }, { say: No. } ] } }");
    let outcome = real.run(&["verdict.prompt.mdx", "--props", "{\"what\": \"it\"}"]).run();
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
}

#[test]
fn real_claude_is_tested_with_every_row() {
    let real = Real::new(
        "
tape: 1
lanes:
  one: { match: Is one good, replies: [ { tools: [ { StructuredOutput: { good: true } } ] }, { say: Done. } ] }
  two: { match: Is two good, replies: [ { tools: [ { StructuredOutput: { good: true } } ] }, { say: Done. } ] }
",
    );
    real.context.write(
        "rows.jsonl",
        "{\"input\": {\"what\": \"one\"}, \"expected_output\": {\"good\": true}}\n\n{\"input\": {\"what\": \"two\"}, \"expected_output\": {\"good\": false}}\n",
    );
    let outcome = real.yb(&["test", "verdict.prompt.mdx", "--jobs", "1", "--quiet"]).run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    for printed in [
        "2 of 2 trials: 1 passed, 1 failed",
        "evaluators.answer-json.min_pass_rate  passed  50.0% (minimum 50.0%), 1 of 2 trials",
    ] {
        assert!(outcome.stdout.contains(printed), "{}", outcome.stdout);
    }
    assert!(real.asked().contains("Say ${no_variable}."), "{}", real.asked());
    let shown = real.context.command(YB).arg("show").arg("row-3").run();
    assert!(shown.stdout.contains("expected {\"good\":false}, found {\"good\":true}"), "{}", shown.stdout);
    // The same files are written again, so a stopped run can resume.
    let folder = real.context.dir().join(".youbencha-workspace/prompts");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1);
    let higher = real.yb(&["test", "verdict.prompt.mdx", "--quiet", "--gate", "min_pass_rate=0.9"]).run();
    assert_eq!(higher.code, Some(1), "{}", higher.stdout);
    // A run of a prompt works like other runs.
    let again = real.context.command(YB).envs(real.claude.env(&real.server.base_url()));
    let again = again.env("YB_CLAUDE", real.claude.program());
    let again = again.args(["run", "--rerun", "failed", "latest", "--quiet"]).run();
    assert!(again.stdout.starts_with("row-3: failed\n"), "{}{}", again.stdout, again.stderr);
}

/// A prompt as AgentMark's examples write it: a comment before the header, a model of a provider, JSON in strings, their eval names.
const MOOD: &str = "\
{/*
  Rows are graded as JSON.
*/}
---
name: mood
object_config:
  model_name: MODEL
  schema:
    type: object
    properties: { mood: { type: string, enum: [good, bad] } }
    required: [mood]
test_settings:
  dataset: rows.jsonl
  EVALS
---
<System>Say the mood of a text.</System>

<User>{props.text}</User>
";

#[test]
fn real_claude_is_tested_as_agentmark_prompts_are() {
    let real = Real::new(
        "
tape: 1
lanes:
  one: { match: What a day, replies: [ { tools: [ { StructuredOutput: { mood: good } } ] }, { say: Done. } ] }
  two: { match: Rain again, replies: [ { tools: [ { StructuredOutput: { mood: good } } ] }, { say: Done. } ] }
",
    );
    real.context.write(
        "rows.jsonl",
        r#"{"input": {"text": "What a day"}, "expected_output": "{\"mood\": \"good\"}"}
{"input": {"text": "Rain again"}, "expected_output": "{ \"mood\": \"bad\" }"}
"#,
    );
    for (model, evals) in [
        ("sonnet", "evals: [exact_match_json]"),
        ("anthropic/claude-opus-5-5", "scores: [exact_match]"),
        ("claude-sonnet-5-5[1m]", "score_thresholds: {}"),
    ] {
        real.context.write("mood.prompt.mdx", MOOD.replace("MODEL", model).replace("EVALS", evals));
        let outcome = real.yb(&["test", "mood.prompt.mdx", "--jobs", "1", "--quiet"]).run();
        assert_eq!(outcome.code, Some(1), "{model}: {}{}", outcome.stdout, outcome.stderr);
        let printed = "2 of 2 trials: 1 passed, 1 failed";
        assert!(outcome.stdout.contains(printed), "{model}: {}{}", outcome.stdout, outcome.stderr);
    }
}

/// Tools of a prompt are commands of its file, with the arguments on stdin.
#[test]
fn real_claude_calls_tools_that_a_prompt_declares_as_commands() {
    let real = Real::new(
        "
tape: 1
lanes:
  main:
    - tools: [ { mcp__prompt-tools__repeat: { text: twice } }, { mcp__prompt-tools__broken: {} } ]
    - { say: Done. }
",
    );
    real.context.write(
        "tools.prompt.mdx",
        "---
name: tools
text_config:
  model_name: sonnet
  tools:
    repeat:
      description: Repeats a text.
      parameters: { type: object, properties: { text: { type: string } }, required: [text] }
      command: [cat]
    broken: { description: Fails., command: [sh, -c, 'echo no such luck >&2; exit 3'] }
---
<User>Repeat it.</User>
",
    );
    real.context.write("rows.jsonl", "{\"input\": {}, \"expected_output\": \"Done.\"}\n");
    let test = real.yb(&["test", "tools.prompt.mdx", "--dataset", "rows.jsonl", "--isolation", "external"]);
    for command in [real.run(&["tools.prompt.mdx"]), test] {
        let before = real.server.requests().len();
        let outcome = command.run();
        assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
        let seen = real.server.requests();
        let asked: String = seen.iter().skip(before).map(|seen| seen.body.to_string()).collect();
        assert!(asked.contains(r#"{\"text\":\"twice\"}"#), "{asked}");
        assert!(asked.contains("no such luck"), "{asked}");
    }
}

/// Each threshold holds for its own eval: a row that fails one of them does not count against the others.
#[test]
fn real_claude_passes_or_fails_each_score_threshold() {
    let real = Real::new(
        "
tape: 1
lanes:
  ann: { match: Greet ann, replies: [ { say: 'Hello, Ann.' } ] }
  bob: { match: Greet bob, replies: [ { say: 'Hello, Bob. How are you?' } ] }
",
    );
    real.context.write(
        "rows.jsonl",
        "{\"input\": {\"name\": \"ann\"}, \"expected_output\": \"Hello, Ann.\"}
{\"input\": {\"name\": \"bob\"}, \"expected_output\": \"Hello, Bob.\"}
",
    );
    let write = |thresholds: &str| {
        real.context.write(
            "hello.prompt.mdx",
            format!(
                "---
name: hello
text_config: {{ model_name: claude-opus-5-5 }}
test_settings:
  dataset: ./rows.jsonl
  evals: [contains, exact_match]
  score_thresholds: {{ {thresholds} }}
---
<User>Greet {{props.name}}.</User>
"
            ),
        );
        real.yb(&["test", "hello.prompt.mdx", "--jobs", "1", "--quiet"]).run()
    };
    let passed = write("contains: 1, exact_match: 0.5");
    assert_eq!(passed.code, Some(0), "{}{}", passed.stdout, passed.stderr);
    let (_, gates) = passed.stdout.split_once("gates:").unwrap();
    assert_snapshot!(gates, @r"
     passed
      evaluators.answer-contains.min_pass_rate     passed  100.0% (minimum 100.0%), 2 of 2 trials
      evaluators.answer-exact_match.min_pass_rate  passed  50.0% (minimum 50.0%), 1 of 2 trials
    ");
    let failed = write("contains: 1, exact_match: 0.6");
    assert_eq!(failed.code, Some(1), "{}{}", failed.stdout, failed.stderr);
    let line = "evaluators.answer-exact_match.min_pass_rate  failed  50.0% (minimum 60.0%), 1 of 2 trials";
    assert!(failed.stdout.contains(line), "{}", failed.stdout);
}

#[test]
fn thresholds_need_expected_output() {
    let context = context();
    context.write("rows.jsonl", "{\"input\": {\"what\": \"one\"}}\n");
    assert_snapshot!(context.run(YB, ["prompt", "test", "verdict.prompt.mdx"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: verdict.prompt.mdx: `score_thresholds`, but no row has `expected_output`
    hint: add `expected_output` to the rows of the dataset
    ");
}

/// The MCP servers of a prompt are started in both commands, and its tools need no permission.
#[test]
fn real_claude_calls_tools_of_mcp_servers_that_a_prompt_declares() {
    let real = Real::new(
        "
tape: 1
lanes:
  main: [ { tools: [ { mcp__words__word: {} } ] }, { say: Done. } ]
",
    );
    // Not in the project, so that the sandbox must show it.
    let server = real.context.root().join("server.py");
    std::fs::write(&server, crate::escapes::MCP_SERVER).unwrap();
    real.context.write("rows.jsonl", "{\"input\": {}, \"expected_output\": \"Done.\"}\n");
    real.context.write(
        "words.prompt.mdx",
        format!(
            "---
name: words
text_config:
  model_name: sonnet
  tools: ['mcp://words/word']
  mcp_servers: {{ words: {{ command: python3, args: ['{}'] }} }}
test_settings: {{ dataset: ./rows.jsonl }}
---
<User>Say the word.</User>
",
            server.display()
        ),
    );
    let outcome = real.run(&["words.prompt.mdx"]).run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    let answers = || real.asked().matches("the word is sandbox").count();
    assert_eq!(answers(), 1, "{}", real.asked());
    let outcome = real.yb(&["test", "words.prompt.mdx", "--quiet"]).run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(answers(), 2, "{}", real.asked());
}
