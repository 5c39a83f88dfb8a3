//! Writes what was heard onto the tape, in a thread of its own, so that no answer waits for it.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

use hyper::header::HeaderMap;
use serde_json::Value;

use super::tee::Heard;
use crate::conversation::{Conversation, Nature};
use crate::error::Error;
use crate::format::record::{Exchange, Head, Request, Response};
use crate::format::reduce::{self, Keep, Store as _};
use crate::format::writer::Writer;
use crate::rewrite::{Pieces, rewrite};
use crate::seen;
use crate::swap::Swap;
use crate::usage::{self, Observed};

/// Headers of a request that say how the API was used, and nothing about who used it.
const REQUEST_HEADERS: [&str; 9] = [
    "accept",
    "anthropic-beta",
    "anthropic-version",
    "content-type",
    "openai-beta",
    "user-agent",
    "x-app",
    "x-claude-code-agent-id",
    "x-stainless-retry-count",
];
/// Headers of an answer that an agent acts upon.
const RESPONSE_HEADERS: [&str; 9] = [
    "cache-control",
    "content-encoding",
    "content-type",
    "request-id",
    "retry-after",
    "retry-after-ms",
    "x-request-id",
    "x-should-retry",
    "openai-model",
];
const RESPONSE_FAMILIES: [&str; 2] = ["anthropic-ratelimit-", "x-ratelimit-"];
/// Parts of a query that say how, and not who.
const QUERY: [&str; 3] = ["alt", "beta", "client_version"];

/// The thread that writes.
#[derive(Debug)]
pub(super) struct Scribe {
    state: Arc<Mutex<State>>,
    thread: Option<JoinHandle<Option<Writer>>>,
}

#[derive(Debug, Default)]
struct State {
    observed: Observed,
    failure: Option<(io::ErrorKind, String)>,
}

impl Scribe {
    pub(super) fn start(
        path: &Path,
        head: Head,
        keep: Keep,
        secrets: Swap,
        hears: mpsc::Receiver<Heard>,
    ) -> Result<Self, Error> {
        let failed = |source| Error::WriteTape { path: path.to_owned(), source };
        let mut writer = Writer::create(path, head).map_err(failed)?;
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let thread = thread::Builder::new().name("yb-tape-scribe".to_owned()).spawn(move || {
            for heard in hears {
                let metered = usage::meter(&heard.answer());
                let written = write(&mut writer, &heard, metered.as_ref(), keep, &secrets);
                let mut state = lock(&shared);
                state.observed.count(metered.as_ref());
                if let Err(error) = written {
                    // What is missing must not be followed by what is there.
                    state.failure = Some((error.kind(), error.to_string()));
                    return None;
                }
            }
            Some(writer)
        });
        let thread = thread.map_err(Error::Start)?;
        Ok(Self { state, thread: Some(thread) })
    }

    pub(super) fn observed(&self) -> Observed {
        lock(&self.state).observed.clone()
    }

    pub(super) fn failure(&self) -> Option<String> {
        lock(&self.state).failure.as_ref().map(|(_, text)| text.clone())
    }

    /// Waits for everything that was heard; whoever holds a sender keeps it waiting.
    pub(super) fn finish(&mut self, path: &Path) -> Result<Observed, Error> {
        let failed = |source| Error::WriteTape { path: path.to_owned(), source };
        let writer = self.thread.take().and_then(|thread| thread.join().ok()).flatten();
        match writer {
            Some(writer) => writer.finish().map_err(failed)?,
            None => {
                let failure = lock(&self.state).failure.take();
                let (kind, text) =
                    failure.unwrap_or_else(|| (io::ErrorKind::Other, "its thread ended".to_owned()));
                return Err(failed(io::Error::new(kind, text)));
            }
        }
        Ok(self.observed())
    }
}

impl Drop for Scribe {
    /// What was heard is on the tape, even if nobody finishes it.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write(
    writer: &mut Writer,
    heard: &Heard,
    metered: Option<&usage::Metered>,
    keep: Keep,
    secrets: &Swap,
) -> io::Result<()> {
    let body = reduce::reduce(&heard.body, keep, secrets, writer);
    let answer = heard.answer();
    let pieces: Pieces = heard
        .pieces
        .iter()
        .map(|(wait, piece)| {
            let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
            (micros, u64::try_from(piece.len()).unwrap_or(u64::MAX))
        })
        .collect();
    let (answer, pieces) = rewrite(&answer, &pieces, secrets).unwrap_or((answer, pieces));
    let headers = |found: Vec<(String, String)>, kept: &dyn Fn(&str) -> bool| -> Vec<(String, String)> {
        let found = found.into_iter().filter(|(name, _)| kept(name));
        found.map(|(name, value)| (name, secrets.text(&value).into_owned())).collect()
    };
    let request = Request {
        method: heard.method.clone(),
        path: secrets.text(&heard.path).into_owned(),
        query: query(&heard.query),
        headers: headers(seen::headers(&heard.headers), &|name| {
            keep == Keep::Everything || REQUEST_HEADERS.contains(&name)
        }),
        nature: nature(&heard.body, &heard.headers).to_owned(),
        body,
    };
    let response = Response {
        status: heard.status,
        headers: headers(seen::headers(&heard.response_headers), &|name| {
            RESPONSE_HEADERS.contains(&name)
                || RESPONSE_FAMILIES.iter().any(|family| name.starts_with(family))
        }),
        body: heard.status.map(|_| writer.put(&answer)),
        pieces,
        end: heard.end,
    };
    let (model, usage) = metered.map(|metered| (metered.model.clone(), metered.usage)).unzip();
    let at_ms = u64::try_from(heard.at.as_millis()).unwrap_or(u64::MAX);
    writer.append(Exchange { number: heard.number, at_ms, request, response, model, usage })
}

/// A query may hold a key.
fn query(query: &str) -> String {
    let parts = query.split('&').filter(|part| !part.is_empty()).map(|part| {
        let name = part.split('=').next().unwrap_or_default();
        if QUERY.contains(&name) { part.to_owned() } else { format!("{name}={}", seen::REDACTED) }
    });
    parts.collect::<Vec<_>>().join("&")
}

fn nature(body: &[u8], headers: &HeaderMap) -> &'static str {
    let Ok(body) = serde_json::from_slice::<Value>(body) else { return "" };
    match Conversation::of(&body, headers).map(|conversation| conversation.nature()) {
        Some(Nature::Subagent) => "subagent",
        Some(Nature::Side | Nature::MaybeSide) => "side",
        Some(Nature::Loop) => "loop",
        None => "",
    }
}
