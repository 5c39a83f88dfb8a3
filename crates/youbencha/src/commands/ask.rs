//! `yb ask`: one question to Claude Code, the answer as it is written.

use std::io::Read as _;
use std::time::SystemTime;

use serde_json::json;
use yb_claude::{ClaudeCodeProvider, Context, Message, Options, OutgoingMessage, ProviderError, Stop};
use yb_engine::adapter::{Adapter as _, ClaudeCode};
use yb_otel::{AgentSpans, AgentSpansConfig, End};
use yb_supervise::CancellationToken;

use crate::args::AskArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::signals::Signals;
use crate::tracing::Tracing;

pub(crate) fn run(args: &AskArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let context = context(args)?;
    let runtime = tokio::runtime::Runtime::new().map_err(CliError::failed_to("start"))?;
    runtime.block_on(async {
        let mut signals = Signals::listen().map_err(CliError::failed_to("listen for signals"))?;
        let cancel = CancellationToken::new();
        let tracing = Tracing::start_here(&args.otel)?;
        let spans = spans(args, &context, &tracing);
        let provider = provider(args, spans.as_ref()).with_cancellation(cancel.clone());
        let mut live = Live::new(printer, args.json);
        let answer = {
            let mut observe = |message: &Message| {
                live.show(message);
                spans.iter().for_each(|spans| spans.frame(message, SystemTime::now()));
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
        spans.iter().for_each(|spans| spans.end(end(&answer)));
        let code = match answer {
            Ok(answer) => Ok(report(&answer, &live.shown, args, printer)),
            Err(ProviderError::Cancelled) => Ok(ExitCode::Interrupted),
            Err(error) => Err(error.into()),
        };
        tracing.finish(code.as_ref().ok().copied(), &mut signals, printer).await;
        code
    })
}

/// The trace of a question is the agent's span and what is below it.
fn spans(args: &AskArgs, context: &Context, tracing: &Tracing) -> Option<AgentSpans> {
    let mut config =
        AgentSpansConfig::new(ClaudeCode.spec().name).with_prompt(context.current_message.clone());
    config.model.clone_from(&args.model);
    config.resumed = args.resume.is_some();
    tracing.agent(config)
}

fn end(answer: &Result<OutgoingMessage, ProviderError>) -> End {
    match answer {
        Ok(_) => End::Ok,
        Err(ProviderError::Cancelled) => End::Aborted,
        Err(error) => End::error("agent_error", error.to_string()),
    }
}

fn context(args: &AskArgs) -> Result<Context, CliError> {
    let prompt = match args.prompt.as_deref() {
        None | Some("-") => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(|error| {
                CliError::new(ErrorKind::Usage, "failed to read the question from stdin").caused_by(error)
            })?;
            text
        }
        Some(prompt) => prompt.to_owned(),
    };
    if prompt.trim().is_empty() {
        return Err(CliError::new(ErrorKind::Usage, "the question is empty")
            .hint("give it as an argument or on stdin: `yb ask \"What does this repository do?\"`"));
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
    if let Some(claude) = &args.claude {
        provider = provider.with_program(claude);
    }
    provider
}

/// Shows the main thread's words as they come.
pub(super) struct Live<'a> {
    printer: &'a mut Printer,
    pub(super) shown: String,
    silent: bool,
}

impl<'a> Live<'a> {
    pub(super) fn new(printer: &'a mut Printer, silent: bool) -> Self {
        Self { printer, shown: String::new(), silent }
    }

    pub(super) fn show(&mut self, message: &Message) {
        let text = match message {
            Message::StreamEvent(event) if event.parent_tool_use_id.is_none() => event.text(),
            // Between two answers of a turn there is a tool call: the words before and after are not one sentence.
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
    let stop = match &metadata.stop {
        Stop::Done => "done",
        Stop::MaxTurns => "max_turns",
        Stop::MaxBudget => "max_budget_usd",
        Stop::Other(reason) => reason,
        _ => "unknown",
    };
    if args.json {
        printer.line(json!({
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
            printer.line(&answer.text);
        }
        printer.note(summary(answer));
    }
    match &metadata.stop {
        Stop::Done => ExitCode::Passed,
        _ => {
            printer.note(format_args!("stopped: {stop}"));
            ExitCode::Failed
        }
    }
}

/// What it took, in one line; what is not known is left out.
fn summary(answer: &OutgoingMessage) -> String {
    let metadata = &answer.metadata;
    let known = [
        metadata.model.clone(),
        metadata.tokens_used.map(|tokens| format!("{tokens} tokens")),
        metadata.cost_usd.map(|cost| format!("${cost:.4}")),
        Some(format!("{:.1} s", metadata.processing_time_ms as f64 / 1000.0)),
        metadata.session_id.as_ref().map(|id| format!("session {id}")),
    ];
    known.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
