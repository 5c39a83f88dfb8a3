//! Probes of a server: starts it with a fresh port of the loopback interface, sends requests, compares the responses.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::time::sleep;
use yb_net::http::{HttpConnection, HttpConnector, HttpUrl, read_body};
use yb_net::policy::HostPolicy;

use super::outputs::{Mismatch, compare_text, read_regexes};
use crate::program::{PreparedProgram, ProgramExit, TreeProgram};
use crate::{GradeError, Subject};
use yb_case::ConfigReader;
use yb_yaml::{Node, Value as Yaml};

pub(super) const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

/// The limit for the body of a response.
const MAX_BODY_BYTES: usize = 10 << 20;
/// The time between attempts to connect to a server that does not listen yet.
const RETRY: Duration = Duration::from_millis(50);
/// The variable and placeholder of the port.
const PORT: &str = "PORT";

/// A request with the expected response.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    status: u16,
    expected_body: Option<Vec<u8>>,
    body_matches: Vec<String>,
    body_json: Option<Value>,
}

/// Reads `requests` of a probe.
pub(super) fn read(reader: &mut ConfigReader<'_, '_>, probe: &Node, path: &str) -> Vec<Request> {
    let mut requests = Vec::new();
    for (at, node) in probe.get("requests").map(Node::items).unwrap_or_default().iter().enumerate() {
        let key = format!("{path}.requests[{at}]");
        let text = |node: Option<&Node>| node.and_then(Node::text).map(str::to_owned);
        let target = text(node.get("path")).unwrap_or_default();
        if !target.starts_with('/') || target.parse::<hyper::Uri>().is_err() {
            let error =
                reader.error(node.get("path").unwrap_or(node).span, &key, "invalid path of a request");
            error.expected("a path that starts with `/`, and no character that a URL can't have");
        }
        let headers: Vec<(String, String)> = node
            .get("headers")
            .map(Node::entries)
            .unwrap_or_default()
            .iter()
            .filter_map(|entry| Some((entry.key.name.clone(), entry.node.text()?.to_owned())))
            .collect();
        let mut request = hyper::Request::builder();
        for (name, value) in &headers {
            request = request.header(name, value);
        }
        if request.body(()).is_err() {
            reader.error(node.span, &format!("{key}.headers"), "invalid header");
        }
        let json = node.get("body_json").map(|node| node.to_json().to_string());
        let expect = node.get("expect");
        let of = |key: &str| expect.and_then(|expect| expect.get(key));
        let status = match of("status").map(|node| &node.value) {
            Some(Yaml::Int(status)) => u16::try_from(*status).unwrap_or(200),
            _ => 200,
        };
        let (expected_body, body_json) = (text(of("body")), of("body_json").map(Node::to_json));
        let body_matches =
            expect.map(|expect| read_regexes(reader, expect, "body_matches", &format!("{key}.expect")));
        requests.push(Request {
            method: text(node.get("method")).unwrap_or_else(|| "GET".to_owned()),
            path: target,
            headers,
            body: text(node.get("body")).or(json).unwrap_or_default().into_bytes(),
            status,
            expected_body: expected_body.map(String::into_bytes),
            body_matches: body_matches.unwrap_or_default(),
            body_json,
        });
    }
    requests
}

/// Starts a server, sends the requests, and stops it. Returns what differs from the expected responses.
pub(super) async fn probe(
    subject: &Subject,
    requests: &[Request],
    program: &TreeProgram<'_>,
) -> Result<Vec<Mismatch>, GradeError> {
    let port = free_port().map_err(|error| GradeError::other(format!("no free port: {error}")))?;
    let argv = program.argv.iter().map(|word| word.replace(&format!("${PORT}"), &port.to_string()));
    let program = TreeProgram { argv: argv.collect(), log: program.log.clone(), ..*program };
    let (command, on_host) = match program.prepare(subject).await? {
        PreparedProgram::Command { command, on_host } => (command, on_host),
        PreparedProgram::NotStarted(output) => return Ok(vec![ended(&output.exit)]),
    };
    let stop = subject.grader_env.cancel.child_token();
    let command = command.env(PORT, port.to_string()).cancel_on(stop.clone());
    let mut running = Box::pin(command.run());
    // A suspended server can't answer.
    let expiry = subject.grader_env.pause.sleep(program.timeout);
    tokio::select! {
        report = &mut running => Ok(vec![ended(&program.output(report, on_host)?.exit)]),
        found = send_all(requests, port, expiry) => {
            stop.cancel();
            running.await;
            found
        }
    }
}

/// Returns the mismatch of a server that ended by itself.
fn ended(exit: &ProgramExit) -> Mismatch {
    let how = match exit {
        ProgramExit::Code(code) => format!("exited with code {code}"),
        ProgramExit::Other(text) => text.clone(),
    };
    Mismatch {
        what: "server".to_owned(),
        expected: "responses to all requests".to_owned(),
        actual: format!("gone ({how})"),
    }
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

async fn send_all(
    requests: &[Request],
    port: u16,
    expiry: impl Future<Output = ()>,
) -> Result<Vec<Mismatch>, GradeError> {
    tokio::pin!(expiry);
    let mut found = Vec::new();
    for request in requests {
        let what = format!("{} {}", request.method, request.path);
        let answer = tokio::select! {
            answer = request.send(port) => Some(answer),
            () = &mut expiry => None,
        };
        let (status, body) = match answer {
            Some(Ok(answer)) => answer,
            Some(Err(error)) => {
                found.push(Mismatch {
                    what,
                    expected: "a response".to_owned(),
                    actual: format!("lost ({error})"),
                });
                continue;
            }
            None => {
                found.push(Mismatch {
                    what,
                    expected: "a response".to_owned(),
                    actual: "missing (timed out)".to_owned(),
                });
                break;
            }
        };
        found.extend(request.compare(&what, status, &body)?);
    }
    Ok(found)
}

impl Request {
    /// Sends the request as soon as the server listens.
    async fn send(&self, port: u16) -> Result<(u16, Vec<u8>), String> {
        let mut connection = connect(port).await?;
        let mut request = hyper::Request::builder().method(self.method.as_str()).uri(&self.path);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.header("connection", "close").body(Bytes::from(self.body.clone()));
        let request = request.map_err(|error| error.to_string())?;
        let response = connection.send(request).await.map_err(|error| error.to_string())?;
        let status = response.status().as_u16();
        Ok((status, read_body(response.into_body(), MAX_BODY_BYTES).await))
    }

    fn compare(&self, what: &str, status: u16, body: &[u8]) -> Result<Vec<Mismatch>, GradeError> {
        let mut found = Vec::new();
        if status != self.status {
            found.push(Mismatch {
                what: format!("status of {what}"),
                expected: self.status.to_string(),
                actual: status.to_string(),
            });
        }
        let what = format!("body of {what}");
        if let Some(expected) = self.expected_body.as_ref().filter(|expected| *expected != body) {
            found.push(Mismatch::new(&what, expected, body));
        }
        found.extend(compare_text(&what, &self.body_matches, self.body_json.as_ref(), body)?);
        Ok(found)
    }
}

async fn connect(port: u16) -> Result<HttpConnection, String> {
    let url: HttpUrl = format!("http://127.0.0.1:{port}/").parse().map_err(|_| "invalid URL".to_owned())?;
    let connector = HttpConnector::new(HostPolicy::AllowPrivate, Duration::from_secs(5));
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    loop {
        if let Ok(connection) = connector.connect_to(&url, &[address]).await {
            return Ok(connection);
        }
        sleep(RETRY).await;
    }
}
