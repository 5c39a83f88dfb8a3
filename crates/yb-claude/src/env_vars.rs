//! The environment variables that this crate reads, or sets for the CLI.

/// The path of the `claude` program, or of a directory whose `node_modules` contains it.
pub const YB_CLAUDE: &str = "YB_CLAUDE";

/// The directories that are searched for programs.
pub const PATH: &str = "PATH";

/// The home directory.
pub const HOME: &str = if cfg!(windows) { "USERPROFILE" } else { "HOME" };

/// The directory for temporary files.
pub const TMPDIR: &str = if cfg!(windows) { "TEMP" } else { "TMPDIR" };

/// The directory of Claude Code's settings, credentials and sessions.
pub const CLAUDE_CONFIG_DIR: &str = "CLAUDE_CONFIG_DIR";

/// The base URL of the model API.
pub const ANTHROPIC_BASE_URL: &str = "ANTHROPIC_BASE_URL";
/// The API key, sent as `x-api-key`.
pub const ANTHROPIC_API_KEY: &str = "ANTHROPIC_API_KEY";
/// A bearer token, sent as `Authorization`.
pub const ANTHROPIC_AUTH_TOKEN: &str = "ANTHROPIC_AUTH_TOKEN";
/// A subscription token from `claude setup-token`.
pub const CLAUDE_CODE_OAUTH_TOKEN: &str = "CLAUDE_CODE_OAUTH_TOKEN";
/// Uses Amazon Bedrock.
pub const CLAUDE_CODE_USE_BEDROCK: &str = "CLAUDE_CODE_USE_BEDROCK";
/// Uses Google Vertex AI.
pub const CLAUDE_CODE_USE_VERTEX: &str = "CLAUDE_CODE_USE_VERTEX";
/// Uses Microsoft Foundry.
pub const CLAUDE_CODE_USE_FOUNDRY: &str = "CLAUDE_CODE_USE_FOUNDRY";

/// Hosts that bypass the proxy.
pub const NO_PROXY: &str = "NO_PROXY";
/// The lower-case spelling of [`NO_PROXY`].
pub const NO_PROXY_LOWER: &str = "no_proxy";

/// Declares the machine a sandbox, so that root may bypass permissions. Only the exact value `1` counts.
pub const IS_SANDBOX: &str = "IS_SANDBOX";
/// Disables background shells and subagents, so that a run has one result.
pub const CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: &str = "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS";
/// Disables all requests other than model requests.
pub const CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: &str = "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC";
/// Disables usage statistics.
pub const DISABLE_TELEMETRY: &str = "DISABLE_TELEMETRY";
/// Disables automatic updates.
pub const DISABLE_AUTOUPDATER: &str = "DISABLE_AUTOUPDATER";
/// Disables crash reports.
pub const DISABLE_ERROR_REPORTING: &str = "DISABLE_ERROR_REPORTING";

/// The maximum number of retries of a failed API request; 10 by default, about three minutes.
pub const CLAUDE_CODE_MAX_RETRIES: &str = "CLAUDE_CODE_MAX_RETRIES";
/// The timeout of an API request in milliseconds.
pub const API_TIMEOUT_MS: &str = "API_TIMEOUT_MS";
/// The maximum number of output tokens per response.
pub const CLAUDE_CODE_MAX_OUTPUT_TOKENS: &str = "CLAUDE_CODE_MAX_OUTPUT_TOKENS";
/// Enables file checkpoints, which a host can restore.
pub const CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING: &str = "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING";
/// The entry point that Claude Code reports in its statistics.
pub const CLAUDE_CODE_ENTRYPOINT: &str = "CLAUDE_CODE_ENTRYPOINT";
/// The name of the application, for the `User-Agent` of model requests.
pub const CLAUDE_AGENT_SDK_CLIENT_APP: &str = "CLAUDE_AGENT_SDK_CLIENT_APP";
/// The name of the application as derived by an official SDK.
pub const CLAUDE_AGENT_SDK_DERIVED_CLIENT_APP: &str = "CLAUDE_AGENT_SDK_DERIVED_CLIENT_APP";
/// The version of the SDK.
pub const CLAUDE_AGENT_SDK_VERSION: &str = "CLAUDE_AGENT_SDK_VERSION";
/// Makes the CLI report when it is idle, which is when its stdin may be closed.
pub const CLAUDE_CODE_SDK_READS_SESSION_STATE: &str = "CLAUDE_CODE_SDK_READS_SESSION_STATE";
/// The maximum wait for background work after the last result, in milliseconds; 0 means no limit.
pub const CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS: &str = "CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS";
/// Set for processes inside a Claude Code session; versions from 2.1.39 refuse to start there.
pub const CLAUDECODE: &str = "CLAUDECODE";
/// The parent span in W3C trace context format.
pub const TRACEPARENT: &str = "TRACEPARENT";
/// Vendor-specific data for [`TRACEPARENT`].
pub const TRACESTATE: &str = "TRACESTATE";
/// The working directory as set by shells.
pub const PWD: &str = "PWD";

/// Variables that would make Claude Code export telemetry to the host's collector.
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
