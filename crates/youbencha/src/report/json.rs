//! `--json`: every event as a line of JSON on stdout. Fields may be added, but never changed or removed.

use serde_json::{Value, json};
use yb_engine::run::{Progress, RunnerEvent};
use yb_engine::trial::TrialStep;

use super::Reporter;
use crate::printer::Printer;

/// The format version, in every line as `v`.
pub(crate) const VERSION: u32 = 1;

/// Prints every event as a line of JSON.
pub(crate) struct JsonReporter;

impl Reporter for JsonReporter {
    fn handle(&mut self, event: &RunnerEvent<'_>, printer: &mut Printer) {
        let mut line = match event {
            RunnerEvent::Event(entry) => serde_json::to_value(entry).unwrap_or_default(),
            RunnerEvent::Progress(progress) => match wire(progress) {
                Some(line) => line,
                None => return,
            },
            _ => return,
        };
        line["v"] = json!(VERSION);
        printer.json(&line);
    }
}

/// Events that are not in the journal have an `event` that begins with `progress_`.
fn wire(progress: &Progress) -> Option<Value> {
    Some(match progress {
        Progress::Step { trial, step } => {
            let mut line = json!({ "event": "progress_step", "trial": trial });
            match step {
                TrialStep::Prepared { workspace } => {
                    line["step"] = json!("prepared");
                    line["workspace"] = json!(workspace);
                }
                TrialStep::Hook { command } => {
                    line["step"] = json!("hook");
                    line["command"] = json!(command);
                }
                TrialStep::Acting { agent } => {
                    line["step"] = json!("acting");
                    line["agent"] = json!(agent);
                }
                TrialStep::Captured => line["step"] = json!("captured"),
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
            "api_retry": live.api_retry.as_ref().map(|retry| json!({
                "status": retry.status,
                "retry_after_ms": retry.retry_after.map(|after| after.as_millis() as u64),
            })),
        }),
        Progress::Holding { agent, for_ } => {
            json!({ "event": "progress_holding", "agent": agent, "for_ms": for_.as_millis() as u64 })
        }
        Progress::Draining { reason, running } => {
            json!({ "event": "progress_draining", "reason": reason, "running": running })
        }
        Progress::Warning { message } => json!({ "event": "progress_warning", "message": message }),
        Progress::Killing { running } => json!({ "event": "progress_killing", "running": running }),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use yb_engine::adapter::{ApiRetry, Live};
    use yb_engine::run::StopReason;

    use super::*;

    #[test]
    fn every_progress_event_has_a_line() {
        let trial = || "a--default--1".to_owned();
        let (mut live, mut retry) = (Live::default(), ApiRetry::default());
        (retry.status, retry.retry_after) = (Some(429), Some(Duration::from_millis(1500)));
        (live.turns, live.api_retry) = (2, Some(retry));
        let step = |step| wire(&Progress::Step { trial: trial(), step }).unwrap();
        let all = [
            step(TrialStep::Prepared { workspace: "/w".into() }),
            step(TrialStep::Hook { command: "make".to_owned() }),
            step(TrialStep::Acting { agent: "command" }),
            step(TrialStep::Captured),
            wire(&Progress::Live { trial: trial(), live }).unwrap(),
            wire(&Progress::Holding { agent: "claude-code".to_owned(), for_: Duration::from_secs(5) })
                .unwrap(),
            wire(&Progress::Draining { reason: StopReason::Budget, running: 3 }).unwrap(),
            wire(&Progress::Warning { message: "x".to_owned() }).unwrap(),
            wire(&Progress::Killing { running: 3 }).unwrap(),
        ];
        let text: Vec<String> = all.iter().map(Value::to_string).collect();
        insta::assert_snapshot!(text.join("\n"), @r#"
        {"event":"progress_step","step":"prepared","trial":"a--default--1","workspace":"/w"}
        {"command":"make","event":"progress_step","step":"hook","trial":"a--default--1"}
        {"agent":"command","event":"progress_step","step":"acting","trial":"a--default--1"}
        {"event":"progress_step","step":"captured","trial":"a--default--1"}
        {"agent_usd":null,"api_retry":{"retry_after_ms":1500,"status":429},"event":"progress_live","input_tokens":0,"last_tool":null,"output_tokens":0,"subagents_usd":null,"trial":"a--default--1","turns":2}
        {"agent":"claude-code","event":"progress_holding","for_ms":5000}
        {"event":"progress_draining","reason":"budget","running":3}
        {"event":"progress_warning","message":"x"}
        {"event":"progress_killing","running":3}
        "#);
    }
}
