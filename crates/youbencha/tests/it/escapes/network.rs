//! Network access: none, the model and allowed hosts, or open.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::{Value, json};
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::RealClaude;

use super::World;
use crate::YB;

/// A server on loopback that answers every request.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let _ = stream.read(&mut [0; 1000]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi");
        }
    });
    port
}

/// Writes a line to `found` for each reachable target: TCP over IPv4 and IPv6, DNS, a datagram, an abstract socket, a
/// socket in a directory, and the configured proxy.
fn ways(port: u16, host: u16, abstract_name: &str, path: &str) -> String {
    format!(
        "cat > try.py <<'EOF'
import os, socket, urllib.request
def can(name, attempt):
    try:
        attempt()
        open('found', 'a').write(name + '\\n')
    except Exception:
        pass
def tcp(family, address):
    s = socket.socket(family)
    s.settimeout(5)
    s.connect(address)
can('model', lambda: urllib.request.urlopen('http://127.0.0.1:{port}/', timeout=5).read())
can('ipv4', lambda: tcp(socket.AF_INET, ('127.0.0.1', {host})))
can('ipv6', lambda: tcp(socket.AF_INET6, ('::ffff:127.0.0.1', {host})))
def mptcp():
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
    s.settimeout(5)
    s.connect(('127.0.0.1', {host}))
can('mptcp', mptcp)
can('abstract', lambda: tcp(socket.AF_UNIX, '\\0{abstract_name}'))
can('unix', lambda: tcp(socket.AF_UNIX, '{path}'))
def datagram():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(('192.0.2.1', 53))
can('datagrams', datagram)
def proxied():
    proxy = os.environ['HTTPS_PROXY'].removeprefix('http://').split(':')
    s = socket.create_connection(proxy, 5)
    s.sendall(b'CONNECT stolen.example.org:443 HTTP/1.1\\r\\n\\r\\n')
    assert b' 200 ' in s.recv(100)
can('proxy', proxied)
EOF
python3 try.py; rm try.py; true"
    )
}

#[test]
fn network_escapes_are_blocked_or_documented() {
    use std::os::linux::net::SocketAddrExt as _;
    let world = World::new();
    let (model, host) = (server(), server());
    let name = format!("yb-escape-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let _abstract = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    let path = world.context.root().join("service.sock");
    let _named = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let command = ways(model, host, &name, path.to_str().unwrap());
    let url = format!("http://127.0.0.1:{model}");
    let rest = |network: Value| json!({ "env": { "ANTHROPIC_BASE_URL": url }, "network": network });
    let all = ["model", "ipv4", "ipv6", "mptcp", "abstract", "unix", "datagrams"];
    for (level, network, found) in [
        ("bubblewrap", json!("none"), &[][..]),
        ("bubblewrap", json!("model-only"), &["model"]),
        ("bubblewrap", json!("open"), &["model", "ipv4", "ipv6", "abstract", "datagrams"]),
        ("landlock", json!("none"), &["unix"]),
        ("landlock", json!("model-only"), &["model", "unix"]),
        ("landlock", json!("open"), &["model", "ipv4", "ipv6", "unix", "datagrams"]),
        ("none", json!("open"), &all),
    ] {
        // Without a route, datagrams fail too; and not every kernel has MPTCP.
        let routed = std::net::UdpSocket::bind("0.0.0.0:0").unwrap().connect("192.0.2.1:53").is_ok();
        let multipath = std::fs::read("/proc/sys/net/mptcp/enabled").is_ok_and(|enabled| enabled == b"1\n");
        let works = |way: &str| (routed || way != "datagrams") && (multipath || way != "mptcp");
        let expected: Vec<&str> = found.iter().copied().filter(|way| works(way)).collect();
        let outcome = world.run_with(&command, level, &rest(network.clone()));
        assert_eq!(outcome.code, Some(0), "{level} {network}: {}{}", outcome.stdout, outcome.stderr);
        assert_eq!(world.found(), expected, "{level} {network}");
        let log = world.artifact("youbencha-log.json");
        assert_eq!(log["execution"]["network"], network);
        assert_eq!(world.artifact("results.json")["execution"]["network"], network);
        let refused = json!([{ "target": "stolen.example.org:443", "times": 1 }]);
        if network == "model-only" {
            assert_eq!(log["execution"]["refused_connections"], refused, "{level}");
            let words = "connections were refused, 1 in all: `stolen.example.org:443`";
            assert!(outcome.stderr.contains(words), "{level}: {}", outcome.stderr);
            assert!(outcome.stdout.contains(&format!("isolation: {level}, network: model-only")));
        } else {
            assert_eq!(log["execution"]["refused_connections"], Value::Null, "{level}");
        }
    }
}

#[test]
fn allowed_host_is_reachable_also_from_a_hook() {
    let world = World::new();
    let port = server();
    let ask = format!(
        "python3 -c \"
import os, socket
s = socket.create_connection(os.environ['HTTPS_PROXY'].removeprefix('http://').split(':'), 5)
s.sendall(b'CONNECT localhost:{port} HTTP/1.1\\r\\n\\r\\n')
open('found', 'a').write(s.recv(12).decode() + '\\n')\""
    );
    let network = json!({ "mode": "model-only", "allow": [format!("localhost:{port}")] });
    let hooks = json!([{ "name": "script", "config": { "command": ask } }]);
    for level in ["bubblewrap", "landlock"] {
        let rest = json!({ "network": network, "pre_execution": hooks });
        let outcome = world.run_with(&ask, level, &rest);
        assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
        assert_eq!(world.found(), ["HTTP/1.1 200", "HTTP/1.1 200"], "{level}");
    }
}

#[test]
fn unenforceable_network_mode_is_rejected_before_the_run_starts() {
    let world = World::new();
    let run = |level: &str, network: Value, more: &[&str]| {
        let agent =
            json!({ "type": "command", "config": { "prompt": "Try it.", "command": { "argv": ["true"] } } });
        world.context.write("case.yaml", world.case(&agent, level, &json!({ "network": network })));
        world.context.command(YB).args(["run", "-c", "case.yaml"]).args(more).run()
    };
    for level in ["none", "external"] {
        let outcome = run(level, json!("model-only"), &[]);
        assert_eq!(outcome.code, Some(4), "{}", outcome.stderr);
        let words = format!("`network: model-only` is not supported with `isolation: {level}`");
        assert!(
            outcome.stderr.contains(&words) && outcome.stderr.contains("hint: use `isolation: bubblewrap`")
        );
    }
    let printed = run("auto", json!("none"), &["--network", "open"]);
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    assert!(
        printed.stderr.contains("the case requests `network: none`, overridden with `open`"),
        "{}",
        printed.stderr
    );
    let stricter = run("auto", json!("open"), &["--network", "none"]);
    assert!(stricter.stdout.contains("network: none"), "{}", stricter.stdout);
    assert_eq!(run("auto", json!("open"), &["--network", "lan"]).code, Some(2));
    let hosts = run("auto", json!({ "mode": "none", "allow": ["example.org"] }), &[]);
    assert_eq!(hosts.code, Some(2));
    assert!(hosts.stderr.contains("`allow` has no effect with this mode"), "{}", hosts.stderr);
    let host = run("auto", json!({ "mode": "model-only", "allow": ["https://example.org"] }), &[]);
    assert!(host.stderr.contains("expected: a host such as"), "{}", host.stderr);
    let proxy = world.context.command(YB).args(["run", "-c", "case.yaml", "--network", "model-only"]);
    world.context.write(
        "case.yaml",
        world.case(
            &json!({ "type": "command", "config": { "prompt": "Try it.", "command": { "argv": ["true"] } } }),
            "auto",
            &json!({ "env": { "HTTPS_PROXY": "http://proxy:1" } }),
        ),
    );
    let proxy = proxy.run();
    assert_eq!(proxy.code, Some(2), "{}", proxy.stderr);
    assert!(proxy.stderr.contains("can't lead through the proxy in `HTTPS_PROXY`"), "{}", proxy.stderr);
}

/// The real CLI reaches only its model and has no server-side tools.
fn real_claude_reaches_its_model(level: &str) {
    let world = World::new();
    let other = server();
    let script = format!(
        "
tape: 1
lanes:
  main:
    - tools: [{{ Bash: {{ command: 'python3 -c \"import socket; socket.create_connection((\\\"127.0.0.1\\\", {other}), 5)\" && echo reached > found; curl -sS https://stolen.example.org; true', description: Look }} }}]
    - say: Done.
"
    );
    let model =
        MockServer::start(Script::parse(&script, &Vars::new()).unwrap(), &MockServerOptions::default())
            .unwrap();
    let agent =
        json!({ "type": "claude-code", "model": "claude-opus-5-5", "config": { "prompt": "Work on it." } });
    world.context.write("case.yaml", world.case(&agent, level, &json!({ "network": "model-only" })));
    let outcome = world
        .context
        .command(YB)
        .args(["run", "-c", "case.yaml"])
        .env("ANTHROPIC_BASE_URL", model.base_url())
        .env("ANTHROPIC_API_KEY", "not-a-real-key")
        .env("YB_CLAUDE", RealClaude::new().program())
        .run();
    let frames = std::fs::read_to_string(world.newest().join("artifacts/frames.jsonl")).unwrap_or_default();
    assert_eq!(outcome.code, Some(0), "{}{}{frames}", outcome.stdout, outcome.stderr);
    assert!(model.unscripted().is_empty(), "{frames}");
    assert_eq!(world.found(), [""; 0], "{frames}");
    let init: Value =
        serde_json::from_str(frames.lines().find(|line| line.contains("\"tools\"")).unwrap()).unwrap();
    let tools = init["tools"].to_string();
    assert!(tools.contains("Bash") && !tools.contains("WebFetch") && !tools.contains("WebSearch"), "{tools}");
    let log = world.artifact("youbencha-log.json");
    assert_eq!(log["execution"]["refused_connections"][0]["target"], "stolen.example.org:443", "{frames}");
}

#[test]
fn real_claude_reaches_only_its_model_under_bubblewrap() {
    real_claude_reaches_its_model("bubblewrap");
}

#[test]
fn real_claude_reaches_only_its_model_under_landlock() {
    real_claude_reaches_its_model("landlock");
}
