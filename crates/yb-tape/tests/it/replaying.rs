//! The replay: what was recorded comes back, byte for byte, and nothing else does.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use yb_tape::{
    DivergenceKind, Error, Fork, Live, Mode, ReplayFault, ReplayOptions, Replayer, Script, Speed, Tape, Vars,
};

use crate::client::{after, go, go_whole, post, post_as, request, start};
use crate::recording::Shelf;

/// A conversation: what the user says, then answers and what follows them.
fn talk(opening: &str, turns: &[(Value, Value)]) -> Value {
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

fn first() -> Value {
    talk("go", &[])
}

fn second(text: &str) -> Value {
    talk("go", &[(call("toolu_main_1_1"), result("toolu_main_1_1", text))])
}

fn recorded(shelf: &Shelf) -> Tape {
    let model = start(SCRIPT);
    let recorder = yb_tape::Recorder::start(shelf.options(&model).place("workspace", "/old/place")).unwrap();
    for body in [first(), second("out 12:00:01"), talk("something else", &[])] {
        assert_eq!(post(&recorder, &body).status, Some(200));
    }
    recorder.finish().unwrap();
    Tape::open(shelf.path()).unwrap()
}

fn replay(tape: &Tape, options: ReplayOptions) -> Replayer {
    Replayer::start(tape, options).unwrap()
}

#[test]
fn what_was_recorded_comes_back_byte_for_byte() {
    let shelf = Shelf::new();
    let tape = recorded(&shelf);
    assert_eq!(tape.lanes().iter().map(|lane| lane.exchanges.len()).collect::<Vec<_>>(), [2, 1]);
    let replayer = replay(&tape, ReplayOptions::default().patience(Duration::from_millis(20)));
    // Lanes are independent of each other's order, but it is noticed.
    for (body, index) in [(talk("something else", &[]), 2), (first(), 0), (second("out 23:59:59"), 1)] {
        let answer = post(&replayer, &body);
        assert_eq!(answer.status, Some(200), "{}", answer.text());
        assert!(answer.complete);
        assert_eq!(answer.body, tape.exchanges()[index].response_body());
    }
    let outcome = replayer.outcome();
    assert_eq!((outcome.served, outcome.left, outcome.improvised, outcome.tolerated), (3, 0, 0, 0));
    assert_eq!(outcome.out_of_order, 1);
    assert_eq!(outcome.divergence, None);
    assert_eq!(outcome.recorded.total(), tape.observed().total());
}

#[test]
fn another_directory_is_put_into_the_answers_and_taken_out_of_the_requests() {
    let shelf = Shelf::new();
    let tape = recorded(&shelf);
    let replayer = replay(&tape, ReplayOptions::default().place("workspace", "/new"));
    let answer = post(&replayer, &first());
    let input: String =
        answer.events().iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
    assert_eq!(input, r#"{"command":"cat /new/a"}"#);
    assert_eq!(post(&replayer, &second("out 12:00:01")).said(), "All is well in /new.");
    assert_eq!(replayer.outcome().divergence, None);
}

#[test]
fn each_way_to_leave_the_tape_has_a_name() {
    let shelf = Shelf::new();
    let tape = recorded(&shelf);
    let check = |bodies: &[Value], kind: DivergenceKind, account: &str| {
        let replayer = replay(&tape, ReplayOptions::default());
        let (last, before) = bodies.split_last().unwrap();
        for body in before {
            assert_eq!(post(&replayer, body).status, Some(200));
        }
        let answer = post(&replayer, last);
        assert_eq!(answer.status, Some(400), "{}", answer.text());
        let divergence = replayer.outcome().divergence.unwrap();
        assert_eq!(divergence.kind, kind, "{divergence}");
        let text = divergence.to_string().replace(&tape.path().display().to_string(), "TAPE");
        assert_eq!(text.trim(), account.trim(), "{text}");
        assert!(answer.text().contains("replay diverged in"));
        // From then on there is only that.
        assert_eq!(post(&replayer, &first()).status, Some(400));
        assert_eq!(replayer.outcome().divergence.unwrap(), divergence);
    };
    check(
        &[first(), second("other output")],
        DivergenceKind::ToolResult,
        "
replay diverged in lane `main`, turn 2: a tool returned something else
  differs:  the result of tool call `toolu_main_1_1`
  expected: out {time}
  came:     other output
  tape:     TAPE",
    );
    check(
        &[talk("do that", &[])],
        DivergenceKind::UnknownConversation,
        "
replay diverged in a lane that is not on the tape, turn 1: the tape has no such conversation
  differs:  what opens the conversation
  expected: go
  came:     do that
  tape:     TAPE",
    );
    check(
        &[first(), first()],
        DivergenceKind::AskedAgain,
        "
replay diverged in lane `main`, turn 1: all recorded answers to this were given already
  differs:  the whole request
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
replay diverged in lane `main`, turn 3: the tape has no further turn
  differs:  a turn more than were recorded
  came:     what the user says: And now?
  tape:     TAPE",
    );
    check(
        &[talk("go", &[(call("toolu_foreign"), result("toolu_foreign", "out"))])],
        DivergenceKind::OtherAnswers,
        "
replay diverged in lane `main`, turn 2: the request sends back other answers than the tape's
  differs:  a call of `Bash` (`toolu_main_1_1`)
  expected: toolu_main_1_1
  came:     toolu_foreign
  tape:     TAPE",
    );
    let mut said = second("out 12:00:01");
    said["messages"].as_array_mut().unwrap().push(json!({ "role": "user", "content": "Hurry!" }));
    check(
        &[first(), said],
        DivergenceKind::UserPart,
        "
replay diverged in lane `main`, turn 2: the user says something else
  differs:  what the user says
  expected: (nothing)
  came:     what the user says: Hurry!
  tape:     TAPE",
    );
    let mut whole = first();
    whole["stream"] = json!(false);
    check(
        &[whole],
        DivergenceKind::OtherForm,
        "
replay diverged in lane `main`, turn 1: the tape has this turn only in the other form (stream or one message)
  differs:  one message is asked for
  tape:     TAPE",
    );
    check(
        &[json!({ "messages": "none" })],
        DivergenceKind::UnknownRequest,
        "
replay diverged in a lane that is not on the tape, turn 1: the tape has no such request
  differs:  POST /v1/messages
  came:     {\"messages\":\"none\"}
  tape:     TAPE",
    );
}

#[test]
fn lenient_lets_tool_results_differ_and_counts_them() {
    let shelf = Shelf::new();
    let tape = recorded(&shelf);
    let replayer = replay(&tape, ReplayOptions::default().mode(Mode::Lenient));
    post(&replayer, &first());
    assert_eq!(post(&replayer, &second("other output")).said(), "All is well in /old/place.");
    assert_eq!(replayer.outcome().tolerated, 1);
    // But not what the user says.
    assert_eq!(post(&replayer, &talk("do that", &[])).status, Some(400));
}

#[test]
fn equal_lanes_are_a_multiset_and_failed_attempts_come_back_in_order() {
    let model = start(
        "
tape: 1
lanes:
  main:
    - fault: { status: 529, times: 1 }
      say: hello
",
    );
    let shelf = Shelf::new();
    // A failure, its second attempt, and an equal conversation beside it.
    let tape = shelf.record(&model, &[go(), go(), go()]);
    assert_eq!(tape.lanes().len(), 2);
    let replayer = replay(&tape, ReplayOptions::default());
    let statuses: Vec<_> = (0..4).map(|_| post(&replayer, &go()).status.unwrap()).collect();
    assert_eq!(statuses, [529, 200, 200, 400]);
}

#[test]
fn conversations_side_by_side_keep_the_recorded_order() {
    let shelf = Shelf::new();
    let tape = recorded(&shelf);
    let replayer = replay(&tape, ReplayOptions::default().patience(Duration::from_secs(60)));
    std::thread::scope(|scope| {
        let early = scope.spawn(|| post(&replayer, &talk("something else", &[])).said());
        // The other conversation was asked for later, so its answer waits for these.
        assert_eq!(post(&replayer, &first()).status, Some(200));
        assert!(!early.is_finished());
        assert_eq!(post(&replayer, &second("out 12:00:01")).status, Some(200));
        assert_eq!(early.join().unwrap(), "Else.");
    });
    assert_eq!(replayer.outcome().out_of_order, 0);
}

#[test]
fn recorded_failures_can_be_asked_for_again_and_a_cut_stays_a_cut() {
    let model =
        start("{ tape: 1, lanes: { main: [ { fault: { cut: { after: 3 events } }, say: hello } ] } }");
    let shelf = Shelf::new();
    let tape = shelf.record(&model, &[go()]);
    let replayer = replay(&tape, ReplayOptions::default());
    for _ in 0..3 {
        let answer = post(&replayer, &go());
        assert!(!answer.complete);
        assert_eq!(answer.body, tape.exchanges()[0].response_body());
    }
    assert_eq!(replayer.outcome().divergence, None);
}

#[test]
fn what_is_no_conversation_is_played_or_improvised() {
    let model = start(SCRIPT);
    let shelf = Shelf::new();
    let recorder = yb_tape::Recorder::start(shelf.options(&model)).unwrap();
    let count = |server: &dyn Fn(&str, &str, &[u8]) -> crate::client::Response| {
        server("POST", "/v1/messages/count_tokens", go().to_string().as_bytes()).json()["input_tokens"]
            .as_u64()
    };
    let recorded = count(&|method, path, body| request(&recorder, method, path, &[], body));
    request(&recorder, "GET", "/v1/models/m1", &[], b"");
    recorder.finish().unwrap();
    let tape = Tape::open(shelf.path()).unwrap();
    let replayer = replay(&tape, ReplayOptions::default());
    let ask = |method: &str, path: &str, body: &[u8]| request(&replayer, method, path, &[], body);
    assert_eq!(count(&ask), recorded);
    assert_eq!(ask("GET", "/v1/models/m1", b"").json()["id"], "m1");
    assert_eq!(ask("GET", "/v1/models/m1", b"").json()["id"], "m1");
    assert_eq!(replayer.outcome().improvised, 0);
    // Not on the tape, and no reason to stop.
    assert_eq!(ask("HEAD", "/api/hello", b"").status, Some(200));
    assert_eq!(ask("POST", "/api/events", b"{}").status, Some(404));
    let other = ask("POST", "/v1/messages/count_tokens", after(1).to_string().as_bytes());
    assert!(other.json()["input_tokens"].as_u64().is_some());
    assert_eq!(replayer.outcome().improvised, 3);
    assert_eq!(replayer.outcome().divergence, None);
}

#[test]
fn faults_happen_once_where_they_are_asked_for() {
    let shelf = Shelf::new();
    let tape = recorded(&shelf);
    let options = ["1:429=1.5s", "1:529", "1:500", "1:cut", "2:slow=50ms"]
        .into_iter()
        .fold(ReplayOptions::default(), |options, fault| options.fault(fault.parse().unwrap()));
    let replayer = replay(&tape, options);
    let limited = post(&replayer, &first());
    assert_eq!((limited.status, limited.header("retry-after")), (Some(429), Some("2")));
    assert_eq!(limited.header("retry-after-ms"), Some("1500"));
    assert_eq!(post(&replayer, &first()).json()["error"]["type"], "overloaded_error");
    assert_eq!(post(&replayer, &first()).status, Some(500));
    let cut = post(&replayer, &first());
    assert!(!cut.complete && cut.status == Some(200));
    let whole = tape.exchanges()[0].response_body();
    assert_eq!(cut.body, whole[..whole.len() / 2]);
    assert_eq!(post(&replayer, &first()).body, whole);
    let asked = Instant::now();
    assert_eq!(post(&replayer, &second("out 12:00:01")).status, Some(200));
    assert!(asked.elapsed() >= Duration::from_millis(50));
    let outcome = replayer.outcome();
    assert_eq!((outcome.faults, outcome.served, outcome.divergence), (5, 2, None));

    let nowhere: ReplayFault = "reviewer/1:cut".parse().unwrap();
    let error = Replayer::start(&tape, ReplayOptions::default().fault(nowhere)).unwrap_err();
    assert!(matches!(error, Error::NoStep { .. }));
    assert_eq!(error.to_string(), "the tape has no such step: 1 (lane `reviewer` has 0)");
}

#[test]
fn real_speed_has_the_recorded_pauses_and_borders() {
    let model = start(
        "{ tape: 1, lanes: { main: [ { say: abcdef, pace: { chunk: 2, delay: 60ms, between: 10ms } } ] } }",
    );
    let shelf = Shelf::new();
    let tape = shelf.record(&model, &[go()]);
    let took = tape.exchanges()[0].took();
    assert!(took >= Duration::from_millis(60), "{took:?}");
    for (speed, at_least) in [(Speed::Real, took), (Speed::Fast, Duration::ZERO)] {
        let replayer = replay(&tape, ReplayOptions::default().speed(speed));
        let asked = Instant::now();
        let answer = post(&replayer, &go());
        assert!(asked.elapsed() >= at_least);
        assert_eq!(answer.said(), "abcdef");
    }
}

#[test]
fn a_fork_goes_live_after_its_step() {
    let shelf = Shelf::new();
    let tape = recorded(&shelf);
    let script =
        "{ tape: 1, lanes: { main: [ { say: never }, { say: Forked. , usage: { input: 3, output: 4 } } ] } }";
    let live = Live::Script(Script::parse(script, &Vars::new()).unwrap());
    let replayer = replay(&tape, ReplayOptions::default().fork(Fork::after(1, live.clone())));
    assert_eq!(post(&replayer, &first()).body, tape.exchanges()[0].response_body());
    assert_eq!(post(&replayer, &second("whatever")).said(), "Forked.");
    let outcome = replayer.outcome();
    assert_eq!((outcome.served, outcome.forwarded, outcome.left), (1, 1, 0));
    let spent = outcome.spent.total();
    assert_eq!((spent.input, spent.output), (3, 4));
    // Before its step, a fork is as strict as ever.
    let replayer = replay(&tape, ReplayOptions::default().fork(Fork::after(1, live.clone())));
    assert_eq!(post(&replayer, &talk("do that", &[])).status, Some(400));
    let error = Replayer::start(&tape, ReplayOptions::default().fork(Fork::after(3, live))).unwrap_err();
    assert!(matches!(error, Error::NoStep { .. }));
}

#[test]
fn a_fork_can_take_another_model() {
    let shelf = Shelf::new();
    let tape = recorded(&shelf);
    let model = start("{ tape: 1, lanes: { main: [ { say: live } ] } }");
    let upstream = yb_tape::Upstream::new(&model.base_url()).unwrap();
    let live = Live::Upstream { upstream, model: Some("other-model".to_owned()) };
    let replayer = replay(&tape, ReplayOptions::default().fork(Fork::after(0, live)));
    assert_eq!(post(&replayer, &first()).said(), "live");
    assert_eq!(model.requests()[0].body["model"], "other-model");
}

#[tokio::test]
async fn a_divergence_can_be_waited_for() {
    let shelf = Shelf::new();
    let tape = recorded(&shelf);
    let replayer = replay(&tape, ReplayOptions::default());
    let address = replayer.address();
    let asking = tokio::task::spawn_blocking(move || {
        struct At(std::net::SocketAddr);
        impl crate::client::Listens for At {
            fn listens_at(&self) -> std::net::SocketAddr {
                self.0
            }
        }
        post_as(&At(address), &[], &talk("do that", &[])).status
    });
    assert_eq!(replayer.diverged().await.kind, DivergenceKind::UnknownConversation);
    assert_eq!(asking.await.unwrap(), Some(400));
    assert!(replayer.shutdown().await.divergence.is_some());
}

#[test]
fn a_tape_that_is_cut_anywhere_is_played_up_to_there() {
    let shelf = Shelf::new();
    let whole = recorded(&shelf);
    let file = std::fs::read(shelf.path()).unwrap();
    let cut = shelf.path().with_extension("cut");
    let mut lengths = Vec::new();
    // Each byte of a frame is tried beside the frame itself.
    for end in (0..file.len()).step_by(3) {
        std::fs::write(&cut, &file[..end]).unwrap();
        match Tape::open(&cut) {
            Err(error) => {
                assert!(lengths.is_empty(), "cut at {end}: {error}");
                assert!(matches!(error, Error::NoTape { .. }), "{error}");
            }
            Ok(tape) => {
                assert!(tape.cut().is_some(), "cut at {end}");
                assert!(!tape.verify().problems.is_empty());
                let count = tape.exchanges().len();
                for (found, original) in tape.exchanges().iter().zip(whole.exchanges()) {
                    assert_eq!(found.response_body(), original.response_body());
                }
                if lengths.last() != Some(&count) {
                    lengths.push(count);
                    // Everything before the cut is played, and what comes after it is named.
                    let replayer = replay(&tape, ReplayOptions::default());
                    let bodies = [first(), second("out 12:00:01"), talk("something else", &[])];
                    for (index, body) in bodies.iter().enumerate() {
                        let expected = if index < count { 200 } else { 400 };
                        assert_eq!(post(&replayer, body).status, Some(expected), "cut at {end}, {index}");
                    }
                    let divergence = replayer.outcome().divergence;
                    if let Some(divergence) = divergence {
                        assert!(divergence.tape_is_cut && divergence.hint().contains("was cut"));
                    }
                }
            }
        }
    }
    assert_eq!(lengths, [0, 1, 2, 3]);
    assert_eq!(Tape::open(shelf.path()).unwrap().cut(), None);
}

#[test]
fn two_tapes_are_compared_and_one_is_redacted() {
    let (left, right) = (Shelf::new(), Shelf::new());
    let tape = recorded(&left);
    assert_eq!(tape.diff(&recorded(&right)), []);
    let model = start(SCRIPT);
    let other_shelf = Shelf::new();
    let other = other_shelf.record(&model, &[first(), second("something new"), go_whole()]);
    let found: Vec<String> = tape
        .diff(&other)
        .iter()
        .map(|d| format!("{} {} {}: {} | {}", d.lane, d.turn, d.part, d.left, d.right))
        .collect();
    assert_eq!(found.len(), 2, "{found:#?}");
    assert_eq!(
        found[0],
        "main 2 the request: …e result of tool call `toolu_main_1_1`: out {time} | …e result of tool call `toolu_main_1_1`: something new"
    );
    assert_eq!(found[1], "main-2 1 the request: what the user says: something else | what the user says: go");

    let copy = left.path().with_extension("redacted");
    let secrets = yb_tape::Secrets::new().with("WORD", "All is well");
    let redacted = tape.redact(&copy, &secrets).unwrap();
    assert_eq!(redacted.verify().problems, [""; 0]);
    assert_eq!(redacted.exchanges().len(), 3);
    assert!(!crate::recording::lines(&copy).contains("All is well"));
    let replayer = replay(&redacted, ReplayOptions::default());
    post(&replayer, &first());
    assert_eq!(post(&replayer, &second("out 12:00:01")).said(), "[REDACTED:WORD] in /old/place.");
}
