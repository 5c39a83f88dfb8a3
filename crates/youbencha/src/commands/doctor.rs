//! `yb doctor`: checks the requirements of running cases and suggests fixes.

mod git;
mod machine;

use serde_json::{Value, json};
use yb_engine::Extensions;
use yb_engine::config::Settings;
use yb_engine::diagnostic::Diagnostic;
use yb_figures::plural;

use crate::agents::{self, AgentState, AgentStatus};
use crate::args::DoctorArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::{Printer, Style, StyledText};

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Ok,
    /// Missing, but not required.
    Absent,
    Warning,
    /// Cases can't be run; with the exit code.
    Problem(ExitCode),
}

/// The result of one check.
#[derive(Debug)]
struct Finding {
    /// The name of the check.
    check: &'static str,
    level: Level,
    message: String,
    /// The suggested fix.
    fix: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, message: message.into(), fix: None }
    }

    fn warning(check: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check, level: Level::Warning, message: message.into(), fix: Some(fix.into()) }
    }

    fn problem(check: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        let level = Level::Problem(ExitCode::Infrastructure);
        Self { check, level, message: message.into(), fix: Some(fix.into()) }
    }
}

pub(super) fn run(
    args: &DoctorArgs,
    extensions: &Extensions,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    let project = std::env::current_dir().map_err(|error| {
        CliError::new(ErrorKind::Usage, "failed to find the working directory").caused_by(error)
    })?;
    let (settings, in_config) = Settings::load(std::env::home_dir().as_deref(), &project);
    let runtime = tokio::runtime::Runtime::new().map_err(CliError::failed_to("start"))?;
    let mut findings = runtime.block_on(async {
        let env = agents::environment();
        let mut findings = git::check(env.get("PATH").map(String::as_str)).await;
        findings.extend(agent_findings(&agents::check_agents(&extensions.adapters, &env).await));
        findings.push(machine::containment().await);
        findings
    });
    findings.extend(machine::isolation());
    findings.extend(machine::resources(&project.join(settings.workspace_dir())));
    findings.push(configuration(&in_config));

    let problems: Vec<ExitCode> = findings
        .iter()
        .filter_map(|finding| if let Level::Problem(code) = finding.level { Some(code) } else { None })
        .collect();
    let code = ExitCode::strongest(problems.iter().copied());
    if args.json {
        let checks: Vec<Value> = findings.iter().map(as_json).collect();
        printer.pretty_json(&json!({ "exit_code": code.code(), "checks": checks }));
        return Ok(code);
    }
    for finding in &findings {
        show(finding, printer);
    }
    let warnings = findings.iter().filter(|finding| finding.level == Level::Warning).count();
    let count = |count: usize, noun| plural(count, noun);
    printer.line(match (problems.len(), warnings) {
        (0, 0) => "\nready".to_owned(),
        (0, warnings) => format!("\nready, with {}", count(warnings, "warning")),
        (problems, 0) => format!("\nnot ready: {}", count(problems, "problem")),
        (problems, warnings) => {
            format!("\nnot ready: {}, {}", count(problems, "problem"), count(warnings, "warning"))
        }
    });
    Ok(code)
}

/// Reports all agents. A missing agent is only a problem if none is installed.
fn agent_findings(agents: &[AgentStatus]) -> Vec<Finding> {
    let is_any = |state: AgentState| agents.iter().any(|agent| agent.state == state);
    let usable = is_any(AgentState::Ready);
    let checked = agents.iter().filter(|agent| {
        matches!(agent.state, AgentState::Ready | AgentState::NotAuthenticated | AgentState::Missing)
    });
    let mut findings: Vec<Finding> = checked
        .map(|agent| Finding {
            check: agent.spec.name,
            level: match agent.state {
                AgentState::Ready => Level::Ok,
                AgentState::Missing => Level::Absent,
                _ if usable => Level::Warning,
                _ => Level::Problem(ExitCode::Agent),
            },
            message: agent.message.clone(),
            fix: (!agent.hints.is_empty()).then(|| agent.hints.join("; ")),
        })
        .collect();
    if !usable && !is_any(AgentState::NotAuthenticated) {
        let fix = "install one of the agents above; `yb demo` and the case of `yb init` need none";
        findings.push(Finding {
            level: Level::Problem(ExitCode::Agent),
            ..Finding::problem("agents", "no agent is installed", fix)
        });
    }
    findings
}

fn configuration(found: &[Diagnostic]) -> Finding {
    let check = "configuration";
    match found.first() {
        None => Finding::ok(check, "valid"),
        Some(first) => Finding::warning(check, first.to_string(), "run `yb config list` for details"),
    }
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Ok => "ok",
        Level::Absent => "absent",
        Level::Warning => "warning",
        Level::Problem(_) => "problem",
    }
}

fn show(finding: &Finding, printer: &mut Printer) {
    let style = match finding.level {
        Level::Ok => Style::Green,
        Level::Absent => Style::Plain,
        Level::Warning => Style::Yellow,
        Level::Problem(_) => Style::BoldRed,
    };
    let line = StyledText::new().styled(style, format_args!("{:8}", word(finding.level)));
    printer.line(line.text(format_args!(" {:14} ", finding.check)).text(&finding.message));
    if let Some(fix) = &finding.fix {
        printer.line(format_args!("{:24}fix: {fix}", ""));
    }
}

fn as_json(finding: &Finding) -> Value {
    json!({
        "check": finding.check,
        "level": word(finding.level),
        "message": finding.message,
        "fix": finding.fix,
    })
}
