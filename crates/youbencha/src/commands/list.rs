//! `yb list`: agents and evaluators with their availability, or runs.

mod runs;

use serde_json::{Map, Value, json};
use yb_engine::Extensions;
use yb_engine::case::{AgentSpecs, EvaluatorSpec, agent_spec};

use crate::agents::{self, AgentState, AgentStatus};
use crate::args::{ListArgs, ListKind};
use crate::error::CliError;
use crate::exit_code::ExitCode;
use crate::printer::Printer;

pub(super) fn run(
    args: &ListArgs,
    extensions: &Extensions,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    if args.what == Some(ListKind::Runs) {
        return runs::run(args.json, printer);
    }
    let wants = |kind| args.what.is_none_or(|what| what == kind);
    let agents = if wants(ListKind::Agents) { Some(check_agents(extensions)?) } else { None };
    let evaluators = wants(ListKind::Evaluators).then_some(&extensions.evaluators);
    if args.json {
        let mut lists = Map::new();
        if let Some(agents) = &agents {
            lists.insert("agents".to_owned(), agents.iter().map(agent_json).collect());
        }
        if let Some(evaluators) = evaluators {
            // `runs` is part of the format; every registered evaluator can be run.
            let json = |spec: &EvaluatorSpec| json!({ "name": spec.name, "runs": true, "needs": spec.input.as_str(), "description": spec.summary });
            lists.insert("evaluators".to_owned(), evaluators.iter().map(json).collect());
        }
        printer.pretty_json(&Value::Object(lists));
        return Ok(ExitCode::Passed);
    }
    if let Some(agents) = &agents {
        printer.line("Agents");
        for agent in agents {
            printer.line(format_args!("  {:15} {}", agent.spec.name, describe(agent)));
        }
    }
    if args.what == Some(ListKind::Agents) {
        settings(&extensions.adapters.specs(), printer);
    }
    if agents.is_some() && evaluators.is_some() {
        printer.line("");
    }
    if let Some(evaluators) = evaluators {
        printer.line("Evaluators");
        for spec in evaluators.iter() {
            printer.line(format_args!("  {:15} {}", spec.name, spec.summary));
        }
    }
    Ok(ExitCode::Passed)
}

/// Prints the settings supported by each agent; others cause a warning.
fn settings(agents: &AgentSpecs, printer: &mut Printer) {
    let names: Vec<&str> = agents.names().collect();
    printer.line(format_args!("\nSettings               {}", names.join("  ")));
    for setting in agent_spec::settings() {
        let cells = agents.iter().map(|agent| {
            let known = if agent.supports(setting) { "yes" } else { "-" };
            format!("{known:width$}", width = agent.name.len())
        });
        let cells = cells.collect::<Vec<_>>().join("  ");
        printer.line(format_args!("  {setting:20} {}", cells.trim_end()));
    }
}

fn check_agents(extensions: &Extensions) -> Result<Vec<AgentStatus>, CliError> {
    let runtime = tokio::runtime::Runtime::new().map_err(CliError::failed_to("start"))?;
    Ok(runtime.block_on(agents::check_agents(&extensions.adapters, &agents::environment())))
}

fn describe(agent: &AgentStatus) -> String {
    match agent.state {
        AgentState::Ready | AgentState::AnyProgram => agent.message.clone(),
        AgentState::NotAuthenticated => format!("{}; run `yb doctor` for details", agent.message),
        AgentState::Missing => "not found; run `yb doctor` for details".to_owned(),
    }
}

fn agent_json(agent: &AgentStatus) -> Value {
    json!({
        "name": agent.spec.name,
        "summary": agent.spec.summary,
        "status": agent.state.as_str(),
        "version": agent.version,
        "message": agent.message,
        "hints": agent.hints,
        "settings": agent_spec::settings().filter(|setting| agent.spec.supports(setting)).collect::<Vec<_>>(),
        "limitations": agent.spec.limitations(),
    })
}
