//! The hook events, each with its input and its output.
//!
//! Which events fire in a session without a terminal depends on the CLI: 2.1.325 calls SDK hooks for tool, prompt,
//! stop, subagent, permission, compaction and model events and for `MessageDisplay`. `SessionStart` and `SessionEnd`
//! fire only for hooks in settings files.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::event_macro::events;
use super::output::{CommonHookFields, PermissionDecision};
use super::{HookEvent, HookOutput};
use crate::RawJson;
use crate::frame::lenient::{from_raw, lenient_struct};

events! {
    /// Fires before a tool call.
    PreToolUse -> PreToolUseOutput {
        /// The tool's name.
        tool_name: String = "tool_name",
        /// The arguments.
        tool_input: RawJson = "tool_input",
        /// The tool call's ID.
        tool_use_id: Option<String> = "tool_use_id",
        /// The MCP server that provides the tool.
        mcp_server: Option<RawJson> = "mcp_server",
    } {
        /// Sets the permission decision.
        with_permission_decision: PermissionDecision = "permissionDecision",
        /// Sets the reason for the decision.
        with_permission_decision_reason: String = "permissionDecisionReason",
        /// Replaces the arguments of the tool call.
        with_updated_input: Value = "updatedInput",
        /// Adds context for the model.
        with_additional_context: String = "additionalContext",
    }

    /// Fires after a successful tool call.
    PostToolUse -> PostToolUseOutput {
        /// The tool's name.
        tool_name: String = "tool_name",
        /// The arguments.
        tool_input: RawJson = "tool_input",
        /// The tool call's ID.
        tool_use_id: Option<String> = "tool_use_id",
        /// The tool's result in the CLI's internal format.
        tool_response: RawJson = "tool_response",
        /// The duration in milliseconds.
        duration_ms: Option<u64> = "duration_ms",
    } {
        /// Adds context for the model.
        with_additional_context: String = "additionalContext",
        /// Replaces the tool's output.
        with_updated_tool_output: Value = "updatedToolOutput",
        /// Replaces the output of an MCP tool.
        with_updated_mcp_tool_output: Value = "updatedMCPToolOutput",
        /// Adds context for the permission classifier.
        with_classifier_context: String = "classifierContext",
    }

    /// Fires after a failed tool call.
    PostToolUseFailure -> PostToolUseFailureOutput {
        /// The tool's name.
        tool_name: String = "tool_name",
        /// The arguments.
        tool_input: RawJson = "tool_input",
        /// The tool call's ID.
        tool_use_id: Option<String> = "tool_use_id",
        /// The error message.
        error: String = "error",
        /// Whether the call was interrupted.
        is_interrupt: bool = "is_interrupt",
        /// The duration in milliseconds.
        duration_ms: Option<u64> = "duration_ms",
    } {
        /// Adds context for the model.
        with_additional_context: String = "additionalContext",
    }

    /// Fires when all tool calls of one model response have finished.
    PostToolBatch -> PostToolBatchOutput {
        /// The calls with their results.
        tool_calls: Vec<RawJson> = "tool_calls",
    } {
        /// Adds context for the model.
        with_additional_context: String = "additionalContext",
    }

    /// Fires when the CLI notifies the user.
    Notification -> NotificationOutput {
        /// The message.
        message: String = "message",
        /// The title.
        title: Option<String> = "title",
        /// The notification type.
        notification_type: Option<String> = "notification_type",
    } {
        /// Adds context for the model.
        with_additional_context: String = "additionalContext",
    }

    /// Fires when a prompt is submitted.
    UserPromptSubmit -> UserPromptSubmitOutput {
        /// The prompt.
        prompt: String = "prompt",
        /// The source of the prompt.
        source: Option<String> = "source",
        /// The session's title.
        session_title: Option<String> = "session_title",
    } {
        /// Adds context for the model.
        with_additional_context: String = "additionalContext",
        /// Sets the session's title.
        with_session_title: String = "sessionTitle",
        /// Sets whether the original prompt is dropped.
        with_suppress_original_prompt: bool = "suppressOriginalPrompt",
    }

    /// Fires when a command in a prompt is expanded.
    UserPromptExpansion -> UserPromptExpansionOutput {
        /// The type of the expansion.
        expansion_type: String = "expansion_type",
        /// The command's name.
        command_name: String = "command_name",
        /// The arguments.
        command_args: String = "command_args",
        /// Where the command is defined.
        command_source: Option<String> = "command_source",
        /// The expanded prompt.
        prompt: String = "prompt",
    } {
        /// Adds context for the model.
        with_additional_context: String = "additionalContext",
        /// Sets whether the original prompt is dropped.
        with_suppress_original_prompt: bool = "suppressOriginalPrompt",
    }

    /// Fires when a session starts, or restarts after compaction.
    SessionStart -> SessionStartOutput {
        /// `startup`, `resume`, `clear` or `compact`.
        source: String = "source",
        /// The model.
        model: Option<String> = "model",
        /// The session's title.
        session_title: Option<String> = "session_title",
        /// The number of context tokens in use.
        context_tokens: Option<u64> = "context_tokens",
    } {
        /// Adds context for the model.
        with_additional_context: String = "additionalContext",
        /// Sets the first prompt.
        with_initial_user_message: String = "initialUserMessage",
        /// Sets the session's title.
        with_session_title: String = "sessionTitle",
        /// Sets the files to watch.
        with_watch_paths: Vec<String> = "watchPaths",
        /// Sets whether skills are reloaded.
        with_reload_skills: bool = "reloadSkills",
    }

    /// Fires when a session ends.
    SessionEnd -> SessionEndOutput {
        /// Why the session ended.
        reason: String = "reason",
    } {}

    /// Fires when the model finishes its turn.
    Stop -> StopOutput {
        /// Whether the agent already continues because of a stop hook.
        stop_hook_active: bool = "stop_hook_active",
        /// The last assistant message.
        last_assistant_message: Option<String> = "last_assistant_message",
        /// Running background tasks.
        background_tasks: Vec<RawJson> = "background_tasks",
        /// Scheduled tasks of the session.
        session_crons: Vec<RawJson> = "session_crons",
    } {
        /// Adds context for the model.
        with_additional_context: String = "additionalContext",
    }

    /// Fires when an API error ends a turn.
    StopFailure -> StopFailureOutput {
        /// The error.
        error: String = "error",
    } {}

    /// Fires when a subagent starts.
    SubagentStart -> SubagentStartOutput {} {
        /// Adds context for the subagent.
        with_additional_context: String = "additionalContext",
    }

    /// Fires when a subagent finishes.
    SubagentStop -> SubagentStopOutput {
        /// Whether the agent already continues because of a stop hook.
        stop_hook_active: bool = "stop_hook_active",
        /// The last assistant message.
        last_assistant_message: Option<String> = "last_assistant_message",
        /// The path of the subagent's transcript.
        agent_transcript_path: Option<String> = "agent_transcript_path",
        /// Running background tasks.
        background_tasks: Vec<RawJson> = "background_tasks",
        /// Scheduled tasks of the session.
        session_crons: Vec<RawJson> = "session_crons",
    } {
        /// Adds context for the subagent.
        with_additional_context: String = "additionalContext",
    }

    /// Fires before the conversation is compacted.
    PreCompact -> PreCompactOutput {
        /// `manual` or `auto`.
        trigger: String = "trigger",
        /// The user's instructions for the compaction.
        custom_instructions: Option<String> = "custom_instructions",
    } {}

    /// Fires after the conversation was compacted.
    PostCompact -> PostCompactOutput {
        /// `manual` or `auto`.
        trigger: String = "trigger",
        /// The summary.
        compact_summary: String = "compact_summary",
    } {}

    /// Fires before the model changes.
    PreModelSwitch -> PreModelSwitchOutput {
        /// The previous model.
        from_model: String = "from_model",
        /// The new model.
        to_model: String = "to_model",
        /// The requested model name.
        requested_model: Option<String> = "requested_model",
        /// The origin of the request.
        source: Option<String> = "source",
        /// The number of context tokens in use.
        context_tokens: Option<u64> = "context_tokens",
    } {
        /// Sets the permission decision.
        with_permission_decision: PermissionDecision = "permissionDecision",
        /// Sets the reason for the decision.
        with_permission_decision_reason: String = "permissionDecisionReason",
    }

    /// Fires after the model changed.
    PostModelSwitch -> PostModelSwitchOutput {
        /// The previous model.
        from_model: String = "from_model",
        /// The new model.
        to_model: String = "to_model",
        /// The requested model name.
        requested_model: Option<String> = "requested_model",
        /// The origin of the request.
        source: Option<String> = "source",
        /// The number of context tokens in use.
        context_tokens: Option<u64> = "context_tokens",
    } {
        /// Adds context for the model.
        with_additional_context: String = "additionalContext",
    }

    /// Fires when a tool call needs a permission decision.
    PermissionRequest -> PermissionRequestOutput {
        /// The tool's name.
        tool_name: String = "tool_name",
        /// The arguments.
        tool_input: RawJson = "tool_input",
        /// Suggested permission rules.
        permission_suggestions: Vec<RawJson> = "permission_suggestions",
    } {
        /// Sets the decision in the CLI's format; see [`allow`](Self::allow) and [`deny`](Self::deny).
        with_decision: Value = "decision",
    }

    /// Fires when a tool call was denied.
    PermissionDenied -> PermissionDeniedOutput {
        /// The tool's name.
        tool_name: String = "tool_name",
        /// The arguments.
        tool_input: RawJson = "tool_input",
        /// Why the call was denied.
        reason: Option<String> = "reason",
    } {
        /// Sets whether the model may retry.
        with_retry: bool = "retry",
    }

    /// Fires when the CLI is set up.
    Setup -> SetupOutput {
        /// The trigger.
        trigger: String = "trigger",
    } {
        /// Adds context for the model.
        with_additional_context: String = "additionalContext",
    }

    /// Fires when a teammate becomes idle.
    TeammateIdle -> TeammateIdleOutput {
        /// The teammate's name.
        teammate_name: Option<String> = "teammate_name",
        /// The team's name.
        team_name: Option<String> = "team_name",
    } {}

    /// Fires when a task is created.
    TaskCreated -> TaskCreatedOutput {
        /// The task ID.
        task_id: Option<String> = "task_id",
        /// The task's subject.
        task_subject: Option<String> = "task_subject",
        /// The task's description.
        task_description: Option<String> = "task_description",
    } {}

    /// Fires when a task is completed.
    TaskCompleted -> TaskCompletedOutput {
        /// The task ID.
        task_id: Option<String> = "task_id",
        /// The task's subject.
        task_subject: Option<String> = "task_subject",
        /// The task's description.
        task_description: Option<String> = "task_description",
    } {}

    /// Fires when an MCP server requests input from the user.
    Elicitation -> ElicitationOutput {
        /// The server's name.
        mcp_server_name: String = "mcp_server_name",
        /// The message for the user.
        message: String = "message",
        /// `form` or `url`.
        mode: Option<String> = "mode",
        /// The URL to open, in `url` mode.
        url: Option<String> = "url",
        /// The JSON Schema of the requested input, in `form` mode.
        requested_schema: Option<RawJson> = "requested_schema",
    } {
        /// Sets the action: `accept`, `decline` or `cancel`.
        with_action: String = "action",
        /// Sets the user's input.
        with_content: Value = "content",
    }

    /// Fires before the user's input is sent to an MCP server.
    ElicitationResult -> ElicitationResultOutput {
        /// The server's name.
        mcp_server_name: String = "mcp_server_name",
        /// `accept`, `decline` or `cancel`.
        action: String = "action",
        /// The user's input.
        content: Option<RawJson> = "content",
    } {
        /// Replaces the action.
        with_action: String = "action",
        /// Replaces the content.
        with_content: Value = "content",
    }

    /// Fires when settings change.
    ConfigChange -> ConfigChangeOutput {
        /// The settings source.
        source: Option<String> = "source",
        /// The path of the settings file.
        file_path: Option<String> = "file_path",
    } {}

    /// Fires when a worktree is to be created.
    WorktreeCreate -> WorktreeCreateOutput {
        /// The worktree's name.
        name: String = "name",
    } {
        /// Sets the path of the created worktree.
        with_worktree_path: String = "worktreePath",
    }

    /// Fires when a worktree is to be removed.
    WorktreeRemove -> WorktreeRemoveOutput {
        /// The path of the worktree.
        worktree_path: String = "worktree_path",
    } {}

    /// Fires when an instructions file was loaded.
    InstructionsLoaded -> InstructionsLoadedOutput {
        /// The path of the file.
        file_path: String = "file_path",
        /// The memory type.
        memory_type: Option<String> = "memory_type",
        /// Why the file was loaded.
        load_reason: Option<String> = "load_reason",
    } {}

    /// Fires when the working directory changes.
    CwdChanged -> CwdChangedOutput {
        /// The previous working directory.
        old_cwd: String = "old_cwd",
        /// The new working directory.
        new_cwd: String = "new_cwd",
    } {
        /// Sets the files to watch.
        with_watch_paths: Vec<String> = "watchPaths",
    }

    /// Fires when a watched file changes.
    FileChanged -> FileChangedOutput {
        /// The path of the file.
        file_path: String = "file_path",
        /// The kind of change.
        event: String = "event",
    } {
        /// Sets the files to watch.
        with_watch_paths: Vec<String> = "watchPaths",
    }

    /// Fires when a directory is added to the tools' allowed directories.
    DirectoryAdded -> DirectoryAddedOutput {
        /// The directory.
        directory: Option<String> = "directory",
    } {}

    /// Fires before a piece of a response is displayed.
    MessageDisplay -> MessageDisplayOutput {
        /// The turn ID.
        turn_id: String = "turn_id",
        /// The message ID.
        message_id: String = "message_id",
        /// The index within the turn.
        index: u64 = "index",
        /// Whether this is the last piece.
        is_final: bool = "final",
        /// The text of the piece.
        delta: String = "delta",
    } {
        /// Replaces the displayed text.
        with_display_content: String = "displayContent",
    }
}

impl PreToolUseOutput {
    /// Allows the call without a permission request.
    pub fn allow() -> Self {
        Self::new().with_permission_decision(PermissionDecision::Allow)
    }

    /// Denies the call. The model receives the reason.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self::new().with_permission_decision(PermissionDecision::Deny).with_permission_decision_reason(reason)
    }

    /// Requests a permission decision, even if the rules would allow the call.
    pub fn ask(reason: impl Into<String>) -> Self {
        Self::new().with_permission_decision(PermissionDecision::Ask).with_permission_decision_reason(reason)
    }
}

impl PermissionRequestOutput {
    /// Allows the call.
    pub fn allow() -> Self {
        Self::new().with_decision(json!({"behavior": "allow"}))
    }

    /// Denies the call. The model receives the message.
    pub fn deny(message: impl Into<String>) -> Self {
        Self::new().with_decision(json!({"behavior": "deny", "message": message.into()}))
    }
}
