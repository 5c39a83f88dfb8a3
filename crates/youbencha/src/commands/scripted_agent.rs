//! `yb scripted-agent`: the built-in agent. It calls a Messages API on loopback and executes the tool calls in the working
//! directory, so that the demo, tests and benchmarks need no other program.

mod http;
mod tools;

use std::io::Read as _;
use std::time::Instant;

use serde_json::{Value, json};

use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;

/// The variable with the URL of the API.
const BASE_URL: &str = "ANTHROPIC_BASE_URL";
const MODEL: &str = "scripted";
/// The session id of all frames.
const SESSION: &str = "scripted-agent";
/// Limits a script without an end.
const MAX_TURNS: u64 = 200;

pub(super) fn run(printer: &mut Printer) -> Result<ExitCode, CliError> {
    let Some(base) = std::env::var(BASE_URL).ok().filter(|base| !base.is_empty()) else {
        return Err(CliError::new(ErrorKind::Usage, format!("`{BASE_URL}` is not set"))
            .hint("start a model with `yb tape serve SCRIPT`, which prints the address"));
    };
    let mut prompt = String::new();
    std::io::stdin().read_to_string(&mut prompt).map_err(CliError::failed_to("read the prompt"))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::failed_to("start"))?;
    runtime.block_on(converse(&base, prompt.trim(), printer))
}

/// Runs the conversation and prints its frames.
async fn converse(base: &str, prompt: &str, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let began = Instant::now();
    let cwd = std::env::current_dir().map_err(CliError::failed_to("find the working directory"))?;
    printer.json(&json!({
        "type": "system", "subtype": "init", "session_id": SESSION, "model": MODEL, "cwd": cwd, "tools": tools::NAMES,
    }));
    let mut messages = vec![json!({ "role": "user", "content": [{ "type": "text", "text": prompt }] })];
    let mut usage = Usage::default();
    let mut turns = 0;
    let (text, failed) = loop {
        turns += 1;
        let request =
            json!({ "model": MODEL, "max_tokens": 4096, "tools": tools::schemas(), "messages": messages });
        let answer = match http::post(base, "/v1/messages", &request) {
            Ok(answer) => answer,
            Err(reason) => break (reason, true),
        };
        usage.add(&answer["usage"]);
        printer.json(&json!({ "type": "assistant", "session_id": SESSION, "message": answer }));
        let blocks = answer["content"].as_array().cloned().unwrap_or_default();
        let mut results = Vec::new();
        for call in blocks.iter().filter(|block| block["type"] == "tool_use") {
            let (content, is_error) = tools::call(&call["name"], &call["input"], &cwd).await;
            results.push(json!({
                "type": "tool_result", "tool_use_id": call["id"], "content": content, "is_error": is_error,
            }));
        }
        if results.is_empty() || turns == MAX_TURNS {
            let texts = blocks.iter().filter_map(|block| block["text"].as_str());
            break (texts.collect::<Vec<_>>().join("\n"), turns == MAX_TURNS);
        }
        let reply = json!({ "role": "user", "content": results });
        printer.json(&json!({ "type": "user", "session_id": SESSION, "message": reply }));
        messages.push(json!({ "role": "assistant", "content": blocks }));
        messages.push(reply);
    };
    printer.json(&json!({
        "type": "result",
        "subtype": if failed { "error_during_execution" } else { "success" },
        "is_error": failed,
        "result": text,
        "session_id": SESSION,
        "num_turns": turns,
        "duration_ms": u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        "usage": { "input_tokens": usage.input, "output_tokens": usage.output },
    }));
    Ok(if failed { ExitCode::Failed } else { ExitCode::Passed })
}

/// Reported token usage.
#[derive(Default)]
struct Usage {
    input: u64,
    output: u64,
}

impl Usage {
    fn add(&mut self, reported: &Value) {
        self.input += reported["input_tokens"].as_u64().unwrap_or(0);
        self.output += reported["output_tokens"].as_u64().unwrap_or(0);
    }
}
