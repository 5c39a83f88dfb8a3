//! Prompt files: parsed and rendered.

use serde_json::{Value, json};
use yb_prompt::{MemoryLoader, Prompt, PromptError};

use super::{Probe, Target, diagnostics, magnitude, require};
use crate::corpus::Seeds;

const NAME: &str = "p.prompt.mdx";

pub(super) const TARGET: Target = Target {
    name: "prompt",
    about: "prompt files: rendered, or rejected with an error whose position lies in the file",
    seeds: || {
        Seeds::new()
            .text("---\nname: greet\ntext_config:\n  model_name: sonnet\n---\n<User>Greet {props.name}.</User>\n")
            .text(
                "---\nname: o\nobject_config:\n  model_name: m\n  schema: { type: object, properties: { a: { type: number } } }\n\
                 input_schema: { type: object, required: [n] }\ntest_settings: { props: { n: 1 }, dataset: ./r.jsonl }\n---\n\
                 import Part from './part.mdx'\n\n<System>Be {props.n + 1 > 2 ? 'brief' : 'long'}.</System>\n\
                 <ForEach arr={props.list}>{(item, index) => <User>{index}: {item.name | upper}</User>}</ForEach>\n\
                 <If condition={props.n == 1 && !props.x}><Assistant>`code {not}` **b**</Assistant></If>\n<Part a={props.n} />\n",
            )
            .text("---\nname: i\nimage_config: { model_name: m }\n---\n<ImagePrompt>A {abs(-1)} {join(['a'], ',')}</ImagePrompt>\n")
            .blocks(&["mdx"], |_| true)
    },
    check,
};

fn check(probe: &mut Probe, input: &[u8]) -> Result<(), String> {
    let Ok(text) = std::str::from_utf8(input) else { return Ok(()) };
    let loader = MemoryLoader::new()
        .with(NAME, text)
        .with("part.mdx", "Part {props.a} {props.children}\n")
        .with("r.jsonl", text);
    let prompt = match Prompt::load(NAME, &loader) {
        Ok(prompt) => prompt,
        Err(error) => return rejected(probe, text, &error),
    };
    probe.saw(&(prompt.kind(), prompt.input_schema().is_some()));
    let _ = prompt.dataset(None, &loader).map_err(|error| rejected(probe, text, &error));
    let many: Vec<Value> = (0..20).map(|at| json!({ "name": "x".repeat(at), "n": at })).collect();
    for props in [prompt.test_props(), json!({ "name": "A", "n": 1, "x": null, "list": many })] {
        match prompt.render(&props) {
            Ok(config) => {
                let again = prompt.render(&props).map(|again| format!("{again:?}"));
                require(
                    again.as_ref().ok() == Some(&format!("{config:?}")),
                    "rendering is deterministic",
                    || format!("{config:?}"),
                )?;
                probe.saw(&magnitude(format!("{config:?}").len()));
            }
            Err(error) => rejected(probe, text, &error)?,
        }
    }
    Ok(())
}

fn rejected(probe: &mut Probe, text: &str, error: &PromptError) -> Result<(), String> {
    if let PromptError::Template { location, message, .. } = error {
        probe.saw_message(message);
        if location.file == NAME {
            return diagnostics::in_text(text, location.line, location.column)
                .map_err(|detail| format!("{detail} of {location} in {message:?}"));
        }
    } else {
        probe.saw_message(&error.to_string());
    }
    Ok(())
}
