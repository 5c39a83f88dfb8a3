//! Session stores: transcripts outside of the machine that runs the CLI.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use serde_json::Value;

use super::sessions::project_key;
use super::transcript::SessionSummary;

/// The error of a store, of any type.
pub type StoreError = Box<dyn std::error::Error + Send + Sync>;

/// The key of a transcript in a store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct SessionKey {
    /// The project: the working directory as a name, as in the CLI's `projects` directory.
    pub project: String,
    /// The session ID.
    pub session: String,
    /// The transcript of a subagent, such as `subagents/agent-ID`; `None` for the main transcript.
    pub subpath: Option<String>,
}

impl SessionKey {
    /// Creates the key of a session's main transcript.
    pub fn new(project: impl Into<String>, session: impl Into<String>) -> Self {
        Self { project: project.into(), session: session.into(), subpath: None }
    }

    /// Creates the key of the main transcript of a session with this working directory.
    pub fn in_directory(directory: impl AsRef<Path>, session: impl Into<String>) -> Self {
        Self::new(project_key(directory.as_ref()), session)
    }

    /// Sets the transcript of a subagent.
    #[must_use]
    pub fn with_subpath(mut self, subpath: impl Into<String>) -> Self {
        self.subpath = Some(subpath.into());
        self
    }

    /// Derives the key from `…/projects/PROJECT/SESSION.jsonl` or `…/projects/PROJECT/SESSION/SUBPATH.jsonl`.
    pub(super) fn from_transcript(path: &str) -> Option<Self> {
        let path = path.replace('\\', "/");
        let (_, below) = path.rsplit_once("/projects/")?;
        let below = below.strip_suffix(".jsonl")?;
        let (project, rest) = below.split_once('/')?;
        match rest.split_once('/') {
            None => Some(Self::new(project, rest)),
            Some((session, subpath)) => Some(Self::new(project, session).with_subpath(subpath)),
        }
    }
}

/// A session in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredSession {
    /// The session ID.
    pub id: String,
    /// The time of the last change.
    pub modified: SystemTime,
}

impl StoredSession {
    /// Creates an entry of a listing.
    pub fn new(id: impl Into<String>, modified: SystemTime) -> Self {
        Self { id: id.into(), modified }
    }
}

/// The summary of a session in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredSummary {
    /// The session ID.
    pub id: String,
    /// The time of the last change that the summary includes, by the clock of [`SessionStore::list_sessions`].
    pub modified: SystemTime,
    /// The summary of the main transcript.
    pub summary: SessionSummary,
}

impl StoredSummary {
    /// Creates a summary.
    pub fn new(id: impl Into<String>, modified: SystemTime, summary: SessionSummary) -> Self {
        Self { id: id.into(), modified, summary }
    }
}

/// When transcripts are copied to a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum StoreFlush {
    /// At the end of a turn, or when 500 entries or 1 MiB are pending.
    #[default]
    Batched,
    /// As soon as the CLI reports entries, for example to show a session elsewhere while it runs.
    Eager,
}

/// A store of transcripts, which a session is copied to and resumed from.
///
/// The CLI writes its transcript files in any case; the store gets a copy. Entries are lines of the transcript, opaque
/// JSON objects. The SDK deletes nothing on its own; [`StoredSessions`](super::StoredSessions) does on request.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Appends entries to a transcript. Calls for one session are never concurrent. A failed call is repeated twice, then
    /// reported as a `mirror_error` message; the session continues. Entries with a `uuid` may therefore be repeated.
    ///
    /// # Errors
    /// If the entries were not stored.
    async fn append(&self, key: &SessionKey, entries: &[Value]) -> Result<(), StoreError>;

    /// Returns the entries of a transcript in order; `None` if there is none.
    ///
    /// # Errors
    /// If the store can't be read; the session is not started then.
    async fn load(&self, key: &SessionKey) -> Result<Option<Vec<Value>>, StoreError>;

    /// Lists the sessions of a project, for listings and `Session::Continue`. By default none.
    ///
    /// # Errors
    /// If the store can't be read.
    async fn list_sessions(&self, project: &str) -> Result<Vec<StoredSession>, StoreError> {
        let _ = project;
        Ok(Vec::new())
    }

    /// Lists the subpaths of a session's subagents. By default none, so that only the main transcript is resumed.
    ///
    /// # Errors
    /// If the store can't be read.
    async fn list_subpaths(&self, key: &SessionKey) -> Result<Vec<String>, StoreError> {
        let _ = key;
        Ok(Vec::new())
    }

    /// Returns the summaries of a project's sessions that the store keeps with [`SessionSummary::add`], so that a listing
    /// need not load transcripts. A session whose summary is missing or older than the session is loaded. By default none.
    ///
    /// # Errors
    /// If the store can't be read.
    async fn list_summaries(&self, project: &str) -> Result<Vec<StoredSummary>, StoreError> {
        let _ = project;
        Ok(Vec::new())
    }

    /// Deletes a transcript; the main transcript of a session together with those of its subagents.
    ///
    /// # Errors
    /// If it was not deleted; always, by default.
    async fn delete(&self, key: &SessionKey) -> Result<(), StoreError> {
        let _ = key;
        Err("the store does not delete".into())
    }
}

#[async_trait]
impl<T: SessionStore + ?Sized> SessionStore for Arc<T> {
    async fn append(&self, key: &SessionKey, entries: &[Value]) -> Result<(), StoreError> {
        (**self).append(key, entries).await
    }

    async fn load(&self, key: &SessionKey) -> Result<Option<Vec<Value>>, StoreError> {
        (**self).load(key).await
    }

    async fn list_sessions(&self, project: &str) -> Result<Vec<StoredSession>, StoreError> {
        (**self).list_sessions(project).await
    }

    async fn list_subpaths(&self, key: &SessionKey) -> Result<Vec<String>, StoreError> {
        (**self).list_subpaths(key).await
    }

    async fn list_summaries(&self, project: &str) -> Result<Vec<StoredSummary>, StoreError> {
        (**self).list_summaries(project).await
    }

    async fn delete(&self, key: &SessionKey) -> Result<(), StoreError> {
        (**self).delete(key).await
    }
}

/// A transcript in memory.
#[derive(Debug)]
struct StoredTranscript {
    modified: SystemTime,
    entries: Vec<Value>,
    summary: SessionSummary,
}

type StoredTranscripts = BTreeMap<SessionKey, StoredTranscript>;

/// A store in memory, for tests. Clones share their content.
#[derive(Debug, Clone, Default)]
pub struct MemorySessionStore(Arc<Mutex<StoredTranscripts>>);

impl MemorySessionStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn all(&self) -> MutexGuard<'_, StoredTranscripts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the keys of all transcripts.
    #[must_use]
    pub fn keys(&self) -> Vec<SessionKey> {
        self.all().keys().cloned().collect()
    }
}

#[async_trait]
impl SessionStore for MemorySessionStore {
    async fn append(&self, key: &SessionKey, entries: &[Value]) -> Result<(), StoreError> {
        let mut all = self.all();
        let transcript = all.entry(key.clone()).or_insert_with(|| StoredTranscript {
            modified: SystemTime::UNIX_EPOCH,
            entries: Vec::new(),
            summary: SessionSummary::default(),
        });
        transcript.modified = SystemTime::now();
        transcript.entries.extend_from_slice(entries);
        transcript.summary.add(entries);
        Ok(())
    }

    async fn load(&self, key: &SessionKey) -> Result<Option<Vec<Value>>, StoreError> {
        Ok(self.all().get(key).map(|transcript| transcript.entries.clone()))
    }

    async fn list_sessions(&self, project: &str) -> Result<Vec<StoredSession>, StoreError> {
        let summaries = self.list_summaries(project).await?;
        Ok(summaries.into_iter().map(|kept| StoredSession::new(kept.id, kept.modified)).collect())
    }

    async fn list_subpaths(&self, key: &SessionKey) -> Result<Vec<String>, StoreError> {
        let all = self.all();
        let own = all.keys().filter(|known| known.project == key.project && known.session == key.session);
        Ok(own.filter_map(|known| known.subpath.clone()).collect())
    }

    async fn list_summaries(&self, project: &str) -> Result<Vec<StoredSummary>, StoreError> {
        let all = self.all();
        let main = all.iter().filter(|(key, _)| key.project == project && key.subpath.is_none());
        let summary = |(key, transcript): (&SessionKey, &StoredTranscript)| {
            StoredSummary::new(&key.session, transcript.modified, transcript.summary.clone())
        };
        Ok(main.map(summary).collect())
    }

    async fn delete(&self, key: &SessionKey) -> Result<(), StoreError> {
        self.all().retain(|known, _| {
            let of_session = known.project == key.project && known.session == key.session;
            !(of_session && (key.subpath.is_none() || known.subpath == key.subpath))
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_follow_transcript_paths() {
        let key = SessionKey::from_transcript;
        assert_eq!(key("/c/projects/-w/abc.jsonl"), Some(SessionKey::new("-w", "abc")));
        let agent = SessionKey::new("-w", "abc").with_subpath("subagents/agent-1");
        assert_eq!(key("/c/projects/-w/abc/subagents/agent-1.jsonl"), Some(agent.clone()));
        assert_eq!(key(r"C:\c\projects\-w\abc\subagents\agent-1.jsonl"), Some(agent));
        for other in ["/c/abc.jsonl", "/c/projects/abc.jsonl", "/c/projects/-w/abc.json", ""] {
            assert_eq!(key(other), None, "{other}");
        }
    }
}
