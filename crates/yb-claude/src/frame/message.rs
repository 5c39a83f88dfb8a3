//! One line of the CLI's output.

use super::block::{Block, Content, text_of};
use super::control::{ControlCancel, ControlRequest, ControlResponse};
use super::decode::{self, DecodeError};
use super::lax::lax_struct;
use super::raw::RawJson;
use super::result::{ResultMessage, Usage};
use super::stream_event::StreamEvent;
use super::system::System;

/// A message of the CLI. What is unknown is kept and never an error.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Message {
    /// The CLI speaks about itself.
    System(System),
    /// A part of what the model says.
    Assistant(Box<AssistantMessage>),
    /// What the model is told: results of tools, mostly.
    User(Box<UserMessage>),
    /// The end of a turn.
    Result(Box<ResultMessage>),
    /// A piece of an answer while it is written.
    StreamEvent(Box<StreamEvent>),
    /// How much of the allowance is left.
    RateLimit(Box<RateLimitEvent>),
    /// A tool is still running.
    ToolProgress(Box<ToolProgress>),
    /// Logging in.
    AuthStatus(Box<AuthStatus>),
    /// The CLI asks its host.
    ControlRequest(Box<ControlRequest>),
    /// The CLI answers its host.
    ControlResponse(Box<ControlResponse>),
    /// The CLI takes a question back.
    ControlCancel(Box<ControlCancel>),
    /// A known type whose fields nobody here needs: see [`Notice::TYPES`].
    Notice(Box<Notice>),
    /// A type that this version does not know, or an object without one.
    Unknown {
        /// Its `type`; empty when it has none.
        kind: String,
        /// All of it.
        raw: RawJson,
    },
}

impl Message {
    /// Reads one line: a JSON object, with white space around it or not.
    ///
    /// # Errors
    /// Only when the line is not a JSON object; an object of any shape is a message.
    pub fn parse(line: &[u8]) -> Result<Self, DecodeError> {
        decode::message(line)
    }

    /// The message as the CLI wrote it.
    #[must_use]
    pub fn raw(&self) -> &RawJson {
        match self {
            Self::System(message) => message.raw(),
            Self::Assistant(message) => &message.raw,
            Self::User(message) => &message.raw,
            Self::Result(message) => &message.raw,
            Self::StreamEvent(message) => &message.raw,
            Self::RateLimit(message) => &message.raw,
            Self::ToolProgress(message) => &message.raw,
            Self::AuthStatus(message) => &message.raw,
            Self::ControlRequest(message) => &message.raw,
            Self::ControlResponse(message) => &message.raw,
            Self::ControlCancel(message) => &message.raw,
            Self::Notice(message) => &message.raw,
            Self::Unknown { raw, .. } => raw,
        }
    }

    /// The `type`.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            Self::System(_) => "system",
            Self::Assistant(_) => "assistant",
            Self::User(_) => "user",
            Self::Result(_) => "result",
            Self::StreamEvent(_) => "stream_event",
            Self::RateLimit(_) => "rate_limit_event",
            Self::ToolProgress(_) => "tool_progress",
            Self::AuthStatus(_) => "auth_status",
            Self::ControlRequest(_) => "control_request",
            Self::ControlResponse(_) => "control_response",
            Self::ControlCancel(_) => "control_cancel_request",
            Self::Notice(message) => &message.kind,
            Self::Unknown { kind, .. } => kind,
        }
    }

    /// The session.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        match self {
            Self::System(message) => message.session_id(),
            Self::Assistant(message) => message.session_id.as_deref(),
            Self::User(message) => message.session_id.as_deref(),
            Self::Result(message) => message.session_id.as_deref(),
            Self::StreamEvent(message) => message.session_id.as_deref(),
            Self::RateLimit(message) => message.session_id.as_deref(),
            Self::ToolProgress(message) => message.session_id.as_deref(),
            Self::AuthStatus(message) => message.session_id.as_deref(),
            Self::Notice(message) => message.session_id.as_deref(),
            _ => None,
        }
    }

    /// Traffic between the CLI and its host that no user of a session should see.
    #[must_use]
    pub fn is_internal(&self) -> bool {
        match self {
            Self::ControlRequest(_) | Self::ControlResponse(_) | Self::ControlCancel(_) => true,
            Self::Notice(notice) => matches!(&*notice.kind, "keep_alive" | "transcript_mirror"),
            Self::System(System::SessionStateChanged(state)) => state.sdk_host_only,
            _ => false,
        }
    }
}

lax_struct! {
    /// A part of what the model says. One line for each part; lines of one answer share [`ApiMessage::id`].
    pub struct AssistantMessage {
        raw,
        /// The answer, reduced to this part.
        message: ApiMessage = "message",
        /// The call of the subagent that speaks; none for the main thread.
        parent_tool_use_id: Option<String> = "parent_tool_use_id",
        /// The subagent.
        agent_id: Option<String> = "agent_id",
        /// The subagent's name.
        subagent_type: Option<String> = "subagent_type",
        /// The words are the CLI's and tell of an API error.
        is_api_error_message: bool = "is_api_error_message",
        /// `authentication_failed`, `rate_limit`, `model_not_found` and others.
        error: Option<String> = "error",
        /// The HTTP status, if the API was reached.
        api_error_status: Option<u16> = "api_error_status",
        /// The API's name for its error.
        api_error_type: Option<String> = "api_error_type",
        /// The CLI's name for an error without a status.
        api_error: Option<String> = "api_error",
        /// The answer was cut off by an interrupt.
        aborted: bool = "aborted",
        /// When, as the CLI wrote it.
        timestamp: Option<String> = "timestamp",
        /// The API's id of the request.
        request_id: Option<String> = "request_id",
        /// The session.
        session_id: Option<String> = "session_id",
        /// The message's own id.
        uuid: Option<String> = "uuid",
    }
}

impl AssistantMessage {
    /// The text parts.
    #[must_use]
    pub fn text(&self) -> String {
        text_of(&self.message.content)
    }

    /// Whether the CLI made up the message, for an API error for example.
    #[must_use]
    pub fn is_synthetic(&self) -> bool {
        self.is_api_error_message || self.message.model.as_deref() == Some(SYNTHETIC)
    }
}

/// The model of messages that no model wrote.
pub(crate) const SYNTHETIC: &str = "<synthetic>";

lax_struct! {
    /// An answer of the API.
    pub struct ApiMessage {
        /// The answer's id.
        id: Option<String> = "id",
        /// The model.
        model: Option<String> = "model",
        /// `assistant`.
        role: Option<String> = "role",
        /// The parts.
        content: Vec<Block> = "content",
        /// Why the model stopped; none as long as further parts follow.
        stop_reason: Option<String> = "stop_reason",
        /// As of the *beginning* of the answer, repeated on each of its lines: never to be summed.
        usage: Option<Usage> = "usage",
    }
}

lax_struct! {
    /// What the model is told.
    pub struct UserMessage {
        raw,
        /// What.
        message: UserContent = "message",
        /// The call of the subagent that is told; none for the main thread.
        parent_tool_use_id: Option<String> = "parent_tool_use_id",
        /// The subagent.
        agent_id: Option<String> = "agent_id",
        /// The subagent's name.
        subagent_type: Option<String> = "subagent_type",
        /// The tool's outcome as the CLI keeps it, richer than what the model gets; its shape depends on the tool.
        tool_use_result: Option<RawJson> = "tool_use_result",
        /// What started it, when it was not the user.
        origin: Option<RawJson> = "origin",
        /// The echo of a prompt, with `--replay-user-messages`.
        is_replay: bool = "isReplay",
        /// Written by the CLI.
        is_synthetic: bool = "isSynthetic",
        /// When, as the CLI wrote it.
        timestamp: Option<String> = "timestamp",
        /// The session.
        session_id: Option<String> = "session_id",
        /// The message's own id.
        uuid: Option<String> = "uuid",
    }
}

lax_struct! {
    /// What the model is told.
    pub struct UserContent {
        /// `user`.
        role: Option<String> = "role",
        /// What.
        content: Content = "content",
    }
}

lax_struct! {
    /// How much of the allowance is left.
    pub struct RateLimitEvent {
        raw,
        /// How much.
        rate_limit_info: RateLimitInfo = "rate_limit_info",
        /// The session.
        session_id: Option<String> = "session_id",
    }
}

lax_struct! {
    /// How much of the allowance is left.
    pub struct RateLimitInfo {
        /// `allowed`, `allowed_warning` or `rejected`.
        status: Option<String> = "status",
        /// When it is whole again, in seconds since 1970.
        resets_at: Option<u64> = "resetsAt",
        /// Which allowance: `five_hour`, `seven_day` and others.
        rate_limit_type: Option<String> = "rateLimitType",
        /// How much of it is used, 1 for all.
        utilization: Option<f64> = "utilization",
    }
}

lax_struct! {
    /// A tool is still running.
    pub struct ToolProgress {
        raw,
        /// The call.
        tool_use_id: Option<String> = "tool_use_id",
        /// The tool.
        tool_name: Option<String> = "tool_name",
        /// For how long.
        elapsed_time_seconds: Option<f64> = "elapsed_time_seconds",
        /// The call of the subagent that runs it; none for the main thread.
        parent_tool_use_id: Option<String> = "parent_tool_use_id",
        /// The session.
        session_id: Option<String> = "session_id",
    }
}

lax_struct! {
    /// Logging in.
    pub struct AuthStatus {
        raw,
        /// It goes on.
        is_authenticating: bool = "isAuthenticating",
        /// What to show.
        output: Vec<String> = "output",
        /// What went wrong.
        error: Option<String> = "error",
        /// The session.
        session_id: Option<String> = "session_id",
    }
}

lax_struct! {
    /// A message whose type is known and whose fields are left raw.
    pub struct Notice {
        raw,
        /// The `type`.
        kind: String = "type",
        /// The session.
        session_id: Option<String> = "session_id",
        /// The message's own id.
        uuid: Option<String> = "uuid",
    }
}

impl Notice {
    /// The types that are read as notices.
    pub const TYPES: [&'static str; 8] = [
        "active_goal",
        "autocompact_state",
        "command_lifecycle",
        "conversation_reset",
        "keep_alive",
        "prompt_suggestion",
        "tool_use_summary",
        "transcript_mirror",
    ];
}
