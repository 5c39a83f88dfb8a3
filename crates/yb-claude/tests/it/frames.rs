//! All captured output of real CLIs is parsed without errors and unknown types.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use yb_claude::frame::{ModelSource, OtherSystemMessage, SystemMessage, Tokens, UsageSource};
use yb_claude::{Block, Frame, Message, RunSummary, TextOutput, UsageBaseline, read_json, read_stream};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn sorted(directory: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries
}

fn name(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

/// A captured run of `claude -p`.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) stdout: Vec<u8>,
    argv: Vec<String>,
    exit_code: Option<i64>,
}

impl Case {
    pub(crate) fn load(directory: &Path) -> Self {
        let meta: Value =
            serde_json::from_slice(&std::fs::read(directory.join("meta.json")).unwrap()).unwrap();
        let argv = meta["argv"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap().to_owned());
        Self {
            name: directory.file_name().unwrap().to_string_lossy().into_owned(),
            stdout: std::fs::read(directory.join("stdout")).unwrap_or_default(),
            argv: argv.collect(),
            exit_code: meta["exit_code"].as_i64(),
        }
    }

    pub(crate) fn named(family: &str, name: &str) -> Self {
        Self::load(&fixtures().join(family).join(name))
    }

    fn format(&self) -> &str {
        let at = self.argv.iter().position(|arg| arg == "--output-format");
        at.map_or("text", |at| &self.argv[at + 1])
    }

    pub(crate) fn frames(&self) -> Vec<Frame> {
        match self.format() {
            "json" => read_json(&self.stdout),
            "stream-json" => read_stream(&self.stdout),
            _ => Vec::new(),
        }
    }

    pub(crate) fn messages(&self) -> Vec<Message> {
        let frames = self.frames().into_iter();
        frames
            .map(|frame| frame.into_message().unwrap_or_else(|| panic!("{}: not a message", self.name)))
            .collect()
    }

    pub(crate) fn summary(&self) -> RunSummary {
        self.messages().iter().collect()
    }
}

/// The messages of the CLI in a bidirectional transcript.
fn said_by_the_cli(transcript: &Path) -> Vec<Message> {
    let text = std::fs::read_to_string(transcript).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let said = lines.filter(|line| matches!(line["dir"].as_str(), Some("cli->host" | "out")));
    let bodies = said.map(|line| line.get("msg").or_else(|| line.get("v")).unwrap().to_string());
    bodies.map(|body| Message::parse(body.as_bytes()).unwrap()).collect()
}

fn kinds(messages: &[Message]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for message in messages {
        let kind = match message {
            Message::System(SystemMessage::Other(other)) => format!("other:{}", other.subtype),
            Message::System(system) => system.subtype().to_owned(),
            Message::ControlRequest(request) => format!("ask:{}", request.request.subtype),
            message => message.kind().to_owned(),
        };
        *counts.entry(kind).or_default() += 1;
    }
    let counts: Vec<_> = counts.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    counts.join(", ")
}

fn check_known(case: &str, messages: &[Message]) {
    let unknown_block = |block: &Block| matches!(block, Block::Unknown { .. });
    for message in messages {
        let unknown = match message {
            Message::Unknown { .. } => true,
            Message::Assistant(assistant) => assistant.message.content.iter().any(unknown_block),
            Message::User(user) => user.message.content.blocks().iter().any(unknown_block),
            Message::System(SystemMessage::Other(other)) => !is_known_elsewhere(other),
            _ => false,
        };
        assert!(!unknown, "{case}: {message:?}");
        assert!(message.raw().to_value().is_ok());
    }
}

/// Subtypes of 2.1.325 without typed fields.
fn is_known_elsewhere(other: &OtherSystemMessage) -> bool {
    matches!(&*other.subtype, "ui_invalidate")
}

fn row(table: &mut String, case: &str, messages: &[Message], exit: Option<i64>) {
    let summary: RunSummary = messages.iter().collect();
    let mut facts = vec![kinds(messages)];
    if let Some(model) = summary.model() {
        let source = match model.source {
            ModelSource::Init => "init",
            ModelSource::ModelUsage => "modelUsage",
            ModelSource::Assistant => "assistant",
            _ => "result",
        };
        facts.push(format!("model {} ({source})", model.name));
    }
    if let Some(result) = summary.last_result() {
        let error = if result.is_error { " error" } else { "" };
        let stop = result.terminal_reason.as_deref().unwrap_or("-");
        let turns = result.num_turns.unwrap_or_default();
        facts.push(format!("{}{error}/{stop}, {turns} turns", result.subtype.as_str()));
    } else {
        facts.push("no result".to_owned());
    }
    if let Some(spent) = summary.usage(UsageBaseline::Unknown) {
        facts.push(format!("{:?} {} ${:?}", spent.source, tokens(spent.tokens), spent.cost_usd));
    }
    if let Some(failure) = summary.api_failure() {
        facts.push(format!("{:?} {:?} retryable {}", failure.kind, failure.status, failure.retryable));
    }
    let tools: Vec<_> = summary
        .tools()
        .iter()
        .map(|call| {
            let by = if call.parent_tool_use_id.is_some() { ">" } else { "" };
            let outcome = match &call.outcome {
                Some(outcome) if outcome.is_error => "!",
                Some(_) => "",
                None => "?",
            };
            format!("{by}{}{outcome}", call.name)
        })
        .collect();
    if !tools.is_empty() {
        facts.push(format!("tools {}", tools.join(" ")));
    }
    if !summary.permission_denials().is_empty() {
        facts.push(format!("{} denied", summary.permission_denials().len()));
    }
    let text: String = summary.final_text().chars().take(40).collect();
    facts.push(format!("{text:?}"));
    let exit = exit.map(|exit| format!(" [{exit}]")).unwrap_or_default();
    writeln!(table, "{case}{exit}: {}", facts.join(" | ")).unwrap();
}

fn tokens(tokens: Tokens) -> String {
    format!("{}+{} cache {}+{}", tokens.input, tokens.output, tokens.cache_read, tokens.cache_creation)
}

fn table_of_runs(family: &str) -> String {
    let mut table = String::new();
    for directory in sorted(&fixtures().join(family)) {
        let case = Case::load(&directory);
        if case.stdout.is_empty() {
            continue;
        }
        if case.format() == "text" {
            let output = TextOutput::parse(std::str::from_utf8(&case.stdout).unwrap());
            let said: String = output.clean.trim().chars().take(60).collect();
            let ending = output.outcome();
            let exit = case.exit_code.unwrap_or(-1);
            writeln!(table, "{} [{exit}]: text {said:?} {ending:?}", case.name).unwrap();
            continue;
        }
        let messages = case.messages();
        check_known(&case.name, &messages);
        row(&mut table, &case.name, &messages, case.exit_code);
    }
    table
}

#[test]
fn runs_of_2_1_325_are_parsed() {
    insta::assert_snapshot!("claude", table_of_runs("claude"));
}

#[test]
fn runs_of_older_versions_are_parsed() {
    insta::assert_snapshot!("claude-old", table_of_runs("claude-old"));
}

#[test]
fn bidirectional_transcripts_are_parsed() {
    let mut table = String::new();
    for family in ["control", "sdk-python"] {
        for transcript in sorted(&fixtures().join(family)) {
            let messages = said_by_the_cli(&transcript);
            check_known(&name(&transcript), &messages);
            row(&mut table, &format!("{family}/{}", name(&transcript)), &messages, None);
        }
    }
    insta::assert_snapshot!("transcripts", table);
}

/// The three JSON formats differ only in the number of messages.
#[test]
fn all_output_formats_give_same_result() {
    let [json, verbose, stream] =
        ["json", "json-verbose", "sj-tools"].map(|name| Case::named("claude", name).summary());
    for summary in [&json, &verbose, &stream] {
        let result = summary.last_result().unwrap();
        assert_eq!(result.result.as_deref(), Some("Fixed `add` in app.py.\n\nIt now returns 5."));
        assert_eq!(summary.final_text(), "Fixed `add` in app.py.\n\nIt now returns 5.");
        assert_eq!(summary.model().unwrap().name, "claude-opus-5-5");
        assert_eq!(summary.num_turns(), Some(5));
        let spent = summary.usage(UsageBaseline::NewSession).unwrap();
        assert_eq!(spent.source, UsageSource::ModelUsage);
        assert_eq!((spent.tokens.total(), spent.tokens.total_with_cache()), (568, 688));
        assert_eq!(spent.cost_usd, Some(0.005176));
    }
    assert_eq!(verbose.tools().len(), stream.tools().len());
    assert_eq!(json.model().unwrap().source, ModelSource::ModelUsage);
    assert_eq!(stream.cli_version(), Some("2.1.325"));
}

/// The raw JSON is the text of the line.
#[test]
fn raw_json_equals_printed_json() {
    let case = Case::named("claude", "sj-tools");
    let text = String::from_utf8(case.stdout.clone()).unwrap();
    let raws: Vec<_> = case.messages().iter().map(|message| message.raw().to_string()).collect();
    assert_eq!(raws, text.lines().collect::<Vec<_>>());
}
