//! The recorder: what passes through it is the same as without it, and what is on the tape is what passed.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use yb_tape::{Error, Recorder, RecorderOptions, Roots, Secrets, Server, Tape, Upstream};

use crate::client::{after, go, go_whole, post, post_as, request, send, serve};

/// A directory with a tape in it.
pub(crate) struct Shelf {
    directory: TempDir,
}

impl Shelf {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("a.tape")
    }

    pub(crate) fn options(&self, upstream: &Server) -> RecorderOptions {
        RecorderOptions::new(Upstream::new(&upstream.base_url()).unwrap(), self.path())
    }

    /// Records what these requests get from this model.
    pub(crate) fn record(&self, upstream: &Server, bodies: &[serde_json::Value]) -> Tape {
        let recorder = Recorder::start(self.options(upstream)).unwrap();
        for body in bodies {
            post(&recorder, body);
        }
        recorder.finish().unwrap();
        Tape::open(self.path()).unwrap()
    }
}

const LONG: &str = "- say: 'One two three four five six seven.'\n  pace: { chunk: 4 }\n  usage: { input: 100, output: 9, cache_read: 7 }\n- say: Last.";

#[test]
fn what_passes_through_is_the_same_byte_for_byte() {
    let model = serve(LONG);
    let shelf = Shelf::new();
    let recorder = Recorder::start(shelf.options(&model)).unwrap();
    for body in [go(), go_whole(), after(1)] {
        // Attempts have ids of their own, so each side asks a model of its own.
        let direct = post(&serve(LONG), &body);
        let through = post(&recorder, &body);
        assert_eq!(through.status, direct.status);
        assert!(through.complete);
        if body != go_whole() {
            assert_eq!(through.text(), direct.text());
            assert_eq!(through.header("content-type"), direct.header("content-type"));
        }
    }
    let head = request(&recorder, "HEAD", "/api/hello", &[], b"");
    assert_eq!(head.status, Some(200));
    let recorded = recorder.finish().unwrap();
    assert_eq!(recorded.observed.exchanges, 4);
    let total = recorded.observed.total();
    assert_eq!((total.input, total.output, total.cache_read), (210, 23, 14));
    assert_eq!(recorded.observed.models.keys().collect::<Vec<_>>(), ["m"]);

    let tape = Tape::open(shelf.path()).unwrap();
    assert_eq!(tape.verify().problems, [""; 0]);
    assert_eq!(tape.exchanges().len(), 4);
    assert_eq!(tape.exchanges()[0].response_body(), post(&serve(LONG), &go()).body);
    assert_eq!(tape.observed().total(), total);
    assert_eq!(tape.lanes().iter().map(|lane| lane.name.as_str()).collect::<Vec<_>>(), ["main", "main-2"]);
}

#[test]
fn no_secret_gets_onto_the_tape() {
    let model = serve("- say: 'the key is sk-very-secret, I said sk-very-secret'\n  pace: { chunk: 3 }");
    let shelf = Shelf::new();
    let secrets =
        Secrets::new().with("API_KEY", "sk-very-secret").with("QUOTED", "a\"quote").with("EMPTY", "");
    assert!(!format!("{secrets:?}").contains("very"));
    let recorder = Recorder::start(shelf.options(&model).secrets(secrets).full_requests(true)).unwrap();
    let mut body = go();
    body["messages"][0]["content"] = json!("use sk-very-secret and a\"quote");
    body["system"] = json!("you know sk-very-secret");
    let headers = [
        ("authorization", "Bearer other-secret"),
        ("x-api-key", "other-secret"),
        ("x-custom", "has sk-very-secret in it"),
    ];
    let answer = request(
        &recorder,
        "POST",
        "/v1/messages?beta=true&key=other-secret",
        &headers,
        body.to_string().as_bytes(),
    );
    assert!(answer.said().contains("sk-very-secret"), "the agent gets the real thing");
    recorder.finish().unwrap();
    let lines = lines(&shelf.path());
    for secret in ["very-secret", "other-secret", "a\\\"quote"] {
        assert!(!lines.contains(secret), "{secret}: {lines}");
    }
    for stand_in in ["[REDACTED:API_KEY]", "[REDACTED:QUOTED]", "key=[REDACTED]"] {
        assert!(lines.contains(stand_in), "{stand_in}: {lines}");
    }
    let tape = Tape::open(shelf.path()).unwrap();
    assert_eq!(tape.verify().problems, [""; 0]);
}

/// All lines of a tape, as a person would see them with `zstdcat`.
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
fn an_agents_own_prompts_are_hashed_unless_asked_for() {
    let model = serve("- say: ok");
    let body = json!({
        "model": "m", "max_tokens": 100, "stream": true,
        "system": [{ "type": "text", "text": "MAKERS PROMPT" }],
        "tools": [{ "name": "Bash", "description": "MAKERS TOOL" }],
        "metadata": { "user_id": "SOMEBODY" },
        "messages": [
            { "role": "system", "content": "MAKERS ENV" },
            { "role": "user", "content": [
                { "type": "text", "text": "<system-reminder>MAKERS REMINDER</system-reminder>" },
                { "type": "text", "text": "the task" },
            ] },
        ],
    });
    for full in [false, true] {
        let shelf = Shelf::new();
        let recorder = Recorder::start(shelf.options(&model).full_requests(full)).unwrap();
        post_as(&recorder, &[("user-agent", "claude-cli/2"), ("x-session", "SOMEBODY")], &body);
        recorder.finish().unwrap();
        let lines = lines(&shelf.path());
        for own in ["MAKERS PROMPT", "MAKERS TOOL", "MAKERS ENV", "MAKERS REMINDER", "SOMEBODY"] {
            assert_eq!(lines.contains(own), full, "{own}: {lines}");
        }
        assert!(lines.contains("the task") && lines.contains("claude-cli/2"), "{lines}");
        let tape = Tape::open(shelf.path()).unwrap();
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
fn an_answer_that_breaks_off_is_recorded_as_far_as_it_came() {
    let model = serve("- fault: { cut: { after: 4 events } }\n  say: 'abcdefgh'\n  pace: { chunk: 2 }");
    let shelf = Shelf::new();
    let recorder = Recorder::start(shelf.options(&model)).unwrap();
    let answer = post(&recorder, &go());
    assert!(!answer.complete);
    recorder.finish().unwrap();
    let tape = Tape::open(shelf.path()).unwrap();
    let exchange = &tape.exchanges()[0];
    assert_eq!((exchange.ending(), exchange.is_complete()), ("cut", false));
    assert_eq!(exchange.response_body(), answer.body);
    assert_eq!(tape.verify().notes, ["exchange 1 has no whole answer: cut"]);
}

#[test]
fn an_agent_that_leaves_and_a_recorder_that_is_ended_leave_a_whole_tape() {
    let model = serve("- fault: { stall: { after: 2 events } }\n  say: a");
    let shelf = Shelf::new();
    let recorder = Recorder::start(shelf.options(&model)).unwrap();
    let mut left = send(&recorder, "POST", "/v1/messages", &[], go().to_string().as_bytes());
    // The first bytes are there, so the answer is under way.
    left.read_exact(&mut [0; 300]).unwrap();
    let waiting = send(&recorder, "POST", "/v1/messages", &[], go().to_string().as_bytes());
    (&waiting).read_exact(&mut [0; 300]).unwrap();
    drop(left);
    let recorded = recorder.finish().unwrap();
    assert_eq!(recorded.observed.exchanges, 2);
    let tape = Tape::open(shelf.path()).unwrap();
    assert_eq!(tape.cut(), None);
    assert!(tape.exchanges().iter().all(|exchange| exchange.ending() == "left"));
}

#[test]
fn an_upstream_that_can_t_be_reached_is_said_and_recorded() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let shelf = Shelf::new();
    let upstream = Upstream::new(&format!("http://{nobody}")).unwrap();
    let recorder = Recorder::start(RecorderOptions::new(upstream, shelf.path())).unwrap();
    let answer = post(&recorder, &go());
    assert_eq!(answer.status, Some(502));
    assert!(
        answer.text().contains(&format!("the recorder can't reach http://{nobody}")),
        "{}",
        answer.text()
    );
    recorder.finish().unwrap();
    assert_eq!(Tape::open(shelf.path()).unwrap().exchanges()[0].ending(), "unreachable");
}

#[test]
fn a_tape_is_never_written_over_and_strangers_are_told_apart() {
    let model = serve("- say: a");
    let shelf = Shelf::new();
    std::fs::write(shelf.path(), "mine").unwrap();
    let error = Recorder::start(shelf.options(&model)).unwrap_err();
    assert!(matches!(error, Error::WriteTape { .. }), "{error}");
    assert!(error.hint().unwrap().contains("never written over"));
    let error = Tape::open(shelf.path()).unwrap_err();
    assert!(matches!(error, Error::NoTape { .. }), "{error}");
    std::fs::write(shelf.path(), "").unwrap();
    assert!(Tape::open(shelf.path()).unwrap_err().to_string().ends_with("it is empty"));
    assert!(matches!(Tape::open(shelf.path().join("x")).unwrap_err(), Error::ReadTape { .. }));
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    std::fs::remove_file(shelf.path()).unwrap();
    let error = Recorder::start_on(listener, shelf.options(&model)).unwrap_err();
    assert!(matches!(error, Error::Bind { .. }), "only loopback: {error}");
}

#[test]
fn a_recording_that_was_killed_is_usable_and_says_so() {
    let model = serve("- say: a\n- say: b");
    let shelf = Shelf::new();
    let recorder = Recorder::start(shelf.options(&model)).unwrap();
    post(&recorder, &go());
    while recorder.observed().exchanges < 1 {
        std::thread::yield_now();
    }
    drop(recorder);
    let tape = Tape::open(shelf.path()).unwrap();
    assert_eq!(tape.exchanges().len(), 1);
    assert_eq!(tape.cut().unwrap().reason, "the recording was not finished");
}

#[test]
fn a_kept_connection_serves_the_next_request() {
    let model = serve("- say: a");
    let shelf = Shelf::new();
    let recorder = Recorder::start(shelf.options(&model)).unwrap();
    let mut stream = TcpStream::connect(recorder.address()).unwrap();
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
    assert_eq!(recorder.finish().unwrap().observed.exchanges, 3);
}

#[tokio::test]
async fn an_upstream_behind_tls_is_believed_only_if_the_roots_name_it() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls_graviola::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
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
    let shelf = Shelf::new();
    let roots = shelf.path().with_extension("pem");
    std::fs::write(&roots, made.cert.pem()).unwrap();
    let ask = |roots: Roots| {
        let path = shelf.path().with_extension("secure");
        let upstream = Upstream::new(&format!("https://localhost:{port}")).unwrap().trusting(roots);
        let recorder = Recorder::start(RecorderOptions::new(upstream, path)).unwrap();
        tokio::task::spawn_blocking(move || request(&recorder, "GET", "/v1/models", &[], b""))
    };
    let trusted = ask(Roots::Named { file: Some(roots), dir: None }).await.unwrap();
    assert_eq!((trusted.status, trusted.body.as_slice()), (Some(200), &b"hi"[..]));
    let stranger = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let other = shelf.path().with_extension("other");
    std::fs::write(&other, stranger.cert.pem()).unwrap();
    std::fs::remove_file(shelf.path().with_extension("secure")).unwrap();
    let refused = ask(Roots::Named { file: Some(other), dir: None }).await.unwrap();
    assert_eq!(refused.status, Some(502));
    assert!(refused.text().contains("certificate"), "{}", refused.text());
}
