//! Minimal HTTP client that exposes incomplete responses.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use yb_tape::{MockServer, MockServerOptions, RecordingProxy, ReplayServer, Script, Vars};

/// Starts a mock server for the replies of lane `main`, given as a YAML list.
pub(crate) fn serve(replies: &str) -> MockServer {
    let indented = replies.replace('\n', "\n    ");
    start(&format!("tape: 1\nlanes:\n  main:\n    {indented}\n"))
}

/// Starts a mock server for a script.
pub(crate) fn start(script: &str) -> MockServer {
    let script = Script::parse(script, &Vars::new()).unwrap();
    MockServer::start(script, &MockServerOptions::default()).unwrap()
}

/// A streaming request in the first turn.
pub(crate) fn go() -> Value {
    json!({ "model": "m", "max_tokens": 100, "stream": true, "messages": [{ "role": "user", "content": "go" }] })
}

/// A request for one message in the first turn.
pub(crate) fn go_whole() -> Value {
    let mut body = go();
    body["stream"] = json!(false);
    body
}

/// A request whose conversation has this many replies.
pub(crate) fn after(replies: usize) -> Value {
    let mut body = go();
    let messages = body["messages"].as_array_mut().unwrap();
    for _ in 0..replies {
        messages.push(json!({ "role": "assistant", "content": "…" }));
        messages.push(json!({ "role": "user", "content": "and then?" }));
    }
    body
}

pub(crate) struct Response {
    /// Absent if the connection was dropped before the status.
    pub(crate) status: Option<u16>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether the body is complete.
    pub(crate) complete: bool,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// The events of a stream; the name of each must be the `type` of its data.
    pub(crate) fn events(&self) -> Vec<Value> {
        let text = self.text();
        let blocks = text.split_terminator("\n\n").map(|block| {
            let (name, data) = block.split_once('\n').unwrap();
            let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            assert_eq!(name.strip_prefix("event: ").unwrap(), data["type"]);
            data
        });
        blocks.collect()
    }

    /// The types of the events, in order.
    pub(crate) fn event_types(&self) -> Vec<String> {
        self.events().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    }

    /// All text of the response, streamed or not.
    pub(crate) fn reply_text(&self) -> String {
        if self.header("content-type").unwrap().starts_with("text/event-stream") {
            self.events().iter().filter_map(|event| event["delta"]["text"].as_str()).collect()
        } else {
            let body = self.json();
            let blocks = body["content"].as_array().cloned().unwrap_or_default();
            blocks.iter().filter_map(|block| block["text"].as_str()).collect()
        }
    }
}

/// A server on loopback.
pub(crate) trait LoopbackAddress {
    fn loopback_address(&self) -> SocketAddr;
}

impl LoopbackAddress for MockServer {
    fn loopback_address(&self) -> SocketAddr {
        self.address()
    }
}

impl LoopbackAddress for RecordingProxy {
    fn loopback_address(&self) -> SocketAddr {
        self.address()
    }
}

impl LoopbackAddress for ReplayServer {
    fn loopback_address(&self) -> SocketAddr {
        self.address()
    }
}

pub(crate) fn post(server: &impl LoopbackAddress, body: &Value) -> Response {
    request(server, "POST", "/v1/messages?beta=true", &[], body.to_string().as_bytes())
}

pub(crate) fn post_as(server: &impl LoopbackAddress, headers: &[(&str, &str)], body: &Value) -> Response {
    request(server, "POST", "/v1/messages?beta=true", headers, body.to_string().as_bytes())
}

pub(crate) fn request(
    server: &impl LoopbackAddress,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Response {
    let mut stream = send(server, method, target, headers, body);
    let mut raw = Vec::new();
    // A dropped connection may show as a reset.
    let _ = stream.read_to_end(&mut raw);
    parse(&raw, method)
}

/// Sends a request without reading the response.
pub(crate) fn send(
    server: &impl LoopbackAddress,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> TcpStream {
    let mut stream = TcpStream::connect(server.loopback_address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut head = format!("{method} {target} HTTP/1.1\r\nhost: tape\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    stream
}

fn parse(raw: &[u8], method: &str) -> Response {
    let Some(end) = raw.windows(4).position(|window| window == b"\r\n\r\n") else {
        assert!(raw.is_empty(), "incomplete head: {}", String::from_utf8_lossy(raw));
        return Response { status: None, headers: Vec::new(), body: Vec::new(), complete: false };
    };
    let head = std::str::from_utf8(&raw[..end]).unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<_> = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let header = |name: &str| headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let rest = &raw[end + 4..];
    let (body, complete) = if method == "HEAD" {
        (rest.to_vec(), true)
    } else if let Some(length) = header("content-length") {
        (rest.to_vec(), rest.len() == length.parse::<usize>().unwrap())
    } else {
        assert_eq!(header("transfer-encoding"), Some("chunked"));
        unchunk(rest)
    };
    Response { status: Some(status), headers, body, complete }
}

fn unchunk(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        rest = &rest[end + 2..];
        if size == 0 {
            return (body, true);
        }
        let here = size.min(rest.len());
        body.extend_from_slice(&rest[..here]);
        rest = rest.get(size + 2..).unwrap_or_default();
    }
    (body, false)
}
