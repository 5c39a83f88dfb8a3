//! Lists, reads, forks, renames, tags and deletes sessions in a session store.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::Error;
use super::sessions::{Sessions, failed, project_key, values};
use super::store::{SessionKey, SessionStore};
use super::store_resume::call;
use super::transcript::{self, SessionInfo, SessionSummary, TranscriptEntry};

/// The timeout of a call of the store.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Entries that are appended at once.
const BATCH: usize = 500;

/// The sessions of one project in a [`SessionStore`]: the same operations as [`Sessions`] has for files.
#[derive(Debug, Clone)]
#[must_use]
pub struct StoredSessions<S> {
    store: S,
    project: String,
}

impl<S: SessionStore> StoredSessions<S> {
    /// Uses the sessions with this working directory.
    pub fn new(store: S, directory: impl AsRef<Path>) -> Self {
        Self { store, project: project_key(directory.as_ref()) }
    }

    /// Lists the sessions, latest first. A session is loaded only if the store has no current summary of it.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn list(&self) -> Result<Vec<SessionInfo>, Error> {
        let summaries = call(self.store.list_summaries(&self.project), "list_summaries", TIMEOUT).await?;
        let mut summaries: HashMap<String, (SystemTime, SessionSummary)> =
            summaries.into_iter().map(|kept| (kept.id, (kept.modified, kept.summary))).collect();
        let mut sessions = Vec::new();
        for session in call(self.store.list_sessions(&self.project), "list_sessions", TIMEOUT).await? {
            let summary = match summaries.remove(&session.id) {
                Some((modified, summary)) if modified >= session.modified => summary,
                _ => summary(&self.load(&self.key(&session.id)).await?.unwrap_or_default()),
            };
            sessions.extend(summary.into_info(session.id, session.modified));
        }
        sessions.sort_by(|one, other| other.modified.cmp(&one.modified).then_with(|| one.id.cmp(&other.id)));
        Ok(sessions)
    }

    /// Returns the summary of a session.
    ///
    /// # Errors
    /// If the session does not exist or the store fails.
    pub async fn info(&self, id: &str) -> Result<SessionInfo, Error> {
        let sessions = call(self.store.list_sessions(&self.project), "list_sessions", TIMEOUT).await?;
        let listed = sessions.into_iter().find(|session| session.id == id);
        let modified = listed.map_or(SystemTime::UNIX_EPOCH, |session| session.modified);
        let info = summary(&self.entries(id).await?).into_info(id.to_owned(), modified);
        info.ok_or_else(|| Error::Transcript { reason: format!("no messages in session {id}") })
    }

    /// Returns the messages of a session in order: the latest branch with all its tool results.
    ///
    /// # Errors
    /// If the session does not exist or the store fails.
    pub async fn messages(&self, id: &str) -> Result<Vec<TranscriptEntry>, Error> {
        Ok(transcript::messages(&transcript::raw_entries(&self.entries(id).await?)))
    }

    /// Lists the IDs of a session's subagents.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn subagents(&self, id: &str) -> Result<Vec<String>, Error> {
        let mut agents: Vec<String> =
            self.subagent_paths(id).await?.into_iter().map(|(agent, _)| agent).collect();
        agents.sort();
        agents.dedup();
        Ok(agents)
    }

    /// Returns the messages of a subagent in order.
    ///
    /// # Errors
    /// If the session or the subagent does not exist or the store fails.
    pub async fn subagent_messages(&self, id: &str, agent: &str) -> Result<Vec<TranscriptEntry>, Error> {
        let missing = || Error::Transcript { reason: format!("no such subagent in session {id}: `{agent}`") };
        let found = self.subagent_paths(id).await?.into_iter().find(|(known, _)| known == agent);
        let (_, subpath) = found.ok_or_else(missing)?;
        let entries = self.load(&self.key(id).with_subpath(subpath)).await?.ok_or_else(missing)?;
        Ok(transcript::subagent_messages(&transcript::raw_entries(&entries)))
    }

    /// Copies a session within the store, optionally only up to a message, and returns the ID of the copy. Its title is that
    /// of the original with ` (fork)`.
    ///
    /// # Errors
    /// If the session or the message does not exist or the store fails.
    pub async fn fork(&self, id: &str, up_to: Option<&str>) -> Result<String, Error> {
        let (copy, entries) = transcript::fork(self.entries(id).await?, id, up_to)?;
        append(&self.store, &self.key(&copy), &entries).await?;
        Ok(copy)
    }

    /// Sets the title of a session.
    ///
    /// # Errors
    /// If the title is blank, the session does not exist or the store fails.
    pub async fn rename(&self, id: &str, title: &str) -> Result<(), Error> {
        self.add(id, transcript::title_entry(id, title)?).await
    }

    /// Sets the tag of a session; `None` removes it.
    ///
    /// # Errors
    /// If the tag is blank, the session does not exist or the store fails.
    pub async fn tag(&self, id: &str, tag: Option<&str>) -> Result<(), Error> {
        self.add(id, transcript::tag_entry(id, tag)?).await
    }

    /// Deletes a session and the transcripts of its subagents.
    ///
    /// # Errors
    /// If the session does not exist, or the store fails or does not delete.
    pub async fn delete(&self, id: &str) -> Result<(), Error> {
        self.entries(id).await?;
        call(self.store.delete(&self.key(id)), "delete", TIMEOUT).await
    }

    fn key(&self, id: &str) -> SessionKey {
        SessionKey::new(&self.project, id)
    }

    async fn load(&self, key: &SessionKey) -> Result<Option<Vec<Value>>, Error> {
        call(self.store.load(key), "load", TIMEOUT).await
    }

    /// Returns the entries of the main transcript.
    async fn entries(&self, id: &str) -> Result<Vec<Value>, Error> {
        let entries = self.load(&self.key(id)).await?.filter(|entries| !entries.is_empty());
        entries.ok_or_else(|| Error::Transcript { reason: format!("no such session: `{id}`") })
    }

    /// Appends an entry to the main transcript of a session that exists. It has an ID, by which stores recognize repeated entries.
    async fn add(&self, id: &str, mut entry: Value) -> Result<(), Error> {
        self.entries(id).await?;
        entry["uuid"] = Value::String(uuid::Uuid::new_v4().to_string());
        append(&self.store, &self.key(id), &[entry]).await
    }

    /// Returns the subagents with their subpaths, also those of workflows.
    async fn subagent_paths(&self, id: &str) -> Result<Vec<(String, String)>, Error> {
        let subpaths = call(self.store.list_subpaths(&self.key(id)), "list_subpaths", TIMEOUT).await?;
        let agent = |subpath: String| {
            let name = subpath.strip_prefix("subagents/")?.rsplit('/').next()?;
            Some((name.strip_prefix("agent-")?.to_owned(), subpath))
        };
        Ok(subpaths.into_iter().filter_map(agent).collect())
    }
}

impl Sessions {
    /// Copies a session with the transcripts of its subagents to a store, from which it can be resumed. Entries that the store
    /// already has are repeated. Reads files as the other methods do, blocking.
    ///
    /// # Errors
    /// If the session does not exist or can't be read, or the store fails.
    pub async fn copy_to_store(&self, id: &str, store: &impl SessionStore) -> Result<(), Error> {
        let path = self.find(id)?;
        // The key is that of the mirror: the name of the directory that the CLI chose.
        let project = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let key = SessionKey::new(project, id);
        append(store, &key, &values(&path)?).await?;
        let session = path.with_extension("");
        for (_, path) in self.subagent_files(id)? {
            let below = path.strip_prefix(&session).unwrap_or(&path).with_extension("");
            let parts: Vec<_> = below.components().map(|part| part.as_os_str().to_string_lossy()).collect();
            let key = key.clone().with_subpath(parts.join("/"));
            let mut entries = values(&path)?;
            // The description of a subagent is a separate file, and an entry in a store.
            let description = path.with_extension("meta.json");
            match std::fs::read(&description).map(|bytes| serde_json::from_slice(&bytes)) {
                Ok(Ok(Value::Object(mut fields))) => {
                    fields.insert("type".to_owned(), Value::from("agent_metadata"));
                    entries.push(Value::Object(fields));
                }
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(failed(&description)(error));
                }
                _ => {}
            }
            append(store, &key, &entries).await?;
        }
        Ok(())
    }
}

fn summary(entries: &[Value]) -> SessionSummary {
    let mut summary = SessionSummary::default();
    summary.add(entries);
    summary
}

async fn append(store: &dyn SessionStore, key: &SessionKey, entries: &[Value]) -> Result<(), Error> {
    for batch in entries.chunks(BATCH) {
        call(store.append(key, batch), "append", TIMEOUT).await?;
    }
    Ok(())
}
