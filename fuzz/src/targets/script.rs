//! Scripts of the mock model.

use yb_tape::{Error, Script, Vars};

use super::{Probe, Target, diagnostics, magnitude, require};
use crate::corpus::Seeds;

pub(super) const TARGET: Target = Target {
    name: "script",
    about: "model scripts: parsed, or rejected with an error whose position lies in the file",
    seeds: || {
        Seeds::new()
            .text(
                "tape: 1\nmodel: m\nlanes:\n  main:\n    - say: I will write.\n      tools:\n        \
                 - Write: { file_path: '{{workspace}}/a', content: hi }\n    - think: hm\n      say: Done.\n      usage: { input: 5, output: 7 }\n",
            )
            .files("examples", "model.yaml")?
            .blocks(&["yaml"], |block| block.contains("lanes:"))
    },
    check,
};

fn check(probe: &mut Probe, input: &[u8]) -> Result<(), String> {
    let Ok(text) = std::str::from_utf8(input) else { return Ok(()) };
    let vars = Vars::new().with("workspace", "/w").with("prompt", "a \"quoted\": text\nof two lines");
    match Script::parse(text, &vars) {
        Ok(script) => {
            probe
                .saw(&script.lanes().map(|(name, turns)| (name.len(), magnitude(turns))).collect::<Vec<_>>());
            let again =
                Script::parse(text, &vars).map_err(|error| format!("a script is parsed again: {error}"))?;
            require(again == script, "the same text is the same script", || format!("{script:?}"))
        }
        Err(Error::Script(error)) => {
            let message = error.to_string();
            // After the position, which differs for every input.
            probe.saw_message(message.split_once(": ").map_or(message.as_str(), |(_, rest)| rest));
            let at = error.location();
            let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
            diagnostics::in_text(text, number(at.line), number(at.column))
                .map_err(|detail| format!("{detail} in {message:?}"))
        }
        Err(error) => Err(format!("a text is parsed or is an invalid script: {error}")),
    }
}
