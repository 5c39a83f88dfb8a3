//! `yb doctor`: what running cases needs, whether it is there, and what to do where it is not.

mod git;
mod machine;

use owo_colors::OwoColorize as _;
use serde_json::{Value, json};
use yb_engine::Extensions;
use yb_engine::config::Settings;
use yb_engine::diagnostic::Diagnostic;

use crate::agents::{self, Seen, State};
use crate::args::DoctorArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::{Printer, plural};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Ok,
    /// Not there, and not needed.
    Absent,
    Warning,
    /// Cases can't be run; the exit code that says whose fault that is.
    Problem(ExitCode),
}

/// One line of the answer.
#[derive(Debug)]
struct Finding {
    /// What was looked at.
    check: &'static str,
    level: Level,
    message: String,
    /// What to do about it.
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
        findings.extend(of_agents(&agents::look(&extensions.adapters, &env).await));
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
        printer.line(format_args!("{:#}", json!({ "exit_code": code.code(), "checks": checks })));
        return Ok(code);
    }
    for finding in &findings {
        show(finding, printer);
    }
    let warnings = findings.iter().filter(|finding| finding.level == Level::Warning).count();
    let count = |count: usize, noun| plural(count as u64, noun);
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

/// One agent is enough, and nobody has them all; without any that is installed, that is the problem.
fn of_agents(seen: &[Seen]) -> Vec<Finding> {
    let is_any = |state: State| seen.iter().any(|agent| agent.state == state);
    let usable = is_any(State::Ready);
    let looked_for = seen
        .iter()
        .filter(|agent| matches!(agent.state, State::Ready | State::NotAuthenticated | State::Missing));
    let mut findings: Vec<Finding> = looked_for
        .map(|agent| Finding {
            check: agent.spec.name,
            level: match agent.state {
                State::Ready => Level::Ok,
                State::Missing => Level::Absent,
                _ if usable => Level::Warning,
                _ => Level::Problem(ExitCode::Agent),
            },
            message: agent.message.clone(),
            fix: (!agent.hints.is_empty()).then(|| agent.hints.join("; ")),
        })
        .collect();
    if !usable && !is_any(State::NotAuthenticated) {
        let fix = "install one of those above; `yb demo` and the case of `yb init` need none";
        findings.push(Finding {
            level: Level::Problem(ExitCode::Agent),
            ..Finding::problem("agents", "none of these is installed, and one is enough", fix)
        });
    }
    findings
}

fn configuration(found: &[Diagnostic]) -> Finding {
    let check = "configuration";
    match found.first() {
        None => Finding::ok(check, "nothing wrong in it"),
        Some(first) => Finding::warning(check, first.to_string(), "`yb config list` shows all that is wrong"),
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
    // Padded before it is coloured: colours have no width.
    let word = format!("{:8}", word(finding.level));
    let word = match finding.level {
        Level::Ok => word.green().to_string(),
        Level::Absent => word,
        Level::Warning => word.yellow().to_string(),
        Level::Problem(_) => word.red().bold().to_string(),
    };
    printer.line(format_args!("{word} {:14} {}", finding.check, finding.message));
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
