//! The sessions that Claude Code keeps on disk: listed, read and forked without starting it.

use std::collections::HashSet;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Value, json};

use super::Error;
use crate::frame::lax::{from_raw, lax_struct};
use crate::{Message, RawJson, env_vars};

/// Longer names of project directories are cut here, and a hash follows.
const NAME_LIMIT: usize = 200;
/// What a prompt begins with that the CLI wrote itself.
const NOT_TYPED: [&str; 4] = ["<", "[Request interrupted", "Caveat:", "This session is being continued"];

/// The transcripts below a configuration directory. Everything here reads files and blocks while it does.
#[derive(Debug, Clone)]
#[must_use]
pub struct Sessions {
    projects: PathBuf,
    project: Option<String>,
}

/// What a session is about.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SessionInfo {
    /// Its id, to resume it.
    pub id: String,
    /// Its transcript.
    pub path: PathBuf,
    /// The title that its user or the CLI gave it.
    pub title: Option<String>,
    /// The first thing that the user said.
    pub first_prompt: Option<String>,
    /// Where it worked.
    pub cwd: Option<String>,
    /// On which branch of git, at its end.
    pub git_branch: Option<String>,
    /// When it began, as the CLI wrote it.
    pub created_at: Option<String>,
    /// When something was last added.
    pub modified: SystemTime,
    /// How large its transcript is.
    pub bytes: u64,
}

lax_struct! {
    /// One entry of a transcript: what the user or the model said.
    pub struct TranscriptEntry {
        raw,
        /// `user` or `assistant`.
        kind: String = "type",
        /// Its own id.
        uuid: String = "uuid",
        /// What it follows.
        parent_uuid: Option<String> = "parentUuid",
        /// The session.
        session_id: String = "sessionId",
        /// When, as the CLI wrote it.
        timestamp: Option<String> = "timestamp",
        /// It belongs to a subagent.
        is_sidechain: bool = "isSidechain",
        /// The CLI added it for the model.
        is_meta: bool = "isMeta",
        /// The team it belongs to.
        team_name: Option<String> = "teamName",
        /// What was said, as the API knows it.
        message: RawJson = "message",
    }
}

impl TranscriptEntry {
    /// The same as a message of a stream; its ids are in other places there.
    #[must_use]
    pub fn to_message(&self) -> Option<Message> {
        Message::parse(self.raw.as_str().as_bytes()).ok()
    }

    /// What was said in words.
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

    /// The answer of the API that it is a part of.
    fn answer_id(&self) -> Option<String> {
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
    /// Those below a configuration directory, usually `~/.claude`.
    pub fn in_config_dir(directory: impl AsRef<Path>) -> Self {
        Self { projects: directory.as_ref().join("projects"), project: None }
    }

    /// Those of the user, as the environment says; none without a home.
    pub fn of_user() -> Option<Self> {
        let config = std::env::var_os(env_vars::CLAUDE_CONFIG_DIR).map(PathBuf::from);
        let home = std::env::var_os(env_vars::HOME).map(|home| PathBuf::from(home).join(".claude"));
        config.or(home).map(Self::in_config_dir)
    }

    /// Only those that worked in this directory.
    pub fn of_project(mut self, directory: impl AsRef<Path>) -> Self {
        let directory = directory.as_ref();
        let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
        let name = directory.to_string_lossy();
        self.project = Some(
            name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect(),
        );
        self
    }

    /// All of them, the latest first.
    ///
    /// # Errors
    /// When a directory can't be read; one that is not there holds no sessions.
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

    /// One of them.
    ///
    /// # Errors
    /// When it is not there or can't be read.
    pub fn info(&self, id: &str) -> Result<SessionInfo, Error> {
        let path = self.find(id)?;
        let info = info(&path).map_err(failed(&path))?;
        info.ok_or_else(|| Error::Transcript { reason: format!("{}: it holds no messages", path.display()) })
    }

    /// What was said in a session, in order: the branch that was last gone on with, and all that tools gave on it.
    ///
    /// # Errors
    /// When it is not there or can't be read.
    pub fn messages(&self, id: &str) -> Result<Vec<TranscriptEntry>, Error> {
        let path = self.find(id)?;
        let entries = entries(&path).map_err(failed(&path))?;
        Ok(branch(entries).into_iter().filter(TranscriptEntry::is_shown).collect())
    }

    /// Copies a session, up to a message if one is named, and gives the id of the copy, which can be resumed.
    ///
    /// # Errors
    /// When it is not there, has no such message, or the copy can't be written.
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
            let reason = format!("session {id} has no message `{}`", up_to.unwrap_or_default());
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

    fn find(&self, id: &str) -> Result<PathBuf, Error> {
        let found =
            self.transcripts()?.into_iter().find(|path| path.file_stem().is_some_and(|stem| stem == id));
        found.ok_or_else(|| Error::Transcript { reason: format!("there is no session {id}") })
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

/// Whether a directory is that of a project; the end of a long name is a hash.
fn is_project(name: &str, wanted: &str) -> bool {
    match wanted.get(..NAME_LIMIT) {
        Some(begin) if wanted.len() > NAME_LIMIT => {
            name.strip_prefix(begin).is_some_and(|rest| rest.starts_with('-'))
        }
        _ => name == wanted,
    }
}

/// What is in a directory; nothing, when it is none.
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

lax_struct! {
    /// What any line may say about its session.
    struct Facts {
        /// What kind of line.
        kind: String = "type",
        /// Where it worked.
        cwd: Option<String> = "cwd",
        /// On which branch.
        git_branch: Option<String> = "gitBranch",
        /// When.
        timestamp: Option<String> = "timestamp",
        /// A title that the user gave.
        custom_title: Option<String> = "customTitle",
        /// A title that the CLI gave.
        ai_title: Option<String> = "aiTitle",
        /// It belongs to a subagent.
        is_sidechain: bool = "isSidechain",
    }
}

/// What a transcript is about; nothing, when nobody said anything in it.
fn info(path: &Path) -> io::Result<Option<SessionInfo>> {
    let metadata = fs::metadata(path)?;
    let mut info = SessionInfo {
        id: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        path: path.to_owned(),
        title: None,
        first_prompt: None,
        cwd: None,
        git_branch: None,
        created_at: None,
        modified: metadata.modified()?,
        bytes: metadata.len(),
    };
    let (mut own_title, mut ai_title, mut spoken) = (None, None, false);
    for raw in lines(path)? {
        let Some(facts) = from_raw::<Facts>(&raw) else { continue };
        own_title = facts.custom_title.or(own_title);
        ai_title = facts.ai_title.or(ai_title);
        info.cwd = info.cwd.or(facts.cwd);
        info.git_branch = facts.git_branch.filter(|branch| !branch.is_empty()).or(info.git_branch);
        info.created_at = info.created_at.or(facts.timestamp);
        if facts.kind == "user" && !facts.is_sidechain {
            spoken = true;
            if info.first_prompt.is_none() {
                let entry: TranscriptEntry = from_raw(&raw).unwrap_or_default();
                let text = entry.text().split_whitespace().collect::<Vec<_>>().join(" ");
                let typed = !entry.is_meta && !NOT_TYPED.iter().any(|begin| text.starts_with(begin));
                info.first_prompt = Some(text).filter(|text| typed && !text.is_empty());
            }
        }
    }
    info.title = own_title.or(ai_title);
    Ok(spoken.then_some(info))
}

/// The lines of a transcript that are JSON; the last one may be half written.
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

/// The branch that ends with the last thing said. Parts of one answer, and what its tools gave, hang beside each other
/// in the file; they belong to it all.
fn branch(entries: Vec<TranscriptEntry>) -> Vec<TranscriptEntry> {
    let said = |entry: &&TranscriptEntry| entry.is_shown();
    let Some(mut at) = entries.iter().rev().find(said).map(|leaf| leaf.uuid.clone()) else {
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
    let answers: HashSet<String> =
        entries.iter().filter(|entry| of_kept(&kept, entry)).filter_map(TranscriptEntry::answer_id).collect();
    for entry in &entries {
        if entry.answer_id().is_some_and(|id| answers.contains(&id)) {
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
