//! Starting and stopping servers.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use yb_tape::{Error, MockServer, MockServerOptions, Script, Vars};

use crate::client::{go, post, send, serve};

fn script() -> Script {
    Script::parse("{ tape: 1, lanes: { main: [ { say: a } ] } }", &Vars::new()).unwrap()
}

#[test]
fn mock_server_listens_on_loopback_only() {
    let server = serve("- say: a");
    assert_eq!(server.address().ip(), Ipv4Addr::LOCALHOST);
    assert_ne!(server.address().port(), 0);
    assert_eq!(server.base_url(), format!("http://127.0.0.1:{}", server.address().port()));
}

#[test]
fn drop_frees_the_port() {
    let server = serve("- say: a");
    let address = server.address();
    assert_eq!(post(&server, &go()).reply_text(), "a");
    // An idle connection must not delay the drop.
    let _idle = TcpStream::connect(address).unwrap();
    drop(server);
    assert!(TcpStream::connect(address).is_err());
    let options = MockServerOptions::default().port(address.port());
    let again = MockServer::start(script(), &options).unwrap();
    assert_eq!(again.address(), address);
}

#[tokio::test]
async fn shutdown_aborts_requests_in_progress() {
    let server = serve("- fault: { stall: { after: 1 events } }\n  say: a");
    let address = server.address();
    let _waiting = send(&server, "POST", "/v1/messages", &[], go().to_string().as_bytes());
    let start = Instant::now();
    server.shutdown().await;
    assert!(start.elapsed() < Duration::from_secs(30));
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn used_port_is_an_error_with_a_hint() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = MockServer::start(script(), &MockServerOptions::default().port(port)).unwrap_err();
    assert!(matches!(error, Error::Bind { .. }));
    assert_eq!(error.to_string(), format!("failed to listen on loopback port: {port}"));
    assert_eq!(error.hint(), Some("omit the port, or use 0 for any free port"));
}

#[cfg(target_os = "linux")]
#[test]
fn dropped_servers_leak_no_threads_or_descriptors() {
    let count = |what: &str| std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    let round = || {
        let server = serve("- say: a");
        post(&server, &go());
        drop(server);
        (count("task"), count("fd"))
    };
    let first = round();
    let mut last = first;
    for _ in 0..20 {
        last = round();
    }
    // Without nextest, other tests run in the same process.
    let slack = if std::env::var_os("NEXTEST").is_some() { 0 } else { 40 };
    assert!(last.0 <= first.0 + slack && last.1 <= first.1 + slack, "{first:?} {last:?}");
}

#[test]
fn mock_server_handles_concurrent_clients() {
    let server = serve("- say: a\n  pace: { between: 2ms }");
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| assert_eq!(post(&server, &go()).reply_text(), "a"));
        }
    });
    assert_eq!(server.requests().len(), 32);
}
