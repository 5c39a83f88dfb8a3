//! Webhooks against real servers on loopback, with a fake resolver and clock.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use yb_supervise::CancellationToken;

use super::sender::Clock;
use super::*;
use yb_net::policy::{HostPolicy, Resolver};

/// A server that sends one response per connection, repeats the last one, and records requests.
struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(answers: &[&str]) -> Self {
        Self::with(answers, None).await
    }

    async fn with(answers: &[&str], tls: Option<tokio_rustls::TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (kept, answers) =
            (Arc::clone(&requests), answers.iter().map(ToString::to_string).collect::<Vec<_>>());
        tokio::spawn(async move {
            for at in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let answer = answers[at.min(answers.len() - 1)].clone();
                match &tls {
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            respond(stream, &answer, &kept).await;
                        }
                    }
                    None => respond(stream, &answer, &kept).await,
                }
            }
        });
        Self { address, requests }
    }

    fn url(&self) -> String {
        format!("http://{}/in?token=query-token", self.address)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Reads one request and responds; `hang` never responds, `echo` responds with the request.
async fn respond<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, answer: &str, kept: &Mutex<Vec<String>>) {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    let text = loop {
        let count = stream.read(&mut part).await.unwrap_or(0);
        bytes.extend_from_slice(&part[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let length =
            text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        let whole = text.split_once("\r\n\r\n").is_some_and(|(_, body)| body.len() >= length.unwrap_or(0));
        if whole || count == 0 {
            break text;
        }
    };
    kept.lock().unwrap().push(text.clone());
    let answer = match answer {
        "hang" => return std::future::pending().await,
        "echo" => format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{text}"),
        answer => answer.to_owned(),
    };
    // The client may have read enough.
    drop(stream.write_all(answer.as_bytes()).await);
    drop(stream.shutdown().await);
}

fn status(line: &str) -> String {
    format!("HTTP/1.1 {line}\r\ncontent-length: 2\r\n\r\nok")
}

/// A resolver with fixed addresses that counts its calls.
struct FakeResolver {
    answers: Vec<SocketAddr>,
    asked: AtomicUsize,
}

impl FakeResolver {
    fn new(answers: &[SocketAddr]) -> Self {
        Self { answers: answers.to_vec(), asked: AtomicUsize::new(0) }
    }
}

#[async_trait]
impl Resolver for FakeResolver {
    async fn resolve(&self, _: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
        let at = self.asked.fetch_add(1, Ordering::SeqCst);
        Ok(vec![self.answers[at.min(self.answers.len() - 1)]])
    }
}

/// A clock that does not sleep and records the requested durations.
#[derive(Default)]
struct FakeClock(Mutex<Vec<u64>>);

#[async_trait]
impl Clock for FakeClock {
    async fn sleep(&self, time: Duration) {
        self.0.lock().unwrap().push(time.as_secs());
    }
}

fn hook(url: impl Into<String>) -> Webhook {
    Webhook {
        url: url.into(),
        method: "POST".to_owned(),
        headers: Vec::new(),
        include_artifacts: false,
        retry_on_failure: true,
        // Long enough not to matter, unless a test shortens it.
        timeout: Duration::from_secs(60),
    }
}

fn env() -> BTreeMap<String, String> {
    [("TOKEN", "s3cret-of-the-hook"), ("HOST", "127.0.0.1")].map(|(a, b)| (a.to_owned(), b.to_owned())).into()
}

/// The result of a hook, and the delays between its attempts.
struct HookRun {
    result: HookResult,
    waits: Vec<u64>,
}

async fn run_hook(hook: &Webhook, hosts: HostPolicy, resolver: &dyn Resolver, roots: Roots) -> HookRun {
    let waits = FakeClock::default();
    let cancellation = CancellationToken::new();
    let sender = WebhookSender { hosts, resolver, roots, clock: &waits, cancellation };
    let prepared = prepare(hook, &env()).unwrap();
    let began = Instant::now();
    let send_hook = sender.send(&prepared, hook, r#"{"results":{}}"#.to_owned()).await;
    let result = prepared.result(&send_hook, began);
    HookRun { result, waits: waits.0.into_inner().unwrap() }
}

async fn send_hook(hook: &Webhook) -> HookRun {
    run_hook(hook, HostPolicy::AllowPrivate, &SystemResolver, Roots::System).await
}

#[tokio::test]
async fn webhook_sends_results_with_method_and_headers() {
    let server = Server::start(&[&status("201 Created")]).await;
    let mut hook = hook(server.url());
    hook.method = "PUT".to_owned();
    hook.headers = vec![("X-Key".to_owned(), "a ${ENV:TOKEN}".to_owned())];
    let HookRun { result, waits } = send_hook(&hook).await;
    assert!(result.succeeded, "{result:?}");
    assert_eq!((result.message.as_str(), result.output.as_str()), ("HTTP 201 Created", "ok"));
    assert_eq!(result.what, format!("PUT http://{}", server.address), "no path and no query");
    assert!(waits.is_empty());
    let request = &server.requests()[0];
    assert!(request.starts_with("PUT /in?token=query-token HTTP/1.1\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\n{\"results\":{}}"), "{request}");
    for line in [
        "content-type: application/json",
        "content-length: 14",
        &format!("user-agent: {USER_AGENT}"),
        &format!("host: {}", server.address),
        "x-key: a s3cret-of-the-hook",
    ] {
        assert!(request.contains(&format!("{line}\r\n")), "{line}: {request}");
    }
}

#[tokio::test]
async fn secrets_are_redacted_in_the_response() {
    let server = Server::start(&["echo"]).await;
    let mut hook = hook(format!("http://${{ENV:HOST}}:{}/${{ENV:TOKEN}}/x", server.address.port()));
    hook.headers = [
        ("Authorization", "Bearer ${ENV:TOKEN}"),
        ("X-Api-Key", "k3y!"),
        ("X-Other", "written-into-the-case"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec();
    let HookRun { result, .. } = send_hook(&hook).await;
    let kept = serde_json::to_string(&result).unwrap();
    assert!(result.output.contains("[REDACTED:Authorization]"), "{kept}");
    for secret in ["s3cret-of-the-hook", "k3y!", "written-into-the-case"] {
        assert!(server.requests()[0].contains(secret), "it was sent");
        assert!(!kept.contains(secret), "{kept}");
    }
    // A host is no secret, whatever variable it came from.
    assert_eq!(result.what, format!("POST http://{}", server.address));
}

/// With many services the whole URL is secret, and their servers repeat parts of it.
#[tokio::test]
async fn parts_of_a_secret_url_are_redacted() {
    let body = "Cannot POST /services/T0/B0/abcdef with sig=ghijkl";
    let answer = format!("HTTP/1.1 404 X\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let server = Server::start(&[&answer]).await;
    let mut env = env();
    env.insert("URL".to_owned(), format!("http://{}/services/T0/B0/abcdef?sig=ghijkl", server.address));
    let hook = hook("${ENV:URL}");
    let prepared = prepare(&hook, &env).unwrap();
    let sender = WebhookSender {
        hosts: HostPolicy::AllowPrivate,
        resolver: &SystemResolver,
        roots: Roots::System,
        clock: &FakeClock::default(),
        cancellation: CancellationToken::new(),
    };
    let result = prepared.result(&sender.send(&prepared, &hook, String::new()).await, Instant::now());
    assert_eq!(result.output, "Cannot POST [REDACTED:url] with [REDACTED:url]");
    assert_eq!(result.what, format!("POST http://{}", server.address));
}

#[tokio::test]
async fn private_hosts_are_refused_in_every_notation() {
    let server = Server::start(&[&status("200 OK")]).await;
    let port = server.address.port();
    for host in
        ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "localhost", "0x7f.1", "2130706433", "169.254.169.254"]
    {
        let hook = hook(format!("http://{host}:{port}/"));
        let HookRun { result, waits } =
            run_hook(&hook, HostPolicy::PublicOnly, &SystemResolver, Roots::System).await;
        assert!(!result.succeeded && result.message.starts_with("host is private: "), "{host}: {result:?}");
        assert!(result.message.contains("--allow-private-hosts"), "{}", result.message);
        assert!(waits.is_empty(), "permanent failures are not retried");
    }
    let names = FakeResolver::new(&["10.0.0.7:80".parse().unwrap()]);
    let named =
        run_hook(&hook("http://public.example/"), HostPolicy::PublicOnly, &names, Roots::System).await;
    assert!(named.result.message.contains("`public.example` is 10.0.0.7"), "{:?}", named.result);
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn host_is_resolved_once_for_all_attempts() {
    let first = Server::start(&[&status("503 Busy"), &status("200 OK")]).await;
    let second = Server::start(&[&status("200 OK")]).await;
    let names = FakeResolver::new(&[first.address, second.address]);
    let run_hook =
        run_hook(&hook("http://rebinding.example/"), HostPolicy::AllowPrivate, &names, Roots::System).await;
    assert!(run_hook.result.succeeded, "{:?}", run_hook.result);
    assert_eq!((first.requests().len(), second.requests().len()), (2, 0));
    assert_eq!(names.asked.load(Ordering::SeqCst), 1);
    assert!(first.requests()[0].contains("host: rebinding.example\r\n"));
}

#[tokio::test]
async fn redirect_is_reported_as_failure() {
    let inside = Server::start(&[&status("200 OK")]).await;
    let answer =
        format!("HTTP/1.1 302 Found\r\nlocation: http://{}/\r\ncontent-length: 0\r\n\r\n", inside.address);
    let server = Server::start(&[&answer]).await;
    let HookRun { result, waits } = send_hook(&hook(server.url())).await;
    assert!(!result.succeeded && waits.is_empty());
    assert!(result.message.contains("302") && result.message.contains("not followed"), "{}", result.message);
    assert_eq!(inside.requests().len(), 0);
}

#[tokio::test]
async fn transient_failures_are_retried() {
    let wait = |line: &str, after: &str| {
        format!("HTTP/1.1 {line}\r\nretry-after: {after}\r\ncontent-length: 0\r\n\r\n")
    };
    for (answers, succeeded, waits, message) in [
        (
            vec![status("503 X"), status("500 X"), status("200 OK")],
            true,
            vec![1, 2],
            "200 OK, after 3 attempts",
        ),
        (vec![status("500 X")], false, vec![1, 2], "500 Internal Server Error, after 3 attempts"),
        (vec![wait("429 X", "7"), status("200 OK")], true, vec![7], "200 OK, after 2 attempts"),
        (vec![wait("503 X", "0"), status("200 OK")], true, vec![1], "200 OK, after 2 attempts"),
        (vec![wait("429 X", "3600")], false, vec![], "retry-after is too long: 3600s"),
        (vec![status("400 X")], false, vec![], "HTTP 400 Bad Request"),
        (vec![wait("404 X", "1")], false, vec![], "HTTP 404 Not Found"),
        (vec!["HTTP/1.1 2".to_owned(), status("200 OK")], true, vec![1], "200 OK, after 2 attempts"),
    ] {
        let answers: Vec<&str> = answers.iter().map(String::as_str).collect();
        let server = Server::start(&answers).await;
        let run_hook = send_hook(&hook(server.url())).await;
        assert_eq!(
            (run_hook.result.succeeded, &run_hook.waits),
            (succeeded, &waits),
            "{:?}",
            run_hook.result
        );
        assert!(run_hook.result.message.contains(message), "{:?}", run_hook.result);
        assert_eq!(server.requests().len(), waits.len() + 1);
    }
}

#[tokio::test]
async fn disabled_retries_make_one_attempt() {
    let server = Server::start(&[&status("503 X")]).await;
    let mut hook = hook(server.url());
    hook.retry_on_failure = false;
    let HookRun { result, waits } = send_hook(&hook).await;
    assert_eq!((result.message.as_str(), waits.len()), ("HTTP 503 Service Unavailable", 0));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn unreachable_host_is_retried() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let HookRun { result, waits } = send_hook(&hook(format!("http://{free}/"))).await;
    assert_eq!(waits, [1, 2]);
    assert!(
        result.message.contains("failed to connect to") && result.message.contains("3 attempts"),
        "{result:?}"
    );
    let HookRun { result, waits } = send_hook(&hook("http://no-such-host.invalid/")).await;
    assert_eq!(waits, [1, 2]);
    assert!(result.message.contains("can't be resolved"), "{result:?}");
}

#[tokio::test]
async fn missing_response_times_out() {
    let server = Server::start(&["hang"]).await;
    let mut hook = hook(server.url());
    hook.timeout = Duration::from_millis(100);
    hook.retry_on_failure = false;
    let HookRun { result, .. } = send_hook(&hook).await;
    assert_eq!((result.succeeded, result.message.as_str()), (false, "no response within 100ms"));
}

#[tokio::test]
async fn long_response_is_truncated() {
    let long = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{}", "x".repeat(1 << 20));
    let server = Server::start(&[&long]).await;
    let HookRun { result, .. } = send_hook(&hook(server.url())).await;
    assert!(result.succeeded, "{result:?}");
    assert_eq!(result.output.len(), MAX_OUTPUT_CHARS);
}

#[tokio::test]
async fn cancellation_ends_sending() {
    let server = Server::start(&["hang"]).await;
    let hook = hook(server.url());
    let prepared = prepare(&hook, &env()).unwrap();
    let cancellation = CancellationToken::new();
    let (hosts, roots) = (HostPolicy::AllowPrivate, Roots::System);
    let clock = FakeClock::default();
    let sender = WebhookSender {
        hosts,
        resolver: &SystemResolver,
        roots,
        clock: &clock,
        cancellation: cancellation.clone(),
    };
    let cancel = async {
        while server.requests().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        cancellation.cancel();
    };
    let (sent, ()) = tokio::join!(sender.send(&prepared, &hook, String::new()), cancel);
    assert_eq!((sent.succeeded, sent.message.as_str()), (false, "cancelled"));
}

#[tokio::test]
async fn https_trusts_only_the_configured_roots() {
    let made = rcgen::generate_simple_self_signed(["hook.example".to_owned()]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("roots.pem");
    std::fs::write(&file, made.cert.pem()).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls_graviola::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .unwrap();
    let server = Server::with(&[&status("200 OK")], Some(Arc::new(config).into())).await;
    let trusted = Roots::Named { file: Some(file), dir: None };
    let untrusted = directory.path().join("untrusted.pem");
    let other = rcgen::generate_simple_self_signed(["hook.example".to_owned()]).unwrap();
    std::fs::write(&untrusted, other.cert.pem()).unwrap();
    let untrusted = Roots::Named { file: Some(untrusted), dir: None };

    let names = FakeResolver::new(&[server.address]);
    let post = |host: &str, roots: &Roots| {
        let (hook, roots) = (hook(format!("https://{host}/in")), roots.clone());
        let names = &names;
        async move { run_hook(&hook, HostPolicy::AllowPrivate, names, roots).await }
    };
    let fine = post("hook.example", &trusted).await;
    assert!(fine.result.succeeded, "{:?}", fine.result);
    assert!(server.requests()[0].contains("host: hook.example\r\n"));
    for (host, roots) in [("other.example", &trusted), ("hook.example", &untrusted)] {
        let HookRun { result, waits } = post(host, roots).await;
        assert!(!result.succeeded && result.message.contains("certificate"), "{result:?}");
        assert!(waits.is_empty(), "certificate errors are not retried");
    }
    assert_eq!(server.requests().len(), 1, "nothing is sent to an untrusted server");
}

#[test]
fn invalid_webhook_is_rejected_without_revealing_values() {
    let with = |url: &str, headers: &[(&str, &str)]| {
        let mut hook = hook(url);
        hook.headers =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut env = env();
        env.insert("LINES".to_owned(), "a-secret\nb".to_owned());
        let error = prepare(&hook, &env).map(|_| ()).unwrap_err();
        assert!(error.is_configuration() && !error.hints().is_empty(), "{error}");
        error.to_string()
    };
    assert_eq!(with("https://${ENV:NOT_SET}/", &[]), "environment variable is not set: `NOT_SET`");
    assert_eq!(
        with("https://me:a-secret@host/", &[]),
        "invalid webhook: `url`: credentials are not allowed in the URL"
    );
    assert_eq!(with("${ENV:TOKEN}", &[]), "invalid webhook: `url`: scheme must be `http` or `https`");
    assert_eq!(with("ftp://host/", &[]), "invalid webhook: `url`: scheme must be `http` or `https`");
    let good = "https://host.example/";
    assert_eq!(with(good, &[("Host", "inside")]), "invalid webhook: header can't be set: `Host`");
    assert_eq!(with(good, &[("a b", "x")]), "invalid webhook: header can't be set: `a b`");
    assert_eq!(
        with(good, &[("X-Lines", "${ENV:LINES}")]),
        "invalid webhook: value of the header can't be sent: `X-Lines`"
    );
}
