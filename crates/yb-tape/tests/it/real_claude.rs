//! The real Claude Code CLI: recorded against a mock server, then replayed from the tape.

mod mutations;
mod runs;

use std::time::Duration;

use yb_tape::{DivergenceKind, Fork, ForkTarget, ReplayMode, ReplayOptions, Script, Vars};

use self::runs::{Agent, LONG};

#[test]
fn long_run_replays_with_the_same_result() {
    let recorded = Agent::new().structured().record(LONG);
    assert_eq!(recorded.exit, Some(0), "{}", recorded.output);
    let tape = recorded.tape.as_ref().unwrap();
    assert_eq!(tape.verify().problems, [""; 0]);
    let main = &tape.lanes()[0];
    assert!(main.exchanges.len() >= 12, "{:#?}", tape.lanes());
    assert_eq!(tape.lanes().iter().filter(|lane| lane.name.starts_with("subagent")).count(), 3);
    let replay = |round: usize| {
        let replayed = Agent::new().structured().replay(tape, ReplayOptions::default());
        let outcome = replayed.outcome.as_ref().unwrap();
        if let Some(divergence) = &outcome.divergence {
            panic!("round {round}: {divergence}");
        }
        assert_eq!(replayed.exit, Some(0), "round {round}: {}", replayed.output);
        assert_eq!(replayed.tree, recorded.tree, "round {round}");
        assert_eq!(replayed.transcript, recorded.transcript, "round {round}");
        assert_eq!(outcome.remaining, 0, "round {round}");
        assert_eq!(outcome.served, u64::try_from(tape.exchanges().len()).unwrap());
        assert_eq!((outcome.forwarded, outcome.placeholders, outcome.out_of_order), (0, 0, 0));
    };
    // Two at a time, for machines with two cores.
    std::thread::scope(|scope| {
        for half in [0..10, 10..20] {
            scope.spawn(|| half.for_each(replay));
        }
    });
}

#[test]
fn fork_continues_with_a_script_in_the_replayed_workspace() {
    let recorded = Agent::new().record(runs::SHORT);
    let tape = recorded.tape.as_ref().unwrap();
    let agent = Agent::new();
    let script = "
tape: 1
lanes:
  main:
    - say: never
    - say: never
    - tools: [{ Bash: { command: 'cat made.txt > forked.txt', description: Copy } }]
    - say: Forked.
";
    let live = ForkTarget::Script(Script::parse(script, &Vars::new()).unwrap());
    let forked = agent.replay(tape, ReplayOptions::default().fork(Fork::after(2, live)));
    let outcome = forked.outcome.as_ref().unwrap();
    assert_eq!(outcome.divergence, None);
    assert_eq!((outcome.served, outcome.forwarded), (2, 2), "{}", forked.output);
    assert_eq!(forked.tree["forked.txt"], forked.tree["made.txt"]);
    assert!(forked.output.contains("Forked."));
}

#[test]
fn agent_retries_after_injected_faults() {
    let recorded = Agent::new().record(runs::SHORT);
    let tape = recorded.tape.as_ref().unwrap();
    for faults in [&["1:429=10ms"][..], &["2:529", "3:500"], &["2:slow=300ms"], &["4:cut"]] {
        let options = faults
            .iter()
            .fold(ReplayOptions::default(), |options, fault| options.fault(fault.parse().unwrap()));
        let replayed = Agent::new().retrying().replay(tape, options);
        let outcome = replayed.outcome.as_ref().unwrap();
        assert_eq!(usize::try_from(outcome.faults).unwrap(), faults.len(), "{faults:?}");
        match &outcome.divergence {
            None => assert_eq!(
                (replayed.exit, &replayed.tree),
                (Some(0), &recorded.tree),
                "{faults:?}: {}",
                replayed.output
            ),
            // After a broken stream the agent requests one message, which was not recorded.
            Some(divergence) => {
                assert_eq!(faults, ["4:cut"], "{divergence}");
                assert_eq!(divergence.kind, DivergenceKind::StreamMode, "{divergence}");
            }
        }
    }
}

#[test]
fn lenient_mode_continues_where_strict_mode_diverges() {
    let recorded = Agent::new().record(runs::SHORT);
    let tape = recorded.tape.as_ref().unwrap();
    let changed = || {
        let agent = Agent::new();
        agent.write("greeting.txt", "Good evening.\n");
        agent
    };
    let strict = changed().replay(tape, ReplayOptions::default());
    let divergence = strict.outcome.unwrap().divergence.unwrap();
    assert_eq!(
        (divergence.kind, divergence.lane.as_deref(), divergence.turn),
        (DivergenceKind::ToolResult, Some("main"), 2)
    );
    assert!(
        divergence.expected.contains("Hello.") && divergence.actual.contains("Good evening."),
        "{divergence}"
    );
    let lenient = changed().replay(tape, ReplayOptions::default().mode(ReplayMode::Lenient));
    let outcome = lenient.outcome.unwrap();
    assert_eq!((outcome.divergence, outcome.tolerated), (None, 1));
    assert_eq!(lenient.exit, Some(0));
}

#[test]
fn background_subagents_replay_with_notifications() {
    let script = "
tape: 1
lanes:
  main:
    - tools: [{ Agent: { description: Count, prompt: 'Count the words.', subagent_type: general-purpose, run_in_background: true } }]
    - say: I wait for it.
    - say: It has counted.
  counter:
    match: Count the words
    replies:
      - tools: [{ Bash: { command: 'wc -w < greeting.txt', description: Count } }]
      - { say: One word., pace: { delay: 1500ms } }
";
    let recorded = Agent::new().in_background().record(script);
    let tape = recorded.tape.as_ref().unwrap();
    assert_eq!(tape.lanes()[0].exchanges.len(), 3, "the notification starts a turn");
    assert_eq!(recorded.exit, Some(0), "{}", recorded.output);
    for _ in 0..3 {
        let replayed = Agent::new().in_background().replay(tape, ReplayOptions::default());
        let outcome = replayed.outcome.as_ref().unwrap();
        assert!(outcome.divergence.is_none(), "{}", outcome.divergence.as_ref().unwrap());
        assert_eq!((replayed.exit, outcome.remaining), (Some(0), 0), "{}", replayed.output);
        assert_eq!(replayed.transcript, recorded.transcript);
    }
}

#[test]
fn compaction_starts_a_new_conversation() {
    let script = "
tape: 1
lanes:
  main:
    - say: I am asked for the first time.
    - say: '<summary>We have met.</summary>'
";
    let new_agent = || {
        let mut agent = Agent::new();
        agent.args.push("--input-format=stream-json".to_owned());
        agent.prompt = ["Who are you?", "/compact", "And now?"]
            .map(|text| {
                serde_json::json!({"type": "user", "message": {"role": "user", "content": text}}).to_string()
                    + "\n"
            })
            .concat();
        agent
    };
    let recorded = new_agent().record(script);
    assert_eq!(recorded.exit, Some(0), "{}", recorded.output);
    let tape = recorded.tape.as_ref().unwrap();
    let turns: Vec<usize> = tape.lanes().iter().map(|lane| lane.exchanges.len()).collect();
    assert_eq!(turns, [2, 1], "{:#?}", tape.lanes());
    let replayed = new_agent().replay(tape, ReplayOptions::default());
    let outcome = replayed.outcome.as_ref().unwrap();
    assert!(outcome.divergence.is_none(), "{}", outcome.divergence.as_ref().unwrap());
    assert_eq!((replayed.exit, outcome.remaining), (Some(0), 0), "{}", replayed.output);
    assert_eq!(replayed.transcript, recorded.transcript);
}

/// Generous limit for slow machines.
const TIMEOUT: Duration = Duration::from_secs(120);
