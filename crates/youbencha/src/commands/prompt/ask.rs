//! `yb prompt run`: a text as it is written, or an object that satisfies its schema.

use std::time::SystemTime;

use opentelemetry::KeyValue;
use serde_json::{Value, json};
use yb_claude::sdk::{self, Subprocess};
use yb_claude::{Options, RunSummary, Search};
use yb_engine::adapter::{Adapter as _, ClaudeCode};
use yb_otel::{AgentSpans, AgentSpansConfig, End};
use yb_prompt::{ClaudeAgentObjectParams, ClaudeAgentQueryOptions, Formatted, Prompt, PromptError};

use super::super::ask::Live;
use super::Workshop;
use crate::args::PromptRunArgs;
use crate::error::CliError;
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::signals::Signals;
use crate::tracing::Tracing;

pub(super) fn run(args: &PromptRunArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let workshop = Workshop::new(&args.filled.query);
    let (prompt, formatted) = workshop.filled(&args.filled)?;
    workshop.warn(printer);
    let runtime = tokio::runtime::Runtime::new().map_err(CliError::failed_to("start"))?;
    runtime.block_on(async {
        let mut signals = Signals::listen().map_err(CliError::failed_to("listen for signals"))?;
        let tracing = Tracing::start_here(&args.otel)?;
        let spans = spans(&prompt, &formatted, &tracing);
        let code = tokio::select! {
            answered = answer(args, &formatted, spans.as_ref(), printer) => answered,
            // Dropping the query ends Claude Code with everything that it started.
            () = signals.stop() => Ok(ExitCode::Interrupted),
        };
        spans.iter().for_each(|spans| spans.end(end(&code)));
        tracing.finish(code.as_ref().ok().copied(), &mut signals, printer).await;
        code
    })
}

/// The trace of a prompt is the agent's span, which has the prompt's name, and what is below it.
fn spans(prompt: &Prompt, formatted: &Formatted, tracing: &Tracing) -> Option<AgentSpans> {
    let (text, options) = match formatted {
        Formatted::Text(params) => (&params.prompt, &params.options),
        Formatted::Object(params) => (&params.prompt, &params.options),
    };
    let name = KeyValue::new(yb_otel::agentmark_attributes::PROMPT_NAME, prompt.name().to_owned());
    let mut config = AgentSpansConfig::new(ClaudeCode.spec().name).with_prompt(text).with_attribute(name);
    config.model.clone_from(&options.model);
    tracing.agent(config)
}

fn end(code: &Result<ExitCode, CliError>) -> End {
    match code {
        Ok(ExitCode::Interrupted) => End::Aborted,
        Ok(_) => End::Ok,
        Err(error) => End::error("agent_error", error.message()),
    }
}

async fn answer(
    args: &PromptRunArgs,
    formatted: &Formatted,
    spans: Option<&AgentSpans>,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    let transport = transport(args)?;
    let host = |query: &ClaudeAgentQueryOptions, partial: bool| {
        let more = |mut options: Options| {
            options.trace_parent = spans.map(|spans| yb_otel::traceparent(&spans.context()));
            options.with_include_partial_messages(partial || spans.is_some())
        };
        query.host_with(more).with_transport(transport)
    };
    match formatted {
        Formatted::Text(params) => {
            let mut live = Live::new(printer, args.json);
            let query = params.query_on(host(&params.options, !args.json));
            let summary = read(query, &mut live, spans).await;
            live.end();
            let shown = live.shown;
            let summary = summary.map_err(PromptError::from)?;
            let text = summary.final_text();
            if !args.json && shown.is_empty() {
                printer.line(text);
            }
            report(args, &json!(text), &summary, printer);
        }
        Formatted::Object(params) => {
            let mut live = Live::new(printer, true);
            let query = params.query_on(host(&params.options, false));
            let summary = read(query, &mut live, spans).await.map_err(PromptError::from)?;
            let object = object(params, &summary)?;
            if !args.json {
                printer.line(serde_json::to_string_pretty(&object).unwrap_or_default());
            }
            report(args, &object, &summary, printer);
        }
    }
    Ok(ExitCode::Passed)
}

fn transport(args: &PromptRunArgs) -> Result<Subprocess, CliError> {
    let Some(path) = &args.claude else { return Ok(Subprocess::new()) };
    let search = Search::from_env(&|name| std::env::var_os(name)).explicit(path);
    Ok(Subprocess::new().with_program(search.find()?.path))
}

/// The object that the model gave, which must satisfy the schema.
fn object(params: &ClaudeAgentObjectParams, summary: &RunSummary) -> Result<Value, PromptError> {
    let result = summary.last_result();
    let raw = result.and_then(|result| result.structured_output.as_ref());
    let value = match (raw, result) {
        (Some(raw), _) => {
            raw.to_value().map_err(|error| PromptError::Answer { findings: vec![error.to_string()] })?
        }
        (None, Some(result)) => return Err(sdk::Error::NoStructuredOutput(Box::new(result.clone())).into()),
        (None, None) => return Err(sdk::Error::Closed.into()),
    };
    params.check(&value)?;
    Ok(value)
}

/// Reads a query to its end, and shows what is said. A last result that is an error is one.
async fn read(
    mut query: sdk::Query,
    live: &mut Live<'_>,
    spans: Option<&AgentSpans>,
) -> Result<RunSummary, sdk::Error> {
    let mut summary = RunSummary::new();
    while let Some(message) = query.next().await {
        let message = message?;
        spans.into_iter().for_each(|spans| spans.frame(&message, SystemTime::now()));
        summary.observe(&message);
        live.show(&message);
    }
    match summary.last_result() {
        Some(result) if result.is_error || !matches!(result.subtype, yb_claude::ResultSubtype::Success) => {
            Err(sdk::Error::Result(Box::new(result.clone())))
        }
        Some(_) => Ok(summary),
        None => Err(sdk::Error::Closed),
    }
}

/// The answer for programs, or what it took, in one line; what is not known is left out.
fn report(args: &PromptRunArgs, answer: &Value, summary: &RunSummary, printer: &mut Printer) {
    let result = summary.last_result();
    let model = summary.model().map(|model| model.name.to_owned());
    let cost = result.and_then(|result| result.total_cost_usd);
    let duration = result.and_then(|result| result.duration_ms);
    let session = result.and_then(|result| result.session_id.clone());
    if args.json {
        printer.line(json!({
            "answer": answer,
            "model": model,
            "cost_usd": cost,
            "turns": result.and_then(|result| result.num_turns),
            "duration_ms": duration,
            "session_id": session,
        }));
        return;
    }
    let known = [
        model,
        cost.map(|cost| format!("${cost:.4}")),
        duration.map(|duration| format!("{:.1} s", duration as f64 / 1000.0)),
        session.map(|id| format!("session {id}")),
    ];
    printer.note(known.into_iter().flatten().collect::<Vec<_>>().join(", "));
}
