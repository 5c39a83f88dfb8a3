//! Reads recorded output of an agent again, without running it.

use super::acp::reader::AcpReader;
use super::cli::{Call, Cli};
use super::reader::{ClaudeReader, Reader};
use super::{
    Acp, AcpConfig, Adapter as _, AgentConfig, ClaudeCode, Codex, CopilotCli, ExecutionContext, Gemini, Host,
    Opencode, Transcript,
};
use std::path::Path;

/// Returns the transcript of recorded output, as an execution folds it line by line. `None` for an agent that prints no
/// messages.
#[must_use]
pub fn read_output(agent: &str, stdout: &[u8], stderr: &str) -> Option<Transcript> {
    let none = Path::new("");
    let context = ExecutionContext::new(none, none, none, AgentConfig::new(""), Host::default());
    let call = Call { context: &context, prompt: "", folder: none };
    let mut reader: Box<dyn Reader> = match agent {
        _ if agent == ClaudeCode.spec().name => Box::new(ClaudeReader),
        _ if agent == Acp.spec().name => Box::new(AcpReader::new(&AcpConfig::new([""; 0]), &context, "")),
        _ => {
            let known: [&dyn Cli; 4] = [&Codex, &CopilotCli, &Gemini, &Opencode];
            known.into_iter().find(|cli| cli.agent_spec().name == agent)?.reader(&call)
        }
    };
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
