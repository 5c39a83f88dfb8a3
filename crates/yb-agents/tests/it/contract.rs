//! The adapter contract (CR-1 to CR-4) with a fake `claude`: exact arguments, environment and faults.

use std::time::{Duration, Instant};

use serde_json::json;
use yb_agents::{
    AdapterError, Adapters, AgentConfig, AvailabilityStatus, CommandConfig, Host, Intent, MAX_OUTPUT_SIZE,
    PromptVia,
};
use yb_model::log::ExecutionStatus;
use yb_model::outcome::Outcome;

use crate::support::{KEY, PROMPT, Stage, init, success};

/// Creates a `claude` that reports its version and login status.
fn answering(version: &str, logged_in: bool) -> Stage {
    let status = json!({"loggedIn": logged_in, "authMethod": "oauth_token", "apiProvider": "firstParty"});
    Stage::shell(&format!(
        "case \"$1\" in --version) echo '{version}';; auth) echo '{status}'; exit {};; esac",
        i32::from(!logged_in)
    ))
}

async fn availability(stage: &Stage) -> yb_agents::Availability {
    stage.adapter.check_availability(&stage.context.config, &stage.context.host).await
}

#[test]
fn fr_001_the_registry_knows_its_adapters_by_name() {
    let adapters = Adapters::builtin();
    assert!(adapters.names().eq(adapters.specs().names()));
    for name in adapters.names() {
        let spec = adapters.get(name).unwrap().spec();
        assert_eq!(spec.name, name);
        assert_eq!(spec.adapter_version.split('.').count(), 3);
    }
    assert!(adapters.get("unknown").is_none());
}

#[tokio::test]
async fn cr_1_1_an_installed_cli_is_available() {
    let found = availability(&answering("2.1.325 (Claude Code)", true)).await;
    assert_eq!(found.status, AvailabilityStatus::Ready, "{found:?}");
    assert_eq!(found.into_contract(), Ok(true));
}

#[tokio::test]
async fn cr_1_2_missing_cli_is_reported_without_an_error() {
    let host = Host::new([("PATH", "/nowhere")]).with_shim(yb_testkit::bin("yb-shim"));
    let adapter = Adapters::builtin().get("claude-code").unwrap();
    let found = adapter.check_availability(&AgentConfig::default(), &host).await;
    assert_eq!(found.status, AvailabilityStatus::Missing);
    assert!(!found.hints.is_empty(), "{found:?}");
    assert_eq!(found.into_contract(), Ok(false));
}

#[tokio::test]
async fn cr_1_3_missing_login_is_reported() {
    let stage = answering("2.1.325 (Claude Code)", false).with(|context| {
        context.host.env.remove(std::ffi::OsStr::new("ANTHROPIC_API_KEY"));
    });
    let error = availability(&stage).await.into_contract().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("authentication") && text.contains("API key"), "{text}");
    assert!(error.hints.iter().any(|hint| hint.contains("claude auth login")), "{error:?}");
}

#[tokio::test]
async fn cr_1_4_version_is_parsed_and_garbage_is_none() {
    let found = availability(&answering("2.1.325 (Claude Code)", true)).await;
    assert_eq!(found.version.as_deref(), Some("2.1.325"));
    let broken = availability(&answering("no version at all", true)).await;
    assert_eq!(broken.status, AvailabilityStatus::Missing);
}

/// The lookup uses neither `which` nor `where` nor a shell, so it is the same on all platforms.
#[tokio::test]
async fn cr_1_5_lookup_needs_no_other_program() {
    let stage = answering("2.1.325 (Claude Code)", true);
    let only = stage.path("bin");
    let stage = stage.env("PATH", only.to_str().unwrap());
    let found = availability(&stage).await;
    assert_eq!(found.status, AvailabilityStatus::Ready, "{found:?}");
    assert!(found.message.contains(only.join("claude").to_str().unwrap()), "{found:?}");
}

#[tokio::test]
async fn cr_2_1_exit_0_is_success_with_output_and_times() {
    let done = Stage::frames(&[init(), success("done")], 0).run().await;
    assert_eq!((done.result.status, done.result.exit_code), (ExecutionStatus::Success, 0));
    assert!(done.result.output.contains("\"result\":\"done\""));
    for time in [&done.result.started_at, &done.result.completed_at] {
        time.parse::<jiff::Timestamp>().unwrap();
    }
    let span: jiff::Timestamp = done.result.completed_at.parse().unwrap();
    let began: jiff::Timestamp = done.result.started_at.parse().unwrap();
    let computed = span.duration_since(began).as_millis();
    assert!((computed - i128::from(done.result.duration_ms)).abs() <= 100, "{computed}");
    assert!(done.result.errors.is_empty() && done.result.outcome.is_none(), "{:?}", done.result.errors);
}

#[tokio::test]
async fn cr_2_2_failure_keeps_exit_code_and_output() {
    let done = Stage::fake("[{print: {line: something broke, to: stderr}}, {exit: 7}]").run().await;
    assert_eq!((done.result.status, done.result.exit_code), (ExecutionStatus::Failed, 7));
    assert!(done.result.output.contains("something broke"));
    assert_eq!(done.codes(), ["CLAUDE_EXIT_CODE"]);
    assert_eq!(done.log.errors[0].message, "Claude Code exited with code 7: something broke");
    assert_eq!(done.log.errors[0].context["stderr"], "something broke");
    assert_eq!(done.result.outcome, Some(Outcome::AgentError));
}

#[tokio::test]
async fn cr_2_3_timeout_keeps_the_output() {
    let stage = Stage::fake("[{print: partial words}, {ignore: [TERM]}, {sleep_ms: 60000}]")
        .with(|context| context.timeout = Duration::from_millis(500));
    let began = Instant::now();
    let done = stage.run().await;
    // It would sleep for a minute; how quickly it ends is measured in `bench/`.
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    assert_eq!((done.result.status, done.result.exit_code), (ExecutionStatus::Timeout, -1));
    assert!(done.result.output.contains("partial words"));
    assert_eq!(done.codes(), ["CLAUDE_TIMEOUT"]);
    let message = &done.log.errors[0].message;
    assert!(message.contains("timeout") && message.contains("500 ms"), "{message}");
    assert_eq!(done.result.outcome, Some(Outcome::Timeout));
}

#[tokio::test]
async fn timeout_of_zero_is_none() {
    let stage = Stage::frames(&[success("ok")], 0).with(|context| context.timeout = Duration::ZERO);
    assert_eq!(stage.run().await.result.status, ExecutionStatus::Success);
}

#[tokio::test]
async fn cr_2_4_print_mode_and_the_prompt() {
    let stage = Stage::dumping();
    stage.run().await;
    let dump = stage.dump();
    assert_eq!(dump.argv()[1..6], ["-p", "--output-format", "stream-json", "--verbose", "--input-format"]);
    assert_eq!(dump.prompt(), PROMPT);
}

#[tokio::test]
async fn cr_2_5_a_prompt_file_is_read() {
    let stage = Stage::dumping().configured(|config| {
        config.prompt = None;
        config.prompt_file = Some("./prompts/task.md".into());
    });
    stage.write("workspace/prompts/task.md", "# Task\nDo it.\n");
    stage.run().await;
    assert_eq!(stage.dump().prompt(), "# Task\nDo it.\n");
}

#[tokio::test]
async fn cr_2_6_the_model() {
    let stage =
        Stage::dumping().configured(|config| config.model = Some("claude-sonnet-4-5-20250929".to_owned()));
    stage.run().await;
    assert!(stage.dump().has("--model=claude-sonnet-4-5-20250929"));
}

/// C1: definition and name are passed, because `--agents` does not accept a bare name.
#[tokio::test]
async fn cr_2_7_the_agent() {
    let stage = Stage::dumping().configured(|config| config.agent_name = Some("code-reviewer".to_owned()));
    stage.write(
        "workspace/.claude/agents/code-reviewer.md",
        "---\ndescription: Reviews code\ntools: Read, Grep\n---\nYou review code.\n",
    );
    stage.run().await;
    let dump = stage.dump();
    assert!(dump.has("--agent=code-reviewer"), "{:?}", dump.argv());
    let agents = dump.argv().into_iter().find_map(|argument| argument.strip_prefix("--agents=")).unwrap();
    let agents: serde_json::Value = serde_json::from_str(agents).unwrap();
    assert_eq!(agents["code-reviewer"]["prompt"], "You review code.");

    let nobody = Stage::dumping().configured(|config| config.agent_name = Some("nobody".to_owned()));
    let error = nobody.refused().await.to_string();
    assert!(error.contains("workspace/.claude/agents/nobody.md"), "{error}");
    assert!(error.contains("users-home/.claude/agents/nobody.agent.md"), "{error}");
}

#[tokio::test]
async fn cr_2_8_a_kilobyte_is_captured_whole() {
    let stage = Stage::fake("[{print: {fill: 1024}}]");
    let done = stage.run().await;
    assert_eq!(done.result.output, "x".repeat(1024));
    assert!(!done.result.truncated && !done.json["output"]["truncated"].as_bool().unwrap());
    assert_eq!(stage.terminal_log(), "x".repeat(1024));
}

#[tokio::test]
async fn cr_2_9_fifteen_megabytes_are_cut_at_ten_and_logged_whole() {
    let stage = Stage::fake("[{flood: {bytes: 15728640, line: 80}}]");
    let done = stage.run().await;
    assert!(done.result.truncated);
    let marker = done.result.output.find("[OUTPUT TRUNCATED").unwrap();
    assert!((MAX_OUTPUT_SIZE - 4..=MAX_OUTPUT_SIZE + 1).contains(&marker), "{marker}");
    assert_eq!(done.codes(), ["CLAUDE_OUTPUT_TRUNCATED"]);
    let message = &done.log.errors[0].message;
    assert!(message.contains("10MB") && message.contains("truncated"), "{message}");
    let log = stage.terminal_log();
    assert!(log.len() > 15_728_640, "{}", log.len());
    assert!(log.lines().last().unwrap().starts_with("[OUTPUT TRUNCATED"));
    assert_eq!(done.result.status, ExecutionStatus::Success);
}

#[tokio::test]
async fn cr_2_10_the_working_directory() {
    let stage = Stage::dumping();
    stage.run().await;
    assert_eq!(stage.dump().cwd(), stage.context.workspace.canonicalize().unwrap().to_str().unwrap());
}

#[tokio::test]
async fn cr_2_11_the_environment() {
    let stage = Stage::dumping().env("MY_SWITCH", "on").env("CLAUDECODE", "1");
    stage.run().await;
    let dump = stage.dump();
    assert_eq!((dump.env("ANTHROPIC_API_KEY"), dump.env("MY_SWITCH")), (Some(KEY), Some("on")));
    assert_eq!(dump.env("CLAUDECODE"), None);
}

#[tokio::test]
async fn cr_2_12_the_terminal_log() {
    let stage = Stage::fake("[{print: out}, {print: {line: err, to: stderr}}]");
    stage.run().await;
    stage.run().await;
    let logs = stage.terminal_logs();
    assert_eq!(logs.len(), 2);
    for log in logs {
        let name = log.file_name().unwrap().to_str().unwrap().to_owned();
        let stamp = name.strip_prefix("terminal-output-").and_then(|name| name.strip_suffix(".log")).unwrap();
        assert!(stamp.len() == 24 && stamp.ends_with('Z') && !stamp.contains([':', '.']), "{name}");
        let text = std::fs::read_to_string(log).unwrap();
        assert!(text.contains("out\n") && text.contains("err\n"), "{text:?}");
    }
}

#[tokio::test]
async fn cr_2_13_special_characters_survive() {
    let nasty = "say \"it's\" `date` $(id) ${HOME} \\ * ? ; | & < > \n\t é 漢 \u{1f980} --model=x %PATH%";
    for prompt in [nasty, "/cost", "@file", "-p", "--help"] {
        let stage = Stage::dumping().configured(|config| config.prompt = Some(prompt.to_owned()));
        stage.run().await;
        let dump = stage.dump();
        assert_eq!(dump.prompt(), prompt);
        assert!(!dump.argv().iter().any(|argument| argument.contains("$(id)")));
    }
}

#[tokio::test]
async fn cr_2_13_a_prompt_of_a_million_characters_arrives() {
    let prompt = "é".repeat(1_000_000);
    let stage = Stage::dumping().configured(|config| config.prompt = Some(prompt.clone()));
    stage.run().await;
    assert!(stage.dump().prompt() == prompt);
    let stage = Stage::dumping().configured(|config| config.prompt = Some(format!("{prompt}x")));
    assert!(stage.refused().await.to_string().contains("1000001 characters"));
}

/// Errors that do not depend on a workspace are found by `validate` with the same message; nothing is started or written.
#[tokio::test]
async fn invalid_configuration_is_found_before_a_workspace_exists() {
    type Change = fn(&mut AgentConfig);
    let command = |argv: &[&str]| Stage::command(&CommandConfig::new(argv.iter().copied()));
    let claude = || Stage::fake("[{exit: 1}]");
    let cases: [(Stage, Change, &str); 16] = [
        (claude(), |config| config.permission_mode = Some("whatever".into()), "`permission_mode`"),
        (claude(), |config| config.effort = Some("enormous".into()), "`effort`"),
        (claude(), |config| config.extra_args = vec!["-p".into()], "`extra_args`"),
        (claude(), |config| config.agent_name = Some("../up".into()), "`agent_name`"),
        (claude(), |config| config.max_turns = Some(0), "max_turns"),
        (claude(), |config| config.max_budget_usd = Some(-1.0), "max_budget_usd"),
        (claude(), |config| config.prompt = Some(" \n".into()), "blank"),
        (claude(), |config| config.prompt = Some("a\0b".into()), "NUL"),
        (claude(), |config| config.prompt = Some("x".repeat(1_000_001)), "at most 1000000"),
        (claude(), |config| config.prompt = None, "required"),
        (claude(), |config| config.prompt_file = Some("task.md".into()), "mutually exclusive"),
        (claude(), above, "without `..`"),
        (command(&[]), |_| {}, "names no program"),
        (command(&["sh", "{model}"]), |_| {}, "names no model"),
        (command(&["sh", "{prompt}"]), |config| config.prompt = Some("x".repeat(200_000)), "in an argument"),
        (command(&["sh"]), via_file, "`{prompt_file}`"),
    ];
    for (stage, change, message) in cases {
        let stage = stage.configured(change);
        let early = validated(&stage).expect_err(message);
        assert!(matches!(early, AdapterError::InvalidConfig { .. }), "{message}: {early:?}");
        assert!(early.to_string().contains(message), "{message}: {early}");
        assert!(!early.hints().is_empty(), "{early}");
        for place in ["workspace", "artifacts", "private"] {
            assert_eq!(std::fs::read_dir(stage.path(place)).unwrap().count(), 0, "{message}: {place}");
        }
        let late = stage.refused().await;
        assert_eq!((early.to_string(), early.hints()), (late.to_string(), late.hints()));
    }
}

fn above(config: &mut AgentConfig) {
    config.prompt = None;
    config.prompt_file = Some("../task.md".into());
}

fn via_file(config: &mut AgentConfig) {
    let spec = CommandConfig::from_section(&config.section).unwrap();
    config.section = spec.with_prompt_via(PromptVia::File).to_section();
}

fn validated(stage: &Stage) -> Result<(), AdapterError> {
    let context = &stage.context;
    let intent = Intent::new(&context.config, &context.host, context.isolation, &context.search_roots);
    stage.adapter.validate(&intent)
}

/// Files that the workspace may still contain are not errors of `validate`.
#[tokio::test]
async fn validation_ignores_settings_that_depend_on_the_workspace() {
    let in_workspace = |config: &mut AgentConfig| {
        config.prompt = None;
        config.prompt_file = Some("task.md".into());
    };
    for stage in [
        Stage::fake("[{exit: 1}]").configured(in_workspace),
        Stage::fake("[{exit: 1}]").configured(|config| config.agent_name = Some("in-the-repository".into())),
        Stage::command(&CommandConfig::new(["sh", "{prompt}"])).configured(in_workspace),
    ] {
        validated(&stage).unwrap();
        let late = stage.refused().await;
        assert!(matches!(late, AdapterError::InvalidConfig { .. }), "{late:?}");
    }
    // A file beside the case is found by `validate`.
    let mut stage = Stage::fake("[{exit: 1}]").configured(in_workspace);
    stage.context.search_roots = vec![stage.path("users-home")];
    stage.write("users-home/task.md", " ");
    assert!(validated(&stage).unwrap_err().to_string().contains("blank"));
    stage.write("users-home/task.md", "Do it.");
    validated(&stage).unwrap();
}
