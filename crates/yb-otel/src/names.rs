//! All span, attribute and metric names: the constants of the prompt adapter's API, and a table of names for each version
//! of the conventions.

/// The instrumentation scope of spans with [`SemanticConventions::AgentMark`] names.
pub const TRACER_SCOPE_NAME: &str = "agentmark";

/// The instrumentation scope of all other telemetry.
pub(crate) const SCOPE: &str = "youbencha";

/// Attributes of OpenTelemetry's early GenAI conventions.
pub mod gen_ai_attributes {
    /// The model provider.
    pub const SYSTEM: &str = "gen_ai.system";
    /// The requested model.
    pub const REQUEST_MODEL: &str = "gen_ai.request.model";
    /// The maximum number of output tokens.
    pub const REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
    /// The sampling temperature.
    pub const REQUEST_TEMPERATURE: &str = "gen_ai.request.temperature";
    /// The response id.
    pub const RESPONSE_ID: &str = "gen_ai.response.id";
    /// The model that produced the response.
    pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
    /// The reasons why the model stopped.
    pub const RESPONSE_FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
    /// Input tokens.
    pub const USAGE_INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
    /// Output tokens.
    pub const USAGE_OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
    /// The tool name.
    pub const TOOL_NAME: &str = "gen_ai.tool.name";
    /// The tool call id.
    pub const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
    /// The user prompt.
    pub const REQUEST_INPUT: &str = "gen_ai.request.input";
    /// The agent's response.
    pub const RESPONSE_OUTPUT: &str = "gen_ai.response.output";
    /// The tool's arguments.
    pub const TOOL_INPUT: &str = "gen_ai.tool.input";
    /// The tool's result.
    pub const TOOL_OUTPUT: &str = "gen_ai.tool.output";
}

/// Attributes of the prompt adapter.
pub mod agentmark_attributes {
    /// The prompt name.
    pub const PROMPT_NAME: &str = "agentmark.prompt_name";
    /// The session id.
    pub const SESSION_ID: &str = "agentmark.session_id";
    /// The user id.
    pub const USER_ID: &str = "agentmark.user_id";
    /// The function id.
    pub const FUNCTION_ID: &str = "agentmark.function_id";
    /// The type of a subagent.
    pub const SUBAGENT_TYPE: &str = "agentmark.subagent_type";
    /// The id of a subagent.
    pub const AGENT_ID: &str = "agentmark.agent_id";
}

/// Span names of the prompt adapter.
pub mod span_names {
    /// A session, from a prompt to its response.
    pub const SESSION: &str = "gen_ai.session";
    /// A tool call.
    pub const TOOL_CALL: &str = "gen_ai.tool.call";
    /// A subagent.
    pub const SUBAGENT: &str = "gen_ai.subagent";
}

/// Names shared by all conventions, and names of youBencha itself.
pub(crate) mod common {
    pub(crate) const ERROR_TYPE: &str = "error.type";
    /// The cost in US dollars. The conventions have no name for it.
    pub(crate) const COST_USD: &str = "youbencha.cost_usd";
    /// The source of a cost that the agent did not report itself.
    pub(crate) const COST_SOURCE: &str = "youbencha.cost_source";
    /// Computed from tokens and a price list.
    pub(crate) const METERED: &str = "metered";
    /// Whether the usage is that of calls which no message reported.
    pub(crate) const UNATTRIBUTED: &str = "youbencha.usage.unattributed";
    /// The number of spans that were not created, because too many were open.
    pub(crate) const OMITTED_SPANS: &str = "youbencha.spans.omitted";
    pub(crate) const EVALUATION_EVENT: &str = "gen_ai.evaluation.result";
    pub(crate) const EVALUATION_NAME: &str = "gen_ai.evaluation.name";
    pub(crate) const EVALUATION_SCORE: &str = "gen_ai.evaluation.score.value";
    pub(crate) const EVALUATION_LABEL: &str = "gen_ai.evaluation.score.label";
    pub(crate) const EVALUATION_EXPLANATION: &str = "gen_ai.evaluation.explanation";
}

/// Metric names and attributes: version 1.41 of the conventions, except `COST`.
pub(crate) mod metrics {
    pub(crate) const TOKENS: &str = "gen_ai.client.token.usage";
    pub(crate) const OPERATION: &str = "gen_ai.client.operation.duration";
    pub(crate) const TOOL: &str = "gen_ai.execute_tool.duration";
    pub(crate) const COST: &str = "youbencha.agent.cost";
    pub(crate) const TOKEN_TYPE: &str = "gen_ai.token.type";
    pub(crate) const OPERATION_NAME: &str = "gen_ai.operation.name";
    pub(crate) const PROVIDER: &str = "gen_ai.provider.name";
}

/// The names of one version of the conventions. `None` means that the version has no such name; nothing is recorded then.
#[derive(Debug)]
pub(crate) struct NameTable {
    /// The version.
    pub(crate) version: &'static str,
    pub(crate) scope: &'static str,
    /// Whether a span name ends with its subject, such as the tool's name.
    pub(crate) specific_names: bool,
    pub(crate) agent_span: &'static str,
    pub(crate) subagent_span: &'static str,
    pub(crate) tool_span: &'static str,
    pub(crate) chat_span: Option<&'static str>,
    pub(crate) operation: Option<&'static str>,
    pub(crate) provider: &'static str,
    /// Whether all spans have the provider, not only agents and model calls.
    pub(crate) provider_everywhere: bool,
    /// Whether a successful span has status OK. The conventions leave it unset.
    pub(crate) ok_status: bool,
    pub(crate) conversation: &'static str,
    pub(crate) agent_name: Option<&'static str>,
    pub(crate) agent_version: Option<&'static str>,
    pub(crate) subagent_type: &'static str,
    pub(crate) agent_id: &'static str,
    pub(crate) request_model: &'static str,
    pub(crate) response_model: &'static str,
    pub(crate) response_id: &'static str,
    pub(crate) finish_reasons: &'static str,
    pub(crate) input: &'static str,
    pub(crate) output: &'static str,
    /// Whether input and output are JSON message lists instead of plain text.
    pub(crate) messages: bool,
    pub(crate) tool_name: &'static str,
    pub(crate) tool_call_id: &'static str,
    pub(crate) tool_type: Option<&'static str>,
    pub(crate) tool_input: &'static str,
    pub(crate) tool_output: &'static str,
    pub(crate) usage_input: &'static str,
    pub(crate) usage_output: &'static str,
    /// Whether input tokens include cached tokens, as the conventions require since 1.38.
    pub(crate) input_with_cache: bool,
    pub(crate) cache_read: Option<&'static str>,
    pub(crate) cache_write: Option<&'static str>,
}

/// The prompt adapter's names.
pub(crate) static AGENTMARK: NameTable = NameTable {
    version: "seed",
    scope: TRACER_SCOPE_NAME,
    specific_names: false,
    agent_span: span_names::SESSION,
    subagent_span: span_names::SUBAGENT,
    tool_span: span_names::TOOL_CALL,
    chat_span: None,
    operation: None,
    provider: gen_ai_attributes::SYSTEM,
    provider_everywhere: true,
    ok_status: true,
    conversation: agentmark_attributes::SESSION_ID,
    agent_name: None,
    agent_version: None,
    subagent_type: agentmark_attributes::SUBAGENT_TYPE,
    agent_id: agentmark_attributes::AGENT_ID,
    request_model: gen_ai_attributes::REQUEST_MODEL,
    response_model: gen_ai_attributes::RESPONSE_MODEL,
    response_id: gen_ai_attributes::RESPONSE_ID,
    finish_reasons: gen_ai_attributes::RESPONSE_FINISH_REASONS,
    input: gen_ai_attributes::REQUEST_INPUT,
    output: gen_ai_attributes::RESPONSE_OUTPUT,
    messages: false,
    tool_name: gen_ai_attributes::TOOL_NAME,
    tool_call_id: gen_ai_attributes::TOOL_CALL_ID,
    tool_type: None,
    tool_input: gen_ai_attributes::TOOL_INPUT,
    tool_output: gen_ai_attributes::TOOL_OUTPUT,
    usage_input: gen_ai_attributes::USAGE_INPUT_TOKENS,
    usage_output: gen_ai_attributes::USAGE_OUTPUT_TOKENS,
    input_with_cache: false,
    cache_read: None,
    cache_write: None,
};

/// The last numbered version of OpenTelemetry's GenAI conventions.
pub(crate) static GEN_AI_1_41: NameTable = NameTable {
    version: "1.41",
    scope: SCOPE,
    specific_names: true,
    agent_span: "invoke_agent",
    subagent_span: "invoke_agent",
    tool_span: "execute_tool",
    chat_span: Some("chat"),
    operation: Some("gen_ai.operation.name"),
    provider: "gen_ai.provider.name",
    provider_everywhere: false,
    ok_status: false,
    conversation: "gen_ai.conversation.id",
    agent_name: Some("gen_ai.agent.name"),
    agent_version: Some("gen_ai.agent.version"),
    subagent_type: "gen_ai.agent.name",
    agent_id: "gen_ai.agent.id",
    request_model: "gen_ai.request.model",
    response_model: "gen_ai.response.model",
    response_id: "gen_ai.response.id",
    finish_reasons: "gen_ai.response.finish_reasons",
    input: "gen_ai.input.messages",
    output: "gen_ai.output.messages",
    messages: true,
    tool_name: "gen_ai.tool.name",
    tool_call_id: "gen_ai.tool.call.id",
    tool_type: Some("gen_ai.tool.type"),
    tool_input: "gen_ai.tool.call.arguments",
    tool_output: "gen_ai.tool.call.result",
    usage_input: "gen_ai.usage.input_tokens",
    usage_output: "gen_ai.usage.output_tokens",
    input_with_cache: true,
    cache_read: Some("gen_ai.usage.cache_read.input_tokens"),
    cache_write: Some("gen_ai.usage.cache_creation.input_tokens"),
};

/// The semantic conventions that name spans and attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SemanticConventions {
    /// The prompt adapter's names: `gen_ai.session`, `gen_ai.tool.call`, `gen_ai.subagent`.
    AgentMark,
    /// The last numbered version of OpenTelemetry's GenAI conventions: `invoke_agent`, `chat`, `execute_tool`.
    #[default]
    GenAiLatest,
}

impl SemanticConventions {
    /// The environment variable that opts in to newer conventions.
    pub const OPT_IN: &'static str = "OTEL_SEMCONV_STABILITY_OPT_IN";

    /// Returns the conventions that the value of [`OPT_IN`](Self::OPT_IN) selects, or `otherwise`.
    #[must_use]
    pub fn from_opt_in(value: Option<&str>, otherwise: Self) -> Self {
        let asked = value.unwrap_or_default().split(',').map(str::trim);
        if asked.into_iter().any(|entry| entry == "gen_ai_latest_experimental") {
            Self::GenAiLatest
        } else {
            otherwise
        }
    }

    /// Returns the conventions with this name: `seed` or `genai-latest`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "seed" => Some(Self::AgentMark),
            "genai-latest" => Some(Self::GenAiLatest),
            _ => None,
        }
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AgentMark => "seed",
            Self::GenAiLatest => "genai-latest",
        }
    }

    /// Returns the version of the conventions.
    #[must_use]
    pub fn version(self) -> &'static str {
        self.names().version
    }

    pub(crate) fn names(self) -> &'static NameTable {
        match self {
            Self::AgentMark => &AGENTMARK,
            Self::GenAiLatest => &GEN_AI_1_41,
        }
    }
}
