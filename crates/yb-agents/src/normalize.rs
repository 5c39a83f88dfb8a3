//! Converts a result to the log format that all agents share.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use yb_claude::frame::ModelSource as FrameSource;
use yb_claude::{ResultMessage, ResultSubtype, RunSummary, TextOutput, UsageBaseline, strip_ansi};

use yb_redact::Secrets;

use super::codes::ErrorCode;
use super::prices::{self, TokenCounts};
use super::secrets::{redacted, secrets, secrets_of_json};
use super::{AgentConfig, Executed, ExecutionContext, ExecutionResult, Transcript};
use yb_case::AgentSpec;
use yb_model::log::{
    AgentInfo, Environment, ErrorRecord, Execution, LogMessage, LogParts, ModelInfo, ModelSource, ModelUsage,
    OutputFiles, RefusedConnection, Role, ToolCallRecord, Usage, UsageSource, YouBenchaLog,
};

/// The placeholder of an unknown name.
const UNKNOWN: &str = "unknown";

/// The content of an agent's output.
pub(super) enum AgentOutput<'a> {
    /// Messages.
    Messages(&'a Transcript),
    /// Text with the patterns that Claude Code is known to print.
    Patterns(Box<TextOutput>),
    /// Text that is the answer.
    Text(&'a str),
    /// No output.
    None,
}

impl<'a> AgentOutput<'a> {
    /// Messages if there are any, else the text.
    pub(super) fn of_claude(result: &'a ExecutionResult) -> Self {
        match &result.transcript {
            Some(transcript) if transcript.spoke() => Self::Messages(transcript),
            _ if !result.was_started() => Self::None,
            _ => Self::Patterns(Box::new(TextOutput::parse(&result.output))),
        }
    }
}

/// Creates the log.
pub(super) fn log(
    agent: &AgentSpec,
    provider: &str,
    output: &AgentOutput<'_>,
    result: &ExecutionResult,
    context: &ExecutionContext,
) -> YouBenchaLog {
    let summary =
        if let AgentOutput::Messages(transcript) = output { Some(transcript.summary()) } else { None };
    let version = match output {
        AgentOutput::Patterns(text) => text.version.as_deref(),
        _ => summary.and_then(RunSummary::cli_version),
    };
    let version = version.or(result.agent_version.as_deref());
    let mut errors: Vec<ErrorRecord> = result.errors.iter().map(clean).collect();
    if let AgentOutput::Patterns(text) = output {
        errors.extend(text.parse_errors.iter().map(|problem| unreadable(problem, agent, result)));
    }
    YouBenchaLog::new(LogParts {
        agent: AgentInfo {
            name: agent.name.to_owned(),
            version: version.unwrap_or(UNKNOWN).to_owned(),
            adapter_version: agent.adapter_version.to_owned(),
        },
        model: model(output, provider, &context.config),
        execution: execution(summary, result, context),
        messages: messages(output, result, context),
        tool_calls: tool_calls(output),
        usage: usage(output, provider),
        errors,
        warnings: result.warnings.iter().map(|warning| strip_ansi(warning).into_owned()).collect(),
        environment: Environment {
            os: format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
            node_version: "none".to_owned(),
            youbencha_version: env!("CARGO_PKG_VERSION").to_owned(),
            working_directory: context.workspace.display().to_string(),
        },
        output: OutputFiles {
            terminal_log: below(result.terminal_log.as_deref(), &context.artifacts_dir),
            frames: below(result.frames.as_deref(), &context.artifacts_dir),
            truncated: result.truncated,
        },
        outcome: result.outcome,
        omitted: match output {
            AgentOutput::Messages(transcript) => transcript.omitted(usize::from(result.prompt.is_some())),
            _ => None,
        },
    })
}

fn clean(record: &ErrorRecord) -> ErrorRecord {
    ErrorRecord { message: strip_ansi(&record.message).into_owned(), ..record.clone() }
}

fn unreadable(problem: &str, agent: &AgentSpec, result: &ExecutionResult) -> ErrorRecord {
    ErrorRecord {
        message: problem.to_owned(),
        timestamp: result.completed_at.clone(),
        code: Some(ErrorCode::Unreadable.for_agent(agent)),
        stack_trace: None,
        context: BTreeMap::new(),
    }
}

/// A path relative to the artifacts, with `/` on every system.
fn below(path: Option<&Path>, artifacts: &Path) -> Option<String> {
    let path = path?;
    let inner = path.strip_prefix(artifacts).unwrap_or(path);
    let parts: Vec<_> = inner.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    Some(parts.join("/"))
}

/// Provider and name of a model. An agent without a provider of its own names its models `provider/name`.
fn split_provider<'a>(provider: &'a str, model: &'a str) -> (&'a str, &'a str) {
    match model.split_once('/') {
        Some((of_model, name)) if provider == UNKNOWN && !name.is_empty() => (of_model, name),
        _ => (provider, model),
    }
}

fn model(output: &AgentOutput<'_>, provider: &str, config: &AgentConfig) -> ModelInfo {
    let from_output = match output {
        AgentOutput::Messages(transcript) => transcript.summary().model().map(|model| {
            let source = match model.source {
                FrameSource::Init => ModelSource::Init,
                FrameSource::ModelUsage => ModelSource::ModelUsage,
                FrameSource::Assistant => ModelSource::Assistant,
                _ => ModelSource::Result,
            };
            (model.name, source)
        }),
        AgentOutput::Patterns(text) => text.model.as_deref().map(|name| (name, ModelSource::Text)),
        AgentOutput::Text(_) | AgentOutput::None => None,
    };
    let configured = config.model.as_deref().map(|model| model.strip_prefix("anthropic/").unwrap_or(model));
    let (name, source) = from_output
        .or_else(|| Some((configured?, ModelSource::Config)))
        .unwrap_or((UNKNOWN, ModelSource::Unknown));
    let asked = [
        ("max_tokens", config.max_tokens.map(Value::from)),
        ("temperature", config.temperature.map(Value::from)),
        ("effort", config.effort.clone().map(Value::from)),
    ];
    let parameters = asked.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    let (provider, name) = split_provider(provider, name);
    ModelInfo { name: name.to_owned(), provider: provider.to_owned(), parameters, source }
}

fn execution(
    summary: Option<&RunSummary>,
    result: &ExecutionResult,
    context: &ExecutionContext,
) -> Execution {
    Execution {
        started_at: result.started_at.clone(),
        completed_at: result.completed_at.clone(),
        duration_ms: result.duration_ms,
        exit_code: result.exit_code,
        status: result.status,
        timed_out: result.timed_out(),
        isolation: context.isolation,
        syscall_filter: context.isolation.syscall_filter(),
        network: context.network.mode,
        refused_connections: result
            .refused
            .iter()
            .map(|one| RefusedConnection { target: one.target.clone(), times: one.times })
            .collect(),
        api_observation: context.api_observation.clone(),
        permission_mode: result.permission_mode.clone(),
        containment: result.containment.clone(),
        trust_repo_settings: context.config.trust_repo_settings,
        session_id: summary.and_then(RunSummary::session_id).map(str::to_owned),
        num_turns: summary.and_then(RunSummary::num_turns),
        ending: summary.and_then(RunSummary::last_result).map(ending),
        stop_reason: summary.and_then(RunSummary::stop_reason).map(str::to_owned),
        api_retries: summary.map_or(0, RunSummary::api_retries),
        permission_denials: summary.map_or(0, RunSummary::permission_denial_count),
        argv: result.executed.as_ref().map(|executed| argv(executed, context)).unwrap_or_default(),
        env: result
            .executed
            .iter()
            .flat_map(|one| &one.env)
            .map(|name| name.to_string_lossy().into())
            .collect(),
        stdin: result.executed.as_ref().map(|executed| executed.stdin),
    }
}

/// How the agent ended in its own terms. A failure of the API is reported as a `success` with an error.
fn ending(result: &ResultMessage) -> String {
    match &result.subtype {
        ResultSubtype::Success | ResultSubtype::Missing if result.is_error => {
            result.terminal_reason.clone().unwrap_or_else(|| "error".to_owned())
        }
        subtype => subtype.as_str().to_owned(),
    }
}

/// The executed command, without the secrets of variables, servers and settings.
fn argv(executed: &Executed, context: &ExecutionContext) -> Vec<String> {
    let config = &context.config;
    let maps = config.mcp_servers.values().chain(&config.settings);
    let known = Secrets::of_safe_length(secrets(&context.host.env).chain(maps.flat_map(secrets_of_json)));
    executed.argv.iter().map(|argument| known.redact(&argument.to_string_lossy()).into_owned()).collect()
}

/// The prompt and all messages after it.
fn messages(
    output: &AgentOutput<'_>,
    result: &ExecutionResult,
    context: &ExecutionContext,
) -> Vec<LogMessage> {
    let said = |role, content: &str, timestamp: &str| LogMessage {
        role,
        content: strip_ansi(content).into_owned(),
        timestamp: timestamp.to_owned(),
        thinking: String::new(),
        tool_calls: Vec::new(),
        tool_call_id: None,
        parent_tool_call_id: None,
    };
    let mut messages = Vec::new();
    if let Some(prompt) = &result.prompt {
        messages.push(said(Role::User, &redacted(prompt, &context.host.env), &result.started_at));
    }
    match output {
        AgentOutput::Messages(transcript) => messages.extend_from_slice(transcript.messages()),
        AgentOutput::Patterns(text) => messages.extend(text.messages.iter().map(|message| {
            let role = match message.role {
                yb_claude::TextRole::User => Role::User,
                yb_claude::TextRole::System => Role::System,
                _ => Role::Assistant,
            };
            said(role, &message.content, &result.completed_at)
        })),
        AgentOutput::Text(text) if !text.trim().is_empty() => {
            messages.push(said(Role::Assistant, text.trim(), &result.completed_at));
        }
        AgentOutput::Text(_) | AgentOutput::None => {}
    }
    messages
}

fn tool_calls(output: &AgentOutput<'_>) -> Vec<ToolCallRecord> {
    match output {
        AgentOutput::Messages(transcript) => {
            transcript.summary().tools().iter().map(|call| transcript.record(call)).collect()
        }
        AgentOutput::Patterns(text) => {
            let calls = text.tool_calls.iter().map(|call| ToolCallRecord {
                id: None,
                name: call.name.clone(),
                arguments: call.arguments.clone(),
                result: None,
                result_bytes: None,
                is_error: None,
                started_at: None,
                completed_at: None,
                parent_tool_call_id: None,
            });
            calls.collect()
        }
        AgentOutput::Text(_) | AgentOutput::None => Vec::new(),
    }
}

/// The usage; unreported numbers are 0 with the source `unreported`.
fn usage(output: &AgentOutput<'_>, provider: &str) -> Usage {
    let mut usage = Usage::unreported();
    let mut count = |input: u64, output: u64| {
        (usage.input_tokens, usage.prompt_tokens) = (input, input);
        (usage.output_tokens, usage.completion_tokens) = (output, output);
        usage.total_tokens = input.saturating_add(output);
        usage.source = UsageSource::SelfReported;
    };
    match output {
        AgentOutput::Messages(transcript) => {
            if let Some(spent) = transcript.summary().usage(UsageBaseline::NewSession) {
                count(spent.tokens.input, spent.tokens.output);
                usage.cache_read_input_tokens = spent.tokens.cache_read;
                usage.cache_creation_input_tokens = spent.tokens.cache_creation;
                let cost = spent.cost_usd.filter(|cost| cost.is_finite() && *cost >= 0.0);
                (usage.cost_usd, usage.estimated_cost_usd) = (cost, cost);
                usage.cost_source = cost.map(|_| UsageSource::SelfReported);
                usage.by_model = by_model(transcript.summary(), provider);
                if cost.is_none() {
                    price(&mut usage);
                }
            } else if transcript.summary().last_result().is_none() {
                metered(&mut usage, transcript);
            }
        }
        AgentOutput::Patterns(text) => {
            if let Some(tokens) = &text.usage {
                count(tokens.input_tokens, tokens.output_tokens);
            }
        }
        AgentOutput::Text(_) | AgentOutput::None => {}
    }
    usage
}

/// Adds the cost by the price table, if it has all models. Without them the cost stays unknown.
fn price(usage: &mut Usage) {
    let cost = |(name, used): (&String, &ModelUsage)| {
        let counts = TokenCounts {
            input: used.input_tokens,
            output: used.output_tokens,
            cache_write: used.cache_creation_input_tokens,
            cache_read: used.cache_read_input_tokens,
            ..TokenCounts::default()
        };
        Some((name.clone(), prices::known(name)?.cost(&counts)))
    };
    let Some(costs) = usage.by_model.iter().map(cost).collect::<Option<Vec<_>>>() else { return };
    if costs.is_empty() {
        return;
    }
    let total: f64 = costs.iter().map(|(_, usd)| usd).sum();
    (usage.cost_usd, usage.estimated_cost_usd) = (Some(total), Some(total));
    usage.cost_source = Some(UsageSource::Metered);
    for (name, usd) in costs {
        if let Some(model) = usage.by_model.get_mut(&name) {
            model.cost_usd = Some(usd);
            model.cost_basis = Some("list".to_owned());
        }
    }
}

/// Adds the metered usage of an agent that was stopped before it reported any.
fn metered(usage: &mut Usage, transcript: &Transcript) {
    for (name, model) in transcript.meter().by_model() {
        let used = &model.used;
        let cache_creation = used.cache_write.saturating_add(used.cache_write_1h);
        usage.source = UsageSource::Metered;
        let add = |sum: &mut u64, tokens: u64| *sum = sum.saturating_add(tokens);
        add(&mut usage.input_tokens, used.input);
        add(&mut usage.output_tokens, used.output);
        add(&mut usage.cache_read_input_tokens, used.cache_read);
        add(&mut usage.cache_creation_input_tokens, cache_creation);
        usage.cost_usd = Some(usage.cost_usd.unwrap_or_default() + model.usd);
        let model = ModelUsage {
            input_tokens: used.input,
            output_tokens: used.output,
            cache_read_input_tokens: used.cache_read,
            cache_creation_input_tokens: cache_creation,
            cost_usd: Some(model.usd),
            cost_basis: None,
            source: UsageSource::Metered,
        };
        usage.by_model.insert(name.to_owned(), model);
    }
    usage.estimated_cost_usd = usage.cost_usd;
    usage.cost_source = usage.cost_usd.map(|_| UsageSource::Metered);
    (usage.prompt_tokens, usage.completion_tokens) = (usage.input_tokens, usage.output_tokens);
    usage.total_tokens = usage.input_tokens.saturating_add(usage.output_tokens);
}

fn by_model(summary: &RunSummary, provider: &str) -> BTreeMap<String, ModelUsage> {
    let models = summary.last_result().and_then(|result| result.model_usage.as_ref());
    let used = |usage: &yb_claude::frame::ModelUsage| ModelUsage {
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cache_read_input_tokens: usage.cache_read_input_tokens,
        cache_creation_input_tokens: usage.cache_creation_input_tokens,
        cost_usd: usage.cost_usd.filter(|cost| cost.is_finite()),
        cost_basis: usage.cost_basis.clone(),
        source: UsageSource::SelfReported,
    };
    let models = models.into_iter().flatten();
    models.map(|(name, usage)| (split_provider(provider, name).1.to_owned(), used(usage))).collect()
}
