//! Handles the requests of a replay: recorded response, fault, forwarded request after a fork, or divergence.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Either, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode, Uri};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

use super::fault::{ReplayFault, ReplayFaultKind};
use super::options::{ReplayMode, ReplayOptions, ReplaySpeed};
use super::order::RequestOrder;
use super::recorded_body::{BodyEnding, RecordedBody};
use super::{MAIN, ReplayOutcome, lock};
use crate::api_error::ApiErrorKind;
use crate::format::record::ResponseEnding;
use crate::loopback::RequestHandler;
use crate::matching::dialogue::{self, Api};
use crate::matching::divergence::{Divergence, DivergenceKind};
use crate::matching::index::{ExchangeIndex, MatchResult};
use crate::matching::normalize::Normalizer;
use crate::paced_body::{ConnectionDropped, PacedBody};
use crate::record::tee::{CapturedExchange, TeeBody};
use crate::record::{MAX_REQUEST_BYTES, error_response};
use crate::replace::{MatchBoundary, TextReplacer};
use crate::rewrite::rewrite;
use crate::server::placeholder;
use crate::tape::{Exchange, Tape};
use crate::traffic::WaitingSince;
use crate::upstream::{Client, end_to_end_headers};
use crate::usage;

/// How long a response waits for requests that were recorded earlier.
const ORDER_TIMEOUT: Duration = Duration::from_secs(3);

/// The upstream after a fork.
#[derive(Debug)]
pub(super) struct ForkUpstream {
    pub(super) client: Arc<Client>,
    pub(super) model: Option<String>,
}

/// Handles requests with the exchanges of a tape.
#[derive(Debug)]
pub(super) struct ReplayHandler {
    tape: Tape,
    mode: ReplayMode,
    speed: ReplaySpeed,
    normalizer: Normalizer,
    /// Replaces the recorded directories by those of this run.
    directories: TextReplacer,
    fork: Option<ForkUpstream>,
    state: Arc<Mutex<ReplayState>>,
    diverged: watch::Sender<Option<Arc<Divergence>>>,
    requested: Notify,
    order_timeout: Duration,
}

#[derive(Debug)]
pub(super) struct ReplayState {
    index: ExchangeIndex,
    order: RequestOrder,
    /// Exchanges outside of conversations by method and path, and how many of each were served.
    other_requests: HashMap<(String, String), (Vec<usize>, usize)>,
    faults: Vec<ReplayFault>,
    /// Number of turns of `main` to replay before the fork.
    turns_until_fork: Option<usize>,
    outcome: ReplayOutcome,
}

type ReplayBody = Either<PacedBody, Either<RecordedBody, TeeBody>>;
type HandlerResult = Result<Response<ReplayBody>, ConnectionDropped>;

impl ReplayHandler {
    pub(super) fn new(
        tape: &Tape,
        options: ReplayOptions,
        fork: Option<(usize, ForkUpstream)>,
        diverged: watch::Sender<Option<Arc<Divergence>>>,
    ) -> Self {
        let before = fork.as_ref().map_or(u64::MAX, |(step, _)| first_number_after(tape, *step));
        let mut other_requests: HashMap<(String, String), (Vec<usize>, usize)> = HashMap::new();
        for (index, exchange) in tape.exchanges().iter().enumerate() {
            if exchange.api.is_none() {
                let key = (exchange.method().to_owned(), exchange.path().to_owned());
                other_requests.entry(key).or_default().0.push(index);
            }
        }
        let moved = tape.directories().iter().filter_map(|(name, from)| {
            let to = options.directories.get(name).filter(|to| *to != from)?;
            Some((from.clone(), to.clone()))
        });
        let state = ReplayState {
            index: ExchangeIndex::new(tape, before),
            order: RequestOrder::new(tape, before),
            other_requests,
            faults: options.faults,
            turns_until_fork: fork.as_ref().map(|(step, _)| *step),
            outcome: ReplayOutcome::default(),
        };
        Self {
            tape: tape.clone(),
            mode: options.mode,
            speed: options.speed,
            normalizer: Normalizer::new(if options.directories.is_empty() {
                tape.directories()
            } else {
                &options.directories
            }),
            directories: TextReplacer::new(moved, MatchBoundary::FileName),
            fork: fork.map(|(_, upstream)| upstream),
            state: Arc::new(Mutex::new(state)),
            diverged,
            requested: Notify::new(),
            order_timeout: options.order_timeout.unwrap_or(ORDER_TIMEOUT),
        }
    }

    pub(super) fn outcome(&self) -> ReplayOutcome {
        let state = lock(&self.state);
        let remaining = u64::try_from(state.index.remaining()).unwrap_or(u64::MAX);
        ReplayOutcome { remaining, ..state.outcome.clone() }
    }

    async fn respond(&self, parts: Parts, bytes: Bytes) -> HandlerResult {
        if let Some(divergence) = lock(&self.state).outcome.divergence.clone() {
            return Ok(divergence_response(&divergence));
        }
        let body: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let (method, path) = (parts.method.as_str(), parts.uri.path());
        let Some(api) = Api::from_request(method, path) else {
            return self.respond_outside_conversation(method, path);
        };
        let Some(dialogue) = dialogue::read(api, path, &body, &self.normalizer) else {
            let actual = String::from_utf8_lossy(&bytes).chars().take(100).collect();
            return Ok(self.diverge(self.unknown_request(format!("{method} {path}"), actual)));
        };
        let found = lock(&self.state).index.find(api, &dialogue, self.mode);
        let divergence = match found {
            MatchResult::Exchange { index, tolerated, normalized } => {
                self.wait_for_order(index).await;
                for kind in normalized {
                    *lock(&self.state).outcome.normalized.entry(kind).or_default() += 1;
                }
                return self.serve(index, tolerated);
            }
            MatchResult::Diverged(divergence) => divergence,
        };
        if api == Api::CountTokens {
            let count = placeholder::count_tokens(&body);
            let key = if path.ends_with(":countTokens") { "totalTokens" } else { "input_tokens" };
            return Ok(self.placeholder_response(&json!({ (key): count })));
        }
        let is_forked = lock(&self.state).turns_until_fork == Some(0);
        match &self.fork {
            Some(upstream) if is_forked => self.forward(upstream, api, parts, bytes, body).await,
            _ => Ok(self.diverge(*divergence)),
        }
    }

    /// Responds to a request outside of conversations: recorded responses in order, then the last one again.
    fn respond_outside_conversation(&self, method: &str, path: &str) -> HandlerResult {
        let mut state = lock(&self.state);
        let known = state.other_requests.get_mut(&(method.to_owned(), path.to_owned()));
        if let Some((indices, served)) = known
            && let Some(&index) = indices.get(*served).or(indices.last())
        {
            *served += 1;
            state.outcome.served += 1;
            drop(state);
            return self.send_recorded(index, Duration::ZERO, false);
        }
        drop(state);
        if matches!(method, "GET" | "HEAD") {
            return Ok(self.placeholder_response(&placeholder::get_response(path)));
        }
        lock(&self.state).outcome.placeholders += 1;
        Ok(error_response(
            ApiErrorKind::NotFound,
            StatusCode::NOT_FOUND,
            &format!("not on the tape: `{method} {path}`"),
        ))
    }

    fn placeholder_response(&self, body: &Value) -> Response<ReplayBody> {
        lock(&self.state).outcome.placeholders += 1;
        let mut response = Response::new(Either::Left(PacedBody::whole(body.to_string())));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    /// Waits until all requests that were recorded earlier have arrived, which keeps parallel conversations in the
    /// recorded order. A timeout means that this run has another order.
    async fn wait_for_order(&self, index: usize) {
        lock(&self.state).order.set_requested(index);
        self.requested.notify_waiters();
        let deadline = tokio::time::Instant::now() + self.order_timeout;
        loop {
            // Registered before the check, so that no notification is missed.
            let requested = self.requested.notified();
            if lock(&self.state).order.is_due(index) {
                return;
            }
            if tokio::time::timeout_at(deadline, requested).await.is_err() {
                let mut state = lock(&self.state);
                if state.order.give_up() {
                    state.outcome.out_of_order += 1;
                }
                drop(state);
                self.requested.notify_waiters();
                return;
            }
        }
    }

    /// Sends a recorded response, or the fault that is due.
    fn serve(&self, index: usize, tolerated: usize) -> HandlerResult {
        let exchange = &self.tape.exchanges()[index];
        let lane = self.tape.lane_of(exchange).map_or("", |lane| lane.name.as_str());
        let fault = {
            let mut state = lock(&self.state);
            let due =
                state.faults.iter().position(|fault| fault.lane == lane && fault.turn == exchange.turn());
            let fault = due.map(|due| state.faults.remove(due).kind);
            state.outcome.tolerated += u64::try_from(tolerated).unwrap_or(u64::MAX);
            if fault.is_some() {
                state.outcome.faults += 1;
            }
            match fault {
                // The agent retries after these faults.
                Some(ReplayFaultKind::Status { .. } | ReplayFaultKind::Cut) => state.index.set_pending(index),
                _ => {
                    state.outcome.served += 1;
                    state.outcome.recorded_usage.exchanges += 1;
                    if let (Some(usage), Some(model)) = (exchange.usage(), exchange.model()) {
                        state.outcome.recorded_usage.models.entry(model.to_owned()).or_default().add(usage);
                    }
                    let is_main_turn = lane == MAIN && exchange.is_success();
                    if let Some(until) = state.turns_until_fork.as_mut().filter(|_| is_main_turn) {
                        *until = until.saturating_sub(1);
                    }
                }
            }
            fault
        };
        match fault {
            Some(ReplayFaultKind::Status { status, retry_after }) => Ok(status_fault(status, retry_after)),
            Some(ReplayFaultKind::Slow(wait)) => self.send_recorded(index, wait, false),
            Some(ReplayFaultKind::Cut) => self.send_recorded(index, Duration::ZERO, true),
            None => self.send_recorded(index, Duration::ZERO, false),
        }
    }

    fn send_recorded(&self, index: usize, delay: Duration, is_dropped: bool) -> HandlerResult {
        let exchange = &self.tape.exchanges()[index];
        let Some(status) = exchange.status() else { return Err(ConnectionDropped) };
        let (body, chunks) = rewrite(&exchange.body, exchange.chunks(), &self.directories).map_or_else(
            || (exchange.body.clone(), exchange.chunks().clone()),
            |(body, chunks)| (body.into(), chunks),
        );
        let mut rest = body;
        let limit = if is_dropped { rest.len() / 2 } else { usize::MAX };
        let mut sent = 0;
        let mut sent_chunks = Vec::with_capacity(chunks.len());
        for (wait, length) in chunks {
            let length = usize::try_from(length).unwrap_or(usize::MAX).min(rest.len());
            let chunk = rest.split_to(length.min(limit.saturating_sub(sent)));
            sent += chunk.len();
            let wait =
                if self.speed == ReplaySpeed::Real { Duration::from_micros(wait) } else { Duration::ZERO };
            sent_chunks.push((wait, chunk));
        }
        if let Some((wait, _)) = sent_chunks.first_mut() {
            *wait += delay;
        }
        let ending = if !is_dropped && exchange.record.response.end == ResponseEnding::Complete {
            BodyEnding::Complete
        } else {
            BodyEnding::Dropped
        };
        let state = Arc::clone(&self.state);
        let mut body = RecordedBody::new(sent_chunks, ending);
        if !is_dropped {
            body = body.on_end(move |is_complete| lock(&state).index.set_delivered(index, is_complete));
        }
        if !is_event_stream(exchange) {
            body = body.with_length();
        }
        let mut response = Response::new(Either::Right(Either::Left(body)));
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        for (name, value) in &exchange.record.response.headers {
            if let (Ok(name), Ok(value)) =
                (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
            {
                response.headers_mut().append(name, value);
            }
        }
        Ok(response)
    }

    /// Forwards a request after a fork.
    async fn forward(
        &self,
        upstream: &ForkUpstream,
        api: Api,
        mut parts: Parts,
        mut bytes: Bytes,
        mut body: Value,
    ) -> HandlerResult {
        match (&upstream.model, body.as_object_mut()) {
            (Some(model), _) if api == Api::Gemini => {
                parts.uri = with_model(&parts.uri, model).unwrap_or(parts.uri);
            }
            (Some(model), Some(fields)) => {
                fields.insert("model".to_owned(), Value::from(model.as_str()));
                bytes = body.to_string().into();
            }
            _ => {}
        }
        let requested = Instant::now();
        lock(&self.state).outcome.forwarded += 1;
        let mut captured = CapturedExchange::new(0, Duration::ZERO, &parts, Bytes::new());
        match upstream.client.send(&parts, bytes).await {
            Ok((response, sender)) => {
                let (head, incoming) = response.into_parts();
                captured.status = Some(head.status.as_u16());
                let state = Arc::clone(&self.state);
                let tee = TeeBody::new(incoming, captured, requested, move |captured| {
                    let usage = usage::extract_usage(&captured.response_body());
                    lock(&state).outcome.live_usage.count(usage.as_ref());
                });
                let tee = tee.returning(Arc::clone(&upstream.client), sender);
                let mut response = Response::new(Either::Right(Either::Right(tee)));
                *response.status_mut() = head.status;
                *response.headers_mut() = end_to_end_headers(&head.headers);
                Ok(response)
            }
            Err(reason) => {
                let message = format!("fork failed to reach {}: {reason}", upstream.client.upstream().url());
                Ok(error_response(ApiErrorKind::Api, StatusCode::BAD_GATEWAY, &message))
            }
        }
    }

    fn unknown_request(&self, part: String, actual: String) -> Divergence {
        Divergence {
            tape: self.tape.path().to_owned(),
            lane: None,
            turn: 1,
            kind: DivergenceKind::UnknownRequest,
            part,
            expected: String::new(),
            actual,
            tape_is_truncated: self.tape.truncation().is_some(),
        }
    }

    /// Records a divergence. Only the first one counts: later ones may be its consequences.
    fn diverge(&self, divergence: Divergence) -> Response<ReplayBody> {
        let first = lock(&self.state).outcome.divergence.get_or_insert(divergence).clone();
        let response = divergence_response(&first);
        self.diverged.send_replace(Some(Arc::new(first)));
        response
    }
}

impl RequestHandler for ReplayHandler {
    type Body = ReplayBody;

    async fn handle(self: Arc<Self>, request: Request<Incoming>) -> HandlerResult {
        let (parts, body) = request.into_parts();
        match Limited::new(body, MAX_REQUEST_BYTES).collect().await {
            Ok(body) => {
                let body = body.to_bytes();
                if let Some(observer) = parts.extensions.get::<WaitingSince>() {
                    observer.read_request(&parts, &body).await;
                }
                self.respond(parts, body).await
            }
            Err(_) => {
                let message = format!("request larger than {MAX_REQUEST_BYTES} bytes or incomplete");
                Ok(error_response(ApiErrorKind::RequestTooLarge, StatusCode::PAYLOAD_TOO_LARGE, &message))
            }
        }
    }
}

fn divergence_response(divergence: &Divergence) -> Response<ReplayBody> {
    error_response(ApiErrorKind::InvalidRequest, StatusCode::BAD_REQUEST, &divergence.to_string())
}

fn status_fault(status: u16, retry_after: Option<Duration>) -> Response<ReplayBody> {
    let kind = ApiErrorKind::from_status(status);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = error_response(kind, status, kind.default_message());
    if let Some(wait) = retry_after {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        if let Ok(millis) = u64::try_from(wait.as_millis()) {
            response.headers_mut().insert("retry-after-ms", HeaderValue::from(millis));
        }
    }
    response
}

/// Replaces the model in a Gemini path: `…/models/MODEL:generateContent`.
fn with_model(uri: &Uri, model: &str) -> Option<Uri> {
    let text = uri.path_and_query()?.as_str();
    let (before, rest) = text.split_once("/models/")?;
    let (_, method) = rest.split_once(':')?;
    format!("{before}/models/{model}:{method}").parse().ok()
}

fn is_event_stream(exchange: &Exchange) -> bool {
    let headers = &exchange.record.response.headers;
    headers.iter().any(|(name, value)| name == "content-type" && value.starts_with("text/event-stream"))
}

/// Returns the number of the first exchange after a turn of `main`.
fn first_number_after(tape: &Tape, step: usize) -> u64 {
    let main = tape.lanes().iter().find(|lane| lane.name == MAIN);
    let exchanges = main.into_iter().flat_map(|lane| &lane.exchanges).map(|index| &tape.exchanges()[*index]);
    exchanges.filter(|exchange| exchange.turn() > step).map(Exchange::number).min().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_model_replaces_the_model_in_gemini_paths() {
        let uri = Uri::from_static("/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse");
        let other = with_model(&uri, "gemini-2.5-flash").unwrap();
        assert_eq!(other, "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse");
        assert_eq!(with_model(&Uri::from_static("/v1/messages"), "x"), None);
    }
}
