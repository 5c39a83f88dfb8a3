//! Transcripts: their entries, summaries and copies, independent of where they are stored.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Error;
use crate::frame::lenient::{from_raw, lenient_struct};
use crate::{Message, RawJson};

/// Prefixes of prompts that were written by the CLI.
const SYNTHETIC_PREFIXES: [&str; 4] =
    ["<", "[Request interrupted", "Caveat:", "This session is being continued"];

/// Fields that a copy of a session does not take over.
const OWN_FIELDS: [&str; 4] = ["teamName", "agentName", "slug", "sourceToolAssistantUUID"];

/// A summary of a session.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SessionInfo {
    /// The session ID, for resuming it.
    pub id: String,
    /// The path of the transcript; absent in a store.
    pub path: Option<PathBuf>,
    /// The title, set by the user or the CLI.
    pub title: Option<String>,
    /// The tag.
    pub tag: Option<String>,
    /// The first prompt of the user.
    pub first_prompt: Option<String>,
    /// The working directory.
    pub cwd: Option<String>,
    /// The last Git branch.
    pub git_branch: Option<String>,
    /// The start time as written by the CLI.
    pub created_at: Option<String>,
    /// The last modification time of the transcript.
    pub modified: SystemTime,
    /// The size of the transcript in bytes; unknown in a store.
    pub bytes: Option<u64>,
}

lenient_struct! {
    /// A transcript entry: a message of the user or the model.
    pub struct TranscriptEntry {
        raw,
        /// `user` or `assistant`.
        kind: String = "type",
        /// The entry's UUID.
        uuid: String = "uuid",
        /// The UUID of the previous entry.
        parent_uuid: Option<String> = "parentUuid",
        /// The session ID.
        session_id: String = "sessionId",
        /// The timestamp as written by the CLI.
        timestamp: Option<String> = "timestamp",
        /// Whether it belongs to a subagent.
        is_sidechain: bool = "isSidechain",
        /// Whether the CLI added it for the model.
        is_meta: bool = "isMeta",
        /// The team's name.
        team_name: Option<String> = "teamName",
        /// The message in the API's format.
        message: RawJson = "message",
    }
}

impl TranscriptEntry {
    /// Converts to a stream message, in which IDs are in different fields.
    #[must_use]
    pub fn to_message(&self) -> Option<Message> {
        Message::parse(self.raw.as_str().as_bytes()).ok()
    }

    /// Returns the text.
    #[must_use]
    pub fn text(&self) -> String {
        let content = self.message.to_value().unwrap_or_default()["content"].take();
        match content {
            Value::String(text) => text,
            Value::Array(blocks) => {
                let texts = blocks.iter().filter(|block| block["type"] == "text");
                texts.filter_map(|block| block["text"].as_str()).collect()
            }
            _ => String::new(),
        }
    }

    /// The ID of the API response that the entry is a part of.
    fn response_id(&self) -> Option<String> {
        let message = self.message.to_value().ok()?;
        (self.kind == "assistant").then(|| message["id"].as_str().map(str::to_owned))?
    }

    fn has_tool_result(&self) -> bool {
        self.kind == "user" && self.message.as_str().contains("\"tool_result\"")
    }

    fn is_shown(&self) -> bool {
        matches!(self.kind.as_str(), "user" | "assistant")
            && !self.is_meta
            && !self.is_sidechain
            && self.team_name.is_none()
    }
}

lenient_struct! {
    /// The session fields of a transcript line.
    struct TranscriptLine {
        /// The type of the line.
        kind: String = "type",
        /// The working directory.
        cwd: Option<String> = "cwd",
        /// The Git branch.
        git_branch: Option<String> = "gitBranch",
        /// The timestamp.
        timestamp: Option<String> = "timestamp",
        /// The title set by the user.
        custom_title: Option<String> = "customTitle",
        /// The tag; empty if it was removed.
        tag: Option<String> = "tag",
        /// The title set by the CLI.
        ai_title: Option<String> = "aiTitle",
        /// Whether it belongs to a subagent.
        is_sidechain: bool = "isSidechain",
    }
}

/// The state of a transcript's summary, which a store can keep and update with every appended entry, so that listings need
/// not read transcripts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SessionSummary {
    /// The title set by the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_title: Option<String>,
    /// The title set by the CLI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ai_title: Option<String>,
    /// The tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The first prompt of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_prompt: Option<String>,
    /// The working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The last Git branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_branch: Option<String>,
    /// The start time as written by the CLI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// Whether the user sent a message. Without one, it is not listed as a session.
    pub has_prompt: bool,
}

impl SessionSummary {
    /// Adds the entries that were appended to the main transcript.
    pub fn add(&mut self, entries: &[Value]) {
        raw_entries(entries).iter().for_each(|entry| self.add_line(entry));
    }

    pub(super) fn add_line(&mut self, raw: &RawJson) {
        let Some(line) = from_raw::<TranscriptLine>(raw) else { return };
        self.custom_title = line.custom_title.or(self.custom_title.take());
        self.ai_title = line.ai_title.or(self.ai_title.take());
        if line.kind == "tag" {
            self.tag = line.tag.filter(|tag| !tag.is_empty());
        }
        self.cwd = self.cwd.take().or(line.cwd);
        self.git_branch = line.git_branch.filter(|branch| !branch.is_empty()).or(self.git_branch.take());
        self.created_at = self.created_at.take().or(line.timestamp);
        if line.kind == "user" && !line.is_sidechain {
            self.has_prompt = true;
            if self.first_prompt.is_none() {
                let entry: TranscriptEntry = from_raw(raw).unwrap_or_default();
                let text = entry.text().split_whitespace().collect::<Vec<_>>().join(" ");
                let typed =
                    !entry.is_meta && !SYNTHETIC_PREFIXES.iter().any(|prefix| text.starts_with(prefix));
                self.first_prompt = Some(text).filter(|text| typed && !text.is_empty());
            }
        }
    }

    /// Returns the title, set by the user or the CLI.
    fn title(&self) -> Option<&String> {
        self.custom_title.as_ref().or(self.ai_title.as_ref())
    }

    /// Converts to an entry of a listing; `None` without a message of the user.
    pub(super) fn into_info(self, id: String, modified: SystemTime) -> Option<SessionInfo> {
        let title = self.title().cloned();
        let Self { tag, first_prompt, cwd, git_branch, created_at, has_prompt, .. } = self;
        let (path, bytes) = (None, None);
        has_prompt.then_some(SessionInfo {
            id,
            path,
            title,
            tag,
            first_prompt,
            cwd,
            git_branch,
            created_at,
            modified,
            bytes,
        })
    }
}

/// Converts stored entries to the form in which lines of a file are read.
pub(super) fn raw_entries(entries: &[Value]) -> Vec<RawJson> {
    entries.iter().map(|entry| RawJson::whole(entry.to_string().into())).collect()
}

/// Returns the messages of a main transcript in order: the latest branch with all its tool results.
pub(super) fn messages(lines: &[RawJson]) -> Vec<TranscriptEntry> {
    branch_of(entries(lines), TranscriptEntry::is_shown)
        .into_iter()
        .filter(TranscriptEntry::is_shown)
        .collect()
}

/// Returns the messages of a subagent's transcript in order.
pub(super) fn subagent_messages(lines: &[RawJson]) -> Vec<TranscriptEntry> {
    let shown =
        |entry: &TranscriptEntry| matches!(entry.kind.as_str(), "user" | "assistant") && !entry.is_meta;
    branch_of(entries(lines), shown).into_iter().filter(shown).collect()
}

fn entries(lines: &[RawJson]) -> Vec<TranscriptEntry> {
    let entries = lines.iter().filter_map(from_raw::<TranscriptEntry>);
    entries.filter(|entry| !entry.uuid.is_empty()).collect()
}

/// Returns the entry that sets the title of a session.
pub(super) fn title_entry(id: &str, title: &str) -> Result<Value, Error> {
    let title = title.trim();
    if title.is_empty() {
        return Err(Error::Transcript { reason: "expected a title, got a blank text".to_owned() });
    }
    Ok(json!({"type": "custom-title", "customTitle": title, "sessionId": id}))
}

/// Returns the entry that sets or removes the tag of a session.
pub(super) fn tag_entry(id: &str, tag: Option<&str>) -> Result<Value, Error> {
    // The CLI filters by visible text.
    let visible = |tag: &str| tag.chars().filter(|letter| !letter.is_control()).collect::<String>();
    let text = tag.map(|tag| visible(tag).trim().to_owned());
    if text.as_deref() == Some("") {
        return Err(Error::Transcript { reason: "expected a tag, got a blank text".to_owned() });
    }
    Ok(json!({"type": "tag", "tag": text.unwrap_or_default(), "sessionId": id}))
}

/// Copies a main transcript, optionally only up to a message, and returns the ID and the entries of the copy. Messages get
/// new IDs, because stores may identify entries by them.
pub(super) fn fork(
    entries: Vec<Value>,
    session: &str,
    up_to: Option<&str>,
) -> Result<(String, Vec<Value>), Error> {
    let failed = |reason: String| Error::Transcript { reason };
    let mut summary = SessionSummary::default();
    summary.add(&entries);
    let (mut chain, mut replacements) = (Vec::new(), Vec::new());
    for mut entry in entries {
        if entry["uuid"].is_string() && entry["isSidechain"] != true {
            chain.push(entry);
        } else if entry["type"] == "content-replacement" && entry["sessionId"] == session {
            replacements.extend(entry["replacements"].take().as_array().cloned().unwrap_or_default());
        }
    }
    if let Some(last) = up_to {
        let at = chain.iter().position(|entry| entry["uuid"] == last);
        let at = at.ok_or_else(|| failed(format!("no such message in session {session}: `{last}`")))?;
        chain.truncate(at + 1);
    }
    // Entries of this type only report progress; their parent takes their place.
    let skipped: HashMap<String, Value> = chain
        .iter()
        .filter(|entry| entry["type"] == "progress")
        .filter_map(|entry| Some((entry["uuid"].as_str()?.to_owned(), entry["parentUuid"].clone())))
        .collect();
    chain.retain(|entry| entry["type"] != "progress");
    if chain.is_empty() {
        return Err(failed(format!("no messages in session {session}")));
    }
    let new_id = || uuid::Uuid::new_v4().to_string();
    let ids: HashMap<String, String> =
        chain.iter().filter_map(|entry| Some((entry["uuid"].as_str()?.to_owned(), new_id()))).collect();
    let renamed = |old: &Value| {
        let mut old = old;
        // A chain of progress entries is finite, unless the transcript is broken.
        for _ in 0..=skipped.len() {
            match old.as_str().and_then(|id| skipped.get(id)) {
                Some(parent) => old = parent,
                None => break,
            }
        }
        old.as_str().and_then(|id| ids.get(id)).map_or(Value::Null, |id| json!(id))
    };
    let copy = new_id();
    let mut copied = Vec::with_capacity(chain.len() + 2);
    for mut entry in chain {
        let Some(fields) = entry.as_object_mut() else { continue };
        let original = fields.get("uuid").cloned().unwrap_or_default();
        for key in ["uuid", "parentUuid", "logicalParentUuid"] {
            if let Some(old) = fields.get_mut(key) {
                *old = renamed(old);
            }
        }
        OWN_FIELDS.iter().for_each(|key| drop(fields.remove(*key)));
        fields.insert("sessionId".to_owned(), json!(copy));
        fields.insert("forkedFrom".to_owned(), json!({"sessionId": session, "messageUuid": original}));
        copied.push(entry);
    }
    if !replacements.is_empty() {
        copied.push(json!({"type": "content-replacement", "sessionId": copy, "uuid": new_id(),
            "replacements": replacements}));
    }
    let title = summary.title().or(summary.first_prompt.as_ref()).map_or("Forked session", String::as_str);
    copied.push(title_entry(&copy, &format!("{title} (fork)"))?);
    Ok((copy, copied))
}

/// Selects the branch that ends with the last shown message. Blocks of one response and its tool results are siblings in
/// the file; all of them are included.
fn branch_of(
    entries: Vec<TranscriptEntry>,
    shown: impl Fn(&TranscriptEntry) -> bool,
) -> Vec<TranscriptEntry> {
    let Some(mut at) = entries.iter().rev().find(|entry| shown(entry)).map(|leaf| leaf.uuid.clone()) else {
        return Vec::new();
    };
    let mut kept: HashSet<String> = HashSet::new();
    while kept.insert(at.clone()) {
        let parent =
            entries.iter().find(|entry| entry.uuid == at).and_then(|entry| entry.parent_uuid.clone());
        match parent {
            Some(parent) => at = parent,
            None => break,
        }
    }
    let of_kept = |kept: &HashSet<String>, entry: &TranscriptEntry| kept.contains(&entry.uuid);
    let answers: HashSet<String> = entries
        .iter()
        .filter(|entry| of_kept(&kept, entry))
        .filter_map(TranscriptEntry::response_id)
        .collect();
    for entry in &entries {
        if entry.response_id().is_some_and(|id| answers.contains(&id)) {
            kept.insert(entry.uuid.clone());
        }
    }
    for entry in &entries {
        if entry.has_tool_result() && entry.parent_uuid.as_ref().is_some_and(|parent| kept.contains(parent)) {
            kept.insert(entry.uuid.clone());
        }
    }
    entries.into_iter().filter(|entry| of_kept(&kept, entry)).collect()
}
