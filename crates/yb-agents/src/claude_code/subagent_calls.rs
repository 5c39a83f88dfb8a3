//! The model calls of subagents, from the transcripts that Claude Code writes. Its messages have no output tokens for most of them, and
//! not all calls.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;
use yb_claude::Message;
use yb_claude::frame::AssistantMessage;

/// The most bytes that are read of one transcript.
const MAX_TRANSCRIPT: u64 = 64 << 20;
/// The most transcripts of a session that are read.
const MAX_TRANSCRIPTS: usize = 256;

/// A response to a subagent.
#[derive(Debug, Clone)]
pub struct SubagentCall {
    /// The id of the subagent.
    pub agent: String,
    /// The response with its final usage, or a part of it with the same id.
    pub response: AssistantMessage,
    /// When it was written.
    pub at: SystemTime,
}

/// Reads the responses to all subagents of a session, below the configuration directory of Claude Code. The agent can write these files,
/// so they are read as numbers for a trace only, and anything but a regular file of limited size is ignored.
#[must_use]
pub fn subagent_calls(config_dir: &Path, session: &str) -> Vec<SubagentCall> {
    if session.is_empty() || !session.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Vec::new();
    }
    let projects = entries(&config_dir.join("projects"));
    let transcripts =
        projects.into_iter().flat_map(|project| entries(&project.join(session).join("subagents")));
    transcripts.take(MAX_TRANSCRIPTS).flat_map(|path| calls_in(&path)).collect()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn calls_in(path: &Path) -> Vec<SubagentCall> {
    let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let Some(agent) = name.strip_prefix("agent-") else { return Vec::new() };
    // A pipe would block.
    if !fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        return Vec::new();
    }
    let Ok(file) = fs::File::open(path) else { return Vec::new() };
    let mut lines = BufReader::new(file.take(MAX_TRANSCRIPT));
    let (mut calls, mut line) = (Vec::new(), Vec::new());
    while lines.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        if let Ok(Message::Assistant(response)) = Message::parse(&line)
            && !response.is_synthetic()
        {
            let written = response.timestamp.as_deref().and_then(|text| text.parse::<Timestamp>().ok());
            let at = written.map_or_else(SystemTime::now, SystemTime::from);
            calls.push(SubagentCall { agent: agent.to_owned(), response: *response, at });
        }
        line.clear();
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_the_session_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let subagents = dir.path().join("projects/-w/s-1/subagents");
        fs::create_dir_all(&subagents).unwrap();
        let line = |id: &str, output: u64| {
            format!(
                r#"{{"type":"assistant","isSidechain":true,"timestamp":"2026-01-02T03:04:05Z","message":{{"id":"{id}","model":"m","content":[],"usage":{{"input_tokens":1,"output_tokens":{output}}}}}}}"#
            )
        };
        let text = format!("{}\nnot JSON\n{{\"type\":\"user\"}}\n{}", line("a", 5), line("b", 6));
        fs::write(subagents.join("agent-one.jsonl"), &text).unwrap();
        fs::write(subagents.join("other.jsonl"), &text).unwrap();
        fs::create_dir(subagents.join("agent-dir.jsonl")).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(subagents.join("agent-one.jsonl"), subagents.join("agent-two.jsonl"))
            .unwrap();
        let calls = subagent_calls(dir.path(), "s-1");
        let found: Vec<_> = calls
            .iter()
            .map(|call| {
                let answer = &call.response.message;
                (
                    call.agent.as_str(),
                    answer.id.as_deref(),
                    answer.usage.as_ref().map(|usage| usage.output_tokens),
                )
            })
            .collect();
        assert_eq!(found, [("one", Some("a"), Some(5)), ("one", Some("b"), Some(6))]);
        for session in ["", "..", "s-2", "../-w/s-1"] {
            assert!(subagent_calls(dir.path(), session).is_empty(), "{session}");
        }
    }
}
