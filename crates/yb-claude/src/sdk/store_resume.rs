//! Resumes a session from a store: writes its transcripts to a private configuration directory for the CLI.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::sessions::project_key;
use super::store::{SessionKey, SessionStore, StoreError};
use super::{Error, Host};
use crate::hermetic::create_private_dir;
use crate::{EnvChange, Options, Session, env_vars as vars};

/// Settings that would install plugins into the private directory.
const PLUGIN_SETTINGS: [&str; 2] = ["enabledPlugins", "extraKnownMarketplaces"];

/// Adds the options of a session with a store. If the store has the session that is to be resumed, the CLI gets a
/// configuration directory below `private` with its transcripts.
pub(super) async fn prepare(host: &Host, store: &dyn SessionStore, private: &Path) -> Result<Options, Error> {
    let timeout = host.store_timeout;
    let mut options = host.options.clone().with_extra_flag("session-mirror");
    let cwd = match &options.cwd {
        Some(cwd) => cwd.clone(),
        None => std::env::current_dir().map_err(Error::spawn)?,
    };
    let project = project_key(&cwd);
    let Some((session, entries)) = find(&options.session, store, &project, timeout).await? else {
        return Ok(options);
    };
    let config = private.join("config");
    let directory = config.join("projects").join(&project);
    write_lines(&directory.join(format!("{session}.jsonl")), &entries).map_err(Error::spawn)?;
    let key = SessionKey::new(&project, &session);
    for subpath in call(store.list_subpaths(&key), "list_subpaths", timeout).await? {
        if !is_plain_path(&subpath) {
            tracing::warn!(subpath, "the session store returned an invalid subpath");
            continue;
        }
        let sub_key = key.clone().with_subpath(&subpath);
        let Some(entries) = call(store.load(&sub_key), "load", timeout).await? else { continue };
        write_subagent(&directory.join(&session).join(&subpath), entries).map_err(Error::spawn)?;
    }
    copy_login(host, &config).map_err(Error::spawn)?;
    options.session = match options.session {
        Session::Fork { id, .. } => Session::Fork { of: Some(session), id },
        _ => Session::Resume(session),
    };
    Ok(options.with_env(vars::CLAUDE_CONFIG_DIR, config))
}

/// Returns the session to resume and its transcript; `None` if the store does not have it.
async fn find(
    session: &Session,
    store: &dyn SessionStore,
    project: &str,
    timeout: Duration,
) -> Result<Option<(String, Vec<Value>)>, Error> {
    let candidates = match session {
        Session::New | Session::WithId(_) => return Ok(None),
        Session::Resume(id) | Session::Fork { of: Some(id), .. } => vec![id.clone()],
        Session::Continue | Session::Fork { of: None, .. } => {
            let mut all = call(store.list_sessions(project), "list_sessions", timeout).await?;
            all.sort_by_key(|session| std::cmp::Reverse(session.modified));
            all.into_iter().map(|session| session.id).collect()
        }
    };
    for id in candidates {
        // An ID is a file name.
        if uuid::Uuid::try_parse(&id).is_err() {
            continue;
        }
        let entries = call(store.load(&SessionKey::new(project, &id)), "load", timeout).await?;
        let entries = entries.unwrap_or_default();
        let of_subagent = entries.first().is_some_and(|entry| entry["isSidechain"] == true);
        if !entries.is_empty() && !of_subagent {
            return Ok(Some((id, entries)));
        }
    }
    Ok(None)
}

/// Calls a store, and converts its error.
pub(super) async fn call<T>(
    call: impl Future<Output = Result<T, StoreError>>,
    name: &str,
    timeout: Duration,
) -> Result<T, Error> {
    let failed = |reason: String| Error::Transcript { reason: format!("session store: `{name}`: {reason}") };
    match tokio::time::timeout(timeout, call).await {
        Ok(result) => result.map_err(|error| failed(error.to_string())),
        Err(_) => Err(failed(format!("no response within {timeout:?}"))),
    }
}

/// Whether a subpath stays below the directory of its session.
fn is_plain_path(subpath: &str) -> bool {
    !subpath.contains(['\\', ':', '\0'])
        && subpath.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

fn write_lines(path: &Path, entries: &[Value]) -> io::Result<()> {
    let lines: String = entries.iter().map(|entry| format!("{entry}\n")).collect();
    write(path, lines.as_bytes())
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    path.parent().map_or(Ok(()), create_private_dir)?;
    std::fs::write(path, bytes)
}

/// Writes the transcript of a subagent. Its description, an entry of its own, is a separate file.
fn write_subagent(path: &Path, entries: Vec<Value>) -> io::Result<()> {
    let (descriptions, lines): (Vec<Value>, Vec<Value>) =
        entries.into_iter().partition(|entry| entry["type"] == "agent_metadata");
    let with_suffix = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    if !lines.is_empty() {
        write_lines(&with_suffix(".jsonl"), &lines)?;
    }
    if let Some(Value::Object(mut description)) = descriptions.into_iter().next_back() {
        description.remove("type");
        write(&with_suffix(".meta.json"), Value::Object(description).to_string().as_bytes())?;
    }
    Ok(())
}

/// Copies login and settings, which are in the configuration directory too.
fn copy_login(host: &Host, config: &Path) -> io::Result<()> {
    let own = match host.options.env.get(std::ffi::OsStr::new(vars::CLAUDE_CONFIG_DIR)) {
        Some(EnvChange::Set(directory)) => Some(PathBuf::from(directory)),
        Some(EnvChange::Remove) => None,
        None => host.transport.variable(vars::CLAUDE_CONFIG_DIR).map(PathBuf::from),
    };
    let home = host.transport.variable(vars::HOME).map(PathBuf::from);
    let (directory, global) = match (own, home) {
        (Some(own), _) => (own.clone(), own.join(".claude.json")),
        (None, Some(home)) => (home.join(".claude"), home.join(".claude.json")),
        (None, None) => return Ok(()),
    };
    // The CLI would use up the refresh token, and the new one would be deleted with the directory.
    copy_json(&directory.join(".credentials.json"), &config.join(".credentials.json"), |credentials| {
        if let Some(Value::Object(login)) = credentials.get_mut("claudeAiOauth") {
            login.remove("refreshToken");
        }
    })?;
    copy_json(&directory.join("settings.json"), &config.join("settings.json"), |settings| {
        PLUGIN_SETTINGS.iter().for_each(|key| drop(settings.remove(*key)));
        if let Some(Value::Object(env)) = settings.get_mut("env") {
            env.remove(vars::CLAUDE_CONFIG_DIR);
        }
    })?;
    copy_json(&global, &config.join(".claude.json"), |_| {})
}

/// Copies a changed JSON object; a file that is missing or has another content is skipped.
fn copy_json(from: &Path, to: &Path, change: impl Fn(&mut serde_json::Map<String, Value>)) -> io::Result<()> {
    let Ok(bytes) = std::fs::read(from) else { return Ok(()) };
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes);
    let Ok(Value::Object(mut content)) = serde_json::from_slice(bytes) else { return Ok(()) };
    change(&mut content);
    write(to, Value::Object(content).to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subpaths_stay_below_their_session() {
        assert!(is_plain_path("subagents/agent-1"));
        for bad in ["", "/x", "../x", "a/../b", "a//b", "a/./b", r"a\b", "c:x", "x\0"] {
            assert!(!is_plain_path(bad), "{bad:?}");
        }
    }
}
