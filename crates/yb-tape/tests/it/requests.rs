//! What the server remembers: everything that a test wants to see, no secrets, and not without limit.

use std::time::Duration;

use serde_json::json;
use yb_tape::{Answer, REDACTED, Script, Server, ServerOptions, Vars, Watched};

use crate::client::{go, post, post_as, request, serve};

#[test]
fn a_request_is_kept_with_what_was_done_about_it() {
    let server = serve("- say: a");
    post_as(&server, &[("X-Claude-Code-Session-Id", "s1")], &go());
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    let seen = &requests[0];
    assert_eq!((seen.number, seen.method.as_str()), (1, "POST"));
    assert_eq!((seen.path.as_str(), seen.query.as_str()), ("/v1/messages", "beta=true"));
    assert_eq!(seen.header("x-claude-code-session-id"), Some("s1"));
    assert_eq!(seen.body, go());
    assert_eq!((seen.lane.as_deref(), seen.turn, seen.attempt), (Some("main"), Some(1), 1));
    assert_eq!((seen.status, &seen.answer), (Some(200), &Answer::Reply));
}

#[test]
fn bodies_that_are_not_json_are_kept_as_text() {
    let server = serve("- say: a");
    request(&server, "POST", "/x", &[], b"plain \xff");
    request(&server, "GET", "/x", &[], b"");
    let bodies: Vec<_> = server.requests().iter().map(|seen| seen.body.clone()).collect();
    assert_eq!(bodies, [json!("plain \u{fffd}"), json!(null)]);
}

#[test]
fn secrets_are_never_kept() {
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
    for (index, seen) in requests.iter().enumerate() {
        let name = names[index / 2].to_ascii_lowercase();
        assert_eq!(seen.header(&name), Some(REDACTED));
        assert!(!format!("{seen:?}").contains(secret), "{seen:?}");
    }
}

#[test]
fn only_so_many_are_kept_and_the_rest_is_counted() {
    let script = Script::parse("{ tape: 1, lanes: { main: [ { say: a } ] } }", &Vars::new()).unwrap();
    let size = go().to_string().len();
    for (options, kept) in [
        (ServerOptions::default().keep(3, usize::MAX), 3),
        (ServerOptions::default().keep(100, 2 * size + 1), 2),
        (ServerOptions::default().keep(100, 1), 0),
        (ServerOptions::default().keep(0, usize::MAX), 0),
    ] {
        let server = Server::start(script.clone(), &options).unwrap();
        for _ in 0..7 {
            post(&server, &go());
        }
        let numbers: Vec<_> = server.requests().iter().map(|seen| seen.number).collect();
        assert_eq!(numbers, ((8 - kept)..8).collect::<Vec<_>>());
        assert_eq!(server.dropped(), 7 - kept);
    }
}

#[tokio::test]
async fn requests_can_be_watched_as_they_come() {
    let server = serve("- say: a");
    let mut watch = server.watch();
    post(&server, &go());
    request(&server, "HEAD", "/api/hello", &[], b"");
    for path in ["/v1/messages", "/api/hello"] {
        let watched = tokio::time::timeout(Duration::from_secs(10), watch.next()).await.unwrap();
        let Some(Watched::Request(seen)) = watched else { panic!("{watched:?}") };
        assert_eq!(seen.path, path);
    }
    server.shutdown().await;
    assert_eq!(watch.next().await, None);
}
