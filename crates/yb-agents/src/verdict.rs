//! Derives status, exit code, errors and outcome from the exit and the output of an agent.

use std::collections::BTreeMap;

use serde_json::Value;
use yb_claude::{ApiFailure, ApiFailureKind, ResultMessage, ResultSubtype, RunSummary, strip_ansi};
use yb_supervise::{End, ExceededLimit, Report, Resource};

use super::codes::ErrorCode;
use super::drive::{AgentRun, millis};
use super::transcript::iso;
use yb_case::AgentSpec;
use yb_model::log::{ErrorRecord, ExecutionStatus};
use yb_model::outcome::{Outcome, PassCredit};

use super::result::ApiReport;

/// The verdict about an execution.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) exit_code: i32,
    pub(super) status: ExecutionStatus,
    pub(super) errors: Vec<ErrorRecord>,
    pub(super) outcome: Option<Outcome>,
    /// The outcome is the API's failure, as far as the agent's messages tell.
    pub(super) api_report: Option<ApiReport>,
}

/// One reason for a failed execution.
struct Reason {
    code: ErrorCode,
    message: String,
    outcome: Outcome,
    /// The agent's own messages are the only evidence.
    is_api_report: bool,
}

impl Verdict {
    pub(super) fn of(driven: &AgentRun, agent: &AgentSpec) -> Self {
        let summary = driven.transcript.as_ref().map(|transcript| transcript.summary());
        let report = &driven.report;
        let status = match report.end {
            End::TimedOut { .. } => ExecutionStatus::Timeout,
            End::Cancelled if driven.dismissed => ExecutionStatus::Success,
            End::Exited { code: 0 } => ExecutionStatus::Success,
            _ => ExecutionStatus::Failed,
        };
        let exit_code = if driven.dismissed { 0 } else { exit_code(report) };
        let reasons = reasons(driven, summary, agent);
        // An agent that reports a failure and exits with 0 has failed, and a failed execution has no exit code 0. The errors have
        // the code of the process.
        let failed_quietly = status == ExecutionStatus::Success && !reasons.is_empty();
        let process_code = exit_code;
        let (status, exit_code) =
            if failed_quietly { (ExecutionStatus::Failed, 1) } else { (status, exit_code) };
        let outcome = reasons.first().map(|reason| reason.outcome);
        let excluded = |outcome: Outcome| outcome.pass_credit() == PassCredit::Excluded;
        let reported = reasons.first().is_some_and(|first| first.is_api_report && excluded(first.outcome));
        // Exit codes above 128 are those of signals, which Claude Code handles.
        let failed_by_itself = matches!(report.end, End::Exited { code: 1..=127 });
        let api_report = reported.then_some(ApiReport { failed_by_itself });
        let mut errors = Records { driven, agent, exit_code: process_code, records: Vec::new() };
        for reason in &reasons {
            errors.add(reason.code, &reason.message);
        }
        if driven.truncated {
            let message = "the output exceeded the 10MB limit (10485760 bytes) and was truncated; the terminal log has it";
            errors.add(ErrorCode::OutputTruncated, message);
        }
        for problem in driven.transcript.iter().flat_map(|transcript| transcript.problems()) {
            errors.add(ErrorCode::Unreadable, problem);
        }
        Self { exit_code, status, errors: errors.records, outcome, api_report }
    }
}

/// The exit code: -1 for a timeout, and never 0 if the agent did not exit by itself.
fn exit_code(report: &Report) -> i32 {
    match report.end {
        End::Exited { code } => code,
        End::TimedOut { .. } => -1,
        End::Signaled { signal } => 128 + signal,
        End::Cancelled => report.shell_code().filter(|code| *code != 0).unwrap_or(130),
        _ => report.shell_code().filter(|code| *code != 0).unwrap_or(1),
    }
}

/// All reasons; the first one decides.
fn reasons(driven: &AgentRun, summary: Option<&RunSummary>, agent: &AgentSpec) -> Vec<Reason> {
    let label = agent.label;
    let reason = |code, message: String, outcome| Reason { code, message, outcome, is_api_report: false };
    match &driven.report.end {
        _ if driven.wiring.missing().is_some() => {
            let message = driven.wiring.missing().unwrap_or_default();
            vec![reason(ErrorCode::Miswired, message, Outcome::Miswired)]
        }
        // A report after the first answer may be that of a tool, so it counts against the agent like any other failure.
        _ if driven.mcp_failed.is_some() => {
            let failed = driven.mcp_failed.clone().unwrap_or_default();
            let message = format!("{failed}; `mcp: optional` makes this a warning");
            let outcome =
                if driven.wiring.has_failed_server() { Outcome::Miswired } else { Outcome::AgentError };
            vec![reason(ErrorCode::McpFailed, message, outcome)]
        }
        // It was stopped because of this, even if it exited first.
        _ if driven.auth_refused => {
            let failure = summary.and_then(RunSummary::pending_failure);
            let message =
                failure.map_or_else(|| "the API refused the credentials".to_owned(), |it| it.message);
            vec![unauthenticated(&message, agent)]
        }
        _ if driven.given_up.is_some() => {
            let seconds = driven.given_up.map_or(0, |waited| waited.as_secs());
            let ended = format!("{label} was ended after {seconds} s in which it got nothing from its API");
            let failure = summary.and_then(RunSummary::pending_failure);
            let pending = failure.map(|failure| of_api(&failure, agent));
            let (code, outcome) = match &pending {
                Some(known) if known.outcome != Outcome::AgentError => (known.code, known.outcome),
                _ => (ErrorCode::ApiError, Outcome::Infra),
            };
            let message = pending.map_or(ended.clone(), |known| format!("{}; {ended}", known.message));
            vec![Reason { is_api_report: true, ..reason(code, message, outcome) }]
        }
        End::TimedOut { after } => {
            let message = format!(
                "timeout: {label} was stopped after {} ms; its output up to then is kept",
                millis(*after)
            );
            let timeout = reason(ErrorCode::Timeout, message, Outcome::Timeout);
            // A timeout while the API was down counts against the API.
            let api = summary.and_then(RunSummary::pending_failure).map(|failure| of_api(&failure, agent));
            api.filter(|api| api.outcome != Outcome::AgentError).into_iter().chain([timeout]).collect()
        }
        End::Cancelled if driven.dismissed => of_exit(0, summary, driven, agent).into_iter().collect(),
        End::Cancelled => {
            vec![reason(ErrorCode::Cancelled, format!("{label} was stopped on request"), Outcome::Cancelled)]
        }
        End::Exited { code } => of_exit(*code, summary, driven, agent).into_iter().collect(),
        End::Signaled { signal } => {
            let message = format!("{label} was ended by signal {signal} ({})", signal_name(*signal));
            vec![reason(ErrorCode::Signal, message, Outcome::AgentError)]
        }
        end @ (End::OverQuota { .. } | End::OverLimit(_)) => {
            let name = match end {
                End::OverLimit(ExceededLimit { resource: Resource::Memory, .. }) => "limits.memory_mb",
                End::OverLimit(ExceededLimit { resource: Resource::Processes, .. }) => "limits.processes",
                End::OverLimit(_) => "limits.cpu_seconds",
                _ => "limits.disk_mb",
            };
            let message = format!("{label} was stopped, {end}; `{name}` sets it");
            vec![reason(ErrorCode::OverQuota, message, Outcome::OverQuota)]
        }
        // The agent did not run, so it can't have caused this.
        End::SpawnFailed(error) => {
            let message = format!("{label} was not started: {error}");
            vec![reason(ErrorCode::SpawnFailed, message, Outcome::Infra)]
        }
        // An agent can kill its shim. As an infrastructure failure, that would exclude the trial from the pass rate.
        end => {
            let message = format!("{label} could not be followed to its end: {end}");
            vec![reason(ErrorCode::SupervisorLost, message, Outcome::AgentError)]
        }
    }
}

/// The reported result takes precedence over the exit code: a reached limit is exit code 1 with a complete result.
fn of_exit(code: i32, summary: Option<&RunSummary>, driven: &AgentRun, agent: &AgentSpec) -> Option<Reason> {
    if let Some(failure) = summary.and_then(RunSummary::api_failure) {
        return Some(of_api(&failure, agent));
    }
    let result = summary.and_then(RunSummary::last_result);
    if let Some(reason) = result.and_then(of_result) {
        return Some(reason);
    }
    (code != 0).then(|| {
        let said = error_line(&driven.stderr).map(|line| format!(": {line}")).unwrap_or_default();
        let message = format!("{} exited with code {code}{said}", agent.label);
        Reason { code: ErrorCode::ExitCode, message, outcome: Outcome::AgentError, is_api_report: false }
    })
}

/// The line of stderr that says why a program died. Errors of Node.js and Codex end with details, and the last line of a stack trace
/// says nothing.
fn error_line(stderr: &str) -> Option<&str> {
    let is_detail = |line: &&str| {
        let text = line.trim();
        line.starts_with([' ', '\t'])
            || !text.contains(char::is_alphanumeric)
            || text.starts_with("Node.js v")
            || text.starts_with("note: run with `RUST_BACKTRACE")
    };
    let mut lines = stderr.lines().filter(|line| !is_detail(line)).peekable();
    lines.peek()?;
    let is_error = |line: &&str| {
        const WORDS: [&str; 6] = ["error", "exception", "fatal", "panic", "panicked", "failed"];
        let words = line.split(|c: char| !c.is_ascii_alphabetic()).take(12);
        words.map(str::to_ascii_lowercase).any(|word| {
            WORDS.contains(&word.as_str()) || word.ends_with("error") || word.ends_with("exception")
        })
    };
    let lines: Vec<&str> = lines.collect();
    lines.iter().rev().find(|line| is_error(line)).or(lines.last()).copied().map(str::trim)
}

fn of_result(result: &ResultMessage) -> Option<Reason> {
    let details = result.errors.join("; ");
    let or = |words: &str| if details.is_empty() { words.to_owned() } else { details.clone() };
    let name = result.subtype.as_str();
    let (code, message, outcome) = match &result.subtype {
        ResultSubtype::ErrorMaxTurns => {
            (ErrorCode::MaxTurns, or("the limit of turns was reached"), Outcome::Failed)
        }
        ResultSubtype::ErrorMaxBudgetUsd => {
            (ErrorCode::MaxBudget, or("the limit of cost was reached"), Outcome::Budget)
        }
        ResultSubtype::Success | ResultSubtype::Missing if !result.is_error => return None,
        _ => (ErrorCode::AgentFailed, or("the agent reports a failure"), Outcome::AgentError),
    };
    Some(Reason { code, message: format!("{name}: {message}"), outcome, is_api_report: false })
}

fn of_api(failure: &ApiFailure, agent: &AgentSpec) -> Reason {
    let message = &failure.message;
    let (code, outcome) = match failure.kind {
        ApiFailureKind::Unauthenticated => return unauthenticated(message, agent),
        // Only the owner of the account can fix it, as with missing credentials.
        ApiFailureKind::Billing => (ErrorCode::ApiError, Outcome::Unauthenticated),
        ApiFailureKind::RateLimited | ApiFailureKind::Overloaded => {
            (ErrorCode::RateLimit, Outcome::RateLimited)
        }
        ApiFailureKind::ServerError | ApiFailureKind::Network => (ErrorCode::ApiError, Outcome::Infra),
        _ => (ErrorCode::ApiError, Outcome::AgentError),
    };
    Reason { code, message: message.clone(), outcome, is_api_report: true }
}

fn unauthenticated(message: &str, agent: &AgentSpec) -> Reason {
    let message = format!("authentication failed: {message}; {}", agent.credentials.hint);
    let code = ErrorCode::AuthFailed;
    Reason { code, message, outcome: Outcome::Unauthenticated, is_api_report: true }
}

struct Records<'a> {
    driven: &'a AgentRun,
    agent: &'a AgentSpec,
    exit_code: i32,
    records: Vec<ErrorRecord>,
}

impl Records<'_> {
    fn add(&mut self, code: ErrorCode, message: &str) {
        let mut context: BTreeMap<String, Value> = [("exit_code".to_owned(), self.exit_code.into())].into();
        if self.records.is_empty() && !self.driven.stderr.is_empty() {
            context.insert("stderr".to_owned(), self.driven.stderr.clone().into());
        }
        self.records.push(ErrorRecord {
            message: strip_ansi(message).into_owned(),
            timestamp: iso(self.driven.report.ended_at),
            code: Some(code.for_agent(self.agent)),
            stack_trace: None,
            context,
        });
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => "another signal",
    }
}

#[cfg(test)]
mod tests {
    use super::error_line;

    #[test]
    fn reason_is_the_error_line_and_not_the_end_of_a_stack_trace() {
        for (stderr, line) in [
            (
                "/app/index.js:3\n    throw new Error('x');\n    ^\n\nTypeError: no such thing\n    at main (index.js:3:9) {\n  code: 'E'\n}\n\nNode.js v22.1.0",
                Some("TypeError: no such thing"),
            ),
            (
                "Failed to extract: Error: ENOTDIR: not a directory\n    at async mkdir (node:1:2) {\n  errno: -20\n}",
                Some("Failed to extract: Error: ENOTDIR: not a directory"),
            ),
            (
                "Error loading config.toml: invalid transport\nin `mcp_servers.broken`\n",
                Some("Error loading config.toml: invalid transport"),
            ),
            (
                "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nValueError: bad\n",
                Some("ValueError: bad"),
            ),
            ("starting\nsomething went wrong\n", Some("something went wrong")),
            ("  indented only\n}", None),
            ("", None),
        ] {
            assert_eq!(error_line(stderr), line, "{stderr}");
        }
    }
}
