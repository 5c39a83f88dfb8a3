//! `system` messages: what the CLI says about itself.

use super::lax::{Lax, lax_struct};
use super::raw::{RawJson, Source};

macro_rules! system {
    ($($(#[$about:meta])* $variant:ident($body:ident) = $subtype:literal,)*) => {
        /// A message of the CLI about itself, by `subtype`.
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum System {
            $($(#[$about])* $variant(Box<$body>),)*
            /// A subtype whose fields nobody here needs, or that this version does not know.
            Other(Box<OtherSystem>),
        }

        impl System {
            pub(crate) fn read(subtype: &str, source: &Source) -> serde_json::Result<Option<Self>> {
                let input = &mut serde_json::Deserializer::from_str(source.text());
                let message = match subtype {
                    $($subtype => Lax::read(&mut *input, source)?.map(Box::new).map(Self::$variant),)*
                    _ => Lax::read(&mut *input, source)?.map(Box::new).map(Self::Other),
                };
                input.end()?;
                Ok(message)
            }

            /// The message as the CLI wrote it.
            #[must_use]
            pub fn raw(&self) -> &RawJson {
                match self {
                    $(Self::$variant(body) => &body.raw,)*
                    Self::Other(body) => &body.raw,
                }
            }

            /// The subtype.
            #[must_use]
            pub fn subtype(&self) -> &str {
                match self {
                    $(Self::$variant(_) => $subtype,)*
                    Self::Other(body) => &body.subtype,
                }
            }

            /// The session.
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
    /// The beginning of a turn; comes again at every turn, and is not always the first message.
    Init(Init) = "init",
    /// What the CLI is doing.
    Status(Status) = "status",
    /// The conversation was compacted.
    CompactBoundary(CompactBoundary) = "compact_boundary",
    /// The API failed and is asked again.
    ApiRetry(ApiRetry) = "api_retry",
    /// Another model took over.
    ModelFallback(ModelFallback) = "model_fallback",
    /// Another model took over, because the first one refused.
    ModelRefusalFallback(ModelFallback) = "model_refusal_fallback",
    /// The model refused and no other took over.
    ModelRefusalNoFallback(ModelFallback) = "model_refusal_no_fallback",
    /// A tool was not allowed.
    PermissionDenied(PermissionDenied) = "permission_denied",
    /// A hook of the settings began.
    HookStarted(Hook) = "hook_started",
    /// A hook of the settings printed something.
    HookProgress(Hook) = "hook_progress",
    /// A hook of the settings ended.
    HookResponse(Hook) = "hook_response",
    /// A subagent or a background command began.
    TaskStarted(Task) = "task_started",
    /// It goes on.
    TaskProgress(Task) = "task_progress",
    /// Its state changed, see [`Task::patch`].
    TaskUpdated(Task) = "task_updated",
    /// It ended.
    TaskNotification(Task) = "task_notification",
    /// What runs in the background now.
    BackgroundTasksChanged(BackgroundTasks) = "background_tasks_changed",
    /// An estimate while the model thinks.
    ThinkingTokens(ThinkingTokens) = "thinking_tokens",
    /// The session waits or works.
    SessionStateChanged(SessionState) = "session_state_changed",
    /// Words for a person.
    Informational(Note) = "informational",
    /// Words for a person, to be shown at once.
    Notification(Note) = "notification",
    /// What a command printed that the CLI ran itself.
    LocalCommandOutput(Note) = "local_command_output",
}

lax_struct! {
    /// A subtype without typed fields; they are in [`OtherSystem::raw`].
    pub struct OtherSystem {
        raw,
        /// The subtype; empty when it has none.
        subtype: String = "subtype",
        /// The session.
        session_id: Option<String> = "session_id",
    }
}

lax_struct! {
    /// How the session is set up.
    pub struct Init {
        raw,
        /// The session.
        session_id: Option<String> = "session_id",
        /// The version of the CLI.
        claude_code_version: Option<String> = "claude_code_version",
        /// The model.
        model: Option<String> = "model",
        /// The working directory.
        cwd: Option<String> = "cwd",
        /// The permission mode.
        permission_mode: Option<String> = "permissionMode",
        /// Where the key for the API came from; `none` is no obstacle.
        api_key_source: Option<String> = "apiKeySource",
        /// The tools that the model may call.
        tools: Vec<String> = "tools",
        /// The MCP servers and whether they answered.
        mcp_servers: Vec<McpServerStatus> = "mcp_servers",
        /// The agents that can be called.
        agents: Vec<String> = "agents",
        /// The skills.
        skills: Vec<String> = "skills",
        /// The slash commands.
        slash_commands: Vec<String> = "slash_commands",
        /// What this version offers to a host.
        capabilities: Vec<String> = "capabilities",
        /// The output style.
        output_style: Option<String> = "output_style",
        /// The message's own id.
        uuid: Option<String> = "uuid",
    }
}

lax_struct! {
    /// An MCP server.
    pub struct McpServerStatus {
        /// Its name.
        name: String = "name",
        /// `connected`, `pending`, `failed`, `needs-auth` and others.
        status: String = "status",
    }
}

lax_struct! {
    /// What the CLI is doing.
    pub struct Status {
        raw,
        /// `requesting`, `compacting`; none when it is done.
        status: Option<String> = "status",
        /// The permission mode, when it changed.
        permission_mode: Option<String> = "permissionMode",
        /// How compacting ended.
        compact_result: Option<String> = "compact_result",
        /// The session.
        session_id: Option<String> = "session_id",
    }
}

lax_struct! {
    /// Where the conversation was compacted.
    pub struct CompactBoundary {
        raw,
        /// How.
        compact_metadata: CompactMetadata = "compact_metadata",
        /// The session.
        session_id: Option<String> = "session_id",
    }
}

lax_struct! {
    /// How the conversation was compacted.
    pub struct CompactMetadata {
        /// `manual` or `auto`.
        trigger: Option<String> = "trigger",
        /// Tokens before.
        pre_tokens: Option<u64> = "pre_tokens",
        /// Tokens after.
        post_tokens: Option<u64> = "post_tokens",
        /// How long it took.
        duration_ms: Option<u64> = "duration_ms",
    }
}

lax_struct! {
    /// The API failed and is asked again.
    pub struct ApiRetry {
        raw,
        /// Which attempt, from 1.
        attempt: u64 = "attempt",
        /// How many there may be.
        max_retries: Option<u64> = "max_retries",
        /// How long the CLI waits before it.
        retry_delay_ms: Option<u64> = "retry_delay_ms",
        /// The HTTP status, if the API was reached.
        error_status: Option<u16> = "error_status",
        /// `authentication_failed`, `rate_limit`, `server_error` and others.
        error: Option<String> = "error",
        /// The session.
        session_id: Option<String> = "session_id",
    }
}

lax_struct! {
    /// Another model took over.
    pub struct ModelFallback {
        raw,
        /// Why: `overloaded` for example.
        trigger: Option<String> = "trigger",
        /// The model that was asked for.
        original_model: Option<String> = "original_model",
        /// The model that answers.
        fallback_model: Option<String> = "fallback_model",
        /// The same in words.
        content: Option<String> = "content",
        /// The session.
        session_id: Option<String> = "session_id",
    }
}

lax_struct! {
    /// A tool was not allowed.
    pub struct PermissionDenied {
        raw,
        /// The tool.
        tool_name: String = "tool_name",
        /// The call.
        tool_use_id: String = "tool_use_id",
        /// What the model is told.
        message: Option<String> = "message",
        /// What kind of rule decided: `rule`, `mode`, `hook` and others.
        decision_reason_type: Option<String> = "decision_reason_type",
        /// Why.
        decision_reason: Option<String> = "decision_reason",
        /// The session.
        session_id: Option<String> = "session_id",
    }
}

lax_struct! {
    /// A hook of the settings.
    pub struct Hook {
        raw,
        /// What joins beginning and end.
        hook_id: Option<String> = "hook_id",
        /// The event and its matcher.
        hook_name: Option<String> = "hook_name",
        /// The event.
        hook_event: Option<String> = "hook_event",
        /// What the CLI took from it.
        output: Option<String> = "output",
        /// What it printed.
        stdout: Option<String> = "stdout",
        /// What it printed as errors.
        stderr: Option<String> = "stderr",
        /// How it exited.
        exit_code: Option<i64> = "exit_code",
        /// `success`, `error`, `cancelled`.
        outcome: Option<String> = "outcome",
        /// The session.
        session_id: Option<String> = "session_id",
    }
}

lax_struct! {
    /// A subagent or a command in the background.
    pub struct Task {
        raw,
        /// What joins the messages about it.
        task_id: Option<String> = "task_id",
        /// The call that began it.
        tool_use_id: Option<String> = "tool_use_id",
        /// `local_agent`, `local_bash`, `local_workflow`.
        task_type: Option<String> = "task_type",
        /// The subagent's name.
        subagent_type: Option<String> = "subagent_type",
        /// What it does.
        description: Option<String> = "description",
        /// What it was told.
        prompt: Option<String> = "prompt",
        /// Nobody waits for it.
        is_backgrounded: Option<bool> = "is_backgrounded",
        /// `completed`, `failed`, `stopped`.
        status: Option<String> = "status",
        /// What it says at its end.
        summary: Option<String> = "summary",
        /// The file with its output.
        output_file: Option<String> = "output_file",
        /// The tool it used last.
        last_tool_name: Option<String> = "last_tool_name",
        /// What it used up.
        usage: Option<TaskUsage> = "usage",
        /// What changed.
        patch: Option<TaskPatch> = "patch",
        /// The session.
        session_id: Option<String> = "session_id",
    }
}

lax_struct! {
    /// What a task used up.
    pub struct TaskUsage {
        /// Tokens of all kinds.
        total_tokens: u64 = "total_tokens",
        /// Calls of tools.
        tool_uses: u64 = "tool_uses",
        /// How long it took.
        duration_ms: u64 = "duration_ms",
    }
}

lax_struct! {
    /// What changed about a task.
    pub struct TaskPatch {
        /// Its state now.
        status: Option<String> = "status",
        /// Whether somebody waits for it.
        is_backgrounded: Option<bool> = "is_backgrounded",
        /// When it ended, in milliseconds since 1970.
        end_time: Option<u64> = "end_time",
    }
}

lax_struct! {
    /// What runs in the background.
    pub struct BackgroundTasks {
        raw,
        /// All of it.
        tasks: Vec<BackgroundTask> = "tasks",
        /// The session.
        session_id: Option<String> = "session_id",
    }
}

lax_struct! {
    /// One thing that runs in the background.
    pub struct BackgroundTask {
        /// What joins the messages about it.
        task_id: String = "task_id",
        /// `local_agent`, `local_bash`, `local_workflow`.
        task_type: Option<String> = "task_type",
        /// What it does.
        description: Option<String> = "description",
    }
}

lax_struct! {
    /// An estimate while the model thinks.
    pub struct ThinkingTokens {
        raw,
        /// So far.
        estimated_tokens: u64 = "estimated_tokens",
        /// Since the last estimate.
        estimated_tokens_delta: u64 = "estimated_tokens_delta",
        /// The session.
        session_id: Option<String> = "session_id",
    }
}

lax_struct! {
    /// The session waits or works.
    pub struct SessionState {
        raw,
        /// `running`, `requires_action` or `idle`.
        state: Option<String> = "state",
        /// Meant for the host, not to be shown.
        sdk_host_only: bool = "sdk_host_only",
        /// The session.
        session_id: Option<String> = "session_id",
    }
}

lax_struct! {
    /// Words for a person.
    pub struct Note {
        raw,
        /// The words of an information or of a command.
        content: Option<String> = "content",
        /// The words of a notification.
        text: Option<String> = "text",
        /// How serious it is.
        level: Option<String> = "level",
        /// What it is about.
        key: Option<String> = "key",
        /// The session.
        session_id: Option<String> = "session_id",
    }
}
