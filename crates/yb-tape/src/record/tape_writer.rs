//! Writes captured exchanges to the tape in a separate thread, so that responses are not delayed.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

use hyper::header::HeaderMap;
use serde_json::Value;

use super::tee::CapturedExchange;
use crate::conversation::{Conversation, RequestOrigin};
use crate::error::Error;
use crate::format::file::TapeFile;
use crate::format::record::{CaseRecord, ExchangeRecord, RequestRecord, ResponseRecord, TapeHeader};
use crate::format::reduce::{self, BlobStore as _, RequestRetention};
use crate::logged_request::{self, REDACTED};
use crate::replace::TextReplacer;
use crate::rewrite::{ChunkLayout, rewrite};
use crate::usage::{self, ObservedUsage, ResponseUsage};

/// Request headers without personal data.
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
/// Response headers that affect the behavior of agents.
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
const RESPONSE_HEADER_PREFIXES: [&str; 2] = ["anthropic-ratelimit-", "x-ratelimit-"];
/// Query parameters without personal data.
const QUERY_PARAMETERS: [&str; 3] = ["alt", "beta", "client_version"];

/// The thread that writes the tape.
#[derive(Debug)]
pub(super) struct TapeWriter {
    state: Arc<Mutex<WriterState>>,
    thread: Option<JoinHandle<Option<TapeFile>>>,
}

#[derive(Debug, Default)]
struct WriterState {
    observed: ObservedUsage,
    failure: Option<(io::ErrorKind, String)>,
}

impl TapeWriter {
    pub(super) fn start(
        path: &Path,
        header: TapeHeader,
        case: Option<CaseRecord>,
        retention: RequestRetention,
        secrets: TextReplacer,
        captured: mpsc::Receiver<CapturedExchange>,
    ) -> Result<Self, Error> {
        let failed = |source| Error::WriteTape { path: path.to_owned(), source };
        let mut tape = TapeFile::create(path, header).map_err(failed)?;
        if let Some(case) = case {
            tape.append_case(case).map_err(failed)?;
        }
        let state = Arc::new(Mutex::new(WriterState::default()));
        let shared = Arc::clone(&state);
        let thread = thread::Builder::new().name("yb-tape-writer".to_owned()).spawn(move || {
            for exchange in captured {
                let usage = usage::extract_usage(&exchange.response_body());
                let written = write(&mut tape, &exchange, usage.as_ref(), retention, &secrets);
                let mut state = lock(&shared);
                state.observed.count(usage.as_ref());
                if let Err(error) = written {
                    // Stop at the first error: a tape must not have gaps.
                    state.failure = Some((error.kind(), error.to_string()));
                    return None;
                }
            }
            Some(tape)
        });
        let thread = thread.map_err(Error::Start)?;
        Ok(Self { state, thread: Some(thread) })
    }

    pub(super) fn observed(&self) -> ObservedUsage {
        lock(&self.state).observed.clone()
    }

    pub(super) fn failure(&self) -> Option<String> {
        lock(&self.state).failure.as_ref().map(|(_, text)| text.clone())
    }

    /// Waits until all senders are dropped and all exchanges are written, then finishes the tape.
    pub(super) fn finish(&mut self, path: &Path) -> Result<ObservedUsage, Error> {
        let failed = |source| Error::WriteTape { path: path.to_owned(), source };
        let tape = self.thread.take().and_then(|thread| thread.join().ok()).flatten();
        match tape {
            Some(tape) => tape.finish().map_err(failed)?,
            None => {
                let failure = lock(&self.state).failure.take();
                let (kind, text) = failure
                    .unwrap_or_else(|| (io::ErrorKind::Other, "writer thread ended unexpectedly".to_owned()));
                return Err(failed(io::Error::new(kind, text)));
            }
        }
        Ok(self.observed())
    }
}

impl Drop for TapeWriter {
    /// Waits until all exchanges are written, even without `finish`.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(state: &Mutex<WriterState>) -> MutexGuard<'_, WriterState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write(
    tape: &mut TapeFile,
    captured: &CapturedExchange,
    usage: Option<&ResponseUsage>,
    retention: RequestRetention,
    secrets: &TextReplacer,
) -> io::Result<()> {
    let body = reduce::reduce(&captured.body, retention, secrets, tape);
    let response_body = captured.response_body();
    let chunks: ChunkLayout = captured
        .chunks
        .iter()
        .map(|(wait, chunk)| {
            let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
            (micros, u64::try_from(chunk.len()).unwrap_or(u64::MAX))
        })
        .collect();
    let (response_body, chunks) =
        rewrite(&response_body, &chunks, secrets).unwrap_or((response_body, chunks));
    let headers =
        |found: Vec<(String, String)>, is_recorded: &dyn Fn(&str) -> bool| -> Vec<(String, String)> {
            let found = found.into_iter().filter(|(name, _)| is_recorded(name));
            found.map(|(name, value)| (name, secrets.replace(&value).into_owned())).collect()
        };
    let request = RequestRecord {
        method: captured.method.clone(),
        path: secrets.replace(&captured.path).into_owned(),
        query: redact_query(&captured.query),
        headers: headers(logged_request::redacted_headers(&captured.headers), &|name| {
            retention == RequestRetention::Full || REQUEST_HEADERS.contains(&name)
        }),
        origin: origin(&captured.body, &captured.headers).to_owned(),
        body,
    };
    let response = ResponseRecord {
        status: captured.status,
        headers: headers(logged_request::redacted_headers(&captured.response_headers), &|name| {
            RESPONSE_HEADERS.contains(&name)
                || RESPONSE_HEADER_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        }),
        body: captured.status.map(|_| tape.put(&response_body)),
        chunks,
        end: captured.end,
    };
    let (model, usage) = usage.map(|usage| (usage.model.clone(), usage.usage)).unzip();
    let at_ms = u64::try_from(captured.at.as_millis()).unwrap_or(u64::MAX);
    tape.append(ExchangeRecord { number: captured.number, at_ms, request, response, model, usage })
}

/// Redacts all other query parameters, which may be API keys.
fn redact_query(query: &str) -> String {
    let parts = query.split('&').filter(|part| !part.is_empty()).map(|part| {
        let name = part.split('=').next().unwrap_or_default();
        if QUERY_PARAMETERS.contains(&name) { part.to_owned() } else { format!("{name}={REDACTED}") }
    });
    parts.collect::<Vec<_>>().join("&")
}

fn origin(body: &[u8], headers: &HeaderMap) -> &'static str {
    let Ok(body) = serde_json::from_slice::<Value>(body) else { return "" };
    match Conversation::from_request(&body, headers).map(|conversation| conversation.origin()) {
        Some(RequestOrigin::Subagent) => "subagent",
        Some(RequestOrigin::SideRequest | RequestOrigin::PossibleSideRequest) => "side",
        Some(RequestOrigin::AgentLoop) => "loop",
        None => "",
    }
}
