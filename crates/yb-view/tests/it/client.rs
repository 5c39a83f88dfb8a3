//! A small HTTP client that sends exactly what a test wants.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use yb_view::ViewServer;

/// A response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Response {
    /// Returns the value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(": ")?;
            known.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

fn connect(server: &ViewServer) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

fn token(server: &ViewServer) -> String {
    server.url(None).split_once("token=").unwrap().1.to_owned()
}

/// Sends the lines of a request and reads the response.
pub(crate) fn send(server: &ViewServer, request: &str, body: &str) -> Response {
    let mut stream = connect(server);
    write!(
        stream,
        "{}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        request.replace('\n', "\r\n"),
        body.len()
    )
    .unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Response { status, head: head.to_owned(), body: body.to_owned() }
}

/// Returns the header lines of a browser that has the cookie.
pub(crate) fn known(server: &ViewServer) -> String {
    let port = server.address().port();
    format!("Host: 127.0.0.1:{port}\nCookie: yb-view-{port}={}", token(server))
}

/// Requests a page with the cookie.
pub(crate) fn get(server: &ViewServer, path: &str) -> Response {
    send(server, &format!("GET {path} HTTP/1.1\n{}", known(server)), "")
}

/// Opens a stream of events and returns a reader below its head.
pub(crate) fn events(server: &ViewServer, path: &str) -> BufReader<TcpStream> {
    let mut stream = connect(server);
    let head = format!("GET {path} HTTP/1.1\n{}\n\n", known(server)).replace('\n', "\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0, "no response");
    }
    reader
}

/// Reads the data of the next event; `None` at the end of the stream.
pub(crate) fn next_event(reader: &mut BufReader<TcpStream>) -> Option<serde_json::Value> {
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(data) = line.strip_prefix("data: ") {
            return Some(serde_json::from_str(data).unwrap());
        }
    }
}
