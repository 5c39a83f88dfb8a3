//! Reads recorded output of an agent again, without running it.

use super::acp::reader::AcpReader;
use super::bounds::{Bounds, LINE};
use super::cli::{Call, Cli};
use super::reader::{ClaudeReader, Reader};
use super::{
    Acp, AcpConfig, Adapter as _, AgentConfig, ClaudeCode, Codex, CopilotCli, ExecutionContext, Gemini, Host,
    Opencode, Transcript,
};
use std::io::{self, BufRead};
use std::path::Path;

use yb_model::log::{LogMessage, Role, ToolCallRecord, YouBenchaLog};
use yb_supervise::LineReader;

/// Returns the transcript of recorded output, as an execution folds it line by line. `None` for an agent that prints no
/// messages.
#[must_use]
pub fn read_output(agent: &str, stdout: &[u8], stderr: &str) -> Option<Transcript> {
    let mut reader = reader(agent)?;
    let mut transcript = Transcript::default();
    if reader.reads_stderr() {
        reader.parse_stderr(stderr.as_bytes()).iter().for_each(|message| transcript.observe(message));
    }
    for line in stdout.split(|byte| *byte == b'\n') {
        transcript.observe_with(reader.as_mut(), line);
        // The requests of an interactive protocol have no recipient here.
        reader.take_input();
    }
    reader.finish(stderr).iter().for_each(|message| transcript.observe(message));
    Some(transcript)
}

/// The reader of an agent's output; `None` for an agent that prints no messages.
pub(super) fn reader(agent: &str) -> Option<Box<dyn Reader>> {
    let none = Path::new("");
    let context = ExecutionContext::new(none, none, none, AgentConfig::new(""), Host::default());
    let call = Call { context: &context, prompt: "", folder: none };
    Some(match agent {
        _ if agent == ClaudeCode.spec().name => Box::new(ClaudeReader::default()),
        _ if agent == Acp.spec().name => Box::new(AcpReader::new(&AcpConfig::new([""; 0]), &context, "")),
        _ => {
            let known: [&dyn Cli; 4] = [&Codex, &CopilotCli, &Gemini, &Opencode];
            known.into_iter().find(|cli| cli.agent_spec().name == agent)?.reader(&call)
        }
    })
}

/// A message or a tool call that a log leaves out.
#[derive(Debug, Clone, PartialEq)]
pub enum OmittedItem {
    /// A message.
    Message(LogMessage),
    /// A tool call.
    ToolCall(ToolCallRecord),
}

/// Reads the messages and tool calls that a log leaves out from the recorded frames, in order and in bounded memory.
///
/// # Errors
/// When the frames can't be read.
pub fn for_each_omitted(
    log: &YouBenchaLog,
    frames: &mut dyn BufRead,
    visit: &mut dyn FnMut(OmittedItem),
) -> io::Result<()> {
    let Some(omitted) = &log.omitted else { return Ok(()) };
    // Only a command that prints the messages of Claude Code has frames.
    let mut reader = reader(&log.agent.name).unwrap_or_else(|| Box::new(ClaudeReader::default()));
    let mut transcript = Transcript::new(Bounds::default());
    transcript.collect_omitted();
    // The prompt of the case is no message of the agent.
    let prompt = u64::from(log.messages.first().is_some_and(|first| first.role == Role::User));
    let before = omitted.messages_before.saturating_sub(prompt);
    let messages = before..before + omitted.messages;
    let calls = omitted.tool_calls_before..omitted.tool_calls_before + omitted.tool_calls;
    let (mut message_at, mut call_at) = (0, 0);
    let mut visit_all = |(found, called): (Vec<LogMessage>, Vec<ToolCallRecord>)| {
        for message in found {
            if messages.contains(&message_at) {
                visit(OmittedItem::Message(message));
            }
            message_at += 1;
        }
        for call in called {
            if calls.contains(&call_at) {
                visit(OmittedItem::ToolCall(call));
            }
            call_at += 1;
        }
    };
    let mut lines = LineReader::new(LINE, Bounds::default().line());
    while let Some(line) = lines.next(frames)? {
        transcript.observe_with(reader.as_mut(), &line);
        reader.take_input();
        reader.mcp_failures();
        visit_all(transcript.take_omitted());
    }
    reader.finish("").iter().for_each(|message| transcript.observe(message));
    transcript.finish();
    visit_all(transcript.take_all());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdapterError, Adapters, ExecutionResult};

    /// Two calls of two models, without an end: the usage is metered.
    fn unfinished(tokens: u64) -> String {
        ["claude-sonnet-4-5", "claude-opus-4-5"]
            .map(|model| {
                serde_json::json!({ "type": "assistant", "message": {
                    "id": model, "model": model, "content": [{ "type": "text", "text": "Hm." }],
                    "usage": { "input_tokens": tokens, "output_tokens": tokens, "cache_creation_input_tokens": tokens } } })
                .to_string()
            })
            .join("\n")
    }

    #[test]
    fn recorded_output_of_every_agent_is_read() {
        for (agent, stdout) in [
            ("codex", include_str!("../tests/fixtures/codex/edit-json.jsonl").to_owned()),
            ("claude-code", unfinished(1)),
        ] {
            let transcript = read_output(agent, stdout.as_bytes(), "").unwrap();
            assert!(
                transcript.spoke() && transcript.problems().is_empty(),
                "{agent}: {:?}",
                transcript.problems()
            );
        }
        for agent in Adapters::builtin().names() {
            assert_eq!(read_output(agent, b"", "").is_some(), agent != "command", "{agent}");
        }
        assert!(read_output("none", b"", "").is_none());
    }

    #[test]
    fn log_of_huge_token_counts_is_saturated() {
        let result = ExecutionResult {
            transcript: read_output("claude-code", unfinished(u64::MAX).as_bytes(), ""),
            terminal_log: Some("/a/log".into()),
            ..ExecutionResult::not_started(
                ClaudeCode.spec(),
                &AdapterError::ArtifactsMissing { path: "/a".into() },
            )
        };
        let context = ExecutionContext::new("/w", "/a", "/p", AgentConfig::new("Do it."), Host::default());
        let usage = ClaudeCode.normalize_log(&result, &context).usage;
        assert_eq!((usage.input_tokens, usage.total_tokens), (u64::MAX, u64::MAX));
        assert!(usage.cost_usd.is_some_and(f64::is_finite));
        let step =
            format!(r#"{{"type":"step_finish","part":{{"tokens":{{"input":{0},"output":{0}}}}}}}"#, u64::MAX);
        assert!(read_output("opencode", format!("{step}\n{step}").as_bytes(), "").is_some());
    }
}
