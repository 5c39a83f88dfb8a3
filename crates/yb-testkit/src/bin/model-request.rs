//! Sends one model request to `ANTHROPIC_BASE_URL`, for agents in tests whose API fails: `model-request STATUS` asks
//! [`failing_api`](yb_testkit::failing_api) for an answer with that status.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::ExitCode;

fn main() -> ExitCode {
    match request() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "model-request: {error}");
            ExitCode::FAILURE
        }
    }
}

fn request() -> std::io::Result<()> {
    let missing = |what: &str| std::io::Error::other(format!("missing {what}"));
    let status = std::env::args().nth(1).ok_or_else(|| missing("STATUS"))?;
    let url = std::env::var("ANTHROPIC_BASE_URL").map_err(|_| missing("ANTHROPIC_BASE_URL"))?;
    let address = url.strip_prefix("http://").ok_or_else(|| missing("an http URL"))?;
    let mut stream = TcpStream::connect(address)?;
    let head = format!(
        "POST /v1/messages?status={status} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
    );
    stream.write_all(head.as_bytes())?;
    stream.read_to_end(&mut Vec::new()).map(drop)
}
