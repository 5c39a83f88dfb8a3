//! Situations in which something changed since the recording: each is replayed by the rules, or named.

use yb_tape::{DivergenceKind, ReplayOptions};

use super::runs::{Agent, PROMPT, SHORT};

/// What a change leads to.
#[derive(Debug, Clone, Copy)]
enum Then {
    /// It is replayed, with so many exchanges left over.
    Replays(u64),
    /// It is named: what kind, and in which turn of `main`, if the lane is known.
    Diverges(DivergenceKind, Option<usize>),
}

type Change = fn(&mut Agent);

fn arg(agent: &mut Agent, arg: &str) {
    agent.args.push(arg.to_owned());
}

const RESULT: DivergenceKind = DivergenceKind::ToolResult;

const SITUATIONS: [(&str, Change, Then); 14] = [
    ("nothing changed but the directory and the time", |_| {}, Then::Replays(0)),
    ("a file has another content", |a| a.write("greeting.txt", "Bye.\n"), Then::Diverges(RESULT, Some(2))),
    ("a file has one byte more", |a| a.write("greeting.txt", "Hello..\n"), Then::Diverges(RESULT, Some(2))),
    ("a file is missing", |a| a.remove("greeting.txt"), Then::Diverges(RESULT, Some(2))),
    ("a file that is to be made is there", |a| a.write("made.txt", "x"), Then::Diverges(RESULT, Some(3))),
    ("a file that nobody looks at is there", |a| a.write("other.txt", "x"), Then::Replays(0)),
    (
        "the prompt is another",
        |a| a.prompt = "Do that.".to_owned(),
        Then::Diverges(DivergenceKind::UnknownConversation, None),
    ),
    (
        "the prompt has a word more",
        |a| a.prompt = format!("{PROMPT} Now."),
        Then::Diverges(DivergenceKind::UnknownConversation, None),
    ),
    ("a tool is switched off", |a| arg(a, "--disallowedTools=Write"), Then::Diverges(RESULT, Some(3))),
    ("writing is not allowed", |a| arg(a, "--permission-mode=default"), Then::Diverges(RESULT, Some(3))),
    ("the agent stops early", |a| arg(a, "--max-turns=2"), Then::Replays(2)),
    ("the system prompt is longer", |a| arg(a, "--append-system-prompt=Be brief."), Then::Replays(0)),
    ("the model is another", |a| arg(a, "--model=claude-haiku-5-5"), Then::Replays(0)),
    ("the project has instructions", |a| a.write("CLAUDE.md", "Be kind.\n"), Then::Replays(0)),
];

#[test]
fn each_change_is_replayed_by_the_rules_or_named() {
    let recorded = Agent::new().record(SHORT);
    let tape = recorded.tape.as_ref().unwrap();
    let check = |(name, change, then): &(&str, Change, Then)| {
        let mut agent = Agent::new();
        change(&mut agent);
        let replayed = agent.replay(tape, ReplayOptions::default());
        let outcome = replayed.outcome.unwrap();
        match (*then, &outcome.divergence) {
            (Then::Replays(left), None) => {
                assert_eq!(outcome.left, left, "{name}: {}", replayed.output);
                assert_eq!(replayed.exit, Some(i32::from(left > 0)), "{name}: {}", replayed.output);
            }
            (Then::Diverges(kind, turn), Some(divergence)) => {
                assert_eq!(divergence.kind, kind, "{name}: {divergence}");
                assert_eq!(divergence.lane.as_ref().map(|_| divergence.turn), turn, "{name}: {divergence}");
                assert_eq!(replayed.exit, Some(1), "{name}: {}", replayed.output);
                assert!(!divergence.came.is_empty(), "{name}: {divergence}");
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
