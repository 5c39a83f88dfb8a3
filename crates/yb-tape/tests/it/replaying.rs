//! The replay server.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use yb_tape::{
    DivergenceKind, Error, Fork, ForkTarget, ReplayFault, ReplayMode, ReplayOptions, ReplayServer,
    ReplaySpeed, Script, Tape, Vars,
};

use crate::client::{after, go, go_whole, post, post_as, request, start};
use crate::recording::TapeDir;

/// A conversation: the opening, then pairs of model and user messages.
fn conversation(opening: &str, turns: &[(Value, Value)]) -> Value {
    let mut messages = vec![json!({ "role": "user", "content": opening })];
    for (model, user) in turns {
        messages.push(json!({ "role": "assistant", "content": model }));
        messages.push(json!({ "role": "user", "content": user }));
    }
    json!({ "model": "m", "max_tokens": 100, "stream": true, "messages": messages })
}

fn call(id: &str) -> Value {
    json!([{ "type": "text", "text": "I look." }, { "type": "tool_use", "id": id, "name": "Bash", "input": {} }])
}

fn result(id: &str, text: &str) -> Value {
    json!([{ "type": "tool_result", "tool_use_id": id, "content": text }])
}

const SCRIPT: &str = "
tape: 1
lanes:
  main:
    - say: I look.
      tools: [{ Bash: { command: 'cat /old/place/a' } }]
      pace: { chunk: 3 }
    - say: All is well in /old/place.
  other:
    match: something else
    replies: [{ say: Else. }]
";

pub(crate) fn first() -> Value {
    conversation("go", &[])
}

fn second(text: &str) -> Value {
    conversation("go", &[(call("toolu_main_1_1"), result("toolu_main_1_1", text))])
}

pub(crate) fn recorded(tape_dir: &TapeDir) -> Tape {
    let model = start(SCRIPT);
    let proxy = yb_tape::RecordingProxy::start(tape_dir.options(&model).directory("workspace", "/old/place"))
        .unwrap();
    for body in [first(), second("out 12:00:01"), conversation("something else", &[])] {
        assert_eq!(post(&proxy, &body).status, Some(200));
    }
    proxy.finish().unwrap();
    Tape::open(tape_dir.path()).unwrap()
}

fn replay(tape: &Tape, options: ReplayOptions) -> ReplayServer {
    ReplayServer::start(tape, options).unwrap()
}

#[test]
fn replay_returns_recorded_responses_byte_for_byte() {
    let tape_dir = TapeDir::new();
    let tape = recorded(&tape_dir);
    assert_eq!(tape.lanes().iter().map(|lane| lane.exchanges.len()).collect::<Vec<_>>(), [2, 1]);
    let server = replay(&tape, ReplayOptions::default().order_timeout(Duration::from_millis(20)));
    // Lanes may run in another order, which is counted.
    for (body, index) in [(conversation("something else", &[]), 2), (first(), 0), (second("out 23:59:59"), 1)]
    {
        let response = post(&server, &body);
        assert_eq!(response.status, Some(200), "{}", response.text());
        assert!(response.complete);
        assert_eq!(response.body, tape.exchanges()[index].response_body());
    }
    let outcome = server.outcome();
    assert_eq!((outcome.served, outcome.remaining, outcome.placeholders, outcome.tolerated), (3, 0, 0, 0));
    assert_eq!(outcome.out_of_order, 1);
    assert_eq!(outcome.divergence, None);
    assert_eq!(outcome.recorded_usage.total(), tape.observed().total());
}

#[test]
fn replay_maps_directories_in_requests_and_responses() {
    let tape_dir = TapeDir::new();
    let tape = recorded(&tape_dir);
    let server = replay(&tape, ReplayOptions::default().directory("workspace", "/new"));
    let response = post(&server, &first());
    let input: String =
        response.events().iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
    assert_eq!(input, r#"{"command":"cat /new/a"}"#);
    assert_eq!(post(&server, &second("out 12:00:01")).reply_text(), "All is well in /new.");
    assert_eq!(server.outcome().divergence, None);
}

#[test]
fn divergence_describes_the_first_difference() {
    let tape_dir = TapeDir::new();
    let tape = recorded(&tape_dir);
    let check = |bodies: &[Value], kind: DivergenceKind, account: &str| {
        let server = replay(&tape, ReplayOptions::default());
        let (last, before) = bodies.split_last().unwrap();
        for body in before {
            assert_eq!(post(&server, body).status, Some(200));
        }
        let response = post(&server, last);
        assert_eq!(response.status, Some(400), "{}", response.text());
        let divergence = server.outcome().divergence.unwrap();
        assert_eq!(divergence.kind, kind, "{divergence}");
        let text = divergence.to_string().replace(&tape.path().display().to_string(), "TAPE");
        assert_eq!(text.trim(), account.trim(), "{text}");
        assert!(response.text().contains("replay diverged in"));
        // All later requests get the same error.
        assert_eq!(post(&server, &first()).status, Some(400));
        assert_eq!(server.outcome().divergence.unwrap(), divergence);
    };
    check(
        &[first(), second("other output")],
        DivergenceKind::ToolResult,
        "
replay diverged in lane `main`, turn 2: tool result differs
  differs:  result of tool call `toolu_main_1_1`
  expected: out {time}
  actual:   other output
  tape:     TAPE",
    );
    check(
        &[conversation("do that", &[])],
        DivergenceKind::UnknownConversation,
        "
replay diverged in an unrecorded lane, turn 1: no such conversation on the tape
  differs:  opening of the conversation
  expected: go
  actual:   do that
  tape:     TAPE",
    );
    check(
        &[first(), first()],
        DivergenceKind::RepeatedRequest,
        "
replay diverged in lane `main`, turn 1: all recorded responses to this request were already served
  differs:  repeated request
  tape:     TAPE",
    );
    let mut extra = second("out 12:00:01");
    let messages = extra["messages"].as_array_mut().unwrap();
    messages.push(json!({ "role": "assistant", "content": "All is well in /old/place." }));
    messages.push(json!({ "role": "user", "content": "And now?" }));
    check(
        &[first(), second("out 12:00:01"), extra],
        DivergenceKind::ExtraTurn,
        "
replay diverged in lane `main`, turn 3: no further turn on the tape
  differs:  additional turn
  actual:   user message: And now?
  tape:     TAPE",
    );
    check(
        &[conversation("go", &[(call("toolu_foreign"), result("toolu_foreign", "out"))])],
        DivergenceKind::ModelOutput,
        "
replay diverged in lane `main`, turn 2: model output in the request differs from the tape
  differs:  tool call `Bash` (`toolu_main_1_1`)
  expected: toolu_main_1_1
  actual:   toolu_foreign
  tape:     TAPE",
    );
    let mut said = second("out 12:00:01");
    said["messages"].as_array_mut().unwrap().push(json!({ "role": "user", "content": "Hurry!" }));
    check(
        &[first(), said],
        DivergenceKind::UserMessage,
        "
replay diverged in lane `main`, turn 2: user message differs
  differs:  user message
  expected: (nothing)
  actual:   user message: Hurry!
  tape:     TAPE",
    );
    let mut whole = first();
    whole["stream"] = json!(false);
    check(
        &[whole],
        DivergenceKind::StreamMode,
        "
replay diverged in lane `main`, turn 1: turn was recorded with another response mode (streamed or not)
  differs:  request for one message
  tape:     TAPE",
    );
    check(
        &[json!({ "messages": "none" })],
        DivergenceKind::UnknownRequest,
        "
replay diverged in an unrecorded lane, turn 1: no such request on the tape
  differs:  POST /v1/messages
  actual:   {\"messages\":\"none\"}
  tape:     TAPE",
    );
}

#[test]
fn lenient_mode_tolerates_and_counts_tool_results() {
    let tape_dir = TapeDir::new();
    let tape = recorded(&tape_dir);
    let server = replay(&tape, ReplayOptions::default().mode(ReplayMode::Lenient));
    post(&server, &first());
    assert_eq!(post(&server, &second("other output")).reply_text(), "All is well in /old/place.");
    assert_eq!(server.outcome().tolerated, 1);
    // User messages must still match.
    assert_eq!(post(&server, &conversation("do that", &[])).status, Some(400));
}

#[test]
fn normalization_is_counted_and_refused_in_exact_mode() {
    let tape_dir = TapeDir::new();
    let tape = recorded(&tape_dir);
    let server = replay(&tape, ReplayOptions::default().directory("workspace", "/new"));
    post(&server, &first());
    assert_eq!(post(&server, &second("out 23:59:59")).status, Some(200));
    let counts: Vec<_> = server.outcome().normalized.into_iter().collect();
    assert_eq!(counts, [("time", 1)]);

    let exact = || ReplayOptions::default().mode(ReplayMode::Exact).directory("workspace", "/new");
    let server = replay(&tape, exact());
    post(&server, &first());
    assert_eq!(post(&server, &second("out 12:00:01")).status, Some(200));
    assert!(server.outcome().normalized.is_empty());
    let server = replay(&tape, exact());
    post(&server, &first());
    assert_eq!(post(&server, &second("out 23:59:59")).status, Some(400));
    let divergence = server.outcome().divergence.unwrap();
    assert_eq!(divergence.kind, DivergenceKind::Normalized);
    assert_eq!(
        divergence.to_string().replace(&tape_dir.path().display().to_string(), "TAPE"),
        "replay diverged in lane `main`, turn 2: equal only after normalization
  differs:  time in the result of tool call `toolu_main_1_1`
  expected: 12:00:01
  actual:   23:59:59
  tape:     TAPE"
    );
}

#[test]
fn texts_of_the_case_are_compared_verbatim() {
    let tape_dir = TapeDir::new();
    let model = start(SCRIPT);
    let texts = |pairs: &[(&str, &str)]| -> std::collections::BTreeMap<String, String> {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    };
    let long = "x".repeat(50_000);
    let case = texts(&[("prompt", "Wait 30 seconds, use key-12345678"), ("system_prompt", &long)]);
    let secrets = yb_tape::Secrets::new().with("KEY", "key-12345678");
    let proxy = yb_tape::RecordingProxy::start(tape_dir.options(&model).secrets(secrets).case(case)).unwrap();
    post(&proxy, &first());
    proxy.finish().unwrap();
    let tape = Tape::open(tape_dir.path()).unwrap();
    assert!(tape.has_case() && tape.verify().problems.is_empty());
    assert!(!crate::recording::lines(&tape_dir.path()).contains("key-12345678"));

    let prompt = "Wait 30 seconds, use [REDACTED:KEY]";
    let same = texts(&[("prompt", prompt), ("system_prompt", &long)]);
    assert_eq!(tape.case_difference(&same), None);
    let check = |pairs: &[(&str, &str)], part: &str, expected: &str, actual: &str| {
        let found = tape.case_difference(&texts(pairs)).unwrap();
        assert_eq!(
            (found.part.as_str(), found.expected.as_str(), found.actual.as_str()),
            (part, expected, actual)
        );
        assert_eq!(found.kind, DivergenceKind::CaseText);
        assert!(
            found.to_string().starts_with("replay diverged in the case, before the agent started: "),
            "{found}"
        );
    };
    let other = "Wait 90 seconds, use [REDACTED:KEY]";
    check(&[("prompt", other), ("system_prompt", &long)], "`prompt`", prompt, other);
    let added = [("prompt", prompt), ("system_prompt", &long), ("append_system_prompt", "Be brief.")];
    check(&added, "`append_system_prompt`", "(nothing)", "Be brief.");
    let found = tape.case_difference(&texts(&[("prompt", prompt), ("system_prompt", &format!("{long}y"))]));
    let found = found.unwrap();
    assert_eq!(found.part, "`system_prompt`");
    assert_ne!(found.expected, found.actual, "beyond the recorded beginning the digests are shown");

    let copy = tape_dir.path().with_extension("redacted");
    let redacted = tape.redact(&copy, &yb_tape::Secrets::new().with("WORD", "seconds")).unwrap();
    let cleaner =
        texts(&[("prompt", "Wait 30 [REDACTED:WORD], use [REDACTED:KEY]"), ("system_prompt", &long)]);
    assert_eq!(redacted.case_difference(&cleaner), None);
    let (old, plain) = (TapeDir::new(), start(SCRIPT));
    let old = old.record(&plain, &[first()]);
    assert!(!old.has_case() && old.case_difference(&same).is_none(), "an older tape still replays");
}

#[test]
fn equal_requests_get_recorded_responses_in_order() {
    let model = start(
        "
tape: 1
lanes:
  main:
    - fault: { status: 529, times: 1 }
      say: hello
",
    );
    let tape_dir = TapeDir::new();
    // A failure, its retry, and an equal conversation.
    let tape = tape_dir.record(&model, &[go(), go(), go()]);
    assert_eq!(tape.lanes().len(), 2);
    let server = replay(&tape, ReplayOptions::default());
    let statuses: Vec<_> = (0..4).map(|_| post(&server, &go()).status.unwrap()).collect();
    assert_eq!(statuses, [529, 200, 200, 400]);
}

#[test]
fn parallel_conversations_keep_the_recorded_order() {
    let tape_dir = TapeDir::new();
    let tape = recorded(&tape_dir);
    let server = replay(&tape, ReplayOptions::default().order_timeout(Duration::from_secs(60)));
    std::thread::scope(|scope| {
        let early = scope.spawn(|| post(&server, &conversation("something else", &[])).reply_text());
        // The other request was recorded later, so its response waits for these.
        assert_eq!(post(&server, &first()).status, Some(200));
        assert!(!early.is_finished());
        assert_eq!(post(&server, &second("out 12:00:01")).status, Some(200));
        assert_eq!(early.join().unwrap(), "Else.");
    });
    assert_eq!(server.outcome().out_of_order, 0);
}

#[test]
fn recorded_failures_are_repeated_for_retries() {
    let model =
        start("{ tape: 1, lanes: { main: [ { fault: { cut: { after: 3 events } }, say: hello } ] } }");
    let tape_dir = TapeDir::new();
    let tape = tape_dir.record(&model, &[go()]);
    let server = replay(&tape, ReplayOptions::default());
    for _ in 0..3 {
        let response = post(&server, &go());
        assert!(!response.complete);
        assert_eq!(response.body, tape.exchanges()[0].response_body());
    }
    assert_eq!(server.outcome().divergence, None);
}

#[test]
fn requests_outside_of_conversations_get_recorded_or_placeholder_responses() {
    let model = start(SCRIPT);
    let tape_dir = TapeDir::new();
    let proxy = yb_tape::RecordingProxy::start(tape_dir.options(&model)).unwrap();
    let count = |server: &dyn Fn(&str, &str, &[u8]) -> crate::client::Response| {
        server("POST", "/v1/messages/count_tokens", go().to_string().as_bytes()).json()["input_tokens"]
            .as_u64()
    };
    let recorded = count(&|method, path, body| request(&proxy, method, path, &[], body));
    request(&proxy, "GET", "/v1/models/m1", &[], b"");
    proxy.finish().unwrap();
    let tape = Tape::open(tape_dir.path()).unwrap();
    let server = replay(&tape, ReplayOptions::default());
    let send = |method: &str, path: &str, body: &[u8]| request(&server, method, path, &[], body);
    assert_eq!(count(&send), recorded);
    assert_eq!(send("GET", "/v1/models/m1", b"").json()["id"], "m1");
    assert_eq!(send("GET", "/v1/models/m1", b"").json()["id"], "m1");
    assert_eq!(server.outcome().placeholders, 0);
    // Not on the tape, but not a divergence.
    assert_eq!(send("HEAD", "/api/hello", b"").status, Some(200));
    assert_eq!(send("POST", "/api/events", b"{}").status, Some(404));
    let other = send("POST", "/v1/messages/count_tokens", after(1).to_string().as_bytes());
    assert!(other.json()["input_tokens"].as_u64().is_some());
    assert_eq!(server.outcome().placeholders, 3);
    assert_eq!(server.outcome().divergence, None);
}

#[test]
fn injected_faults_happen_once_at_their_turn() {
    let tape_dir = TapeDir::new();
    let tape = recorded(&tape_dir);
    let options = ["1:429=1.5s", "1:529", "1:500", "1:cut", "2:slow=50ms"]
        .into_iter()
        .fold(ReplayOptions::default(), |options, fault| options.fault(fault.parse().unwrap()));
    let server = replay(&tape, options);
    let limited = post(&server, &first());
    assert_eq!((limited.status, limited.header("retry-after")), (Some(429), Some("2")));
    assert_eq!(limited.header("retry-after-ms"), Some("1500"));
    assert_eq!(post(&server, &first()).json()["error"]["type"], "overloaded_error");
    assert_eq!(post(&server, &first()).status, Some(500));
    let cut = post(&server, &first());
    assert!(!cut.complete && cut.status == Some(200));
    let whole = tape.exchanges()[0].response_body();
    assert_eq!(cut.body, whole[..whole.len() / 2]);
    assert_eq!(post(&server, &first()).body, whole);
    let started = Instant::now();
    assert_eq!(post(&server, &second("out 12:00:01")).status, Some(200));
    assert!(started.elapsed() >= Duration::from_millis(50));
    let outcome = server.outcome();
    assert_eq!((outcome.faults, outcome.served, outcome.divergence), (5, 2, None));

    let unknown_lane: ReplayFault = "reviewer/1:cut".parse().unwrap();
    let error = ReplayServer::start(&tape, ReplayOptions::default().fault(unknown_lane)).unwrap_err();
    assert!(matches!(error, Error::NoSuchTurn { .. }));
    assert_eq!(error.to_string(), "no such turn in lane `reviewer`, which has 0: 1");
}

#[test]
fn real_speed_replays_recorded_pauses() {
    let model = start(
        "{ tape: 1, lanes: { main: [ { say: abcdef, pace: { chunk: 2, delay: 60ms, between: 10ms } } ] } }",
    );
    let tape_dir = TapeDir::new();
    let tape = tape_dir.record(&model, &[go()]);
    let took = tape.exchanges()[0].duration();
    assert!(took >= Duration::from_millis(60), "{took:?}");
    for (speed, at_least) in [(ReplaySpeed::Real, took), (ReplaySpeed::Fast, Duration::ZERO)] {
        let server = replay(&tape, ReplayOptions::default().speed(speed));
        let started = Instant::now();
        let response = post(&server, &go());
        assert!(started.elapsed() >= at_least);
        assert_eq!(response.reply_text(), "abcdef");
    }
}

#[test]
fn fork_forwards_after_its_turn() {
    let tape_dir = TapeDir::new();
    let tape = recorded(&tape_dir);
    let script =
        "{ tape: 1, lanes: { main: [ { say: never }, { say: Forked. , usage: { input: 3, output: 4 } } ] } }";
    let live = ForkTarget::Script(Script::parse(script, &Vars::new()).unwrap());
    let server = replay(&tape, ReplayOptions::default().fork(Fork::after(1, live.clone())));
    assert_eq!(post(&server, &first()).body, tape.exchanges()[0].response_body());
    assert_eq!(post(&server, &second("whatever")).reply_text(), "Forked.");
    let outcome = server.outcome();
    assert_eq!((outcome.served, outcome.forwarded, outcome.remaining), (1, 1, 0));
    let usage = outcome.live_usage.total();
    assert_eq!((usage.input, usage.output), (3, 4));
    // Before the fork, matching is strict.
    let server = replay(&tape, ReplayOptions::default().fork(Fork::after(1, live.clone())));
    assert_eq!(post(&server, &conversation("do that", &[])).status, Some(400));
    let error = ReplayServer::start(&tape, ReplayOptions::default().fork(Fork::after(3, live))).unwrap_err();
    assert!(matches!(error, Error::NoSuchTurn { .. }));
}

#[test]
fn fork_can_replace_the_model() {
    let tape_dir = TapeDir::new();
    let tape = recorded(&tape_dir);
    let model = start("{ tape: 1, lanes: { main: [ { say: live } ] } }");
    let upstream = yb_tape::Upstream::new(&model.base_url()).unwrap();
    let live = ForkTarget::Upstream { upstream, model: Some("other-model".to_owned()) };
    let server = replay(&tape, ReplayOptions::default().fork(Fork::after(0, live)));
    assert_eq!(post(&server, &first()).reply_text(), "live");
    assert_eq!(model.requests()[0].body["model"], "other-model");
}

#[tokio::test]
async fn diverged_waits_for_a_divergence() {
    let tape_dir = TapeDir::new();
    let tape = recorded(&tape_dir);
    let server = replay(&tape, ReplayOptions::default());
    let address = server.address();
    let request = tokio::task::spawn_blocking(move || {
        struct At(std::net::SocketAddr);
        impl crate::client::LoopbackAddress for At {
            fn loopback_address(&self) -> std::net::SocketAddr {
                self.0
            }
        }
        post_as(&At(address), &[], &conversation("do that", &[])).status
    });
    assert_eq!(server.diverged().await.kind, DivergenceKind::UnknownConversation);
    assert_eq!(request.await.unwrap(), Some(400));
    assert!(server.shutdown().await.divergence.is_some());
}

#[test]
fn truncated_tape_replays_up_to_the_truncation() {
    let tape_dir = TapeDir::new();
    let whole = recorded(&tape_dir);
    let file = std::fs::read(tape_dir.path()).unwrap();
    let cut = tape_dir.path().with_extension("cut");
    let mut lengths = Vec::new();
    // `frame::decode` has tests for every byte.
    for end in (0..file.len()).step_by(3) {
        std::fs::write(&cut, &file[..end]).unwrap();
        match Tape::open(&cut) {
            Err(error) => {
                assert!(lengths.is_empty(), "truncated at {end}: {error}");
                assert!(matches!(error, Error::InvalidTape { .. }), "{error}");
            }
            Ok(tape) => {
                assert!(tape.truncation().is_some(), "truncated at {end}");
                assert!(!tape.verify().problems.is_empty());
                let count = tape.exchanges().len();
                for (found, original) in tape.exchanges().iter().zip(whole.exchanges()) {
                    assert_eq!(found.response_body(), original.response_body());
                }
                if lengths.last() != Some(&count) {
                    lengths.push(count);
                    // Requests before the truncation match; later ones diverge.
                    let server = replay(&tape, ReplayOptions::default());
                    let bodies = [first(), second("out 12:00:01"), conversation("something else", &[])];
                    for (index, body) in bodies.iter().enumerate() {
                        let expected = if index < count { 200 } else { 400 };
                        assert_eq!(post(&server, body).status, Some(expected), "truncated at {end}, {index}");
                    }
                    let divergence = server.outcome().divergence;
                    if let Some(divergence) = divergence {
                        assert!(divergence.tape_is_truncated && divergence.hint().contains("is truncated"));
                    }
                }
            }
        }
    }
    assert_eq!(lengths, [0, 1, 2, 3]);
    assert_eq!(Tape::open(tape_dir.path()).unwrap().truncation(), None);
}

#[test]
fn tapes_can_be_compared_and_redacted() {
    let (left, right) = (TapeDir::new(), TapeDir::new());
    let tape = recorded(&left);
    assert_eq!(tape.diff(&recorded(&right)), []);
    let model = start(SCRIPT);
    let other_dir = TapeDir::new();
    let other = other_dir.record(&model, &[first(), second("something new"), go_whole()]);
    let found: Vec<String> = tape
        .diff(&other)
        .iter()
        .map(|d| format!("{} {} {}: {} | {}", d.lane, d.turn, d.part, d.left, d.right))
        .collect();
    assert_eq!(found.len(), 2, "{found:#?}");
    assert_eq!(
        found[0],
        "main 2 request: result of tool call `toolu_main_1_1`: out {time} | result of tool call `toolu_main_1_1`: something new"
    );
    assert_eq!(found[1], "main-2 1 request: user message: something else | user message: go");

    let copy = left.path().with_extension("redacted");
    let secrets = yb_tape::Secrets::new().with("WORD", "All is well");
    let redacted = tape.redact(&copy, &secrets).unwrap();
    assert_eq!(redacted.verify().problems, [""; 0]);
    assert_eq!(redacted.exchanges().len(), 3);
    assert!(!crate::recording::lines(&copy).contains("All is well"));
    let server = replay(&redacted, ReplayOptions::default());
    post(&server, &first());
    assert_eq!(post(&server, &second("out 12:00:01")).reply_text(), "[REDACTED:WORD] in /old/place.");
}
