//! `yb ask`: sends one prompt to Claude Code and streams the answer.

use std::io::Read as _;
use std::time::SystemTime;

use serde_json::json;
use yb_claude::{ClaudeCodeProvider, Context, Message, Options, OutgoingMessage, ProviderError, StopReason};
use yb_engine::adapter::{Adapter as _, ClaudeCode};
use yb_figures::{duration_ms, money, plural};
use yb_otel::{AgentOutcome, AgentSpans, AgentSpansConfig};
use yb_supervise::CancellationToken;

use crate::agents;
use crate::args::AskArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::signals::Signals;
use crate::tracing::{Tracing, record_subagents};

pub(crate) fn run(args: &AskArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let context = context(args)?;
    let runtime = tokio::runtime::Runtime::new().map_err(CliError::failed_to("start"))?;
    runtime.block_on(async {
        let mut signals = Signals::listen().map_err(CliError::failed_to("listen for signals"))?;
        let cancel = CancellationToken::new();
        let tracing = Tracing::start_here(&args.otel, printer)?;
        let spans = spans(args, &context, &tracing);
        let provider = provider(args, spans.as_ref()).with_cancellation(cancel.clone());
        let mut live = AnswerStream::new(printer, args.json);
        let answer = {
            let mut observe = |message: &Message| {
                live.show(message);
                spans.iter().for_each(|spans| spans.observe(message, SystemTime::now()));
            };
            let answer = provider.complete_observed(&context, &mut observe);
            tokio::pin!(answer);
            tokio::select! {
                answer = &mut answer => answer,
                () = signals.stop() => {
                    cancel.cancel();
                    answer.await
                }
            }
        };
        live.end();
        if let Some(spans) = &spans {
            record_subagents(spans).await;
            spans.end(end(&answer));
        }
        let code = match answer {
            Ok(answer) => Ok(report(&answer, &live.shown, args, printer)),
            Err(ProviderError::Cancelled) => Ok(ExitCode::Interrupted),
            Err(error) => Err(error.into()),
        };
        tracing.finish(code.as_ref().ok().copied(), &mut signals, printer).await;
        code
    })
}

/// Starts the agent span, if tracing is on.
fn spans(args: &AskArgs, context: &Context, tracing: &Tracing) -> Option<AgentSpans> {
    let mut config =
        AgentSpansConfig::new(ClaudeCode.spec().name).with_prompt(context.current_message.clone());
    config.model.clone_from(&args.model);
    config.resumed = args.resume.is_some();
    tracing.agent(config)
}

fn end(answer: &Result<OutgoingMessage, ProviderError>) -> AgentOutcome {
    match answer {
        Ok(_) => AgentOutcome::Ok,
        Err(ProviderError::Cancelled) => AgentOutcome::Aborted,
        Err(error) => AgentOutcome::error("agent_error", error.to_string()),
    }
}

fn context(args: &AskArgs) -> Result<Context, CliError> {
    let prompt = match args.prompt.as_deref() {
        None | Some("-") => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(|error| {
                CliError::new(ErrorKind::Usage, "failed to read the prompt from stdin").caused_by(error)
            })?;
            text
        }
        Some(prompt) => prompt.to_owned(),
    };
    if prompt.trim().is_empty() {
        return Err(CliError::new(ErrorKind::Usage, "empty prompt")
            .hint("pass it as an argument or on stdin: `yb ask \"What does this repository do?\"`"));
    }
    let mut context = Context::bare(prompt);
    context.session_id.clone_from(&args.resume);
    Ok(context)
}

fn provider(args: &AskArgs, spans: Option<&AgentSpans>) -> ClaudeCodeProvider {
    let mut options = Options::default().with_include_partial_messages(!args.json || spans.is_some());
    options.trace_parent = spans.map(|spans| yb_otel::traceparent(&spans.context()));
    let tools = args.allowed_tools.clone();
    let mut provider =
        ClaudeCodeProvider::from_config(args.max_turns, tools, args.timeout).with_options(options);
    if let Some(model) = &args.model {
        provider = provider.with_model(model);
    }
    if let Some(budget) = args.max_budget_usd {
        provider = provider.with_max_budget_usd(budget);
    }
    if let Some(claude) = args.claude.clone().or_else(agents::installed_claude) {
        provider = provider.with_program(claude);
    }
    provider
}

/// Streams the text of the main thread.
pub(super) struct AnswerStream<'a> {
    printer: &'a mut Printer,
    pub(super) shown: String,
    silent: bool,
}

impl<'a> AnswerStream<'a> {
    pub(super) fn new(printer: &'a mut Printer, silent: bool) -> Self {
        Self { printer, shown: String::new(), silent }
    }

    pub(super) fn show(&mut self, message: &Message) {
        let text = match message {
            Message::StreamEvent(event) if event.parent_tool_use_id.is_none() => event.text(),
            // A tool call separates two texts of a turn.
            Message::User(_) if !self.shown.is_empty() && !self.shown.ends_with('\n') => Some("\n\n"),
            _ => None,
        };
        if let Some(text) = text.filter(|_| !self.silent) {
            self.shown.push_str(text);
            self.printer.text(text);
        }
    }

    pub(super) fn end(&mut self) {
        if !self.shown.is_empty() && !self.shown.ends_with('\n') {
            self.printer.text("\n");
        }
    }
}

fn report(answer: &OutgoingMessage, shown: &str, args: &AskArgs, printer: &mut Printer) -> ExitCode {
    let metadata = &answer.metadata;
    let stop = match &metadata.stop_reason {
        StopReason::Done => "done",
        StopReason::MaxTurns => "max_turns",
        StopReason::MaxBudget => "max_budget_usd",
        StopReason::Other(reason) => reason,
        _ => "unknown",
    };
    if args.json {
        printer.json(&json!({
            "text": answer.text,
            "model": metadata.model,
            "tokens": metadata.tokens_used,
            "cost_usd": metadata.cost_usd,
            "session_cost_usd": metadata.session_cost_usd,
            "session_id": metadata.session_id,
            "turns": metadata.turns,
            "duration_ms": metadata.processing_time_ms,
            "stop": stop,
        }));
    } else {
        if shown.is_empty() {
            printer.text(&format!("{}\n", answer.text));
        }
        printer.note(summary(answer));
    }
    match &metadata.stop_reason {
        StopReason::Done => ExitCode::Passed,
        _ => {
            printer.note(format_args!("stopped: {stop}"));
            ExitCode::Failed
        }
    }
}

/// Formats model, tokens, cost, time and session; unknown values are omitted.
fn summary(answer: &OutgoingMessage) -> String {
    let metadata = &answer.metadata;
    let known = [
        metadata.model.clone(),
        metadata.tokens_used.map(|tokens| plural(tokens, "token")),
        metadata.cost_usd.map(money),
        Some(duration_ms(metadata.processing_time_ms)),
        metadata.session_id.as_ref().map(|id| format!("session {id}")),
    ];
    known.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
