//! A minimal HTTP client for a server on loopback.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// The read timeout.
const READ_TIMEOUT: Duration = Duration::from_secs(120);

/// Posts JSON and returns the JSON response.
pub(super) fn post(base: &str, path: &str, body: &Value) -> Result<Value, String> {
    let rest = base.strip_prefix("http://").ok_or("unsupported URL, expected `http://` on loopback")?;
    let (authority, prefix) = rest.split_once('/').map_or((rest, ""), |(host, prefix)| (host, prefix));
    let prefix = prefix.trim_end_matches('/');
    let path = if prefix.is_empty() { path.to_owned() } else { format!("/{prefix}{path}") };
    let failed = |error: std::io::Error| format!("failed to reach the model API: {error}");
    let mut stream = TcpStream::connect(authority).map_err(failed)?;
    stream.set_read_timeout(Some(READ_TIMEOUT)).map_err(failed)?;
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {authority}\r\ncontent-type: application/json\r\nx-api-key: none\r\n\
         anthropic-version: 2023-06-01\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).map_err(failed)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(failed)?;
    let (status, body) = parse(&answer).ok_or("invalid HTTP response of the model API")?;
    let value: Value = serde_json::from_slice(&body).unwrap_or_default();
    if status == 200 && value.is_object() {
        return Ok(value);
    }
    let message = value["error"]["message"].as_str().map(str::to_owned);
    Err(format!(
        "API error {status}: {}",
        message.unwrap_or_else(|| String::from_utf8_lossy(&body).into_owned())
    ))
}

/// Parses status and body of a complete response.
fn parse(answer: &[u8]) -> Option<(u16, Vec<u8>)> {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let body = &answer[end + 4..];
    let chunked = head.to_ascii_lowercase().contains("\r\ntransfer-encoding: chunked");
    Some((status, if chunked { unchunked(body)? } else { body.to_vec() }))
}

fn unchunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|bytes| bytes == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..line]).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        rest = &rest[line + 2..];
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn parse_reads_plain_and_chunked_responses() {
        let whole = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        assert_eq!(parse(whole), Some((200, b"{}".to_vec())));
        let chunked =
            b"HTTP/1.1 429 Too Many\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;x\r\n}\r\n0\r\n\r\n";
        assert_eq!(parse(chunked), Some((429, b"{}".to_vec())));
        for wrong in
            [&b""[..], b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200\r\ntransfer-encoding: chunked\r\n\r\n9\r\n{}"]
        {
            assert_eq!(parse(wrong), None, "{}", String::from_utf8_lossy(wrong));
        }
    }
}
