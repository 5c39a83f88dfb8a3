//! Scripted faults.

use std::io::Read as _;
use std::time::{Duration, Instant};

use serde_json::json;
use yb_tape::ResponseKind;

use crate::client::{go, go_whole, post, send, serve};

#[test]
fn status_fault_sends_the_error_type_of_the_status() {
    for (status, kind, message) in [
        (400, "invalid_request_error", "invalid request"),
        (401, "authentication_error", "invalid x-api-key"),
        (402, "billing_error", "the credit balance is too low"),
        (403, "permission_error", "this key may not use this resource"),
        (404, "not_found_error", "model: m"),
        (413, "request_too_large", "request exceeds the maximum size"),
        (418, "invalid_request_error", "invalid request"),
        (429, "rate_limit_error", "rate limit reached"),
        (500, "api_error", "internal server error"),
        (503, "api_error", "internal server error"),
        (504, "timeout_error", "the request timed out"),
        (529, "overloaded_error", "Overloaded"),
    ] {
        let server = serve(&format!("- fault: {{ status: {status} }}"));
        for body in [go(), go_whole()] {
            let response = post(&server, &body);
            assert_eq!(response.status, Some(status));
            assert_eq!(response.json()["type"], "error");
            assert_eq!(response.json()["error"], json!({ "type": kind, "message": message }));
        }
        assert!(
            server
                .requests()
                .iter()
                .all(|logged| logged.response == ResponseKind::Fault && logged.status == Some(status))
        );
    }
}

#[test]
fn rate_limit_sends_retry_after_and_ends_after_its_times() {
    let server =
        serve("- fault: { status: 429, retry_after: 1500ms, message: slow down, times: 2 }\n  say: at last");
    for _ in 0..2 {
        let response = post(&server, &go());
        assert_eq!(response.status, Some(429));
        assert_eq!(response.header("retry-after"), Some("2"));
        assert_eq!(response.header("retry-after-ms"), Some("1500"));
        assert_eq!(response.json()["error"]["message"], "slow down");
    }
    assert_eq!(post(&server, &go()).reply_text(), "at last");
    assert_eq!(post(&server, &go()).reply_text(), "at last");
    let responses: Vec<_> =
        server.requests().iter().map(|logged| (logged.attempt, logged.response.clone())).collect();
    assert_eq!(
        responses,
        [
            (1, ResponseKind::Fault),
            (2, ResponseKind::Fault),
            (3, ResponseKind::Reply),
            (4, ResponseKind::Reply)
        ]
    );
}

#[test]
fn fault_counts_only_attempts_of_its_turn() {
    let server = serve("- say: a\n- fault: { status: 500, times: 1 }\n  say: b");
    let second = crate::client::after(1);
    assert_eq!(post(&server, &go()).reply_text(), "a");
    assert_eq!(post(&server, &go()).reply_text(), "a");
    assert_eq!(post(&server, &second).status, Some(500));
    assert_eq!(post(&server, &second).reply_text(), "b");
}

#[test]
fn cut_drops_the_connection_after_the_given_events() {
    let server = serve("- fault: { cut: { after: 5 events } }\n  say: abcdef\n  pace: { chunk: 2 }");
    let response = post(&server, &go());
    assert_eq!(response.status, Some(200));
    assert!(!response.complete);
    assert_eq!(
        response.event_types(),
        ["message_start", "content_block_start", "ping", "content_block_delta", "content_block_delta"]
    );
    assert_eq!(response.reply_text(), "abcd");

    let whole = post(&server, &go_whole());
    assert_eq!(whole.status, Some(200));
    assert!(!whole.complete);
    assert!(!whole.body.is_empty());
}

#[test]
fn cut_never_sends_the_end_of_the_response() {
    for after in ["1000 events", "1000000 bytes"] {
        let server = serve(&format!("- fault: {{ cut: {{ after: {after} }} }}\n  say: abc"));
        let response = post(&server, &go());
        assert!(!response.complete, "{after}");
        assert!(response.text().contains("message_delta"), "{after}");
        assert!(!post(&server, &go_whole()).complete, "{after}");
    }
}

#[test]
fn cut_can_split_an_event() {
    let server = serve("- fault: { cut: { after: 30 bytes }, times: 1 }\n  say: abc");
    let response = post(&server, &go());
    assert!(!response.complete);
    assert_eq!(response.text(), "event: message_start\ndata: {\"m");
    assert_eq!(post(&server, &go()).reply_text(), "abc");
    let server = serve("- fault: { cut: { after: 30 bytes } }\n  say: abc");
    assert_eq!(post(&server, &go_whole()).body.len(), 30);
}

#[test]
fn cut_after_request_sends_nothing() {
    let server = serve("- fault: { cut: { after: request } }");
    for body in [go(), go_whole()] {
        assert_eq!(post(&server, &body).status, None);
    }
    assert!(
        server
            .requests()
            .iter()
            .all(|logged| logged.status.is_none() && logged.response == ResponseKind::Fault)
    );
    let server = serve("- fault: { cut: { after: 0 events } }\n  say: a");
    let response = post(&server, &go());
    assert_eq!((response.status, response.body.len(), response.complete), (Some(200), 0, false));
}

#[test]
fn stall_sends_the_rest_after_its_duration() {
    for after in ["request", "0 events", "4 events", "100 bytes"] {
        let server = serve(&format!(
            "- fault: {{ stall: {{ after: {after}, for: 150ms }} }}\n  say: abcdef\n  pace: {{ chunk: 2 }}"
        ));
        for body in [go(), go_whole()] {
            let start = Instant::now();
            let response = post(&server, &body);
            assert!(start.elapsed() >= Duration::from_millis(150), "{after}");
            assert!(response.complete, "{after}");
            assert_eq!(response.reply_text(), "abcdef", "{after}");
        }
    }
}

#[test]
fn stall_without_duration_lasts_until_the_client_gives_up() {
    for (after, visible) in [("request", false), ("2 events", true)] {
        let server = serve(&format!("- fault: {{ stall: {{ after: {after} }} }}\n  say: abc"));
        let mut stream = send(&server, "POST", "/v1/messages", &[], go().to_string().as_bytes());
        stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let mut raw = Vec::new();
        let error = stream.read_to_end(&mut raw).unwrap_err();
        assert!(matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut));
        let raw = String::from_utf8(raw).unwrap();
        assert_eq!(raw.contains("content_block_start"), visible, "{after}: {raw}");
        assert!(!raw.contains("ping"), "{after}: {raw}");
        // Dropping the server ends the stall.
        let start = Instant::now();
        drop(server);
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}

#[test]
fn error_event_ends_the_stream() {
    let server =
        serve("- fault: { error: { after: 4 events }, times: 1 }\n  say: abcdef\n  pace: { chunk: 2 }");
    let response = post(&server, &go());
    assert_eq!(response.status, Some(200));
    assert!(response.complete);
    let events = response.events();
    assert_eq!(events.len(), 5);
    assert_eq!(
        events[4],
        json!({
            "type": "error",
            "error": { "type": "overloaded_error", "message": "Overloaded" },
            "request_id": "req_tape_1",
        })
    );
    assert_eq!(post(&server, &go()).reply_text(), "abcdef");
}

#[test]
fn error_event_becomes_a_status_without_a_stream() {
    let server = serve("- fault: { error: { type: rate_limit_error, message: later } }\n  say: abc");
    let response = post(&server, &go_whole());
    assert_eq!(response.status, Some(429));
    assert_eq!(response.json()["error"], json!({ "type": "rate_limit_error", "message": "later" }));
    assert_eq!(post(&server, &go()).status, Some(200));
}
