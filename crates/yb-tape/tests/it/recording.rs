//! The recording proxy: forwards unchanged and records faithfully.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use yb_tape::{Error, MockServer, RecordingOptions, RecordingProxy, Roots, Secrets, Tape, Upstream};

use crate::client::{after, go, go_whole, post, post_as, request, send, serve};

/// A temporary directory for a tape.
pub(crate) struct TapeDir {
    directory: TempDir,
}

impl TapeDir {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("a.tape")
    }

    pub(crate) fn options(&self, upstream: &MockServer) -> RecordingOptions {
        RecordingOptions::new(Upstream::new(&upstream.base_url()).unwrap(), self.path())
    }

    /// Records these requests to the model.
    pub(crate) fn record(&self, upstream: &MockServer, bodies: &[serde_json::Value]) -> Tape {
        let proxy = RecordingProxy::start(self.options(upstream)).unwrap();
        for body in bodies {
            post(&proxy, body);
        }
        proxy.finish().unwrap();
        Tape::open(self.path()).unwrap()
    }
}

const LONG: &str = "- say: 'One two three four five six seven.'\n  pace: { chunk: 4 }\n  usage: { input: 100, output: 9, cache_read: 7 }\n- say: Last.";

#[test]
fn proxy_forwards_responses_byte_for_byte() {
    let model = serve(LONG);
    let tape_dir = TapeDir::new();
    let proxy = RecordingProxy::start(tape_dir.options(&model)).unwrap();
    for body in [go(), go_whole(), after(1)] {
        // Ids depend on the attempt, so the direct request goes to a fresh mock server.
        let direct = post(&serve(LONG), &body);
        let through = post(&proxy, &body);
        assert_eq!(through.status, direct.status);
        assert!(through.complete);
        if body != go_whole() {
            assert_eq!(through.text(), direct.text());
            assert_eq!(through.header("content-type"), direct.header("content-type"));
        }
    }
    let head = request(&proxy, "HEAD", "/api/hello", &[], b"");
    assert_eq!(head.status, Some(200));
    let recorded = proxy.finish().unwrap();
    assert_eq!(recorded.observed.exchanges, 4);
    let total = recorded.observed.total();
    assert_eq!((total.input, total.output, total.cache_read), (210, 23, 14));
    assert_eq!(recorded.observed.models.keys().collect::<Vec<_>>(), ["m"]);

    let tape = Tape::open(tape_dir.path()).unwrap();
    assert_eq!(tape.verify().problems, [""; 0]);
    assert_eq!(tape.exchanges().len(), 4);
    assert_eq!(tape.exchanges()[0].response_body(), post(&serve(LONG), &go()).body);
    assert_eq!(tape.observed().total(), total);
    assert_eq!(tape.lanes().iter().map(|lane| lane.name.as_str()).collect::<Vec<_>>(), ["main", "main-2"]);
}

#[test]
fn tape_contains_no_secrets() {
    let model = serve("- say: 'the key is sk-very-secret, I said sk-very-secret'\n  pace: { chunk: 3 }");
    let tape_dir = TapeDir::new();
    let secrets =
        Secrets::new().with("API_KEY", "sk-very-secret").with("QUOTED", "a\"quote").with("EMPTY", "");
    assert!(!format!("{secrets:?}").contains("very"));
    let proxy = RecordingProxy::start(tape_dir.options(&model).secrets(secrets).full_requests(true)).unwrap();
    let mut body = go();
    body["messages"][0]["content"] = json!("use sk-very-secret and a\"quote");
    body["system"] = json!("you know sk-very-secret");
    let headers = [
        ("authorization", "Bearer other-secret"),
        ("x-api-key", "other-secret"),
        ("x-custom", "has sk-very-secret in it"),
    ];
    let response = request(
        &proxy,
        "POST",
        "/v1/messages?beta=true&key=other-secret",
        &headers,
        body.to_string().as_bytes(),
    );
    assert!(response.reply_text().contains("sk-very-secret"), "the agent gets the original response");
    proxy.finish().unwrap();
    let lines = lines(&tape_dir.path());
    for secret in ["very-secret", "other-secret", "a\\\"quote"] {
        assert!(!lines.contains(secret), "{secret}: {lines}");
    }
    for placeholder in ["[REDACTED:API_KEY]", "[REDACTED:QUOTED]", "key=[REDACTED]"] {
        assert!(lines.contains(placeholder), "{placeholder}: {lines}");
    }
    let tape = Tape::open(tape_dir.path()).unwrap();
    assert_eq!(tape.verify().problems, [""; 0]);
}

/// All lines of a tape, as printed by `zstdcat`.
pub(crate) fn lines(path: &Path) -> String {
    let file = std::fs::read(path).unwrap();
    let mut rest = file.as_slice();
    let mut lines = String::new();
    while !rest.is_empty() {
        let mut decoder = ruzstd::decoding::StreamingDecoder::new(&mut rest).unwrap();
        decoder.read_to_string(&mut lines).unwrap();
    }
    lines
}

#[test]
fn system_prompts_and_tools_are_hashed_unless_full_requests() {
    let model = serve("- say: ok");
    let body = json!({
        "model": "m", "max_tokens": 100, "stream": true,
        "system": [{ "type": "text", "text": "VENDOR PROMPT" }],
        "tools": [{ "name": "Bash", "description": "VENDOR TOOL" }],
        "metadata": { "user_id": "USER-ID" },
        "messages": [
            { "role": "system", "content": "VENDOR ENV" },
            { "role": "user", "content": [
                { "type": "text", "text": "<system-reminder>VENDOR REMINDER</system-reminder>" },
                { "type": "text", "text": "the task" },
            ] },
        ],
    });
    for full in [false, true] {
        let tape_dir = TapeDir::new();
        let proxy = RecordingProxy::start(tape_dir.options(&model).full_requests(full)).unwrap();
        post_as(&proxy, &[("user-agent", "claude-cli/2"), ("x-session", "USER-ID")], &body);
        proxy.finish().unwrap();
        let lines = lines(&tape_dir.path());
        for own in ["VENDOR PROMPT", "VENDOR TOOL", "VENDOR ENV", "VENDOR REMINDER", "USER-ID"] {
            assert_eq!(lines.contains(own), full, "{own}: {lines}");
        }
        assert!(lines.contains("the task") && lines.contains("claude-cli/2"), "{lines}");
        let tape = Tape::open(tape_dir.path()).unwrap();
        assert_eq!(tape.has_full_requests(), full);
        let restored = tape.request_body(&tape.exchanges()[0]);
        if full {
            assert_eq!(restored, body);
        } else {
            assert_eq!(restored["messages"][1]["content"][1]["text"], "the task");
            assert!(restored["system"].as_str().unwrap().starts_with("[blake3:"));
        }
    }
}

#[test]
fn incomplete_response_is_recorded_up_to_its_end() {
    let model = serve("- fault: { cut: { after: 4 events } }\n  say: 'abcdefgh'\n  pace: { chunk: 2 }");
    let tape_dir = TapeDir::new();
    let proxy = RecordingProxy::start(tape_dir.options(&model)).unwrap();
    let response = post(&proxy, &go());
    assert!(!response.complete);
    proxy.finish().unwrap();
    let tape = Tape::open(tape_dir.path()).unwrap();
    let exchange = &tape.exchanges()[0];
    assert_eq!((exchange.ending(), exchange.is_complete()), ("cut", false));
    assert_eq!(exchange.response_body(), response.body);
    assert_eq!(tape.verify().notes, ["incomplete response in exchange 1: cut"]);
}

#[test]
fn disconnected_clients_leave_a_finished_tape() {
    let model = serve("- fault: { stall: { after: 2 events } }\n  say: a");
    let tape_dir = TapeDir::new();
    let proxy = RecordingProxy::start(tape_dir.options(&model)).unwrap();
    let mut left = send(&proxy, "POST", "/v1/messages", &[], go().to_string().as_bytes());
    // The first bytes have arrived, so the response is in progress.
    left.read_exact(&mut [0; 300]).unwrap();
    let waiting = send(&proxy, "POST", "/v1/messages", &[], go().to_string().as_bytes());
    (&waiting).read_exact(&mut [0; 300]).unwrap();
    drop(left);
    let recorded = proxy.finish().unwrap();
    assert_eq!(recorded.observed.exchanges, 2);
    let tape = Tape::open(tape_dir.path()).unwrap();
    assert_eq!(tape.truncation(), None);
    assert!(tape.exchanges().iter().all(|exchange| exchange.ending() == "left"));
}

#[test]
fn unreachable_upstream_is_reported_and_recorded() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let tape_dir = TapeDir::new();
    let upstream = Upstream::new(&format!("http://{unused}")).unwrap();
    let proxy = RecordingProxy::start(RecordingOptions::new(upstream, tape_dir.path())).unwrap();
    let response = post(&proxy, &go());
    assert_eq!(response.status, Some(502));
    assert!(
        response.text().contains(&format!("proxy failed to reach http://{unused}")),
        "{}",
        response.text()
    );
    proxy.finish().unwrap();
    assert_eq!(Tape::open(tape_dir.path()).unwrap().exchanges()[0].ending(), "unreachable");
}

#[test]
fn existing_files_are_kept_and_other_files_are_not_tapes() {
    let model = serve("- say: a");
    let tape_dir = TapeDir::new();
    std::fs::write(tape_dir.path(), "mine").unwrap();
    let error = RecordingProxy::start(tape_dir.options(&model)).unwrap_err();
    assert!(matches!(error, Error::WriteTape { .. }), "{error}");
    assert!(error.hint().unwrap().contains("never overwritten"));
    let error = Tape::open(tape_dir.path()).unwrap_err();
    assert!(matches!(error, Error::InvalidTape { .. }), "{error}");
    std::fs::write(tape_dir.path(), "").unwrap();
    assert!(Tape::open(tape_dir.path()).unwrap_err().to_string().ends_with("empty file"));
    assert!(matches!(Tape::open(tape_dir.path().join("x")).unwrap_err(), Error::ReadTape { .. }));
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    std::fs::remove_file(tape_dir.path()).unwrap();
    let error = RecordingProxy::start_on(listener, tape_dir.options(&model)).unwrap_err();
    assert!(matches!(error, Error::Bind { .. }), "only loopback: {error}");
}

#[test]
fn unfinished_recording_is_readable_and_marked() {
    let model = serve("- say: a\n- say: b");
    let tape_dir = TapeDir::new();
    let proxy = RecordingProxy::start(tape_dir.options(&model)).unwrap();
    post(&proxy, &go());
    while proxy.observed().exchanges < 1 {
        std::thread::yield_now();
    }
    drop(proxy);
    let tape = Tape::open(tape_dir.path()).unwrap();
    assert_eq!(tape.exchanges().len(), 1);
    assert_eq!(tape.truncation().unwrap().reason, "the recording was not finished");
}

#[test]
fn keep_alive_connection_serves_several_requests() {
    let model = serve("- say: a");
    let tape_dir = TapeDir::new();
    let proxy = RecordingProxy::start(tape_dir.options(&model)).unwrap();
    let mut stream = TcpStream::connect(proxy.address()).unwrap();
    for _ in 0..3 {
        let body = go_whole().to_string();
        write!(
            stream,
            "POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut buffer = [0; 4096];
        assert!(stream.read(&mut buffer).unwrap() > 0);
    }
    drop(stream);
    assert_eq!(proxy.finish().unwrap().observed.exchanges, 3);
}

#[tokio::test]
async fn tls_upstream_is_trusted_only_with_its_root_certificate() {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let provider = Arc::new(rustls_graviola::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key.into())
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = vec![0; 65_536];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").await;
            let _ = stream.shutdown().await;
        }
    });
    let tape_dir = TapeDir::new();
    let roots = tape_dir.path().with_extension("pem");
    std::fs::write(&roots, certified.cert.pem()).unwrap();
    let send_with = |roots: Roots| {
        let path = tape_dir.path().with_extension("secure");
        let upstream = Upstream::new(&format!("https://localhost:{port}")).unwrap().roots(roots);
        let proxy = RecordingProxy::start(RecordingOptions::new(upstream, path)).unwrap();
        tokio::task::spawn_blocking(move || request(&proxy, "GET", "/v1/models", &[], b""))
    };
    let trusted = send_with(Roots::Named { file: Some(roots), dir: None }).await.unwrap();
    assert_eq!((trusted.status, trusted.body.as_slice()), (Some(200), &b"hi"[..]));
    let stranger = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let other = tape_dir.path().with_extension("other");
    std::fs::write(&other, stranger.cert.pem()).unwrap();
    std::fs::remove_file(tape_dir.path().with_extension("secure")).unwrap();
    let rejected = send_with(Roots::Named { file: Some(other), dir: None }).await.unwrap();
    assert_eq!(rejected.status, Some(502));
    assert!(rejected.text().contains("certificate"), "{}", rejected.text());
}
