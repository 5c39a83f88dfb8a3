//! Lists, reads, forks, renames, tags and deletes Claude Code's saved sessions without starting the CLI.

use std::collections::HashSet;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Value, json};

use super::Error;
use crate::frame::lenient::{from_raw, lenient_struct};
use crate::{Message, RawJson, env_vars};

/// Longer project directory names are truncated to this length, followed by a hash.
const NAME_LIMIT: usize = 200;
/// Prefixes of prompts that were written by the CLI.
const SYNTHETIC_PREFIXES: [&str; 4] =
    ["<", "[Request interrupted", "Caveat:", "This session is being continued"];

/// The sessions below a configuration directory. All methods do blocking file I/O.
#[derive(Debug, Clone)]
#[must_use]
pub struct Sessions {
    projects: PathBuf,
    project: Option<String>,
}

/// A summary of a session.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SessionInfo {
    /// The session ID, for resuming it.
    pub id: String,
    /// The path of the transcript.
    pub path: PathBuf,
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
    /// The size of the transcript in bytes.
    pub bytes: u64,
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

fn failed(path: &Path) -> impl Fn(io::Error) -> Error {
    move |error| Error::Transcript { reason: format!("{}: {error}", path.display()) }
}

impl Sessions {
    /// Uses the sessions below a configuration directory, usually `~/.claude`.
    pub fn in_config_dir(directory: impl AsRef<Path>) -> Self {
        Self { projects: directory.as_ref().join("projects"), project: None }
    }

    /// Uses the configuration directory from the environment; `None` without a home directory.
    pub fn from_env() -> Option<Self> {
        let config = std::env::var_os(env_vars::CLAUDE_CONFIG_DIR).map(PathBuf::from);
        let home = std::env::var_os(env_vars::HOME).map(|home| PathBuf::from(home).join(".claude"));
        config.or(home).map(Self::in_config_dir)
    }

    /// Restricts to sessions with this working directory.
    pub fn with_project(mut self, directory: impl AsRef<Path>) -> Self {
        self.project = Some(project_key(directory.as_ref()));
        self
    }

    /// Lists the sessions, latest first.
    ///
    /// # Errors
    /// If a directory can't be read. A missing directory means no sessions.
    pub fn list(&self) -> Result<Vec<SessionInfo>, Error> {
        let mut sessions = Vec::new();
        for path in self.transcripts()? {
            if let Some(info) = info(&path).map_err(failed(&path))? {
                sessions.push(info);
            }
        }
        sessions.sort_by(|one, other| other.modified.cmp(&one.modified).then_with(|| one.id.cmp(&other.id)));
        Ok(sessions)
    }

    /// Returns the summary of a session.
    ///
    /// # Errors
    /// If the session does not exist or can't be read.
    pub fn info(&self, id: &str) -> Result<SessionInfo, Error> {
        let path = self.find(id)?;
        let info = info(&path).map_err(failed(&path))?;
        info.ok_or_else(|| Error::Transcript { reason: format!("{}: no messages", path.display()) })
    }

    /// Returns the messages of a session in order: the latest branch with all its tool results.
    ///
    /// # Errors
    /// If the session does not exist or can't be read.
    pub fn messages(&self, id: &str) -> Result<Vec<TranscriptEntry>, Error> {
        let path = self.find(id)?;
        let entries = entries(&path).map_err(failed(&path))?;
        Ok(branch(entries).into_iter().filter(TranscriptEntry::is_shown).collect())
    }

    /// Copies a session, optionally only up to a message, and returns the ID of the copy, which can be resumed.
    ///
    /// # Errors
    /// If the session or the message does not exist, or the copy can't be written.
    pub fn fork(&self, id: &str, up_to: Option<&str>) -> Result<String, Error> {
        let path = self.find(id)?;
        let copy = uuid::Uuid::new_v4().to_string();
        let target = path.with_file_name(format!("{copy}.jsonl"));
        let (mut lines, mut found) = (Vec::new(), up_to.is_none());
        let file = fs::File::open(&path).map_err(failed(&path))?;
        for line in BufReader::new(file).lines() {
            let line = line.map_err(failed(&path))?;
            let Ok(mut entry) = serde_json::from_str::<Value>(&line) else { continue };
            if entry.get("sessionId").is_some() {
                entry["sessionId"] = json!(copy);
            }
            if let Some(uuid) = entry.get("uuid").cloned() {
                entry["forkedFrom"] = json!({"sessionId": id, "messageUuid": uuid});
            }
            let last = up_to.is_some() && entry["uuid"].as_str() == up_to;
            lines.push(entry.to_string());
            if last {
                found = true;
                break;
            }
        }
        if !found {
            let reason = format!("no such message in session {id}: `{}`", up_to.unwrap_or_default());
            return Err(Error::Transcript { reason });
        }
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&target).map_err(failed(&target))?;
        lines.push(String::new());
        file.write_all(lines.join("\n").as_bytes()).map_err(failed(&target))?;
        Ok(copy)
    }

    /// Sets the title of a session.
    ///
    /// # Errors
    /// If the title is blank, or the session does not exist or can't be written.
    pub fn rename(&self, id: &str, title: &str) -> Result<(), Error> {
        let title = title.trim();
        if title.is_empty() {
            return Err(Error::Transcript { reason: "expected a title, got a blank text".to_owned() });
        }
        self.append(id, "custom-title", "customTitle", title)
    }

    /// Sets the tag of a session; `None` removes it.
    ///
    /// # Errors
    /// If the tag is blank, or the session does not exist or can't be written.
    pub fn tag(&self, id: &str, tag: Option<&str>) -> Result<(), Error> {
        // The CLI filters by visible text.
        let visible = |tag: &str| tag.chars().filter(|letter| !letter.is_control()).collect::<String>();
        let text = tag.map(|tag| visible(tag).trim().to_owned());
        if text.as_deref() == Some("") {
            return Err(Error::Transcript { reason: "expected a tag, got a blank text".to_owned() });
        }
        self.append(id, "tag", "tag", &text.unwrap_or_default())
    }

    /// Deletes a session and the transcripts of its subagents.
    ///
    /// # Errors
    /// If the session does not exist or can't be deleted.
    pub fn delete(&self, id: &str) -> Result<(), Error> {
        let path = self.find(id)?;
        fs::remove_file(&path).map_err(failed(&path))?;
        let directory = path.with_extension("");
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&directory)(error)),
            _ => Ok(()),
        }
    }

    /// Lists the IDs of a session's subagents.
    ///
    /// # Errors
    /// If the session does not exist or can't be read.
    pub fn subagents(&self, id: &str) -> Result<Vec<String>, Error> {
        Ok(self.subagent_files(id)?.into_iter().map(|(agent, _)| agent).collect())
    }

    /// Returns the messages of a subagent in order.
    ///
    /// # Errors
    /// If the session or the subagent does not exist or can't be read.
    pub fn subagent_messages(&self, id: &str, agent: &str) -> Result<Vec<TranscriptEntry>, Error> {
        let found = self.subagent_files(id)?.into_iter().find(|(known, _)| known == agent);
        let (_, path) = found.ok_or_else(|| Error::Transcript {
            reason: format!("no such subagent in session {id}: `{agent}`"),
        })?;
        let entries = entries(&path).map_err(failed(&path))?;
        let shown =
            |entry: &TranscriptEntry| matches!(entry.kind.as_str(), "user" | "assistant") && !entry.is_meta;
        Ok(branch_of(entries, shown).into_iter().filter(shown).collect())
    }

    /// The transcripts of subagents, also those in subdirectories, such as of a workflow.
    fn subagent_files(&self, id: &str) -> Result<Vec<(String, PathBuf)>, Error> {
        let (mut files, mut directories) =
            (Vec::new(), vec![self.find(id)?.with_extension("").join("subagents")]);
        while let Some(directory) = directories.pop() {
            for path in read_dir(&directory)? {
                if path.is_dir() {
                    directories.push(path);
                    continue;
                }
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let agent = name.strip_prefix("agent-").and_then(|name| name.strip_suffix(".jsonl"));
                if let Some(agent) = agent {
                    files.push((agent.to_owned(), path.clone()));
                }
            }
        }
        files.sort();
        Ok(files)
    }

    /// Appends a line to a transcript. Its type comes first: official SDKs search for lines by their beginning.
    fn append(&self, id: &str, kind: &str, field: &str, text: &str) -> Result<(), Error> {
        let path = self.find(id)?;
        let (text, session) = (json!(text), json!(id));
        let entry = format!(r#"{{"type":"{kind}","{field}":{text},"sessionId":{session}}}"#);
        let mut file = fs::OpenOptions::new().append(true).open(&path).map_err(failed(&path))?;
        // One write, because the CLI may append too.
        file.write_all(format!("{entry}\n").as_bytes()).map_err(failed(&path))
    }

    fn find(&self, id: &str) -> Result<PathBuf, Error> {
        let found =
            self.transcripts()?.into_iter().find(|path| path.file_stem().is_some_and(|stem| stem == id));
        found.ok_or_else(|| Error::Transcript { reason: format!("no such session: `{id}`") })
    }

    fn transcripts(&self) -> Result<Vec<PathBuf>, Error> {
        let mut transcripts = Vec::new();
        for project in read_dir(&self.projects)? {
            let name = project.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if self.project.as_ref().is_none_or(|wanted| is_project(&name, wanted)) {
                let is_transcript = |path: &PathBuf| {
                    path.extension().is_some_and(|extension| extension == "jsonl")
                        && path
                            .file_stem()
                            .is_some_and(|stem| uuid::Uuid::try_parse(&stem.to_string_lossy()).is_ok())
                };
                transcripts.extend(read_dir(&project)?.into_iter().filter(is_transcript));
            }
        }
        Ok(transcripts)
    }
}

/// Returns the name of a project's directory: the path with other characters than letters and digits replaced.
pub(super) fn project_key(directory: &Path) -> String {
    let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let path = directory.to_string_lossy();
    // The CLI replaces UTF-16 code units.
    let replace = |unit: u16| char::from_u32(unit.into()).filter(char::is_ascii_alphanumeric).unwrap_or('-');
    let name: String = path.encode_utf16().map(replace).collect();
    match name.get(..NAME_LIMIT) {
        Some(begin) if name.len() > NAME_LIMIT => format!("{begin}-{}", path_hash(&path)),
        _ => name,
    }
}

/// The CLI's hash of a long path, in base 36.
fn path_hash(path: &str) -> String {
    let hash =
        path.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    let (mut rest, mut digits) = (hash.unsigned_abs(), Vec::new());
    loop {
        digits.extend(char::from_digit(rest % 36, 36));
        rest /= 36;
        if rest == 0 {
            break;
        }
    }
    digits.iter().rev().collect()
}

/// Whether a directory name belongs to a project. The hash of a long name depends on the CLI's version.
fn is_project(name: &str, wanted: &str) -> bool {
    match wanted.get(..NAME_LIMIT) {
        Some(begin) if wanted.len() > NAME_LIMIT => {
            name.strip_prefix(begin).is_some_and(|rest| rest.starts_with('-'))
        }
        _ => name == wanted,
    }
}

/// Lists a directory; empty if it does not exist.
fn read_dir(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(failed(path)(error)),
    };
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed(path))).collect()
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

/// Summarizes a transcript; `None` if it has no user messages.
fn info(path: &Path) -> io::Result<Option<SessionInfo>> {
    let metadata = fs::metadata(path)?;
    let mut info = SessionInfo {
        id: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        path: path.to_owned(),
        title: None,
        tag: None,
        first_prompt: None,
        cwd: None,
        git_branch: None,
        created_at: None,
        modified: metadata.modified()?,
        bytes: metadata.len(),
    };
    let (mut own_title, mut ai_title, mut has_prompt) = (None, None, false);
    for raw in lines(path)? {
        let Some(line) = from_raw::<TranscriptLine>(&raw) else { continue };
        own_title = line.custom_title.or(own_title);
        ai_title = line.ai_title.or(ai_title);
        if line.kind == "tag" {
            info.tag = line.tag.filter(|tag| !tag.is_empty());
        }
        info.cwd = info.cwd.or(line.cwd);
        info.git_branch = line.git_branch.filter(|branch| !branch.is_empty()).or(info.git_branch);
        info.created_at = info.created_at.or(line.timestamp);
        if line.kind == "user" && !line.is_sidechain {
            has_prompt = true;
            if info.first_prompt.is_none() {
                let entry: TranscriptEntry = from_raw(&raw).unwrap_or_default();
                let text = entry.text().split_whitespace().collect::<Vec<_>>().join(" ");
                let typed =
                    !entry.is_meta && !SYNTHETIC_PREFIXES.iter().any(|prefix| text.starts_with(prefix));
                info.first_prompt = Some(text).filter(|text| typed && !text.is_empty());
            }
        }
    }
    info.title = own_title.or(ai_title);
    Ok(has_prompt.then_some(info))
}

/// Returns the JSON lines of a transcript; the last line may be incomplete.
fn lines(path: &Path) -> io::Result<Vec<RawJson>> {
    let mut lines = Vec::new();
    for line in BufReader::new(fs::File::open(path)?).split(b'\n') {
        if let Ok(message) = Message::parse(&line?) {
            lines.push(message.raw().clone());
        }
    }
    Ok(lines)
}

fn entries(path: &Path) -> io::Result<Vec<TranscriptEntry>> {
    let entries = lines(path)?.iter().filter_map(from_raw::<TranscriptEntry>).collect::<Vec<_>>();
    Ok(entries.into_iter().filter(|entry| !entry.uuid.is_empty()).collect())
}

fn branch(entries: Vec<TranscriptEntry>) -> Vec<TranscriptEntry> {
    branch_of(entries, TranscriptEntry::is_shown)
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
