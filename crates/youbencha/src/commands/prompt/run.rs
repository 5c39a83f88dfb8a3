//! `yb prompt run`: streams a text, or prints an object that matches its schema.

use std::time::SystemTime;

use opentelemetry::KeyValue;
use serde_json::{Value, json};
use yb_claude::sdk::{self, Subprocess};
use yb_claude::{CliSearch, Options, RunSummary};
use yb_engine::adapter::{Adapter as _, ClaudeCode};
use yb_figures::{duration_ms, money};
use yb_otel::{AgentOutcome, AgentSpans, AgentSpansConfig};
use yb_prompt::{ClaudeAgentObjectParams, ClaudeAgentQueryOptions, Prompt, PromptError, QueryParams};

use super::super::ask::AnswerStream;
use super::PromptSession;
use crate::agents;
use crate::args::PromptRunArgs;
use crate::error::CliError;
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::signals::Signals;
use crate::tracing::{Tracing, record_subagents};

pub(super) fn run(args: &PromptRunArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let mut session = PromptSession::new(&args.filled.query);
    let (prompt, formatted) = session.load_formatted(&args.filled)?;
    session.warn(printer);
    let runtime = tokio::runtime::Runtime::new().map_err(CliError::failed_to("start"))?;
    runtime.block_on(async {
        let mut signals = Signals::listen().map_err(CliError::failed_to("listen for signals"))?;
        let tracing = Tracing::start_here(&args.otel, printer)?;
        let spans = spans(&prompt, &formatted, &tracing);
        let code = tokio::select! {
            answered = answer(args, &formatted, spans.as_ref(), printer) => answered,
            // Dropping the query kills the process tree of Claude Code.
            () = signals.stop() => Ok(ExitCode::Interrupted),
        };
        if let Some(spans) = &spans {
            record_subagents(spans).await;
            spans.end(end(&code));
        }
        tracing.finish(code.as_ref().ok().copied(), &mut signals, printer).await;
        code
    })
}

/// Starts the agent span with the name of the prompt, if tracing is on.
fn spans(prompt: &Prompt, formatted: &QueryParams, tracing: &Tracing) -> Option<AgentSpans> {
    let (text, options) = match formatted {
        QueryParams::Text(params) => (&params.prompt, &params.options),
        QueryParams::Object(params) => (&params.prompt, &params.options),
    };
    let name = KeyValue::new(yb_otel::agentmark_attributes::PROMPT_NAME, prompt.name().to_owned());
    let mut config = AgentSpansConfig::new(ClaudeCode.spec().name).with_prompt(text).with_attribute(name);
    config.model.clone_from(&options.model);
    tracing.agent(config)
}

fn end(code: &Result<ExitCode, CliError>) -> AgentOutcome {
    match code {
        Ok(ExitCode::Interrupted) => AgentOutcome::Aborted,
        Ok(_) => AgentOutcome::Ok,
        Err(error) => AgentOutcome::error("agent_error", error.message()),
    }
}

async fn answer(
    args: &PromptRunArgs,
    formatted: &QueryParams,
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
        QueryParams::Text(params) => {
            let mut live = AnswerStream::new(printer, args.json);
            let query = params.query_on(host(&params.options, !args.json));
            let summary = read(query, &mut live, spans).await;
            live.end();
            let shown = live.shown;
            let summary = summary.map_err(PromptError::from)?;
            let text = summary.final_text();
            if !args.json && shown.is_empty() {
                printer.text(&format!("{text}\n"));
            }
            report(args, &json!(text), &summary, printer);
        }
        QueryParams::Object(params) => {
            let mut live = AnswerStream::new(printer, true);
            let query = params.query_on(host(&params.options, false));
            let summary = read(query, &mut live, spans).await.map_err(PromptError::from)?;
            let object = object(params, &summary)?;
            if !args.json {
                printer.pretty_json(&object);
            }
            report(args, &object, &summary, printer);
        }
    }
    Ok(ExitCode::Passed)
}

fn transport(args: &PromptRunArgs) -> Result<Subprocess, CliError> {
    let Some(path) = args.claude.clone().or_else(agents::installed_claude) else {
        return Ok(Subprocess::new());
    };
    let search = CliSearch::from_env(&|name| std::env::var_os(name)).with_explicit(path);
    Ok(Subprocess::new().with_program(search.find()?.path))
}

/// Returns the structured output, checked against the schema.
fn object(params: &ClaudeAgentObjectParams, summary: &RunSummary) -> Result<Value, PromptError> {
    let result = summary.last_result();
    let raw = result.and_then(|result| result.structured_output.as_ref());
    let value = match (raw, result) {
        (Some(raw), _) => {
            raw.to_value().map_err(|error| PromptError::Output { findings: vec![error.to_string()] })?
        }
        (None, Some(result)) => return Err(sdk::Error::NoStructuredOutput(Box::new(result.clone())).into()),
        (None, None) => return Err(sdk::Error::Closed.into()),
    };
    params.check(&value)?;
    Ok(value)
}

/// Reads a query to its end and streams its text. Fails if the last result is an error.
async fn read(
    mut query: sdk::Query,
    live: &mut AnswerStream<'_>,
    spans: Option<&AgentSpans>,
) -> Result<RunSummary, sdk::Error> {
    let mut summary = RunSummary::new();
    while let Some(message) = query.next().await {
        let message = message?;
        spans.into_iter().for_each(|spans| spans.observe(&message, SystemTime::now()));
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

/// Prints the answer as JSON, or model, cost and time in one line; unknown values are omitted.
fn report(args: &PromptRunArgs, answer: &Value, summary: &RunSummary, printer: &mut Printer) {
    let result = summary.last_result();
    let model = summary.model().map(|model| model.name.to_owned());
    let cost = result.and_then(|result| result.total_cost_usd);
    let duration = result.and_then(|result| result.duration_ms);
    let session = result.and_then(|result| result.session_id.clone());
    if args.json {
        printer.json(&json!({
            "answer": answer,
            "model": model,
            "cost_usd": cost,
            "turns": result.and_then(|result| result.num_turns),
            "duration_ms": duration,
            "session_id": session,
        }));
        return;
    }
    let known =
        [model, cost.map(money), duration.map(duration_ms), session.map(|id| format!("session {id}"))];
    printer.note(known.into_iter().flatten().collect::<Vec<_>>().join(", "));
}
