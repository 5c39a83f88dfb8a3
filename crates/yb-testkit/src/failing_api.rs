//! A model API that answers each request with the status that its query asks for.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::OnceLock;

/// Returns the base URL of an API in this process that answers `POST …?status=529` with status 529.
///
/// # Panics
/// Panics if no port is free.
#[must_use]
pub fn failing_api() -> &'static str {
    static URL: OnceLock<String> = OnceLock::new();
    URL.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap_or_else(|error| panic!("no port: {error}"));
        let address = listener.local_addr().unwrap_or_else(|error| panic!("no address: {error}"));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || answer(stream));
            }
        });
        format!("http://{address}")
    })
}

/// Answers one request and closes the connection.
fn answer(mut stream: TcpStream) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    let first = lines.next()?.ok()?;
    let status = first.split_once("status=")?.1.split(' ').next()?.to_owned();
    lines.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
    let body = r#"{"type":"error","error":{"type":"api_error","message":"as requested"}}"#;
    let head = format!(
        "HTTP/1.1 {status} Requested\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()
}
