//! The environment variables that this crate reads or sets for a child, in one place.

/// The `claude` program to use, or a folder with the `node_modules` that contains it.
pub const YB_CLAUDE: &str = "YB_CLAUDE";

/// Where programs are looked for.
pub const PATH: &str = "PATH";

/// The home directory, whose usual places are looked at.
pub const HOME: &str = if cfg!(windows) { "USERPROFILE" } else { "HOME" };

/// The folder of temporary files.
pub const TMPDIR: &str = if cfg!(windows) { "TEMP" } else { "TMPDIR" };

/// Where Claude Code keeps its settings, its credentials and its sessions.
pub const CLAUDE_CONFIG_DIR: &str = "CLAUDE_CONFIG_DIR";

/// Where the model API is.
pub const ANTHROPIC_BASE_URL: &str = "ANTHROPIC_BASE_URL";
/// The API key, sent as `x-api-key`.
pub const ANTHROPIC_API_KEY: &str = "ANTHROPIC_API_KEY";
/// A bearer token, sent as `Authorization`.
pub const ANTHROPIC_AUTH_TOKEN: &str = "ANTHROPIC_AUTH_TOKEN";
/// The token of a subscription, from `claude setup-token`.
pub const CLAUDE_CODE_OAUTH_TOKEN: &str = "CLAUDE_CODE_OAUTH_TOKEN";
/// Goes to the model through Amazon Bedrock.
pub const CLAUDE_CODE_USE_BEDROCK: &str = "CLAUDE_CODE_USE_BEDROCK";
/// Goes to the model through Google Vertex AI.
pub const CLAUDE_CODE_USE_VERTEX: &str = "CLAUDE_CODE_USE_VERTEX";
/// Goes to the model through Microsoft Foundry.
pub const CLAUDE_CODE_USE_FOUNDRY: &str = "CLAUDE_CODE_USE_FOUNDRY";

/// Hosts that are reached without a proxy.
pub const NO_PROXY: &str = "NO_PROXY";
/// The other spelling of [`NO_PROXY`].
pub const NO_PROXY_LOWER: &str = "no_proxy";

/// Says that the machine is a sandbox, so that also root may skip permissions. Only the exact value `1` does.
pub const IS_SANDBOX: &str = "IS_SANDBOX";
/// Runs shells and subagents inline: one result, and no process that waits for them.
pub const CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: &str = "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS";
/// Leaves out every request that is not for the model.
pub const CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: &str = "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC";
/// Sends no usage statistics.
pub const DISABLE_TELEMETRY: &str = "DISABLE_TELEMETRY";
/// Never updates itself.
pub const DISABLE_AUTOUPDATER: &str = "DISABLE_AUTOUPDATER";
/// Sends no crash reports.
pub const DISABLE_ERROR_REPORTING: &str = "DISABLE_ERROR_REPORTING";

/// How often a failed request is sent again; 10 by default, about three minutes.
pub const CLAUDE_CODE_MAX_RETRIES: &str = "CLAUDE_CODE_MAX_RETRIES";
/// How long one request may take, in milliseconds.
pub const API_TIMEOUT_MS: &str = "API_TIMEOUT_MS";
/// How many tokens one answer may have.
pub const CLAUDE_CODE_MAX_OUTPUT_TOKENS: &str = "CLAUDE_CODE_MAX_OUTPUT_TOKENS";
/// Keeps copies of changed files, so that a host can rewind them.
pub const CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING: &str = "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING";
/// Who started it, for its statistics.
pub const CLAUDE_CODE_ENTRYPOINT: &str = "CLAUDE_CODE_ENTRYPOINT";
/// The version of the library that speaks to it.
pub const CLAUDE_AGENT_SDK_VERSION: &str = "CLAUDE_AGENT_SDK_VERSION";
/// Makes it say when it is idle, which is when its input may end.
pub const CLAUDE_CODE_SDK_READS_SESSION_STATE: &str = "CLAUDE_CODE_SDK_READS_SESSION_STATE";
/// How long it waits for background work after its last result, in milliseconds; 0 is for ever.
pub const CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS: &str = "CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS";
/// Marks what runs inside a Claude Code session; versions from 2.1.39 refused to start there.
pub const CLAUDECODE: &str = "CLAUDECODE";
/// The span below which its own spans hang, in the form of W3C trace context.
pub const TRACEPARENT: &str = "TRACEPARENT";
/// What vendors add to [`TRACEPARENT`].
pub const TRACESTATE: &str = "TRACESTATE";
/// The working directory, as shells tell it.
pub const PWD: &str = "PWD";

/// Variables that make Claude Code export telemetry to wherever its host's goes.
pub const TELEMETRY_EXPORT: [&str; 16] = [
    "CLAUDE_CODE_ENABLE_TELEMETRY",
    "CLAUDE_CODE_ENHANCED_TELEMETRY_BETA",
    "OTEL_METRICS_EXPORTER",
    "OTEL_LOGS_EXPORTER",
    "OTEL_TRACES_EXPORTER",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
    "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_RESOURCE_ATTRIBUTES",
];
