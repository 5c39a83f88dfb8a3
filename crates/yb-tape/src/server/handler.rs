//! Handles the requests of a mock server: selects the reply, logs the request, and sends the response.

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

use super::placeholder;
use crate::api_error::ApiErrorKind;
use crate::conversation::Conversation;
use crate::logged_request::{self, LoggedRequest, ResponseKind};
use crate::loopback::RequestHandler;
use crate::paced_body::{BodyFault, ConnectionDropped, PacedBody};
use crate::protocol::{Endpoint, Protocol, ReplyContext};
use crate::request_log::RequestLog;
use crate::script::{FaultKind, FaultPosition, Reply, Script};
use crate::select::{ReplySelection, select_reply};
use crate::tools;
use crate::traffic::WaitingSince;

/// Twice the request limit of the API.
const MAX_REQUEST_BYTES: usize = 64 * 1024 * 1024;
const DEFAULT_MODEL: &str = "scripted";

/// Handles requests with the replies of a script.
pub(super) struct ScriptHandler {
    script: Script,
    /// Number of requests for each turn of each lane.
    attempts: Vec<Vec<AtomicU64>>,
    log: Arc<RequestLog>,
}

/// A received request and its log entry.
struct IncomingRequest {
    /// The protocol of the response; Messages if unknown.
    protocol: Protocol,
    headers: HeaderMap,
    size: usize,
    request_id: String,
    entry: LoggedRequest,
}

impl RequestHandler for ScriptHandler {
    type Body = PacedBody;

    async fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<PacedBody>, ConnectionDropped> {
        self.respond(request).await
    }
}

impl ScriptHandler {
    pub(super) fn new(script: Script, log: Arc<RequestLog>) -> Self {
        let attempts = script
            .lanes
            .iter()
            .map(|lane| lane.replies.iter().map(|_| AtomicU64::new(0)).collect())
            .collect();
        Self { script, attempts, log }
    }

    async fn respond(&self, request: Request<Incoming>) -> Result<Response<PacedBody>, ConnectionDropped> {
        let (parts, body) = request.into_parts();
        let number = self.log.next_number();
        let body = match Limited::new(body, MAX_REQUEST_BYTES).collect().await {
            Ok(body) => body.to_bytes(),
            Err(_) => {
                let incoming = IncomingRequest::new(parts, number, &Bytes::new());
                let message = format!("request larger than {MAX_REQUEST_BYTES} bytes or incomplete");
                return Ok(self.reject(incoming, ApiErrorKind::RequestTooLarge, message));
            }
        };
        if let Some(waiting) = parts.extensions.get::<WaitingSince>() {
            waiting.read_request(&parts, &body).await;
            waiting.start();
        }
        let incoming = IncomingRequest::new(parts, number, &body);
        let endpoint = Endpoint::from_path(&incoming.entry.path, &incoming.entry.query);
        match (incoming.entry.method.as_str(), incoming.entry.path.as_str()) {
            ("POST", path) => match endpoint {
                Some(Endpoint::Generate(_)) => self.reply(incoming).await,
                Some(Endpoint::CountTokens(_)) => Ok(self.count_tokens(incoming)),
                None => {
                    let message = format!("no such endpoint: `POST {path}`");
                    Ok(self.reject(incoming, ApiErrorKind::NotFound, message))
                }
            },
            ("GET" | "HEAD", path) => {
                let body = placeholder::get_response(path);
                let response = json(StatusCode::OK, &body, &incoming.request_id);
                self.log_request(incoming, ResponseKind::Placeholder, Some(200));
                Ok(response)
            }
            (method, path) => {
                let message = format!("no such endpoint: `{method} {path}`");
                Ok(self.reject(incoming, ApiErrorKind::InvalidRequest, message))
            }
        }
    }

    async fn reply(&self, mut incoming: IncomingRequest) -> Result<Response<PacedBody>, ConnectionDropped> {
        let request = incoming.protocol.read(&incoming.entry.body).into_owned();
        let selection = Conversation::from_request(&request, &incoming.headers)
            .map(|conversation| select_reply(&self.script, &conversation));
        let (lane, turn, reply) = match selection {
            None => {
                let message = incoming.protocol.invalid_body_message().to_owned();
                return Ok(self.reject(incoming, ApiErrorKind::InvalidRequest, message));
            }
            Some(ReplySelection::NoReply { lane, turn, message }) => {
                incoming.entry.lane = lane.map(|lane| self.script.lanes[lane].name.clone());
                incoming.entry.turn = Some(turn + 1);
                let response = error_response(ApiErrorKind::InvalidRequest, &message, &incoming);
                self.log_request(incoming, ResponseKind::Unscripted(message), Some(400));
                return Ok(response);
            }
            Some(ReplySelection::Placeholder) => {
                let reply = Arc::new(placeholder::side_reply(&request));
                let context = self.reply_context(&incoming, "side", 1);
                let response = success(reply, &context, &incoming, None);
                self.log_request(incoming, ResponseKind::SideReply, Some(200));
                return Ok(response);
            }
            Some(ReplySelection::Reply { lane, turn, reply }) => (lane, turn, reply),
        };
        incoming.entry.attempt = self.attempts[lane][turn].fetch_add(1, Ordering::Relaxed) + 1;
        incoming.entry.turn = Some(turn + 1);
        incoming.entry.lane = Some(self.script.lanes[lane].name.clone());
        let reply = tools::translate_tools(&reply, &request, incoming.protocol);
        self.send_reply(reply, incoming).await
    }

    /// Sends a reply with its pacing and the fault for this attempt.
    async fn send_reply(
        &self,
        reply: Arc<Reply>,
        incoming: IncomingRequest,
    ) -> Result<Response<PacedBody>, ConnectionDropped> {
        let fault =
            reply.fault.as_ref().filter(|fault| fault.applies_to(incoming.entry.attempt)).map(|f| &f.kind);
        let stream = incoming.wants_stream();
        // Without a stream, an error event becomes an error status.
        let plain_error = match fault {
            Some(FaultKind::Status { status, message, retry_after }) => {
                Some((*status, ApiErrorKind::from_status(*status), message, *retry_after))
            }
            Some(FaultKind::Error { kind, message, after })
                if !stream || *after == FaultPosition::Request =>
            {
                Some((incoming.protocol.status(*kind), *kind, message, None))
            }
            _ => None,
        };
        let delay = reply.pacing.delay;
        if let Some((status, kind, message, retry_after)) = plain_error {
            let message = message.clone().unwrap_or_else(|| default_message(kind, &incoming));
            let body = incoming.protocol.error(kind, status, &message, &incoming.request_id);
            let mut response = json(status_code(status), &body, &incoming.request_id);
            add_retry_after(response.headers_mut(), retry_after);
            self.log_request(incoming, ResponseKind::Fault, Some(status));
            sleep(delay).await;
            return Ok(response);
        }
        let lane = incoming.entry.lane.as_deref().unwrap_or_default();
        let context = self.reply_context(&incoming, lane, incoming.entry.turn.unwrap_or(1));
        let response = success(Arc::clone(&reply), &context, &incoming, fault);
        let silent = matches!(
            fault,
            Some(
                FaultKind::Cut { after: FaultPosition::Request }
                    | FaultKind::Stall { after: FaultPosition::Request, length: None }
            )
        );
        let kind = if fault.is_some() { ResponseKind::Fault } else { ResponseKind::Reply };
        self.log_request(incoming, kind, (!silent).then_some(200));
        sleep(delay).await;
        match fault {
            Some(FaultKind::Cut { after: FaultPosition::Request }) => Err(ConnectionDropped),
            Some(FaultKind::Stall { after: FaultPosition::Request, length: None }) => pending().await,
            Some(FaultKind::Stall { after: FaultPosition::Request, length: Some(length) }) => {
                sleep(*length).await;
                Ok(response)
            }
            _ => Ok(response),
        }
    }

    fn count_tokens(&self, incoming: IncomingRequest) -> Response<PacedBody> {
        let request = incoming.protocol.read(&incoming.entry.body).into_owned();
        if Conversation::from_request(&request, &incoming.headers).is_none() {
            let message = incoming.protocol.invalid_body_message().to_owned();
            return self.reject(incoming, ApiErrorKind::InvalidRequest, message);
        }
        let count = incoming.protocol.token_count(placeholder::count_tokens(&request));
        let response = json(StatusCode::OK, &count, &incoming.request_id);
        self.log_request(incoming, ResponseKind::TokenCount, Some(200));
        response
    }

    fn reject(&self, incoming: IncomingRequest, kind: ApiErrorKind, message: String) -> Response<PacedBody> {
        let status = incoming.protocol.status(kind);
        let response = error_response(kind, &message, &incoming);
        self.log_request(incoming, ResponseKind::Rejected(message), Some(status));
        response
    }

    fn log_request(&self, incoming: IncomingRequest, response: ResponseKind, status: Option<u16>) {
        self.log.add(LoggedRequest { response, status, ..incoming.entry }, incoming.size);
    }

    fn reply_context(&self, incoming: &IncomingRequest, lane: &str, turn: usize) -> ReplyContext {
        let (protocol, body) = (incoming.protocol, &incoming.entry.body);
        let requested = protocol.model(body, &incoming.entry.path);
        let model = requested.or(self.script.model.as_deref()).unwrap_or(DEFAULT_MODEL);
        let declared = body.get("tools").and_then(Value::as_array).into_iter().flatten();
        let custom = declared.filter(|tool| protocol == Protocol::Responses && tool["type"] == "custom");
        ReplyContext {
            model: model.to_owned(),
            lane: lane.to_owned(),
            turn,
            attempt: incoming.entry.attempt,
            text_tools: custom.filter_map(|tool| Some(tool.get("name")?.as_str()?.to_owned())).collect(),
            includes_usage: protocol.includes_usage(body),
        }
    }
}

impl IncomingRequest {
    fn new(parts: Parts, number: u64, body: &Bytes) -> Self {
        let parsed = if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(body)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).into_owned()))
        };
        let entry = LoggedRequest {
            number,
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            headers: logged_request::redacted_headers(&parts.headers),
            body: parsed,
            lane: None,
            turn: None,
            attempt: 0,
            status: None,
            response: ResponseKind::Placeholder,
        };
        let protocol = match Endpoint::from_path(&entry.path, &entry.query) {
            Some(Endpoint::Generate(protocol) | Endpoint::CountTokens(protocol)) => protocol,
            None => Protocol::Messages,
        };
        Self {
            protocol,
            headers: parts.headers,
            size: body.len(),
            request_id: format!("req_tape_{number}"),
            entry,
        }
    }

    fn wants_stream(&self) -> bool {
        self.protocol.streams(&self.entry.body)
    }
}

/// Creates the response for a reply, streamed or as one message, with its fault.
fn success(
    reply: Arc<Reply>,
    context: &ReplyContext,
    incoming: &IncomingRequest,
    fault: Option<&FaultKind>,
) -> Response<PacedBody> {
    let mut response = if incoming.wants_stream() {
        let between = reply.pacing.between;
        let mut response =
            Response::new(PacedBody::stream(incoming.protocol.frames(reply, context.clone()), between));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(incoming.protocol.stream_type()));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        add_request_id(headers, &incoming.request_id);
        response
    } else {
        json(StatusCode::OK, &incoming.protocol.message(&reply, context), &incoming.request_id)
    };
    let body_fault = match fault {
        Some(FaultKind::Cut { after }) => Some((*after, BodyFault::Drop)),
        Some(FaultKind::Stall { after, length }) if *after != FaultPosition::Request => {
            Some((*after, BodyFault::Stall(*length)))
        }
        Some(FaultKind::Error { kind, message, after }) => {
            let message = message.clone().unwrap_or_else(|| default_message(*kind, incoming));
            let last = incoming.protocol.error_frame(*kind, &message, &incoming.request_id, context);
            Some((*after, BodyFault::EndWith(last)))
        }
        _ => None,
    };
    if let Some((position, fault)) = body_fault {
        response = response.map(|body| body.with_fault(position, fault));
    }
    response
}

fn default_message(kind: ApiErrorKind, incoming: &IncomingRequest) -> String {
    match incoming.protocol.model(&incoming.entry.body, &incoming.entry.path) {
        // The message of the API for an unknown model.
        Some(model) if kind == ApiErrorKind::NotFound => format!("model: {model}"),
        _ => kind.default_message().to_owned(),
    }
}

fn error_response(kind: ApiErrorKind, message: &str, incoming: &IncomingRequest) -> Response<PacedBody> {
    let status = incoming.protocol.status(kind);
    json(
        status_code(status),
        &incoming.protocol.error(kind, status, message, &incoming.request_id),
        &incoming.request_id,
    )
}

fn status_code(status: u16) -> StatusCode {
    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn json(status: StatusCode, body: &Value, request_id: &str) -> Response<PacedBody> {
    let mut response = Response::new(PacedBody::whole(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    add_request_id(response.headers_mut(), request_id);
    response
}

fn add_request_id(headers: &mut HeaderMap, request_id: &str) {
    if let Ok(value) = HeaderValue::from_str(request_id) {
        headers.insert("request-id", value);
    }
}

/// Sets `retry-after` in whole seconds and `retry-after-ms` for clients that support it.
fn add_retry_after(headers: &mut HeaderMap, retry_after: Option<Duration>) {
    let Some(wait) = retry_after else { return };
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    if let Ok(millis) = u64::try_from(wait.as_millis()) {
        headers.insert("retry-after-ms", HeaderValue::from(millis));
    }
}
