//! Table of changes since the recording: each either replays or diverges as expected.

use yb_tape::{DivergenceKind, ReplayOptions};

use super::runs::{Agent, PROMPT, SHORT};

/// Expected result of a change.
#[derive(Debug, Clone, Copy)]
enum Expected {
    /// Replays, with this many exchanges remaining.
    Replays(u64),
    /// Diverges with this kind, in this turn of `main` if the lane is known.
    Diverges(DivergenceKind, Option<usize>),
}

type Change = fn(&mut Agent);

fn arg(agent: &mut Agent, arg: &str) {
    agent.args.push(arg.to_owned());
}

const RESULT: DivergenceKind = DivergenceKind::ToolResult;

const SITUATIONS: [(&str, Change, Expected); 14] = [
    ("nothing changed but the directory and the time", |_| {}, Expected::Replays(0)),
    (
        "a file has another content",
        |a| a.write("greeting.txt", "Bye.\n"),
        Expected::Diverges(RESULT, Some(2)),
    ),
    (
        "a file has one byte more",
        |a| a.write("greeting.txt", "Hello..\n"),
        Expected::Diverges(RESULT, Some(2)),
    ),
    ("a file is missing", |a| a.remove("greeting.txt"), Expected::Diverges(RESULT, Some(2))),
    ("a file to be created exists", |a| a.write("made.txt", "x"), Expected::Diverges(RESULT, Some(3))),
    ("an unread file exists", |a| a.write("other.txt", "x"), Expected::Replays(0)),
    (
        "the prompt is another",
        |a| a.prompt = "Do that.".to_owned(),
        Expected::Diverges(DivergenceKind::UnknownConversation, None),
    ),
    (
        "the prompt has a word more",
        |a| a.prompt = format!("{PROMPT} Now."),
        Expected::Diverges(DivergenceKind::UnknownConversation, None),
    ),
    ("a tool is switched off", |a| arg(a, "--disallowedTools=Write"), Expected::Diverges(RESULT, Some(3))),
    ("writing is not allowed", |a| arg(a, "--permission-mode=default"), Expected::Diverges(RESULT, Some(3))),
    ("the agent stops early", |a| arg(a, "--max-turns=2"), Expected::Replays(2)),
    ("the system prompt is longer", |a| arg(a, "--append-system-prompt=Be brief."), Expected::Replays(0)),
    ("the model is another", |a| arg(a, "--model=claude-haiku-5-5"), Expected::Replays(0)),
    ("the project has instructions", |a| a.write("CLAUDE.md", "Be kind.\n"), Expected::Replays(0)),
];

#[test]
fn changes_replay_or_diverge_as_expected() {
    let recorded = Agent::new().record(SHORT);
    let tape = recorded.tape.as_ref().unwrap();
    let check = |(name, change, expected): &(&str, Change, Expected)| {
        let mut agent = Agent::new();
        change(&mut agent);
        let replayed = agent.replay(tape, ReplayOptions::default());
        let outcome = replayed.outcome.unwrap();
        match (*expected, &outcome.divergence) {
            (Expected::Replays(remaining), None) => {
                assert_eq!(outcome.remaining, remaining, "{name}: {}", replayed.output);
                assert_eq!(replayed.exit, Some(i32::from(remaining > 0)), "{name}: {}", replayed.output);
            }
            (Expected::Diverges(kind, turn), Some(divergence)) => {
                assert_eq!(divergence.kind, kind, "{name}: {divergence}");
                assert_eq!(divergence.lane.as_ref().map(|_| divergence.turn), turn, "{name}: {divergence}");
                assert_eq!(replayed.exit, Some(1), "{name}: {}", replayed.output);
                assert!(!divergence.actual.is_empty(), "{name}: {divergence}");
            }
            (_, divergence) => panic!("{name}: {divergence:?}"),
        }
    };
    std::thread::scope(|scope| {
        for half in SITUATIONS.chunks(SITUATIONS.len() / 2) {
            scope.spawn(move || half.iter().for_each(check));
        }
    });
}
