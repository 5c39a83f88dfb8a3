//! `--json`: every event as a line of JSON on stdout. Documented in docs/run.md; fields are added, never changed.

use serde_json::{Value, json};
use yb_engine::run::{Progress, Told};
use yb_engine::trial::Step;

use super::Reporter;
use crate::printer::Printer;

/// In every line, as `v`.
pub(crate) const VERSION: u32 = 1;

/// Every event as a line.
pub(crate) struct Json;

impl Reporter for Json {
    fn told(&mut self, told: &Told<'_>, printer: &mut Printer) {
        let mut line = match told {
            Told::Event(entry) => serde_json::to_value(entry).unwrap_or_default(),
            Told::Progress(progress) => match wire(progress) {
                Some(line) => line,
                None => return,
            },
            _ => return,
        };
        line["v"] = json!(VERSION);
        printer.line(line);
    }
}

/// What is not in the journal has an `event` that begins with `progress_`.
fn wire(progress: &Progress) -> Option<Value> {
    Some(match progress {
        Progress::Step { trial, step } => {
            let mut line = json!({ "event": "progress_step", "trial": trial });
            match step {
                Step::Prepared { workspace } => {
                    line["step"] = json!("prepared");
                    line["workspace"] = json!(workspace);
                }
                Step::Hook { command } => {
                    line["step"] = json!("hook");
                    line["command"] = json!(command);
                }
                Step::Acting { agent } => {
                    line["step"] = json!("acting");
                    line["agent"] = json!(agent);
                }
                Step::Captured => line["step"] = json!("captured"),
                _ => return None,
            }
            line
        }
        Progress::Live { trial, live } => json!({
            "event": "progress_live",
            "trial": trial,
            "turns": live.turns,
            "last_tool": live.last_tool,
            "agent_usd": live.agent_usd,
            "subagents_usd": live.subagents_usd,
            "input_tokens": live.input_tokens,
            "output_tokens": live.output_tokens,
        }),
        Progress::Holding { agent, for_ } => {
            json!({ "event": "progress_holding", "agent": agent, "for_ms": for_.as_millis() as u64 })
        }
        Progress::Draining { reason, running } => {
            json!({ "event": "progress_draining", "reason": reason, "running": running })
        }
        Progress::Killing { running } => json!({ "event": "progress_killing", "running": running }),
        _ => return None,
    })
}
