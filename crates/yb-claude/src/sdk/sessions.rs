//! Lists, reads, forks, renames, tags and deletes Claude Code's saved sessions without starting the CLI.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Error;
use super::transcript::{self, SessionInfo, SessionSummary, TranscriptEntry};
use crate::{Message, RawJson, env_vars};

/// Longer project directory names are truncated to this length, followed by a hash.
const NAME_LIMIT: usize = 200;
/// The sessions below a configuration directory. All methods do blocking file I/O.
#[derive(Debug, Clone)]
#[must_use]
pub struct Sessions {
    root: PathBuf,
    /// The names of the selected projects; all if empty.
    projects: Vec<String>,
}

pub(super) fn failed(path: &Path) -> impl Fn(io::Error) -> Error {
    move |error| Error::Transcript { reason: format!("{}: {error}", path.display()) }
}

impl Sessions {
    /// Uses the sessions below a configuration directory, usually `~/.claude`.
    pub fn in_config_dir(directory: impl AsRef<Path>) -> Self {
        Self { root: directory.as_ref().join("projects"), projects: Vec::new() }
    }

    /// Uses the configuration directory from the environment; `None` without a home directory.
    pub fn from_env() -> Option<Self> {
        let config = std::env::var_os(env_vars::CLAUDE_CONFIG_DIR).map(PathBuf::from);
        let home = std::env::var_os(env_vars::HOME).map(|home| PathBuf::from(home).join(".claude"));
        config.or(home).map(Self::in_config_dir)
    }

    /// Restricts to sessions with this working directory; several calls select several directories.
    pub fn with_project(mut self, directory: impl AsRef<Path>) -> Self {
        self.projects.push(project_key(directory.as_ref()));
        self
    }

    /// Restricts to sessions with this working directory, or with another working tree of the same Git repository.
    pub fn with_worktrees(self, directory: impl AsRef<Path>) -> Self {
        let directory = directory.as_ref();
        worktrees(directory).iter().fold(self.with_project(directory), Self::with_project)
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
        Ok(transcript::messages(&lines(&path).map_err(failed(&path))?))
    }

    /// Copies a session, optionally only up to a message, and returns the ID of the copy, which can be resumed. Its title is
    /// that of the original with ` (fork)`.
    ///
    /// # Errors
    /// If the session or the message does not exist, or the copy can't be written.
    pub fn fork(&self, id: &str, up_to: Option<&str>) -> Result<String, Error> {
        let path = self.find(id)?;
        let (copy, entries) = transcript::fork(values(&path)?, id, up_to)?;
        let target = path.with_file_name(format!("{copy}.jsonl"));
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&target).map_err(failed(&target))?;
        let lines: String = entries.iter().map(line).collect();
        file.write_all(lines.as_bytes()).map_err(failed(&target))?;
        Ok(copy)
    }

    /// Sets the title of a session.
    ///
    /// # Errors
    /// If the title is blank, or the session does not exist or can't be written.
    pub fn rename(&self, id: &str, title: &str) -> Result<(), Error> {
        self.append(id, &transcript::title_entry(id, title)?)
    }

    /// Sets the tag of a session; `None` removes it.
    ///
    /// # Errors
    /// If the tag is blank, or the session does not exist or can't be written.
    pub fn tag(&self, id: &str, tag: Option<&str>) -> Result<(), Error> {
        self.append(id, &transcript::tag_entry(id, tag)?)
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
        Ok(transcript::subagent_messages(&lines(&path).map_err(failed(&path))?))
    }

    /// The transcripts of subagents, also those in subdirectories, such as of a workflow.
    pub(super) fn subagent_files(&self, id: &str) -> Result<Vec<(String, PathBuf)>, Error> {
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

    /// Appends an entry to a transcript.
    fn append(&self, id: &str, entry: &Value) -> Result<(), Error> {
        let path = self.find(id)?;
        let mut file = fs::OpenOptions::new().append(true).open(&path).map_err(failed(&path))?;
        // One write, because the CLI may append too.
        file.write_all(line(entry).as_bytes()).map_err(failed(&path))
    }

    pub(super) fn find(&self, id: &str) -> Result<PathBuf, Error> {
        let found =
            self.transcripts()?.into_iter().find(|path| path.file_stem().is_some_and(|stem| stem == id));
        found.ok_or_else(|| Error::Transcript { reason: format!("no such session: `{id}`") })
    }

    fn transcripts(&self) -> Result<Vec<PathBuf>, Error> {
        let mut transcripts = Vec::new();
        for project in read_dir(&self.root)? {
            let name = project.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if self.projects.is_empty() || self.projects.iter().any(|wanted| is_project(&name, wanted)) {
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

/// Returns the working trees of the Git repository that a directory is in, by the files of Git.
fn worktrees(directory: &Path) -> Vec<PathBuf> {
    let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let Some(tree) = directory.ancestors().find(|path| path.join(".git").exists()) else { return Vec::new() };
    let read = |path: &Path| fs::read_to_string(path).map(|text| text.trim().to_owned());
    let own = tree.join(".git");
    // In a linked working tree `.git` is a file that names its directory, which names the common one.
    let common = match read(&own).ok().as_deref().and_then(|text| text.strip_prefix("gitdir: ")) {
        None => own,
        Some(linked) => {
            let linked = tree.join(linked);
            match read(&linked.join("commondir")) {
                Ok(common) => linked.join(common),
                Err(_) => linked,
            }
        }
    };
    let common = fs::canonicalize(&common).unwrap_or(common);
    let linked = read_dir(&common.join("worktrees")).unwrap_or_default();
    let linked = linked.iter().filter_map(|path| read(&path.join("gitdir")).ok()).map(PathBuf::from);
    let main = Some(common).filter(|common| common.ends_with(".git"));
    main.into_iter().chain(linked).filter_map(|git| Some(git.parent()?.to_owned())).collect()
}

/// Summarizes a transcript; `None` if it has no user messages.
fn info(path: &Path) -> io::Result<Option<SessionInfo>> {
    let metadata = fs::metadata(path)?;
    let mut summary = SessionSummary::default();
    lines(path)?.iter().for_each(|line| summary.add_line(line));
    let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let info = summary.into_info(id, metadata.modified()?);
    Ok(info.map(|info| SessionInfo { path: Some(path.to_owned()), bytes: Some(metadata.len()), ..info }))
}

/// Returns the entry as a line. Its type comes first: official SDKs search for lines by their beginning.
fn line(entry: &Value) -> String {
    let mut rest = entry.as_object().cloned().unwrap_or_default();
    match rest.remove("type") {
        Some(kind) if !rest.is_empty() => {
            let rest = Value::Object(rest).to_string();
            format!("{{\"type\":{kind},{}\n", rest.trim_start_matches('{'))
        }
        _ => format!("{entry}\n"),
    }
}

/// Returns the entries of a transcript.
pub(super) fn values(path: &Path) -> Result<Vec<Value>, Error> {
    let lines = lines(path).map_err(failed(path))?;
    Ok(lines.iter().filter_map(|line| line.to_value().ok()).collect())
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
