//! `system` messages: status information of the CLI.

use super::lenient::{LenientDeserialize, lenient_struct};
use super::raw::{RawJson, SourceText};

macro_rules! system {
    ($($(#[$about:meta])* $variant:ident($body:ident) = $subtype:literal,)*) => {
        /// A `system` message, by `subtype`.
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum SystemMessage {
            $($(#[$about])* $variant(Box<$body>),)*
            /// A subtype without typed fields, or one that this version does not know.
            Other(Box<OtherSystemMessage>),
        }

        impl SystemMessage {
            pub(crate) fn read(subtype: &str, source: &SourceText) -> serde_json::Result<Option<Self>> {
                let input = &mut serde_json::Deserializer::from_str(source.text());
                let message = match subtype {
                    $($subtype => LenientDeserialize::read(&mut *input, source)?.map(Box::new).map(Self::$variant),)*
                    _ => LenientDeserialize::read(&mut *input, source)?.map(Box::new).map(Self::Other),
                };
                input.end()?;
                Ok(message)
            }

            /// Returns the original JSON.
            #[must_use]
            pub fn raw(&self) -> &RawJson {
                match self {
                    $(Self::$variant(body) => &body.raw,)*
                    Self::Other(body) => &body.raw,
                }
            }

            /// Returns the subtype.
            #[must_use]
            pub fn subtype(&self) -> &str {
                match self {
                    $(Self::$variant(_) => $subtype,)*
                    Self::Other(body) => &body.subtype,
                }
            }

            /// Returns the session ID.
            #[must_use]
            pub fn session_id(&self) -> Option<&str> {
                match self {
                    $(Self::$variant(body) => body.session_id.as_deref(),)*
                    Self::Other(body) => body.session_id.as_deref(),
                }
            }
        }
    };
}

system! {
    /// The start of a turn; sent for every turn, and not always the first message.
    Init(InitMessage) = "init",
    /// The current activity of the CLI.
    Status(StatusMessage) = "status",
    /// The conversation was compacted.
    CompactBoundary(CompactBoundary) = "compact_boundary",
    /// An API request failed and is retried.
    ApiRetry(ApiRetry) = "api_retry",
    /// The CLI switched to a fallback model.
    ModelFallback(ModelFallback) = "model_fallback",
    /// The CLI switched to a fallback model because the first model refused.
    ModelRefusalFallback(ModelFallback) = "model_refusal_fallback",
    /// The model refused, and no fallback was used.
    ModelRefusalNoFallback(ModelFallback) = "model_refusal_no_fallback",
    /// A tool call was denied.
    PermissionDenied(PermissionDenied) = "permission_denied",
    /// A settings hook started.
    HookStarted(HookMessage) = "hook_started",
    /// A settings hook printed output.
    HookProgress(HookMessage) = "hook_progress",
    /// A settings hook finished.
    HookResponse(HookMessage) = "hook_response",
    /// A subagent or background command started.
    TaskStarted(TaskMessage) = "task_started",
    /// A subagent or background command made progress.
    TaskProgress(TaskMessage) = "task_progress",
    /// A subagent or background command changed its state: see [`TaskMessage::patch`].
    TaskUpdated(TaskMessage) = "task_updated",
    /// A subagent or background command finished.
    TaskNotification(TaskMessage) = "task_notification",
    /// The list of background tasks changed.
    BackgroundTasksChanged(BackgroundTasks) = "background_tasks_changed",
    /// An estimate of thinking tokens.
    ThinkingTokens(ThinkingTokens) = "thinking_tokens",
    /// The session became idle or busy.
    SessionStateChanged(SessionStateMessage) = "session_state_changed",
    /// Information for the user.
    Informational(SystemText) = "informational",
    /// A notification for the user.
    Notification(SystemText) = "notification",
    /// The output of a command that the CLI executed itself.
    LocalCommandOutput(SystemText) = "local_command_output",
}

lenient_struct! {
    /// A message without typed fields; see [`OtherSystemMessage::raw`].
    pub struct OtherSystemMessage {
        raw,
        /// The subtype; empty if absent.
        subtype: String = "subtype",
        /// The session ID.
        session_id: Option<String> = "session_id",
    }
}

lenient_struct! {
    /// The configuration of a session.
    pub struct InitMessage {
        raw,
        /// The session ID.
        session_id: Option<String> = "session_id",
        /// The version of the CLI.
        claude_code_version: Option<String> = "claude_code_version",
        /// The model.
        model: Option<String> = "model",
        /// The working directory.
        cwd: Option<String> = "cwd",
        /// The permission mode.
        permission_mode: Option<String> = "permissionMode",
        /// The source of the API key; `none` for other authentication methods.
        api_key_source: Option<String> = "apiKeySource",
        /// The available tools.
        tools: Vec<String> = "tools",
        /// The MCP servers and their status.
        mcp_servers: Vec<McpServerStatus> = "mcp_servers",
        /// The available agents.
        agents: Vec<String> = "agents",
        /// The available skills.
        skills: Vec<String> = "skills",
        /// The loaded plugins.
        plugins: Vec<LoadedPlugin> = "plugins",
        /// Plugins, or parts of them, that failed to load.
        plugin_errors: Vec<PluginError> = "plugin_errors",
        /// The available slash commands.
        slash_commands: Vec<String> = "slash_commands",
        /// The capabilities of this version.
        capabilities: Vec<String> = "capabilities",
        /// The output style.
        output_style: Option<String> = "output_style",
        /// The message's UUID.
        uuid: Option<String> = "uuid",
    }
}

lenient_struct! {
    /// A loaded plugin.
    pub struct LoadedPlugin {
        /// The name in its manifest.
        name: String = "name",
        /// Its directory, or `builtin`.
        path: String = "path",
    }
}

lenient_struct! {
    /// A plugin, or a part of one, that failed to load.
    pub struct PluginError {
        /// `inline[0]`, or the name of the directory and `@inline`.
        plugin: String = "plugin",
        /// The reason.
        message: String = "message",
        /// The directory, if the plugin as a whole failed.
        path: Option<String> = "path",
    }
}

lenient_struct! {
    /// The status of an MCP server.
    pub struct McpServerStatus {
        /// The server's name.
        name: String = "name",
        /// `connected`, `pending`, `failed`, `needs-auth` and others.
        status: String = "status",
    }
}

lenient_struct! {
    /// The current activity of the CLI.
    pub struct StatusMessage {
        raw,
        /// `requesting` or `compacting`; `None` when done.
        status: Option<String> = "status",
        /// The permission mode, if it changed.
        permission_mode: Option<String> = "permissionMode",
        /// The outcome of a compaction.
        compact_result: Option<String> = "compact_result",
        /// The session ID.
        session_id: Option<String> = "session_id",
    }
}

lenient_struct! {
    /// The boundary of a compaction.
    pub struct CompactBoundary {
        raw,
        /// Details of the compaction.
        compact_metadata: CompactMetadata = "compact_metadata",
        /// The session ID.
        session_id: Option<String> = "session_id",
    }
}

lenient_struct! {
    /// Details of a compaction.
    pub struct CompactMetadata {
        /// `manual` or `auto`.
        trigger: Option<String> = "trigger",
        /// Tokens before the compaction.
        pre_tokens: Option<u64> = "pre_tokens",
        /// Tokens after the compaction.
        post_tokens: Option<u64> = "post_tokens",
        /// The duration in milliseconds.
        duration_ms: Option<u64> = "duration_ms",
    }
}

lenient_struct! {
    /// A retry of a failed API request.
    pub struct ApiRetry {
        raw,
        /// The attempt number, from 1.
        attempt: u64 = "attempt",
        /// The maximum number of retries.
        max_retries: Option<u64> = "max_retries",
        /// The delay before the retry in milliseconds.
        retry_delay_ms: Option<u64> = "retry_delay_ms",
        /// The HTTP status, if the API responded.
        error_status: Option<u16> = "error_status",
        /// `authentication_failed`, `rate_limit`, `server_error` and others.
        error: Option<String> = "error",
        /// The session ID.
        session_id: Option<String> = "session_id",
    }
}

lenient_struct! {
    /// A switch to a fallback model.
    pub struct ModelFallback {
        raw,
        /// The reason, such as `overloaded`.
        trigger: Option<String> = "trigger",
        /// The requested model.
        original_model: Option<String> = "original_model",
        /// The fallback model.
        fallback_model: Option<String> = "fallback_model",
        /// A message for the user.
        content: Option<String> = "content",
        /// The session ID.
        session_id: Option<String> = "session_id",
    }
}

lenient_struct! {
    /// A denied tool call.
    pub struct PermissionDenied {
        raw,
        /// The tool's name.
        tool_name: String = "tool_name",
        /// The tool call's ID.
        tool_use_id: String = "tool_use_id",
        /// The message that the model receives.
        message: Option<String> = "message",
        /// The kind of rule that decided: `rule`, `mode`, `hook` and others.
        decision_reason_type: Option<String> = "decision_reason_type",
        /// The reason.
        decision_reason: Option<String> = "decision_reason",
        /// The session ID.
        session_id: Option<String> = "session_id",
    }
}

lenient_struct! {
    /// The state of a settings hook.
    pub struct HookMessage {
        raw,
        /// The hook run's ID, shared by its messages.
        hook_id: Option<String> = "hook_id",
        /// The event and the matcher.
        hook_name: Option<String> = "hook_name",
        /// The event's name.
        hook_event: Option<String> = "hook_event",
        /// The output as used by the CLI.
        output: Option<String> = "output",
        /// The hook's stdout.
        stdout: Option<String> = "stdout",
        /// The hook's stderr.
        stderr: Option<String> = "stderr",
        /// The exit code.
        exit_code: Option<i64> = "exit_code",
        /// `success`, `error`, `cancelled`.
        outcome: Option<String> = "outcome",
        /// The session ID.
        session_id: Option<String> = "session_id",
    }
}

lenient_struct! {
    /// The state of a subagent or background command.
    pub struct TaskMessage {
        raw,
        /// The task ID, shared by its messages.
        task_id: Option<String> = "task_id",
        /// The tool call that started it.
        tool_use_id: Option<String> = "tool_use_id",
        /// `local_agent`, `local_bash`, `local_workflow`.
        task_type: Option<String> = "task_type",
        /// The subagent's name.
        subagent_type: Option<String> = "subagent_type",
        /// The description.
        description: Option<String> = "description",
        /// The prompt.
        prompt: Option<String> = "prompt",
        /// Whether it runs in the background.
        is_backgrounded: Option<bool> = "is_backgrounded",
        /// `completed`, `failed`, `stopped`.
        status: Option<String> = "status",
        /// The final summary.
        summary: Option<String> = "summary",
        /// The path of the output file.
        output_file: Option<String> = "output_file",
        /// The last used tool.
        last_tool_name: Option<String> = "last_tool_name",
        /// The usage.
        usage: Option<TaskUsage> = "usage",
        /// The changed fields.
        patch: Option<TaskPatch> = "patch",
        /// The session ID.
        session_id: Option<String> = "session_id",
    }
}

lenient_struct! {
    /// The usage of a task.
    pub struct TaskUsage {
        /// The total number of tokens.
        total_tokens: u64 = "total_tokens",
        /// The number of tool calls.
        tool_uses: u64 = "tool_uses",
        /// The duration in milliseconds.
        duration_ms: u64 = "duration_ms",
    }
}

lenient_struct! {
    /// The changed fields of a task.
    pub struct TaskPatch {
        /// The new state.
        status: Option<String> = "status",
        /// Whether it runs in the background.
        is_backgrounded: Option<bool> = "is_backgrounded",
        /// The end time in milliseconds since the Unix epoch.
        end_time: Option<u64> = "end_time",
    }
}

lenient_struct! {
    /// The list of background tasks.
    pub struct BackgroundTasks {
        raw,
        /// The tasks.
        tasks: Vec<BackgroundTask> = "tasks",
        /// The session ID.
        session_id: Option<String> = "session_id",
    }
}

lenient_struct! {
    /// A background task.
    pub struct BackgroundTask {
        /// The task ID, shared by its messages.
        task_id: String = "task_id",
        /// `local_agent`, `local_bash`, `local_workflow`.
        task_type: Option<String> = "task_type",
        /// The description.
        description: Option<String> = "description",
    }
}

lenient_struct! {
    /// An estimate of thinking tokens.
    pub struct ThinkingTokens {
        raw,
        /// The estimate so far.
        estimated_tokens: u64 = "estimated_tokens",
        /// The increase since the last estimate.
        estimated_tokens_delta: u64 = "estimated_tokens_delta",
        /// The session ID.
        session_id: Option<String> = "session_id",
    }
}

lenient_struct! {
    /// The state of the session.
    pub struct SessionStateMessage {
        raw,
        /// `running`, `requires_action` or `idle`.
        state: Option<String> = "state",
        /// Whether the message is meant for the host only.
        sdk_host_only: bool = "sdk_host_only",
        /// The session ID.
        session_id: Option<String> = "session_id",
    }
}

lenient_struct! {
    /// A text for the user.
    pub struct SystemText {
        raw,
        /// The text of an informational message or a command output.
        content: Option<String> = "content",
        /// The text of a notification.
        text: Option<String> = "text",
        /// The severity.
        level: Option<String> = "level",
        /// The topic.
        key: Option<String> = "key",
        /// The session ID.
        session_id: Option<String> = "session_id",
    }
}
