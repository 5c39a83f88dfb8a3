//! The request log: complete, without secrets, and bounded.

use std::time::Duration;

use serde_json::json;
use yb_tape::{MockServer, MockServerOptions, REDACTED, ResponseKind, Script, Vars, WatchEvent};

use crate::client::{go, post, post_as, request, serve};

#[test]
fn request_is_logged_with_its_response() {
    let server = serve("- say: a");
    post_as(&server, &[("X-Claude-Code-Session-Id", "s1")], &go());
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    let logged = &requests[0];
    assert_eq!((logged.number, logged.method.as_str()), (1, "POST"));
    assert_eq!((logged.path.as_str(), logged.query.as_str()), ("/v1/messages", "beta=true"));
    assert_eq!(logged.header("x-claude-code-session-id"), Some("s1"));
    assert_eq!(logged.body, go());
    assert_eq!((logged.lane.as_deref(), logged.turn, logged.attempt), (Some("main"), Some(1), 1));
    assert_eq!((logged.status, &logged.response), (Some(200), &ResponseKind::Reply));
}

#[test]
fn request_body_without_json_is_logged_as_text() {
    let server = serve("- say: a");
    request(&server, "POST", "/x", &[], b"plain \xff");
    request(&server, "GET", "/x", &[], b"");
    let bodies: Vec<_> = server.requests().iter().map(|logged| logged.body.clone()).collect();
    assert_eq!(bodies, [json!("plain \u{fffd}"), json!(null)]);
}

#[test]
fn secret_headers_are_redacted() {
    let server = serve("- say: a");
    let secret = "sk-very-secret-value";
    let names = [
        "x-api-key",
        "X-Api-Key",
        "Authorization",
        "Proxy-Authorization",
        "Cookie",
        "x-goog-api-key",
        "x-session-token",
        "x-client-secret",
    ];
    let bearer = format!("Bearer {secret}");
    for name in names {
        post_as(&server, &[(name, bearer.as_str())], &go());
        request(&server, "GET", "/v1/models", &[(name, secret)], b"");
    }
    let requests = server.requests();
    assert_eq!(requests.len(), names.len() * 2);
    for (index, logged) in requests.iter().enumerate() {
        let name = names[index / 2].to_ascii_lowercase();
        assert_eq!(logged.header(&name), Some(REDACTED));
        assert!(!format!("{logged:?}").contains(secret), "{logged:?}");
    }
}

#[test]
fn request_log_is_bounded_and_counts_dropped_requests() {
    let script = Script::parse("{ tape: 1, lanes: { main: [ { say: a } ] } }", &Vars::new()).unwrap();
    let size = go().to_string().len();
    for (options, kept) in [
        (MockServerOptions::default().max_requests(3).max_bytes(usize::MAX), 3),
        (MockServerOptions::default().max_requests(100).max_bytes(2 * size + 1), 2),
        (MockServerOptions::default().max_requests(100).max_bytes(1), 0),
        (MockServerOptions::default().max_requests(0).max_bytes(usize::MAX), 0),
    ] {
        let server = MockServer::start(script.clone(), &options).unwrap();
        for _ in 0..7 {
            post(&server, &go());
        }
        let numbers: Vec<_> = server.requests().iter().map(|logged| logged.number).collect();
        assert_eq!(numbers, ((8 - kept)..8).collect::<Vec<_>>());
        assert_eq!(server.dropped(), 7 - kept);
    }
}

#[tokio::test]
async fn watch_receives_requests_as_they_arrive() {
    let server = serve("- say: a");
    let mut watch = server.watch();
    post(&server, &go());
    request(&server, "HEAD", "/api/hello", &[], b"");
    for path in ["/v1/messages", "/api/hello"] {
        let event = tokio::time::timeout(Duration::from_secs(10), watch.next()).await.unwrap();
        let Some(WatchEvent::Request(logged)) = event else { panic!("{event:?}") };
        assert_eq!(logged.path, path);
    }
    server.shutdown().await;
    assert_eq!(watch.next().await, None);
}
