//! The output of agents: Claude Code's frames, and the readers of all other agents.

use serde_json::Value;
use yb_agents::{AdapterError, Adapters, AgentConfig, ExecutionContext, ExecutionResult, Host, read_output};
use yb_claude::{Frame, Framer, Message, RunSummary, TextOutput, UsageBaseline, read_json};

use super::{Probe, Target, magnitude, require};
use crate::corpus::Seeds;

pub(super) const TARGET: Target = Target {
    name: "frames",
    about: "output of agents: frames independent of chunk borders, and a log from every reader",
    seeds: || {
        Seeds::new()
            .files("crates/yb-claude/tests/fixtures/claude", "stdout")?
            .files("crates/yb-claude/tests/fixtures/control", "")?
            .files("crates/yb-agents/tests/fixtures", ".jsonl")?
            .files("fuzz/seeds/frames", ".jsonl")?
            .schema("youbencha-log.schema.json")
    },
    check,
};

fn frames(bytes: &[u8], size: usize, limit: usize) -> Vec<Frame> {
    let mut framer = Framer::with_limit(limit);
    let mut frames = Vec::new();
    for chunk in bytes.chunks(size.max(1)) {
        framer.push(chunk);
        frames.extend(framer.by_ref());
    }
    framer.end();
    frames.extend(framer);
    frames
}

fn check(probe: &mut Probe, input: &[u8]) -> Result<(), String> {
    let size = usize::from(input.first().copied().unwrap_or(0)) + 1;
    for limit in [Framer::DEFAULT_LIMIT, 64] {
        let whole = frames(input, input.len(), limit);
        require(whole == frames(input, size, limit), "frames do not depend on chunks", || {
            format!("chunks of {size}")
        })?;
        let mut summary = RunSummary::new();
        for frame in whole.into_iter().chain(read_json(input)) {
            if let Some(message) = frame.into_message() {
                summary.observe(&message);
            }
        }
        summarize(probe, &summary);
    }
    for line in input.split(|byte| *byte == b'\n').take(50) {
        check_line(probe, line)?;
    }
    let text = String::from_utf8_lossy(input);
    let output = TextOutput::parse(&text);
    require(!output.clean.contains('\u{1b}'), "no escape is left in plain output", || {
        format!("{:?}", output.clean)
    })?;
    let _ = output.outcome();
    for adapter in Adapters::builtin().iter() {
        let agent = adapter.spec();
        let Some(transcript) = read_output(agent.name, input, &text) else { continue };
        probe.saw(&(agent.name, magnitude(transcript.messages().len()), transcript.problems().len()));
        summarize(probe, transcript.summary());
        let result = ExecutionResult {
            transcript: Some(transcript),
            output: text.clone().into_owned(),
            terminal_log: Some("/a/log".into()),
            ..ExecutionResult::not_started(agent, &AdapterError::ArtifactsMissing { path: "/a".into() })
        };
        let context = ExecutionContext::new("/w", "/a", "/p", AgentConfig::new("Do it."), Host::default());
        let log = adapter.normalize_log(&result, &context);
        let written =
            serde_json::to_string(&log).map_err(|error| format!("a log can be written: {error}"))?;
        let again =
            serde_json::from_str(&written).map_err(|error| format!("a written log is read: {error}"))?;
        require(log == again, "a written log is read as the same", || written)?;
    }
    Ok(())
}

fn check_line(probe: &mut Probe, line: &[u8]) -> Result<(), String> {
    let parsed = Message::parse(line);
    let tree = serde_json::from_slice::<Value>(line);
    if let Ok(Value::Object(_)) = &tree {
        let Ok(message) = &parsed else {
            return Err(format!("an object is a message: {}", String::from_utf8_lossy(line)));
        };
        require(message.raw().to_value().ok() == tree.ok(), "a message keeps its JSON", || {
            String::from_utf8_lossy(line).into_owned()
        })?;
        probe.saw(&message.kind());
    }
    if let Ok(message) = parsed {
        let summary: RunSummary = [&message, &message].into_iter().collect();
        summarize(probe, &summary);
    }
    Ok(())
}

fn summarize(probe: &mut Probe, summary: &RunSummary) {
    for baseline in [UsageBaseline::NewSession, UsageBaseline::Unknown] {
        let _ = summary.usage(baseline);
    }
    if let Some(totals) = summary.session_totals() {
        let _ = summary.usage(UsageBaseline::Totals(&totals));
    }
    let failure = summary.api_failure().map(|failure| format!("{:?}", failure.kind));
    probe.saw(&(summary.tools().len().min(9), failure, summary.pending_failure().is_some()));
    let _ = (summary.model(), summary.final_text());
}
