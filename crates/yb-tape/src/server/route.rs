//! Decides what each request gets, writes it down, and plays it.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Request, Response, StatusCode};
use serde_json::Value;
use tokio::time::sleep;

use super::side;
use crate::api_error::Kind;
use crate::conversation::Conversation;
use crate::host::Handler;
use crate::log::Log;
use crate::pick::{Pick, pick};
use crate::reel::{Break, Cut, Reel};
use crate::script::{FaultKind, Point, Reply, Script};
use crate::seen::{self, Answer, Seen};
use crate::tools;
use crate::wire::{Endpoint, Head, Wire};

/// Twice what the API itself accepts.
const MAX_REQUEST_BYTES: usize = 64 * 1024 * 1024;
const DEFAULT_MODEL: &str = "scripted";

/// Plays a script to whoever asks.
pub(super) struct Player {
    script: Script,
    /// How often each turn of each lane was asked for.
    attempts: Vec<Vec<AtomicU64>>,
    log: Arc<Log>,
}

/// A request that was read, and what is going to be remembered of it.
struct Asked {
    /// The protocol, whose errors it gets as well; that of Messages when it is not known.
    wire: Wire,
    headers: HeaderMap,
    size: usize,
    request_id: String,
    seen: Seen,
}

impl Handler for Player {
    type Body = Reel;

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Reel>, Cut> {
        Self::answer(&self, request).await
    }
}

impl Player {
    pub(super) fn new(script: Script, log: Arc<Log>) -> Self {
        let attempts = script
            .lanes
            .iter()
            .map(|lane| lane.replies.iter().map(|_| AtomicU64::new(0)).collect())
            .collect();
        Self { script, attempts, log }
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Reel>, Cut> {
        let (parts, body) = request.into_parts();
        let number = self.log.number();
        let body = match Limited::new(body, MAX_REQUEST_BYTES).collect().await {
            Ok(body) => body.to_bytes(),
            Err(_) => {
                let asked = Asked::new(parts, number, &Bytes::new());
                let message = format!("the request is larger than {MAX_REQUEST_BYTES} bytes or broke off");
                return Ok(self.refuse(asked, Kind::RequestTooLarge, message));
            }
        };
        let asked = Asked::new(parts, number, &body);
        let endpoint = Endpoint::of(&asked.seen.path, &asked.seen.query);
        match (asked.seen.method.as_str(), asked.seen.path.as_str()) {
            ("POST", path) => match endpoint {
                Some(Endpoint::Answer(_)) => self.reply(asked).await,
                Some(Endpoint::Count(_)) => Ok(self.count_tokens(asked)),
                None => {
                    let message = format!("no such endpoint: `POST {path}`");
                    Ok(self.refuse(asked, Kind::NotFound, message))
                }
            },
            ("GET" | "HEAD", path) => {
                let body = side::courtesy(path);
                let answer = json(StatusCode::OK, &body, &asked.request_id);
                self.note(asked, Answer::Courtesy, Some(200));
                Ok(answer)
            }
            (method, path) => {
                let message = format!("no such endpoint: `{method} {path}`");
                Ok(self.refuse(asked, Kind::InvalidRequest, message))
            }
        }
    }

    async fn reply(&self, mut asked: Asked) -> Result<Response<Reel>, Cut> {
        let request = asked.wire.read(&asked.seen.body).into_owned();
        let picked =
            Conversation::of(&request, &asked.headers).map(|conversation| pick(&self.script, &conversation));
        let (lane, turn, reply) = match picked {
            None => {
                let message = asked.wire.wants().to_owned();
                return Ok(self.refuse(asked, Kind::InvalidRequest, message));
            }
            Some(Pick::Nobody { lane, turn, message }) => {
                asked.seen.lane = lane.map(|lane| self.script.lanes[lane].name.clone());
                asked.seen.turn = Some(turn + 1);
                let answer = error(Kind::InvalidRequest, &message, &asked);
                self.note(asked, Answer::Unscripted(message), Some(400));
                return Ok(answer);
            }
            Some(Pick::Side) => {
                let reply = Arc::new(side::reply(&request));
                let head = self.head(&asked, "side", 1);
                let answer = success(reply, &head, &asked, None);
                self.note(asked, Answer::Side, Some(200));
                return Ok(answer);
            }
            Some(Pick::Reply { lane, turn, reply }) => (lane, turn, reply),
        };
        asked.seen.attempt = self.attempts[lane][turn].fetch_add(1, Ordering::Relaxed) + 1;
        asked.seen.turn = Some(turn + 1);
        asked.seen.lane = Some(self.script.lanes[lane].name.clone());
        let reply = tools::spell(&reply, &request, asked.wire);
        self.play(reply, asked).await
    }

    /// Plays a reply with its pace and the fault that this attempt meets.
    async fn play(&self, reply: Arc<Reply>, asked: Asked) -> Result<Response<Reel>, Cut> {
        let fault = reply.fault.as_ref().filter(|fault| fault.meets(asked.seen.attempt)).map(|f| &f.kind);
        let stream = asked.wants_stream();
        // A mid-stream error has no stream to stand in when the client wants one message.
        let plain_error = match fault {
            Some(FaultKind::Status { status, message, retry_after }) => {
                Some((*status, Kind::of_status(*status), message, *retry_after))
            }
            Some(FaultKind::Error { kind, message, after }) if !stream || *after == Point::Request => {
                Some((asked.wire.status(*kind), *kind, message, None))
            }
            _ => None,
        };
        let delay = reply.pace.delay;
        if let Some((status, kind, message, retry_after)) = plain_error {
            let message = message.clone().unwrap_or_else(|| default_message(kind, &asked));
            let body = asked.wire.error(kind, status, &message, &asked.request_id);
            let mut answer = json(status_code(status), &body, &asked.request_id);
            add_retry_after(answer.headers_mut(), retry_after);
            self.note(asked, Answer::Fault, Some(status));
            sleep(delay).await;
            return Ok(answer);
        }
        let head =
            self.head(&asked, asked.seen.lane.as_deref().unwrap_or_default(), asked.seen.turn.unwrap_or(1));
        let answer = success(Arc::clone(&reply), &head, &asked, fault);
        let silent = matches!(
            fault,
            Some(
                FaultKind::Cut { after: Point::Request }
                    | FaultKind::Stall { after: Point::Request, length: None }
            )
        );
        let kind = if fault.is_some() { Answer::Fault } else { Answer::Reply };
        self.note(asked, kind, (!silent).then_some(200));
        sleep(delay).await;
        match fault {
            Some(FaultKind::Cut { after: Point::Request }) => Err(Cut),
            Some(FaultKind::Stall { after: Point::Request, length: None }) => pending().await,
            Some(FaultKind::Stall { after: Point::Request, length: Some(length) }) => {
                sleep(*length).await;
                Ok(answer)
            }
            _ => Ok(answer),
        }
    }

    fn count_tokens(&self, asked: Asked) -> Response<Reel> {
        let request = asked.wire.read(&asked.seen.body).into_owned();
        if Conversation::of(&request, &asked.headers).is_none() {
            let message = asked.wire.wants().to_owned();
            return self.refuse(asked, Kind::InvalidRequest, message);
        }
        let count = asked.wire.token_count(side::count_tokens(&request));
        let answer = json(StatusCode::OK, &count, &asked.request_id);
        self.note(asked, Answer::TokenCount, Some(200));
        answer
    }

    fn refuse(&self, asked: Asked, kind: Kind, message: String) -> Response<Reel> {
        let status = asked.wire.status(kind);
        let answer = error(kind, &message, &asked);
        self.note(asked, Answer::Refused(message), Some(status));
        answer
    }

    fn note(&self, asked: Asked, answer: Answer, status: Option<u16>) {
        self.log.add(Seen { answer, status, ..asked.seen }, asked.size);
    }

    fn head(&self, asked: &Asked, lane: &str, turn: usize) -> Head {
        let (wire, body) = (asked.wire, &asked.seen.body);
        let requested = wire.model(body, &asked.seen.path);
        let model = requested.or(self.script.model.as_deref()).unwrap_or(DEFAULT_MODEL);
        let declared = body.get("tools").and_then(Value::as_array).into_iter().flatten();
        let custom = declared.filter(|tool| wire == Wire::Responses && tool["type"] == "custom");
        Head {
            model: model.to_owned(),
            lane: lane.to_owned(),
            turn,
            attempt: asked.seen.attempt,
            text_tools: custom.filter_map(|tool| Some(tool.get("name")?.as_str()?.to_owned())).collect(),
            usage_wanted: wire.usage_wanted(body),
        }
    }
}

impl Asked {
    fn new(parts: Parts, number: u64, body: &Bytes) -> Self {
        let parsed = if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(body)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).into_owned()))
        };
        let seen = Seen {
            number,
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            headers: seen::headers(&parts.headers),
            body: parsed,
            lane: None,
            turn: None,
            attempt: 0,
            status: None,
            answer: Answer::Courtesy,
        };
        let wire = match Endpoint::of(&seen.path, &seen.query) {
            Some(Endpoint::Answer(wire) | Endpoint::Count(wire)) => wire,
            None => Wire::Messages,
        };
        Self {
            wire,
            headers: parts.headers,
            size: body.len(),
            request_id: format!("req_tape_{number}"),
            seen,
        }
    }

    fn wants_stream(&self) -> bool {
        self.wire.streams(&self.seen.body)
    }
}

/// A reply as a stream or as one message, breaking where the fault says.
fn success(reply: Arc<Reply>, head: &Head, asked: &Asked, fault: Option<&FaultKind>) -> Response<Reel> {
    let mut answer = if asked.wants_stream() {
        let between = reply.pace.between;
        let mut answer = Response::new(Reel::stream(asked.wire.frames(reply, head.clone()), between));
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(asked.wire.stream_type()));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        add_request_id(headers, &asked.request_id);
        answer
    } else {
        json(StatusCode::OK, &asked.wire.whole(&reply, head), &asked.request_id)
    };
    let broken = match fault {
        Some(FaultKind::Cut { after }) => Some((*after, Break::Cut)),
        Some(FaultKind::Stall { after, length }) if *after != Point::Request => {
            Some((*after, Break::Stall(*length)))
        }
        Some(FaultKind::Error { kind, message, after }) => {
            let message = message.clone().unwrap_or_else(|| default_message(*kind, asked));
            let last = asked.wire.error_frame(*kind, &message, &asked.request_id, head);
            Some((*after, Break::End(last)))
        }
        _ => None,
    };
    if let Some((point, how)) = broken {
        answer = answer.map(|reel| reel.breaking(point, how));
    }
    answer
}

fn default_message(kind: Kind, asked: &Asked) -> String {
    match asked.wire.model(&asked.seen.body, &asked.seen.path) {
        // What the API says when it does not know the model.
        Some(model) if kind == Kind::NotFound => format!("model: {model}"),
        _ => kind.default_message().to_owned(),
    }
}

fn error(kind: Kind, message: &str, asked: &Asked) -> Response<Reel> {
    let status = asked.wire.status(kind);
    json(status_code(status), &asked.wire.error(kind, status, message, &asked.request_id), &asked.request_id)
}

fn status_code(status: u16) -> StatusCode {
    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn json(status: StatusCode, body: &Value, request_id: &str) -> Response<Reel> {
    let mut answer = Response::new(Reel::whole(body.to_string()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    add_request_id(answer.headers_mut(), request_id);
    answer
}

fn add_request_id(headers: &mut HeaderMap, request_id: &str) {
    if let Ok(value) = HeaderValue::from_str(request_id) {
        headers.insert("request-id", value);
    }
}

/// Whole seconds for everyone, and milliseconds for clients that know the finer header.
fn add_retry_after(headers: &mut HeaderMap, retry_after: Option<Duration>) {
    let Some(wait) = retry_after else { return };
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    if let Ok(millis) = u64::try_from(wait.as_millis()) {
        headers.insert("retry-after-ms", HeaderValue::from(millis));
    }
}
