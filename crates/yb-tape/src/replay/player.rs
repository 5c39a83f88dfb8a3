//! Decides what each request gets: the tape, a fault, the live model after a fork, or a divergence.

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
use super::options::{Mode, ReplayOptions, Speed};
use super::order::Order;
use super::spool::{Spool, Tail};
use super::{MAIN, ReplayOutcome, lock};
use crate::api_error::Kind;
use crate::format::record::Ending;
use crate::host::Handler;
use crate::matching::dialogue::{self, Api};
use crate::matching::divergence::{Divergence, DivergenceKind};
use crate::matching::index::{Index, Match, Rule};
use crate::matching::normal::Normal;
use crate::record::tee::{Heard, Tee};
use crate::record::{MAX_REQUEST_BYTES, refusal};
use crate::reel::{Cut, Reel};
use crate::rewrite::rewrite;
use crate::server::side;
use crate::swap::{Ends, Swap};
use crate::tape::{Exchange, Tape};
use crate::upstream::{Client, end_to_end};
use crate::usage;

/// How long an answer waits for a request that came earlier in the recording.
const PATIENCE: Duration = Duration::from_secs(3);

/// Who answers after a fork.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) client: Arc<Client>,
    pub(super) model: Option<String>,
}

#[derive(Debug)]
pub(super) struct Player {
    tape: Tape,
    rule: Rule,
    speed: Speed,
    normal: Normal,
    /// From the directories of the recording to those of this run.
    moved: Swap,
    live: Option<Live>,
    state: Arc<Mutex<State>>,
    tell: watch::Sender<Option<Arc<Divergence>>>,
    asked: Notify,
    patience: Duration,
}

#[derive(Debug)]
pub(super) struct State {
    index: Index,
    order: Order,
    /// Requests that are no conversation, by method and path, and how many of each were given.
    plain: HashMap<(String, String), (Vec<usize>, usize)>,
    faults: Vec<ReplayFault>,
    /// How many turns of `main` are still to be answered before the live model may.
    until_fork: Option<usize>,
    outcome: ReplayOutcome,
}

type Sent = Either<Reel, Either<Spool, Tee>>;
type Answer = Result<Response<Sent>, Cut>;

impl Player {
    pub(super) fn new(
        tape: &Tape,
        options: ReplayOptions,
        fork: Option<(usize, Live)>,
        tell: watch::Sender<Option<Arc<Divergence>>>,
    ) -> Self {
        let before = fork.as_ref().map_or(u64::MAX, |(step, _)| first_after(tape, *step));
        let mut plain: HashMap<(String, String), (Vec<usize>, usize)> = HashMap::new();
        for (index, exchange) in tape.exchanges().iter().enumerate() {
            if exchange.api.is_none() {
                let key = (exchange.method().to_owned(), exchange.path().to_owned());
                plain.entry(key).or_default().0.push(index);
            }
        }
        let moved = tape.places().iter().filter_map(|(name, from)| {
            let to = options.places.get(name).filter(|to| *to != from)?;
            Some((from.clone(), to.clone()))
        });
        let state = State {
            index: Index::new(tape, before),
            order: Order::new(tape, before),
            plain,
            faults: options.faults,
            until_fork: fork.as_ref().map(|(step, _)| *step),
            outcome: ReplayOutcome::default(),
        };
        Self {
            tape: tape.clone(),
            rule: match options.mode {
                Mode::Strict => Rule::Strict,
                Mode::Lenient => Rule::Lenient,
            },
            speed: options.speed,
            normal: Normal::new(if options.places.is_empty() { tape.places() } else { &options.places }),
            moved: Swap::new(moved, Ends::Names),
            live: fork.map(|(_, live)| live),
            state: Arc::new(Mutex::new(state)),
            tell,
            asked: Notify::new(),
            patience: options.patience.unwrap_or(PATIENCE),
        }
    }

    pub(super) fn outcome(&self) -> ReplayOutcome {
        let state = lock(&self.state);
        let left = u64::try_from(state.index.left()).unwrap_or(u64::MAX);
        ReplayOutcome { left, ..state.outcome.clone() }
    }

    async fn reply(&self, parts: Parts, bytes: Bytes) -> Answer {
        if let Some(divergence) = lock(&self.state).outcome.divergence.clone() {
            return Ok(diverged(&divergence));
        }
        let body: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let (method, path) = (parts.method.as_str(), parts.uri.path());
        let Some(api) = Api::of(method, path) else { return self.plain(method, path) };
        let Some(dialogue) = dialogue::read(api, path, &body, &self.normal) else {
            let came = String::from_utf8_lossy(&bytes).chars().take(100).collect();
            return Ok(self.diverge(self.unknown(format!("{method} {path}"), came)));
        };
        let found = lock(&self.state).index.find(api, &dialogue, self.rule);
        let divergence = match found {
            Match::Exchange { index, tolerated } => {
                self.in_turn(index).await;
                return self.found(index, tolerated);
            }
            Match::None(divergence) => divergence,
        };
        if api == Api::CountTokens {
            let count = side::count_tokens(&body);
            let key = if path.ends_with(":countTokens") { "totalTokens" } else { "input_tokens" };
            return Ok(self.improvise(&json!({ (key): count })));
        }
        let is_live = lock(&self.state).until_fork == Some(0);
        match &self.live {
            Some(live) if is_live => self.forward(live, api, parts, bytes, body).await,
            _ => Ok(self.diverge(*divergence)),
        }
    }

    /// Anything that is no conversation: recorded answers in their order, and the last one again.
    fn plain(&self, method: &str, path: &str) -> Answer {
        let mut state = lock(&self.state);
        let known = state.plain.get_mut(&(method.to_owned(), path.to_owned()));
        if let Some((indices, given)) = known
            && let Some(&index) = indices.get(*given).or(indices.last())
        {
            *given += 1;
            state.outcome.served += 1;
            drop(state);
            return self.play(index, Duration::ZERO, None);
        }
        drop(state);
        if matches!(method, "GET" | "HEAD") {
            return Ok(self.improvise(&side::courtesy(path)));
        }
        lock(&self.state).outcome.improvised += 1;
        Ok(refusal(Kind::NotFound, StatusCode::NOT_FOUND, &format!("not on the tape: `{method} {path}`")))
    }

    fn improvise(&self, body: &Value) -> Response<Sent> {
        lock(&self.state).outcome.improvised += 1;
        let mut answer = Response::new(Either::Left(Reel::whole(body.to_string())));
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        answer
    }

    /// Waits until whatever was asked earlier in the recording was asked now as well, so that conversations side by
    /// side go on in the recorded order. Whoever waits too long shows that this run has another order.
    async fn in_turn(&self, index: usize) {
        lock(&self.state).order.ask(index);
        self.asked.notify_waiters();
        let deadline = tokio::time::Instant::now() + self.patience;
        loop {
            // Before looking, so that nothing that happens in between is missed.
            let asked = self.asked.notified();
            if lock(&self.state).order.is_due(index) {
                return;
            }
            if tokio::time::timeout_at(deadline, asked).await.is_err() {
                let mut state = lock(&self.state);
                if state.order.give_up() {
                    state.outcome.out_of_order += 1;
                }
                drop(state);
                self.asked.notify_waiters();
                return;
            }
        }
    }

    /// Gives a recorded answer, unless a fault is due there.
    fn found(&self, index: usize, tolerated: usize) -> Answer {
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
                // What a fault spoils is asked for again.
                Some(ReplayFaultKind::Status { .. } | ReplayFaultKind::Cut) => state.index.put_back(index),
                _ => {
                    state.outcome.served += 1;
                    state.outcome.recorded.exchanges += 1;
                    if let (Some(usage), Some(model)) = (exchange.usage(), exchange.model()) {
                        state.outcome.recorded.models.entry(model.to_owned()).or_default().add(usage);
                    }
                    let is_step = lane == MAIN && exchange.is_good();
                    if let Some(until) = state.until_fork.as_mut().filter(|_| is_step) {
                        *until = until.saturating_sub(1);
                    }
                }
            }
            fault
        };
        match fault {
            Some(ReplayFaultKind::Status { status, retry_after }) => Ok(status_fault(status, retry_after)),
            Some(ReplayFaultKind::Slow(wait)) => self.play(index, wait, None),
            Some(ReplayFaultKind::Cut) => self.play(index, Duration::ZERO, Some(Tail::Cut)),
            None => self.play(index, Duration::ZERO, None),
        }
    }

    fn play(&self, index: usize, late: Duration, tail: Option<Tail>) -> Answer {
        let exchange = &self.tape.exchanges()[index];
        let Some(status) = exchange.status() else { return Err(Cut) };
        let (body, pieces) = rewrite(&exchange.body, exchange.pieces(), &self.moved).map_or_else(
            || (exchange.body.clone(), exchange.pieces().clone()),
            |(body, pieces)| (body.into(), pieces),
        );
        let mut rest = body;
        let is_spoiled = tail.is_some();
        let limit = if is_spoiled { rest.len() / 2 } else { usize::MAX };
        let mut sent = 0;
        let mut played = Vec::with_capacity(pieces.len());
        for (wait, length) in pieces {
            let length = usize::try_from(length).unwrap_or(usize::MAX).min(rest.len());
            let piece = rest.split_to(length.min(limit.saturating_sub(sent)));
            sent += piece.len();
            let wait = if self.speed == Speed::Real { Duration::from_micros(wait) } else { Duration::ZERO };
            played.push((wait, piece));
        }
        if let Some((wait, _)) = played.first_mut() {
            *wait += late;
        }
        let tail = match exchange.record.response.end {
            _ if is_spoiled => Tail::Cut,
            Ending::Complete => Tail::End,
            Ending::Cut | Ending::Left | Ending::Unreachable | Ending::TooLarge => Tail::Cut,
        };
        let state = Arc::clone(&self.state);
        let mut spool = Spool::new(played, tail);
        if !is_spoiled {
            spool = spool.when_over(move |is_whole| lock(&state).index.delivered(index, is_whole));
        }
        if !is_event_stream(exchange) {
            spool = spool.whole();
        }
        let mut answer = Response::new(Either::Right(Either::Left(spool)));
        *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        for (name, value) in &exchange.record.response.headers {
            if let (Ok(name), Ok(value)) =
                (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
            {
                answer.headers_mut().append(name, value);
            }
        }
        Ok(answer)
    }

    /// Asks the live model.
    async fn forward(
        &self,
        live: &Live,
        api: Api,
        mut parts: Parts,
        mut bytes: Bytes,
        mut body: Value,
    ) -> Answer {
        match (&live.model, body.as_object_mut()) {
            (Some(model), _) if api == Api::Gemini => {
                parts.uri = of_model(&parts.uri, model).unwrap_or(parts.uri);
            }
            (Some(model), Some(fields)) => {
                fields.insert("model".to_owned(), Value::from(model.as_str()));
                bytes = body.to_string().into();
            }
            _ => {}
        }
        let asked = Instant::now();
        lock(&self.state).outcome.forwarded += 1;
        let mut heard = Heard::new(0, Duration::ZERO, &parts, Bytes::new());
        match live.client.send(&parts, bytes).await {
            Ok((response, sender)) => {
                let (head, incoming) = response.into_parts();
                heard.status = Some(head.status.as_u16());
                let state = Arc::clone(&self.state);
                let tee = Tee::new(incoming, heard, asked, move |heard| {
                    lock(&state).outcome.spent.count(usage::meter(&heard.answer()).as_ref());
                });
                let tee = tee.returning(Arc::clone(&live.client), sender);
                let mut answer = Response::new(Either::Right(Either::Right(tee)));
                *answer.status_mut() = head.status;
                *answer.headers_mut() = end_to_end(&head.headers);
                Ok(answer)
            }
            Err(reason) => {
                let message = format!("the fork can't reach {}: {reason}", live.client.upstream().url());
                Ok(refusal(Kind::Api, StatusCode::BAD_GATEWAY, &message))
            }
        }
    }

    fn unknown(&self, part: String, came: String) -> Divergence {
        Divergence {
            tape: self.tape.path().to_owned(),
            lane: None,
            turn: 1,
            kind: DivergenceKind::UnknownRequest,
            part,
            expected: String::new(),
            came,
            tape_is_cut: self.tape.cut().is_some(),
        }
    }

    /// The first divergence stays the one: all that follows may follow from it.
    fn diverge(&self, divergence: Divergence) -> Response<Sent> {
        let first = lock(&self.state).outcome.divergence.get_or_insert(divergence).clone();
        let answer = diverged(&first);
        self.tell.send_replace(Some(Arc::new(first)));
        answer
    }
}

impl Handler for Player {
    type Body = Sent;

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        let (parts, body) = request.into_parts();
        match Limited::new(body, MAX_REQUEST_BYTES).collect().await {
            Ok(body) => self.reply(parts, body.to_bytes()).await,
            Err(_) => {
                let message = format!("the request is larger than {MAX_REQUEST_BYTES} bytes or broke off");
                Ok(refusal(Kind::RequestTooLarge, StatusCode::PAYLOAD_TOO_LARGE, &message))
            }
        }
    }
}

fn diverged(divergence: &Divergence) -> Response<Sent> {
    refusal(Kind::InvalidRequest, StatusCode::BAD_REQUEST, &divergence.to_string())
}

fn status_fault(status: u16, retry_after: Option<Duration>) -> Response<Sent> {
    let kind = Kind::of_status(status);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = refusal(kind, status, kind.default_message());
    if let Some(wait) = retry_after {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        if let Ok(millis) = u64::try_from(wait.as_millis()) {
            answer.headers_mut().insert("retry-after-ms", HeaderValue::from(millis));
        }
    }
    answer
}

/// The same request of another model, where that is a part of the path: `…/models/MODEL:generateContent`.
fn of_model(uri: &Uri, model: &str) -> Option<Uri> {
    let text = uri.path_and_query()?.as_str();
    let (before, rest) = text.split_once("/models/")?;
    let (_, method) = rest.split_once(':')?;
    format!("{before}/models/{model}:{method}").parse().ok()
}

fn is_event_stream(exchange: &Exchange) -> bool {
    let headers = &exchange.record.response.headers;
    headers.iter().any(|(name, value)| name == "content-type" && value.starts_with("text/event-stream"))
}

/// The number of the first exchange that comes after a turn of `main`.
fn first_after(tape: &Tape, step: usize) -> u64 {
    let main = tape.lanes().iter().find(|lane| lane.name == MAIN);
    let exchanges = main.into_iter().flat_map(|lane| &lane.exchanges).map(|index| &tape.exchanges()[*index]);
    exchanges.filter(|exchange| exchange.turn() > step).map(Exchange::number).min().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geminis_model_is_a_part_of_its_path() {
        let uri = Uri::from_static("/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse");
        let other = of_model(&uri, "gemini-2.5-flash").unwrap();
        assert_eq!(other, "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse");
        assert_eq!(of_model(&Uri::from_static("/v1/messages"), "x"), None);
    }
}
