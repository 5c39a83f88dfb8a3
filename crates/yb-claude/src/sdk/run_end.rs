//! Detects the end of a run, after which stdin may be closed. Closing it earlier would cut off hooks, tools and background
//! agents.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use crate::Message;
use crate::frame::SystemMessage;

/// Observes messages to detect the end of a run.
#[derive(Debug, Default)]
pub(super) struct RunEndDetector {
    /// Whether the CLI reports its state, as it does since 2.1.
    reports_state: bool,
    idle: bool,
    results: u32,
    prompts: u32,
    /// Whether no agent was running at the last result, so that no further turn follows.
    settled: bool,
    in_turn: bool,
    /// Background agents and workflows, which will report with a further turn.
    tasks: BTreeSet<String>,
    /// Since when only background work is running.
    waiting_since: Option<Instant>,
    max_wait: Option<Duration>,
}

impl RunEndDetector {
    /// `max_wait` limits the wait for background work between turns.
    pub(super) fn new(max_wait: Option<Duration>) -> Self {
        Self { max_wait, ..Self::default() }
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
            Message::Assistant(message) if message.parent_tool_use_id.is_none() => self.start_turn(),
            Message::System(SystemMessage::Init(_)) => self.start_turn(),
            Message::System(SystemMessage::SessionStateChanged(state)) => {
                self.reports_state = true;
                self.idle = state.state.as_deref() == Some("idle") && self.results > 0;
            }
            Message::System(SystemMessage::TaskStarted(task)) if is_awaited(task.task_type.as_deref()) => {
                self.tasks.extend(task.task_id.clone());
            }
            Message::System(SystemMessage::TaskUpdated(task) | SystemMessage::TaskNotification(task)) => {
                let patched = task.patch.as_ref().and_then(|patch| patch.status.as_deref());
                let status = patched.or(task.status.as_deref());
                if matches!(status, Some("completed" | "failed" | "killed" | "stopped" | "cancelled")) {
                    self.tasks.retain(|id| Some(id) != task.task_id.as_ref());
                }
            }
            Message::System(SystemMessage::BackgroundTasksChanged(all)) => {
                let awaited = all.tasks.iter().filter(|task| is_awaited(task.task_type.as_deref()));
                self.tasks = awaited.map(|task| task.task_id.clone()).collect();
            }
            _ => {}
        }
    }

    /// Notes a prompt: the state that was reported before does not include it.
    pub(super) fn note_prompt(&mut self) {
        self.prompts += 1;
        self.idle = false;
    }

    fn start_turn(&mut self) {
        self.in_turn = true;
        self.waiting_since = None;
    }

    /// Returns whether the run is over, so that no further control requests follow.
    pub(super) fn is_over(&self) -> bool {
        // Old versions have one result for each prompt.
        let settled =
            if self.reports_state { self.idle } else { self.settled && self.results >= self.prompts };
        self.results > 0 && !self.in_turn && settled
    }

    /// Returns when the wait for background work ends.
    pub(super) fn deadline(&self) -> Option<Instant> {
        Some(self.waiting_since? + self.max_wait?)
    }
}

/// Background shells never report; agents and workflows do.
fn is_awaited(task_type: Option<&str>) -> bool {
    matches!(task_type, Some("local_agent" | "local_workflow"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observe_all(lines: &[&str]) -> RunEndDetector {
        let mut end = RunEndDetector::new(Some(Duration::from_secs(600)));
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
    async fn reported_idle_state_ends_run() {
        assert!(!observe_all(&[IDLE]).is_over(), "idle before any result");
        assert!(!observe_all(&[RUNNING, INIT, RESULT]).is_over());
        assert!(observe_all(&[RUNNING, INIT, RESULT, IDLE]).is_over());
        assert!(!observe_all(&[RUNNING, INIT, RESULT, INIT, RESULT]).is_over());
    }

    #[tokio::test]
    async fn run_of_old_cli_ends_without_running_agents() {
        assert!(observe_all(&[INIT, SHELL, RESULT]).is_over());
        assert!(!observe_all(&[INIT, STARTED, RESULT]).is_over());
        assert!(!observe_all(&[INIT, STARTED, RESULT, DONE]).is_over(), "it reports with a further turn");
        assert!(!observe_all(&[INIT, STARTED, RESULT, DONE, INIT]).is_over());
        assert!(observe_all(&[INIT, STARTED, RESULT, DONE, INIT, RESULT]).is_over());
    }

    #[tokio::test]
    async fn run_is_not_over_before_latest_prompt_is_answered() {
        let mut end = observe_all(&[RUNNING, INIT, RESULT, IDLE]);
        end.note_prompt();
        assert!(!end.is_over(), "idle before the prompt");
        for line in [RUNNING, INIT, RESULT, IDLE] {
            end.observe(&Message::parse(line.as_bytes()).unwrap(), Instant::now());
        }
        assert!(end.is_over());
        let mut old = RunEndDetector::default();
        old.note_prompt();
        old.note_prompt();
        for (line, over) in [(INIT, false), (RESULT, false), (INIT, false), (RESULT, true)] {
            old.observe(&Message::parse(line.as_bytes()).unwrap(), Instant::now());
            assert_eq!(old.is_over(), over, "{line}");
        }
    }

    #[tokio::test]
    async fn deadline_applies_only_between_turns() {
        assert!(observe_all(&[INIT, STARTED]).deadline().is_none());
        assert!(observe_all(&[INIT, STARTED, RESULT]).deadline().is_some());
        assert!(observe_all(&[INIT, STARTED, RESULT, INIT]).deadline().is_none());
    }
}
