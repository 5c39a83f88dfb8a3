//! Events that an observer of a running agent receives, with fake agents and with the real CLI.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use yb_agents::{Live, Observer, ProcessRole, StartRecorder};
use yb_model::log::{ExecutionStatus, UsageSource};
use yb_supervise::TreeRecord;

use crate::support::{Stage, init, success};

/// Collects all events.
#[derive(Default)]
struct Watcher {
    records: Mutex<Vec<(ProcessRole, TreeRecord)>>,
    heard: Mutex<Vec<Live>>,
}

impl Observer for Watcher {
    fn changed(&self, live: &Live) {
        self.heard.lock().unwrap().push(live.clone());
    }
}

impl Watcher {
    fn heard(&self) -> Vec<Live> {
        self.heard.lock().unwrap().clone()
    }

    fn last(&self) -> Live {
        self.heard().last().cloned().unwrap()
    }
}

fn watched(stage: Stage) -> (Stage, Arc<Watcher>) {
    let watcher = Arc::new(Watcher::default());
    let (observer, records) = (watcher.clone(), watcher.clone());
    let recorder = StartRecorder::new(move |role, record| {
        records.records.lock().unwrap().push((role, record));
        Box::pin(std::future::ready(Ok(())))
    });
    let stage = stage.with(|context| {
        context.observer = Some(observer);
        context.start_recorder = Some((ProcessRole::Agent, recorder));
    });
    (stage, watcher)
}

#[track_caller]
fn assert_usd(found: Option<f64>, expected: f64) {
    assert!(found.is_some_and(|usd| (usd - expected).abs() < 1e-6), "{found:?} is not {expected}");
}

fn answer(id: &str, input: u64, tool: &str) -> Value {
    json!({"type": "assistant", "message": {"id": id, "model": "claude-opus-5", "usage": {"input_tokens": input, "output_tokens": 1},
        "content": [{"type": "tool_use", "id": id, "name": "Bash", "input": {"command": tool}}]}})
}

#[tokio::test]
async fn observer_receives_start_and_every_change() {
    let frames = [
        init(),
        answer("m1", 1000, "ls"),
        answer("m1", 1000, "ls"),
        answer("m2", 2000, "echo sk-ant-test-0123456789"),
        success("done"),
    ];
    let (stage, watcher) = watched(Stage::frames(&frames, 0));
    let done = stage.run().await;
    assert_eq!(watcher.records.lock().unwrap().len(), 1);
    let heard = watcher.heard();
    let turns: Vec<u32> = heard.iter().map(|live| live.turns).collect();
    assert_eq!(turns, [1, 2, 2], "what changes nothing is not told");
    // The agent's API key.
    assert_eq!(heard[1].last_tool.as_deref(), Some("Bash: echo [REDACTED:ANTHROPIC_API_KEY]"));
    assert_usd(heard[1].agent_usd, 0.015 + 0.000_05);
    assert_usd(watcher.last().usd(), 0.25);
    assert_eq!(done.log.usage.source, UsageSource::SelfReported);
}

#[tokio::test]
async fn partial_messages_are_requested_only_with_an_observer() {
    let (stage, _watcher) = watched(Stage::dumping());
    stage.run().await;
    assert!(stage.dump().has("--include-partial-messages"));
    let unwatched = Stage::dumping();
    unwatched.run().await;
    assert!(!unwatched.dump().has("--include-partial-messages"));
}

#[tokio::test]
async fn agent_that_was_ended_has_the_metered_cost_in_its_log() {
    let script = json!([{"print": {"json": init()}}, {"print": {"json": answer("m1", 1000, "sleep 60")}}, {"sleep_ms": 60000}]);
    let stage = Stage::fake(&script.to_string()).with(|context| context.timeout = Duration::from_secs(2));
    let done = stage.run().await;
    assert_eq!(done.result.status, ExecutionStatus::Timeout);
    let usage = &done.log.usage;
    assert_eq!((usage.source, usage.input_tokens, usage.total_tokens), (UsageSource::Metered, 1000, 1001));
    assert_usd(usage.cost_usd, 0.005_025);
    assert_eq!(usage.by_model["claude-opus-5"].source, UsageSource::Metered);
    assert_eq!(done.json["usage"]["source"], "metered");
}

/// Pausing a run suspends the agent and its timeout.
#[tokio::test]
async fn paused_agent_does_not_time_out() {
    let script = json!([{"write": {"path": "up", "line": "x"}}, {"wait_for_file": {"path": "go", "timeout_ms": 60000}},
        {"print": {"json": success("done")}}]);
    let stage = Stage::fake(&script.to_string()).with(|context| context.timeout = Duration::from_secs(3));
    let switch = stage.context.pause.clone();
    let (up, go) = (stage.path("workspace/up"), stage.path("workspace/go"));
    let pausing = tokio::spawn(async move {
        while !up.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        switch.pause();
        switch.wait_until_idle().await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        std::fs::write(go, "").unwrap();
        switch.resume();
    });
    let done = stage.run().await;
    pausing.await.unwrap();
    assert_eq!(done.result.status, ExecutionStatus::Success, "{:?}", done.log.errors);
    assert!(done.log.execution.duration_ms < 3000, "{}", done.log.execution.duration_ms);
}

/// Answers with every kind of token; one prompt is long, for the model whose price depends on the length.
const KINDS: &str = "
tape: 1
lanes:
  main:
    - say: I look.
      tools: [ { Bash: { command: 'echo x' } } ]
      usage: { input: 1000, output: 2000, cache_read: 3000, cache_write: 5000, cache_write_1h: 1000 }
    - say: Done.
      usage: { input: 10, output: 300, cache_read: 101000 }
";

/// All prices of the table, and the rule for unknown names, agree with the figures of the CLI.
async fn check_prices(models: &[&str]) {
    for &model in models {
        let (stage, _server) = Stage::real(KINDS);
        let stage = stage.configured(|config| config.model = Some(model.to_owned()));
        let (stage, watcher) = watched(stage);
        let done = stage.run().await;
        let heard = watcher.heard();
        // The first event with all tokens is computed here; the figures of the CLI follow.
        let metered = heard.iter().find(|live| live.output_tokens == 2300).unwrap();
        let (ours, theirs) = (metered.agent_usd.unwrap(), done.log.usage.cost_usd.unwrap());
        assert!((ours - theirs).abs() < 1e-6, "{model}: {ours} is not {theirs}");
        assert_eq!((metered.turns, watcher.last().agent_usd), (2, Some(theirs)), "{model}");
    }
}

#[tokio::test]
async fn real_claude_the_prices_of_opus_are_those_of_the_cli() {
    check_prices(&[
        "claude-opus-5-5",
        "claude-opus-5",
        "claude-opus-4-8",
        "claude-opus-4-7",
        "claude-opus-4-6",
        "claude-opus-4-5-20251101",
    ])
    .await;
}

#[tokio::test]
async fn real_claude_the_prices_of_fable_and_mythos_are_those_of_the_cli() {
    check_prices(&[
        "claude-fable-5-2",
        "claude-fable-5-1",
        "claude-fable-5",
        "claude-mythos-5-2",
        "claude-mythos-5-1",
        "claude-mythos-5",
    ])
    .await;
}

#[tokio::test]
async fn real_claude_the_prices_of_sonnet_are_those_of_the_cli() {
    check_prices(&[
        "claude-sonnet-5-5",
        "claude-sonnet-5",
        "claude-sonnet-4-6",
        "claude-sonnet-4-5-20250929",
        "claude-sonnet-4-20250514",
        "claude-3-7-sonnet-20250219",
        "claude-3-5-sonnet-20241022",
    ])
    .await;
}

#[tokio::test]
async fn real_claude_the_prices_of_haiku_and_of_others_are_those_of_the_cli() {
    check_prices(&[
        "claude-haiku-5-5",
        "claude-haiku-4-5-20251001",
        "claude-3-5-haiku-20241022",
        "claude-opus-5-9",
        "something-else",
    ])
    .await;
}

#[tokio::test]
async fn real_claude_subagents_are_metered_apart() {
    let script = "
tape: 1
lanes:
  main:
    - say: I ask.
      tools:
        - Agent: { description: Review, prompt: Review the change, subagent_type: general-purpose, run_in_background: false }
      usage: { input: 1000, output: 400 }
    - say: Done.
      usage: { input: 2000, output: 500 }
  reviewer:
    match: Review the change
    replies:
      - tools: [ { Bash: { command: 'echo from the subagent' } } ]
        usage: { input: 3000, output: 600, cache_write: 700 }
      - say: Looks fine.
        usage: { input: 4000, output: 800 }
";
    let (stage, _server) = Stage::real(script);
    let stage = stage.configured(|config| config.model = Some("claude-opus-5".to_owned()));
    let (stage, watcher) = watched(stage);
    let done = stage.run().await;
    assert_eq!(done.result.status, ExecutionStatus::Success, "{:?}", done.log.errors);
    let heard = watcher.heard();
    assert!(
        heard.iter().any(|live| live.last_tool.as_deref() == Some("Bash: echo from the subagent")),
        "{heard:?}"
    );
    let metered = heard.iter().rev().nth(1).unwrap();
    assert_eq!(metered.turns, 2);
    assert_usd(metered.agent_usd, (3000.0 * 5.0 + 900.0 * 25.0) / 1e6);
    // The output tokens of its first answer, except one, are reported only with the result.
    assert_usd(metered.subagents_usd, (7000.0 * 5.0 + 700.0 * 6.25 + 801.0 * 25.0) / 1e6);
    let last = watcher.last();
    assert_usd(last.agent_usd, (3000.0 * 5.0 + 900.0 * 25.0) / 1e6);
    assert_usd(last.subagents_usd, (7000.0 * 5.0 + 700.0 * 6.25 + 1400.0 * 25.0) / 1e6);
    assert_usd(last.usd(), done.log.usage.cost_usd.unwrap());
}

#[tokio::test]
async fn real_claude_that_is_ended_has_its_metered_cost() {
    let script = "{ tape: 1, lanes: { main: [ { say: I wait., tools: [ { Bash: { command: 'sleep 50' } } ], usage: { input: 1000, output: 200 } } ] } }";
    let (stage, _server) = Stage::real(script);
    let stage = stage.configured(|config| config.model = Some("claude-opus-5".to_owned()));
    let (stage, watcher) = watched(stage.with(|context| context.timeout = Duration::from_secs(5)));
    let done = stage.run().await;
    assert_eq!(done.result.status, ExecutionStatus::Timeout);
    assert_eq!(done.log.usage.source, UsageSource::Metered);
    assert_usd(done.log.usage.cost_usd, 0.01);
    assert_eq!(watcher.last().usd(), done.log.usage.cost_usd);
}

#[tokio::test]
async fn real_claude_reports_api_retries() {
    let (stage, _server) =
        Stage::real("{ tape: 1, lanes: { main: [ { fault: { status: 529, times: 1 }, say: Hello. } ] } }");
    let (stage, watcher) = watched(stage.env("CLAUDE_CODE_MAX_RETRIES", "2"));
    stage.run().await;
    let heard = watcher.heard();
    let retry = heard.iter().find_map(|live| live.api_retry).unwrap();
    assert_eq!(retry.status, Some(529));
    assert!(retry.retry_after.is_some());
    assert_eq!(watcher.last().api_retry, None);
}
