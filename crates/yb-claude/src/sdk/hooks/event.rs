//! The events that hooks can be called for, each with what it tells and what may be answered.
//!
//! Which of them a session without a terminal really calls back for depends on the CLI: 2.1.325 does so for tool,
//! prompt, stop, subagent, permission, compaction and model events, and for `MessageDisplay`; the ends and beginnings of
//! sessions it tells only to hooks in settings.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::output::{Common, Decision};
use super::{HookEvent, HookOutput};
use crate::RawJson;
use crate::frame::lax::{from_raw, lax_struct};

macro_rules! events {
    ($(
        $(#[$about:meta])*
        $event:ident -> $output:ident {
            $($(#[$in_about:meta])* $in_field:ident: $in_type:ty = $in_key:literal,)*
        } {
            $($(#[$out_about:meta])* $out_field:ident: $out_type:ty = $out_key:literal,)*
        }
    )*) => {
        /// The names of all events.
        pub const NAMES: &[&str] = &[$(stringify!($event),)*];

        $(
            lax_struct! {
                $(#[$about])*
                pub struct $event {
                    raw,
                    /// The session.
                    session_id: String = "session_id",
                    /// Where its transcript is.
                    transcript_path: String = "transcript_path",
                    /// The working directory.
                    cwd: String = "cwd",
                    /// The prompt that led here.
                    prompt_id: Option<String> = "prompt_id",
                    /// The mode of permissions.
                    permission_mode: Option<String> = "permission_mode",
                    /// The subagent; none for the main thread.
                    agent_id: Option<String> = "agent_id",
                    /// What kind of subagent.
                    agent_type: Option<String> = "agent_type",
                    $($(#[$in_about])* $in_field: $in_type = $in_key,)*
                }
            }

            #[doc = concat!("What a hook for [`", stringify!($event), "`] may answer; nothing, unless told.")]
            #[derive(Debug, Clone, PartialEq, Default)]
            #[must_use]
            pub struct $output {
                common: Common,
                specific: Map<String, Value>,
            }

            impl $output {
                /// Nothing to say.
                pub fn new() -> Self {
                    Self::default()
                }

                /// The session stops, for this reason.
                pub fn stop(mut self, reason: impl Into<String>) -> Self {
                    self.common.set("continue", false);
                    self.common.set("stopReason", reason.into());
                    self
                }

                /// What happened is not accepted, for this reason, which the model is told.
                pub fn block(mut self, reason: impl Into<String>) -> Self {
                    self.common.set("decision", "block");
                    self.common.set("reason", reason.into());
                    self
                }

                /// The user is told this.
                pub fn system_message(mut self, text: impl Into<String>) -> Self {
                    self.common.set("systemMessage", text.into());
                    self
                }

                /// Nothing of it is shown.
                pub fn suppress_output(mut self) -> Self {
                    self.common.set("suppressOutput", true);
                    self
                }

                /// The CLI does not wait for what the hook does further.
                pub fn in_background(mut self, timeout: Option<Duration>) -> Self {
                    self.common.set("async", true);
                    if let Some(timeout) = timeout {
                        self.common.set("asyncTimeout", timeout.as_millis() as u64);
                    }
                    self
                }

                $(
                    $(#[$out_about])*
                    pub fn $out_field(mut self, value: impl Into<$out_type>) -> Self {
                        let value: $out_type = value.into();
                        self.specific.insert($out_key.to_owned(), json!(value));
                        self
                    }
                )*
            }

            impl HookOutput for $output {
                fn into_json(self, event: &'static str) -> Value {
                    self.common.into_json(event, self.specific)
                }
            }

            impl HookEvent for $event {
                const NAME: &'static str = stringify!($event);
                type Output = $output;

                fn read(input: &RawJson) -> Option<Self> {
                    from_raw(input)
                }
            }
        )*
    };
}

events! {
    /// A tool is about to be used.
    PreToolUse -> PreToolUseOutput {
        /// The tool.
        tool_name: String = "tool_name",
        /// Its arguments.
        tool_input: RawJson = "tool_input",
        /// The call.
        tool_use_id: Option<String> = "tool_use_id",
        /// The MCP server it belongs to.
        mcp_server: Option<RawJson> = "mcp_server",
    } {
        /// Whether it may.
        permission_decision: Decision = "permissionDecision",
        /// Why.
        permission_decision_reason: String = "permissionDecisionReason",
        /// Other arguments than the model gave.
        updated_input: Value = "updatedInput",
        /// What the model is told in addition.
        additional_context: String = "additionalContext",
    }

    /// A tool was used.
    PostToolUse -> PostToolUseOutput {
        /// The tool.
        tool_name: String = "tool_name",
        /// Its arguments.
        tool_input: RawJson = "tool_input",
        /// The call.
        tool_use_id: Option<String> = "tool_use_id",
        /// What it gave, as the CLI keeps it.
        tool_response: RawJson = "tool_response",
        /// How long it took.
        duration_ms: Option<u64> = "duration_ms",
    } {
        /// What the model is told in addition.
        additional_context: String = "additionalContext",
        /// What the model is told instead of the tool's own output.
        updated_tool_output: Value = "updatedToolOutput",
        /// The same for a tool of an MCP server.
        updated_mcp_tool_output: Value = "updatedMCPToolOutput",
        /// What the classifier of permissions is told.
        classifier_context: String = "classifierContext",
    }

    /// A tool failed.
    PostToolUseFailure -> PostToolUseFailureOutput {
        /// The tool.
        tool_name: String = "tool_name",
        /// Its arguments.
        tool_input: RawJson = "tool_input",
        /// The call.
        tool_use_id: Option<String> = "tool_use_id",
        /// What went wrong.
        error: String = "error",
        /// Whether it was interrupted.
        is_interrupt: bool = "is_interrupt",
        /// How long it took.
        duration_ms: Option<u64> = "duration_ms",
    } {
        /// What the model is told in addition.
        additional_context: String = "additionalContext",
    }

    /// All tools that the model called at once have ended.
    PostToolBatch -> PostToolBatchOutput {
        /// The calls with what they gave.
        tool_calls: Vec<RawJson> = "tool_calls",
    } {
        /// What the model is told in addition.
        additional_context: String = "additionalContext",
    }

    /// The CLI has something to say to its user.
    Notification -> NotificationOutput {
        /// What.
        message: String = "message",
        /// Its title.
        title: Option<String> = "title",
        /// What kind.
        notification_type: Option<String> = "notification_type",
    } {
        /// What the model is told in addition.
        additional_context: String = "additionalContext",
    }

    /// A prompt was given.
    UserPromptSubmit -> UserPromptSubmitOutput {
        /// The prompt.
        prompt: String = "prompt",
        /// Where it came from.
        source: Option<String> = "source",
        /// The session's title.
        session_title: Option<String> = "session_title",
    } {
        /// What the model is told in addition.
        additional_context: String = "additionalContext",
        /// The session's title from now on.
        session_title: String = "sessionTitle",
        /// Whether the prompt itself is left out.
        suppress_original_prompt: bool = "suppressOriginalPrompt",
    }

    /// A command in a prompt was expanded.
    UserPromptExpansion -> UserPromptExpansionOutput {
        /// What kind of expansion.
        expansion_type: String = "expansion_type",
        /// The command.
        command_name: String = "command_name",
        /// Its arguments.
        command_args: String = "command_args",
        /// Where it is defined.
        command_source: Option<String> = "command_source",
        /// What came out.
        prompt: String = "prompt",
    } {
        /// What the model is told in addition.
        additional_context: String = "additionalContext",
        /// Whether the prompt itself is left out.
        suppress_original_prompt: bool = "suppressOriginalPrompt",
    }

    /// A session began, or began anew after compaction.
    SessionStart -> SessionStartOutput {
        /// `startup`, `resume`, `clear` or `compact`.
        source: String = "source",
        /// The model.
        model: Option<String> = "model",
        /// The session's title.
        session_title: Option<String> = "session_title",
        /// How much of the context is used.
        context_tokens: Option<u64> = "context_tokens",
    } {
        /// What the model is told in addition.
        additional_context: String = "additionalContext",
        /// A prompt to begin with.
        initial_user_message: String = "initialUserMessage",
        /// The session's title from now on.
        session_title: String = "sessionTitle",
        /// Files whose changes are told from now on.
        watch_paths: Vec<String> = "watchPaths",
        /// Whether skills are read again.
        reload_skills: bool = "reloadSkills",
    }

    /// A session ended.
    SessionEnd -> SessionEndOutput {
        /// Why.
        reason: String = "reason",
    } {}

    /// The model has finished its turn.
    Stop -> StopOutput {
        /// Whether it goes on because of a hook like this already.
        stop_hook_active: bool = "stop_hook_active",
        /// Its last words.
        last_assistant_message: Option<String> = "last_assistant_message",
        /// What still runs.
        background_tasks: Vec<RawJson> = "background_tasks",
        /// What will run later.
        session_crons: Vec<RawJson> = "session_crons",
    } {
        /// What the model is told in addition.
        additional_context: String = "additionalContext",
    }

    /// A turn was ended by an error of the API.
    StopFailure -> StopFailureOutput {
        /// Which.
        error: String = "error",
    } {}

    /// A subagent begins.
    SubagentStart -> SubagentStartOutput {} {
        /// What it is told in addition.
        additional_context: String = "additionalContext",
    }

    /// A subagent has finished.
    SubagentStop -> SubagentStopOutput {
        /// Whether it goes on because of a hook like this already.
        stop_hook_active: bool = "stop_hook_active",
        /// Its last words.
        last_assistant_message: Option<String> = "last_assistant_message",
        /// Where its transcript is.
        agent_transcript_path: Option<String> = "agent_transcript_path",
        /// What still runs.
        background_tasks: Vec<RawJson> = "background_tasks",
        /// What will run later.
        session_crons: Vec<RawJson> = "session_crons",
    } {
        /// What it is told in addition.
        additional_context: String = "additionalContext",
    }

    /// The conversation is about to be compacted.
    PreCompact -> PreCompactOutput {
        /// `manual` or `auto`.
        trigger: String = "trigger",
        /// What the user wants kept.
        custom_instructions: Option<String> = "custom_instructions",
    } {}

    /// The conversation was compacted.
    PostCompact -> PostCompactOutput {
        /// `manual` or `auto`.
        trigger: String = "trigger",
        /// What is left of it.
        compact_summary: String = "compact_summary",
    } {}

    /// The model is about to change.
    PreModelSwitch -> PreModelSwitchOutput {
        /// From.
        from_model: String = "from_model",
        /// To.
        to_model: String = "to_model",
        /// The name that was asked for.
        requested_model: Option<String> = "requested_model",
        /// Who asked for it.
        source: Option<String> = "source",
        /// How much of the context is used.
        context_tokens: Option<u64> = "context_tokens",
    } {
        /// Whether it may.
        permission_decision: Decision = "permissionDecision",
        /// Why.
        permission_decision_reason: String = "permissionDecisionReason",
    }

    /// The model has changed.
    PostModelSwitch -> PostModelSwitchOutput {
        /// From.
        from_model: String = "from_model",
        /// To.
        to_model: String = "to_model",
        /// The name that was asked for.
        requested_model: Option<String> = "requested_model",
        /// Who asked for it.
        source: Option<String> = "source",
        /// How much of the context is used.
        context_tokens: Option<u64> = "context_tokens",
    } {
        /// What the model is told in addition.
        additional_context: String = "additionalContext",
    }

    /// Somebody has to decide about a tool.
    PermissionRequest -> PermissionRequestOutput {
        /// The tool.
        tool_name: String = "tool_name",
        /// Its arguments.
        tool_input: RawJson = "tool_input",
        /// What the question could be answered with for good.
        permission_suggestions: Vec<RawJson> = "permission_suggestions",
    } {
        /// The answer in the CLI's form; see [`allow`](Self::allow) and [`deny`](Self::deny).
        decision: Value = "decision",
    }

    /// A tool was denied.
    PermissionDenied -> PermissionDeniedOutput {
        /// The tool.
        tool_name: String = "tool_name",
        /// Its arguments.
        tool_input: RawJson = "tool_input",
        /// Why.
        reason: Option<String> = "reason",
    } {
        /// Whether the model may try again.
        retry: bool = "retry",
    }

    /// The CLI is set up.
    Setup -> SetupOutput {
        /// What for.
        trigger: String = "trigger",
    } {
        /// What the model is told in addition.
        additional_context: String = "additionalContext",
    }

    /// A teammate has nothing to do.
    TeammateIdle -> TeammateIdleOutput {
        /// Who.
        teammate_name: Option<String> = "teammate_name",
        /// Of which team.
        team_name: Option<String> = "team_name",
    } {}

    /// A task was made.
    TaskCreated -> TaskCreatedOutput {
        /// Which.
        task_id: Option<String> = "task_id",
        /// What it is about.
        task_subject: Option<String> = "task_subject",
        /// In more words.
        task_description: Option<String> = "task_description",
    } {}

    /// A task is done.
    TaskCompleted -> TaskCompletedOutput {
        /// Which.
        task_id: Option<String> = "task_id",
        /// What it is about.
        task_subject: Option<String> = "task_subject",
        /// In more words.
        task_description: Option<String> = "task_description",
    } {}

    /// An MCP server wants to know something from the user.
    Elicitation -> ElicitationOutput {
        /// Which server.
        mcp_server_name: String = "mcp_server_name",
        /// What it asks.
        message: String = "message",
        /// `form` or `url`.
        mode: Option<String> = "mode",
        /// Where the user has to go.
        url: Option<String> = "url",
        /// The shape of the answer.
        requested_schema: Option<RawJson> = "requested_schema",
    } {
        /// `accept`, `decline` or `cancel`.
        action: String = "action",
        /// What the user says.
        content: Value = "content",
    }

    /// An MCP server is about to hear what the user said.
    ElicitationResult -> ElicitationResultOutput {
        /// Which server.
        mcp_server_name: String = "mcp_server_name",
        /// `accept`, `decline` or `cancel`.
        action: String = "action",
        /// What the user says.
        content: Option<RawJson> = "content",
    } {
        /// Another action.
        action: String = "action",
        /// Other words.
        content: Value = "content",
    }

    /// Settings have changed.
    ConfigChange -> ConfigChangeOutput {
        /// Which.
        source: Option<String> = "source",
        /// In which file.
        file_path: Option<String> = "file_path",
    } {}

    /// A worktree is wanted.
    WorktreeCreate -> WorktreeCreateOutput {
        /// Its name.
        name: String = "name",
    } {
        /// Where the hook has made it.
        worktree_path: String = "worktreePath",
    }

    /// A worktree is no longer wanted.
    WorktreeRemove -> WorktreeRemoveOutput {
        /// Where it is.
        worktree_path: String = "worktree_path",
    } {}

    /// A file with instructions was read.
    InstructionsLoaded -> InstructionsLoadedOutput {
        /// Which.
        file_path: String = "file_path",
        /// Whose it is.
        memory_type: Option<String> = "memory_type",
        /// Why it was read.
        load_reason: Option<String> = "load_reason",
    } {}

    /// The working directory has changed.
    CwdChanged -> CwdChangedOutput {
        /// From.
        old_cwd: String = "old_cwd",
        /// To.
        new_cwd: String = "new_cwd",
    } {
        /// Files whose changes are told from now on.
        watch_paths: Vec<String> = "watchPaths",
    }

    /// A file that is watched has changed.
    FileChanged -> FileChangedOutput {
        /// Which.
        file_path: String = "file_path",
        /// How.
        event: String = "event",
    } {
        /// Files whose changes are told from now on.
        watch_paths: Vec<String> = "watchPaths",
    }

    /// A directory was added to those that tools may use.
    DirectoryAdded -> DirectoryAddedOutput {
        /// Which.
        directory: Option<String> = "directory",
    } {}

    /// A piece of an answer is about to be shown.
    MessageDisplay -> MessageDisplayOutput {
        /// The turn.
        turn_id: String = "turn_id",
        /// The message.
        message_id: String = "message_id",
        /// Its place in the turn.
        index: u64 = "index",
        /// Whether it is complete.
        is_final: bool = "final",
        /// The piece.
        delta: String = "delta",
    } {
        /// What is shown instead.
        display_content: String = "displayContent",
    }
}

impl PreToolUseOutput {
    /// Without asking anybody.
    pub fn allow() -> Self {
        Self::new().permission_decision(Decision::Allow)
    }

    /// Not at all; the model is told why.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self::new().permission_decision(Decision::Deny).permission_decision_reason(reason)
    }

    /// Whoever decides about permissions, also where nobody would be asked.
    pub fn ask(reason: impl Into<String>) -> Self {
        Self::new().permission_decision(Decision::Ask).permission_decision_reason(reason)
    }
}

impl PermissionRequestOutput {
    /// It may.
    pub fn allow() -> Self {
        Self::new().decision(json!({"behavior": "allow"}))
    }

    /// It may not; the model is told why.
    pub fn deny(message: impl Into<String>) -> Self {
        Self::new().decision(json!({"behavior": "deny", "message": message.into()}))
    }
}
