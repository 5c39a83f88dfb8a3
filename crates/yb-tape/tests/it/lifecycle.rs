//! Starting and stopping: loopback only, and nothing stays behind.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use yb_tape::{Error, Script, Server, ServerOptions, Vars};

use crate::client::{go, post, send, serve};

fn script() -> Script {
    Script::parse("{ tape: 1, lanes: { main: [ { say: a } ] } }", &Vars::new()).unwrap()
}

#[test]
fn it_listens_on_loopback_only() {
    let server = serve("- say: a");
    assert_eq!(server.address().ip(), Ipv4Addr::LOCALHOST);
    assert_ne!(server.address().port(), 0);
    assert_eq!(server.base_url(), format!("http://127.0.0.1:{}", server.address().port()));
}

#[test]
fn the_port_is_free_as_soon_as_the_server_is_dropped() {
    let server = serve("- say: a");
    let address = server.address();
    assert_eq!(post(&server, &go()).said(), "a");
    // An open connection without a request, and one whose client waits.
    let _idle = TcpStream::connect(address).unwrap();
    drop(server);
    assert!(TcpStream::connect(address).is_err());
    let options = ServerOptions::default().port(address.port());
    let again = Server::start(script(), &options).unwrap();
    assert_eq!(again.address(), address);
}

#[tokio::test]
async fn shutdown_ends_what_is_under_way() {
    let server = serve("- fault: { stall: { after: 1 events } }\n  say: a");
    let address = server.address();
    let _waiting = send(&server, "POST", "/v1/messages", &[], go().to_string().as_bytes());
    let start = Instant::now();
    server.shutdown().await;
    assert!(start.elapsed() < Duration::from_secs(30));
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_taken_port_is_an_error_with_a_way_out() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = Server::start(script(), &ServerOptions::default().port(port)).unwrap_err();
    assert!(matches!(error, Error::Bind { .. }));
    assert_eq!(error.to_string(), format!("failed to listen on loopback port: {port}"));
    assert_eq!(error.hint(), Some("leave the port out, or give 0, to get any free port"));
}

#[cfg(target_os = "linux")]
#[test]
fn many_servers_in_a_row_leave_no_thread_and_no_descriptor() {
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
    // Other tests run beside this one where the runner puts them into one process.
    let slack = if std::env::var_os("NEXTEST").is_some() { 0 } else { 40 };
    assert!(last.0 <= first.0 + slack && last.1 <= first.1 + slack, "{first:?} {last:?}");
}

#[test]
fn many_clients_at_once_each_get_their_answer() {
    let server = serve("- say: a\n  pace: { between: 2ms }");
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| assert_eq!(post(&server, &go()).said(), "a"));
        }
    });
    assert_eq!(server.requests().len(), 32);
}
