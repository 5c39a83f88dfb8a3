//! Sandboxed children whose only network access is through egress rules.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use yb_supervise::{Command, EgressRules, End, Report, Sandbox, SandboxKind};

use crate::support::{TEST_TIMEOUT, contained};

/// Starts a server that sends a fixed response to every connection after it has read something.
fn server(response: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 1000];
            let length = stream.read(&mut request).unwrap_or(0);
            let first =
                String::from_utf8_lossy(&request[..length]).lines().next().unwrap_or_default().to_owned();
            let body = format!("{response} {first}");
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    address
}

async fn run(kind: SandboxKind, directory: &Path, egress: EgressRules, script: &str) -> Report {
    let sandbox = Sandbox::new().kind(kind).writable(directory).egress(egress);
    let command: Command = contained("python3").env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command
        .args(["-c", script])
        .current_dir(directory)
        .sandbox(sandbox)
        .secret("KEY", "very-secret-key")
        .deadline(TEST_TIMEOUT)
        .run()
        .await
}

fn stdout_of(report: &Report) -> String {
    report.output.captured().map(|output| output.text().text.trim().to_owned()).unwrap_or_default()
}

/// A Python script that connects through the proxy of the environment, or directly.
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
async fn forwarded_address_is_reachable_and_others_are_not() {
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
        let report = run(kind, dir.path(), EgressRules::new().forward(model), &script).await;
        let stdout_of = stdout_of(&report);
        let lines: Vec<&str> = stdout_of.lines().collect();
        assert_eq!(lines[0], "model GET /a HTTP/1.1", "{kind}: {stdout_of}");
        for line in &lines[1..] {
            assert!(line.contains("Refused") || line.contains("Permission"), "{kind}: {stdout_of}");
        }
        assert_eq!(report.refused, [], "{kind}");
    }
}

#[tokio::test]
async fn allowed_hosts_are_proxied_and_refused_ones_are_reported() {
    for kind in SandboxKind::ALL {
        let dir = tempfile::tempdir().unwrap();
        let server = server("allowed");
        let allowed = format!("localhost:{}", server.port());
        // Python bypasses the proxy for hosts in NO_PROXY, so the script talks to the proxy itself.
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
        let egress = EgressRules::new().host(allowed.parse().unwrap());
        let report = run(kind, dir.path(), egress, &script).await;
        let stdout_of = stdout_of(&report);
        let lines: Vec<&str> = stdout_of.lines().collect();
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
async fn dns_udp_and_unix_sockets_are_unreachable_in_namespace() {
    use std::os::linux::net::SocketAddrExt as _;
    let dir = tempfile::tempdir().unwrap();
    let name = format!("yb-egress-{}", std::process::id());
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
    let report = run(SandboxKind::Bubblewrap, dir.path(), EgressRules::new(), &script).await;
    assert_eq!(stdout_of(&report), "ConnectionRefusedError\ngaierror\nOSError OSError");
    assert!(datagrams.recv(&mut [0; 9]).is_err(), "a datagram left the sandbox");
}

/// The program inherits stdio, but no descriptor that was used to set up its network.
#[tokio::test]
async fn sandbox_init_leaks_no_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let script = "import os, sys; print(sorted(map(int, os.listdir('/proc/self/fd')))); print(len(os.listdir('/proc/1/task'))); sys.exit(7)";
    let report = run(SandboxKind::Bubblewrap, dir.path(), EgressRules::new(), script).await;
    assert!(matches!(report.end, End::Exited { code: 7 }), "{}", report.end);
    assert_eq!(stdout_of(&report).lines().next(), Some("[0, 1, 2, 3]"));
}
