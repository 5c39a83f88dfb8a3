//! Tests of the `command` agent.

use std::time::Duration;

use serde_json::json;
use yb_agents::{AvailabilityStatus, CommandConfig, DeclaredOutput, PromptVia};
use yb_model::log::{ExecutionStatus, Role, UsageSource};
use yb_model::outcome::Outcome;
use yb_testkit::FakeAgent;

use crate::support::{PROMPT, Stage, files, init, success};

/// Returns a fake agent with its own name and these arguments.
fn agent(script: &str, arguments: &[&str]) -> Stage {
    let stage = Stage::command(&CommandConfig::new([""]));
    let program = FakeAgent::in_dir(stage.path("private")).name("tool").script(script);
    let argv = [program.to_str().unwrap()].into_iter().chain(arguments.iter().copied());
    let spec = CommandConfig::new(argv);
    stage.configured(|config| config.section = spec.to_section())
}

fn dumping(arguments: &[&str]) -> Stage {
    agent("[{dump: {path: dump.json, read_stdin: true}}, {print: done}]", arguments)
}

#[tokio::test]
async fn prompt_goes_into_an_argument() {
    let stage = dumping(&["--task={prompt}", "{workspace}", "-m", "{model}"]).configured(|config| {
        config.model = Some("gpt-5".to_owned());
        config.prompt = Some("a \"$(id)\" {model}".to_owned());
    });
    let done = stage.run().await;
    let dump = stage.dump();
    let workspace = stage.context.workspace.display().to_string();
    assert_eq!(dump.argv()[1..], ["--task=a \"$(id)\" {model}", &workspace, "-m", "gpt-5"]);
    assert_eq!(dump.stdin(), "");
    assert_eq!(dump.env("HOME"), stage.path("private/home").to_str());
    assert_eq!((done.log.model.name.as_str(), done.log.model.provider.as_str()), ("gpt-5", "unknown"));
}

#[tokio::test]
async fn prompt_goes_to_stdin() {
    let stage = dumping(&["run"]);
    stage.run().await;
    assert_eq!(stage.dump().stdin(), PROMPT);
}

#[tokio::test]
async fn prompt_goes_into_a_file() {
    let stage = dumping(&["--file", "{prompt_file}"]);
    stage.run().await;
    let path = stage.dump().argv()[2].to_owned();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), PROMPT);
    assert!(path.starts_with(stage.path("private").to_str().unwrap()));
}

#[tokio::test]
async fn prompt_without_placeholder_is_an_error() {
    let via = |via, argument: &str| {
        let stage = dumping(&[argument]);
        let spec = CommandConfig::from_section(&stage.context.config.section).unwrap();
        stage.configured(|config| config.section = spec.with_prompt_via(via).to_section())
    };
    assert!(via(PromptVia::Argument, "x").refused().await.to_string().contains("`{prompt}`"));
    assert!(via(PromptVia::File, "x").refused().await.to_string().contains("`{prompt_file}`"));
    assert!(via(PromptVia::Stdin, "{prompt_file}").refused().await.to_string().contains("another way"));
    let long = dumping(&["{prompt}"]).configured(|config| config.prompt = Some("x".repeat(200_000)));
    assert!(long.refused().await.to_string().contains("200000 bytes"));
    let none = Stage::command(&CommandConfig::default());
    let error = none.refused().await;
    assert!(error.to_string().contains("names no program"), "{error}");
}

#[tokio::test]
async fn plain_text_is_the_answer_without_usage() {
    let stage = agent("[{print: {text: \"\\e[1mIt is done.\\e[0m\\nInput tokens: 5\"}}]", &[]);
    let done = stage.run().await;
    let said: Vec<_> = done.log.messages.iter().map(|m| (m.role, m.content.as_str())).collect();
    assert_eq!(said, [(Role::User, PROMPT), (Role::Assistant, "It is done.\nInput tokens: 5")]);
    assert_eq!((done.log.usage.source, done.log.agent.name.as_str()), (UsageSource::Unreported, "command"));
    assert_eq!(done.log.execution.permission_mode, None);
    assert_eq!(files(&stage.path("artifacts/command-logs")).len(), 1);
    assert!(!stage.path("artifacts/frames.jsonl").exists());
}

#[tokio::test]
async fn ignored_output_is_logged_but_is_no_message() {
    let stage = agent("[{print: noise}]", &[]);
    let spec =
        CommandConfig::from_section(&stage.context.config.section).unwrap().with_output(DeclaredOutput::None);
    let done = stage.configured(|config| config.section = spec.to_section()).run().await;
    assert_eq!(done.log.messages.len(), 1);
    assert!(done.result.output.contains("noise"));
}

#[tokio::test]
async fn messages_of_claude_are_understood() {
    let steps = json!([{"print": {"json": init()}}, {"print": {"json": success("ok")}}]);
    let stage = agent(&steps.to_string(), &[]);
    let spec = CommandConfig::from_section(&stage.context.config.section)
        .unwrap()
        .with_output(DeclaredOutput::ClaudeStreamJson);
    let done = stage.configured(|config| config.section = spec.to_section()).run().await;
    assert_eq!((done.log.usage.total_tokens, done.log.model.provider.as_str()), (6912, "anthropic"));
    assert_eq!(done.json["output"]["frames"], "frames.jsonl");
}

#[tokio::test]
async fn api_failures_have_distinct_codes() {
    let failed = agent("[{print: {line: bad, to: stderr}}, {exit: 2}]", &[]).run().await;
    assert_eq!(failed.codes(), ["AGENT_EXIT_CODE"]);
    assert_eq!((failed.result.status, failed.result.exit_code), (ExecutionStatus::Failed, 2));
    let slow = agent("[{print: began}, {sleep_ms: 60000}]", &[]);
    let slow = slow.with(|context| context.timeout = Duration::from_millis(300)).run().await;
    assert_eq!((slow.codes(), slow.result.exit_code), (vec!["AGENT_TIMEOUT"], -1));
    assert!(slow.result.output.contains("began") && slow.result.outcome == Some(Outcome::Timeout));
    let flood = agent("[{flood: {bytes: 11000000}}]", &[]).run().await;
    assert!(flood.result.truncated && flood.result.output.ends_with("bytes]"));
    assert_eq!(flood.codes(), ["AGENT_OUTPUT_TRUNCATED"]);
}

#[tokio::test]
async fn missing_program_is_reported() {
    let stage = Stage::command(&CommandConfig::new(["no-such-program-anywhere"]));
    let check = |stage: &Stage| {
        let (adapter, context) = (stage.adapter, stage.context.clone());
        async move { adapter.check_availability(&context.config, &context.host).await }
    };
    assert_eq!(check(&stage).await.status, AvailabilityStatus::Missing);
    assert_eq!(stage.refused().await.outcome(), Outcome::Unauthenticated);
    let there = dumping(&[]);
    assert_eq!(check(&there).await.into_contract(), Ok(true));
    assert_eq!(check(&Stage::command(&CommandConfig::new(["sh"]))).await.status, AvailabilityStatus::Ready);
    assert_eq!(check(&Stage::command(&CommandConfig::default())).await.status, AvailabilityStatus::Missing);
}

/// CR-4.2: logs have the same structure for all agents.
#[tokio::test]
async fn cr_4_2_logs_of_different_agents_are_comparable() {
    let claude = Stage::frames(&[init(), success("ok")], 0).run().await;
    let other = agent("[{print: ok}]", &[]).run().await;
    let keys = |json: &serde_json::Value| json.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&claude.json), keys(&other.json));
    assert_eq!(keys(&claude.json["environment"]), keys(&other.json["environment"]));
}
