//! A child whose only way out is ours.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use yb_supervise::{Command, End, Exits, Report, Sandbox, SandboxKind};

use crate::support::{GUARD, contained};

/// A server that says one thing to each that connects, after it has heard something.
fn server(says: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut heard = [0; 1000];
            let length = stream.read(&mut heard).unwrap_or(0);
            let first =
                String::from_utf8_lossy(&heard[..length]).lines().next().unwrap_or_default().to_owned();
            let body = format!("{says} {first}");
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    address
}

async fn run(kind: SandboxKind, directory: &Path, exits: Exits, script: &str) -> Report {
    let sandbox = Sandbox::new().by(kind).writable(directory).exits(exits);
    let command: Command = contained("python3").env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command
        .args(["-c", script])
        .current_dir(directory)
        .sandbox(sandbox)
        .secret("KEY", "very-secret-key")
        .deadline(GUARD)
        .run()
        .await
}

fn said(report: &Report) -> String {
    report.output.captured().map(|output| output.text().text.trim().to_owned()).unwrap_or_default()
}

/// Through the proxy that the environment names, or past it.
const ASK: &str = "
import sys, urllib.request, socket
def ask(url, **how):
    opener = urllib.request.build_opener(*how.values())
    try:
        return opener.open(url, timeout=10).read().decode()
    except Exception as error:
        return type(error).__name__ + ' ' + str(getattr(error, 'code', ''))
def direct(family, address):
    try:
        socket.socket(family).connect(address)
        return 'connected'
    except OSError as error:
        return type(error).__name__
";

#[tokio::test]
async fn what_is_passed_on_is_reached_and_nothing_else_is() {
    for kind in SandboxKind::ALL {
        let dir = tempfile::tempdir().unwrap();
        let (model, other) = (server("model"), server("other"));
        let script = format!(
            "{ASK}
print(ask('http://{model}/a'))
print(direct(socket.AF_INET, ('127.0.0.1', {})))
print(direct(socket.AF_INET6, ('::1', {})))",
            other.port(),
            other.port()
        );
        let report = run(kind, dir.path(), Exits::new().forward(model), &script).await;
        let said = said(&report);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], "model GET /a HTTP/1.1", "{kind}: {said}");
        for line in &lines[1..] {
            assert!(line.contains("Refused") || line.contains("Permission"), "{kind}: {said}");
        }
        assert_eq!(report.refused, [], "{kind}");
    }
}

#[tokio::test]
async fn hosts_go_through_the_proxy_and_what_it_refuses_is_listed() {
    for kind in SandboxKind::ALL {
        let dir = tempfile::tempdir().unwrap();
        let server = server("allowed");
        let allowed = format!("localhost:{}", server.port());
        // Python takes no proxy for what NO_PROXY names, so the proxy is asked by hand.
        let script = format!(
            "{ASK}
import os
proxy = urllib.request.ProxyHandler({{'http': os.environ['HTTP_PROXY'], 'https': os.environ['https_proxy']}})
urllib.request.proxy_bypass = lambda host: False
print(ask('http://{allowed}/x', proxy=proxy))
print(ask('http://127.0.0.1:{port}/x', proxy=proxy))
print(ask('https://very-secret-key.example.org/x', proxy=proxy))
print(ask('https://example.org/x', proxy=proxy), ask('https://example.org/x', proxy=proxy))
s = socket.create_connection(os.environ['HTTP_PROXY'].removeprefix('http://').split(':'))
s.sendall(b'CONNECT {allowed} HTTP/1.1\\r\\n\\r\\n'); print(s.recv(100)[:12]); s.sendall(b'GET /tunnel'); print(s.makefile('rb').read()[-19:])
",
            port = server.port()
        );
        let exits = Exits::new().host(allowed.parse().unwrap());
        let report = run(kind, dir.path(), exits, &script).await;
        let said = said(&report);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(
            lines,
            [
                "allowed GET /x HTTP/1.1",
                "HTTPError 403",
                "URLError ",
                "URLError  URLError ",
                "b'HTTP/1.1 200'",
                "b'allowed GET /tunnel'"
            ],
            "{kind}"
        );
        let refused: Vec<(String, u64)> =
            report.refused.iter().map(|one| (one.target.clone(), one.times)).collect();
        let own = format!("127.0.0.1:{}", server.port());
        assert_eq!(
            refused,
            [("example.org:443".to_owned(), 2), (own, 1), ("[REDACTED:KEY].example.org:443".to_owned(), 1)],
            "{kind}"
        );
    }
}

#[tokio::test]
async fn names_datagrams_and_sockets_of_the_host_are_out_of_reach_in_a_namespace() {
    use std::os::linux::net::SocketAddrExt as _;
    let dir = tempfile::tempdir().unwrap();
    let name = format!("yb-exits-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    datagrams.set_nonblocking(true).unwrap();
    let script = format!(
        "{ASK}
print(direct(socket.AF_UNIX, '\\0{name}'))
try:
    print(socket.getaddrinfo('example.org', 80))
except OSError as error:
    print(type(error).__name__)
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {}))
print(direct(socket.AF_INET, ('192.0.2.1', 80)), direct(socket.AF_INET6, ('2001:db8::1', 80)))",
        datagrams.local_addr().unwrap().port()
    );
    let report = run(SandboxKind::Bubblewrap, dir.path(), Exits::new(), &script).await;
    assert_eq!(said(&report), "ConnectionRefusedError\ngaierror\nOSError OSError");
    assert!(datagrams.recv(&mut [0; 9]).is_err(), "a datagram came out");
}

/// The program within gets stdio and nothing of what made its network.
#[tokio::test]
async fn nothing_is_left_of_the_way_in() {
    let dir = tempfile::tempdir().unwrap();
    let script = "import os, sys; print(sorted(map(int, os.listdir('/proc/self/fd')))); print(len(os.listdir('/proc/1/task'))); sys.exit(7)";
    let report = run(SandboxKind::Bubblewrap, dir.path(), Exits::new(), script).await;
    assert!(matches!(report.end, End::Exited { code: 7 }), "{}", report.end);
    assert_eq!(said(&report).lines().next(), Some("[0, 1, 2, 3]"));
}
