//! `yb list`: what a case may name and whether it can be used here, or the runs.

mod runs;

use serde_json::{Map, Value, json};
use yb_engine::Extensions;
use yb_engine::case::{self, EvaluatorSpec};

use crate::agents::{self, Seen, State};
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
    let agents = if wants(ListKind::Agents) { Some(look()?) } else { None };
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
        printer.line(format_args!("{:#}", Value::Object(lists)));
        return Ok(ExitCode::Passed);
    }
    if let Some(agents) = &agents {
        printer.line("Agents");
        for agent in agents {
            printer.line(format_args!("  {:14} {}", agent.name, in_words(agent)));
        }
    }
    if args.what == Some(ListKind::Agents) {
        settings(printer);
    }
    if agents.is_some() && evaluators.is_some() {
        printer.line("");
    }
    if let Some(evaluators) = evaluators {
        printer.line("Evaluators");
        for spec in evaluators.iter() {
            printer.line(format_args!("  {:14} {}", spec.name, spec.summary));
        }
    }
    Ok(ExitCode::Passed)
}

/// What a case can tell each agent; what one lacks is a warning.
fn settings(printer: &mut Printer) {
    let names: Vec<&str> = case::agent_names().to_vec();
    let head: Vec<String> = names.iter().map(|name| name.to_string()).collect();
    printer.line(format_args!("\nSettings               {}", head.join("  ")));
    for setting in case::agent_settings() {
        let cells = names.iter().map(|name| {
            let known = if case::agent_knows(name, setting) { "yes" } else { "-" };
            format!("{known:width$}", width = name.len())
        });
        let cells = cells.collect::<Vec<_>>().join("  ");
        printer.line(format_args!("  {setting:20} {}", cells.trim_end()));
    }
}

fn look() -> Result<Vec<Seen>, CliError> {
    let runtime = tokio::runtime::Runtime::new().map_err(CliError::failed_to("start"))?;
    Ok(runtime.block_on(agents::look(&agents::environment())))
}

fn in_words(agent: &Seen) -> String {
    match agent.state {
        State::Ready | State::AnyProgram | State::Unsupported => agent.message.clone(),
        State::NotAuthenticated => format!("{}; `yb doctor` tells what to do", agent.message),
        // Where it was searched for is a long list.
        State::Missing => "not found; `yb doctor` tells what to do".to_owned(),
    }
}

fn agent_json(agent: &Seen) -> Value {
    json!({
        "name": agent.name,
        "status": agent.state.word(),
        "version": agent.version,
        "message": agent.message,
        "hints": agent.hints,
        "settings": case::agent_settings()
            .filter(|setting| case::agent_knows(agent.name, setting))
            .collect::<Vec<_>>(),
    })
}
