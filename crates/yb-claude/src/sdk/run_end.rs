//! When a run is over, so that the CLI's input may end: closing it earlier cuts off hooks, tools and background agents.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use crate::Message;
use crate::frame::System;

/// Follows a run to its end.
#[derive(Debug, Default)]
pub(super) struct RunEnd {
    /// The CLI says itself when it is idle; before 2.1 it did not.
    says_state: bool,
    idle: bool,
    results: u32,
    /// No agent ran when the last result came, so no further turn follows it.
    settled: bool,
    in_turn: bool,
    /// Agents and workflows that run in the background and will report with a turn of their own.
    tasks: BTreeSet<String>,
    /// Since when nothing but background work goes on.
    waiting_since: Option<Instant>,
    ceiling: Option<Duration>,
}

impl RunEnd {
    /// `ceiling`: how long background work is waited for between turns.
    pub(super) fn new(ceiling: Option<Duration>) -> Self {
        Self { ceiling, ..Self::default() }
    }

    pub(super) fn observe(&mut self, message: &Message, now: Instant) {
        match message {
            Message::Result(_) => {
                self.results += 1;
                self.in_turn = false;
                self.idle = false;
                self.settled = self.tasks.is_empty();
                self.waiting_since = Some(now);
            }
            Message::Assistant(message) if message.parent_tool_use_id.is_none() => self.turn_begins(),
            Message::System(System::Init(_)) => self.turn_begins(),
            Message::System(System::SessionStateChanged(state)) => {
                self.says_state = true;
                self.idle = state.state.as_deref() == Some("idle") && self.results > 0;
            }
            Message::System(System::TaskStarted(task)) if is_awaited(task.task_type.as_deref()) => {
                self.tasks.extend(task.task_id.clone());
            }
            Message::System(System::TaskUpdated(task) | System::TaskNotification(task)) => {
                let patched = task.patch.as_ref().and_then(|patch| patch.status.as_deref());
                let status = patched.or(task.status.as_deref());
                if matches!(status, Some("completed" | "failed" | "killed" | "stopped" | "cancelled")) {
                    self.tasks.retain(|id| Some(id) != task.task_id.as_ref());
                }
            }
            Message::System(System::BackgroundTasksChanged(all)) => {
                let awaited = all.tasks.iter().filter(|task| is_awaited(task.task_type.as_deref()));
                self.tasks = awaited.map(|task| task.task_id.clone()).collect();
            }
            _ => {}
        }
    }

    fn turn_begins(&mut self) {
        self.in_turn = true;
        self.waiting_since = None;
    }

    /// Whether nothing more will be asked of the host.
    pub(super) fn is_over(&self) -> bool {
        let settled = if self.says_state { self.idle } else { self.settled };
        self.results > 0 && !self.in_turn && settled
    }

    /// When background work has been waited for long enough.
    pub(super) fn deadline(&self) -> Option<Instant> {
        Some(self.waiting_since? + self.ceiling?)
    }
}

/// Shells in the background never report; agents and workflows do.
fn is_awaited(task_type: Option<&str>) -> bool {
    matches!(task_type, Some("local_agent" | "local_workflow"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(lines: &[&str]) -> RunEnd {
        let mut end = RunEnd::new(Some(Duration::from_secs(600)));
        for line in lines {
            end.observe(&Message::parse(line.as_bytes()).unwrap(), Instant::now());
        }
        end
    }

    const RESULT: &str = r#"{"type":"result","subtype":"success"}"#;
    const IDLE: &str = r#"{"type":"system","subtype":"session_state_changed","state":"idle"}"#;
    const RUNNING: &str = r#"{"type":"system","subtype":"session_state_changed","state":"running"}"#;
    const STARTED: &str =
        r#"{"type":"system","subtype":"task_started","task_id":"a","task_type":"local_agent"}"#;
    const SHELL: &str =
        r#"{"type":"system","subtype":"task_started","task_id":"b","task_type":"local_bash"}"#;
    const DONE: &str =
        r#"{"type":"system","subtype":"task_notification","task_id":"a","status":"completed"}"#;
    const INIT: &str = r#"{"type":"system","subtype":"init"}"#;

    #[tokio::test]
    async fn a_cli_that_says_its_state_is_believed() {
        assert!(!fed(&[IDLE]).is_over(), "idle before any result");
        assert!(!fed(&[RUNNING, INIT, RESULT]).is_over());
        assert!(fed(&[RUNNING, INIT, RESULT, IDLE]).is_over());
        assert!(!fed(&[RUNNING, INIT, RESULT, INIT, RESULT]).is_over());
    }

    #[tokio::test]
    async fn an_old_cli_is_over_when_no_agent_runs() {
        assert!(fed(&[INIT, SHELL, RESULT]).is_over());
        assert!(!fed(&[INIT, STARTED, RESULT]).is_over());
        assert!(!fed(&[INIT, STARTED, RESULT, DONE]).is_over(), "it reports with a turn of its own");
        assert!(!fed(&[INIT, STARTED, RESULT, DONE, INIT]).is_over());
        assert!(fed(&[INIT, STARTED, RESULT, DONE, INIT, RESULT]).is_over());
    }

    #[tokio::test]
    async fn time_runs_only_between_turns() {
        assert!(fed(&[INIT, STARTED]).deadline().is_none());
        assert!(fed(&[INIT, STARTED, RESULT]).deadline().is_some());
        assert!(fed(&[INIT, STARTED, RESULT, INIT]).deadline().is_none());
    }
}
