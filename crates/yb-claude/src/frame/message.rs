//! Messages: one line of the CLI's output each.

use super::block::{Block, MessageContent, text_of};
use super::control::{ControlCancelRequest, ControlRequest, ControlResponse};
use super::decode::{self, DecodeError};
use super::lenient::lenient_struct;
use super::raw::RawJson;
use super::result::{ResultMessage, Usage};
use super::stream_event::StreamEvent;
use super::system::SystemMessage;

/// A message from the CLI. Unknown types are kept raw and are not errors.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Message {
    /// Status information of the CLI.
    System(SystemMessage),
    /// A content block of a model response.
    Assistant(Box<AssistantMessage>),
    /// Input to the model, mostly tool results.
    User(Box<UserMessage>),
    /// The end of a turn.
    Result(Box<ResultMessage>),
    /// A partial response while it is generated.
    StreamEvent(Box<StreamEvent>),
    /// The rate limit status.
    RateLimit(Box<RateLimitEvent>),
    /// A tool is still running.
    ToolProgress(Box<ToolProgress>),
    /// The progress of a login.
    AuthStatus(Box<AuthStatus>),
    /// A control request from the CLI.
    ControlRequest(Box<ControlRequest>),
    /// A control response from the CLI.
    ControlResponse(Box<ControlResponse>),
    /// The CLI cancels a control request.
    ControlCancel(Box<ControlCancelRequest>),
    /// A known type without typed fields: see [`OtherMessage::TYPES`].
    Other(Box<OtherMessage>),
    /// A type that this version does not know, or an object without `type`.
    Unknown {
        /// The `type`; empty if absent.
        kind: String,
        /// The whole message.
        raw: RawJson,
    },
}

impl Message {
    /// Parses one line, a JSON object with optional surrounding white space.
    ///
    /// # Errors
    /// If the line is not a JSON object. An object of any shape is a message.
    pub fn parse(line: &[u8]) -> Result<Self, DecodeError> {
        decode::message(line)
    }

    /// Returns the original JSON.
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
            Self::Other(message) => &message.raw,
            Self::Unknown { raw, .. } => raw,
        }
    }

    /// Returns the `type`.
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
            Self::Other(message) => &message.kind,
            Self::Unknown { kind, .. } => kind,
        }
    }

    /// Returns the session ID.
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
            Self::Other(message) => message.session_id.as_deref(),
            _ => None,
        }
    }

    /// Returns whether the message is protocol traffic between CLI and host, not meant for users of a session.
    #[must_use]
    pub fn is_internal(&self) -> bool {
        match self {
            Self::ControlRequest(_) | Self::ControlResponse(_) | Self::ControlCancel(_) => true,
            Self::Other(message) => matches!(&*message.kind, "keep_alive" | "transcript_mirror"),
            Self::System(SystemMessage::SessionStateChanged(state)) => state.sdk_host_only,
            _ => false,
        }
    }
}

lenient_struct! {
    /// A content block of a model response. One line per block; lines of one response share [`ApiMessage::id`].
    pub struct AssistantMessage {
        raw,
        /// The response, reduced to this block.
        message: ApiMessage = "message",
        /// The tool call that started the subagent; `None` for the main thread.
        parent_tool_use_id: Option<String> = "parent_tool_use_id",
        /// The subagent's ID.
        agent_id: Option<String> = "agent_id",
        /// The subagent's name.
        subagent_type: Option<String> = "subagent_type",
        /// Whether the text was written by the CLI and reports an API error.
        is_api_error_message: bool = "is_api_error_message",
        /// `authentication_failed`, `rate_limit`, `model_not_found` and others.
        error: Option<String> = "error",
        /// The HTTP status, if the API responded.
        api_error_status: Option<u16> = "api_error_status",
        /// The API's error type.
        api_error_type: Option<String> = "api_error_type",
        /// The CLI's name for an error without HTTP status.
        api_error: Option<String> = "api_error",
        /// Whether an interrupt ended the response.
        aborted: bool = "aborted",
        /// The timestamp as written by the CLI.
        timestamp: Option<String> = "timestamp",
        /// The API's request ID.
        request_id: Option<String> = "request_id",
        /// The session ID.
        session_id: Option<String> = "session_id",
        /// The message's UUID.
        uuid: Option<String> = "uuid",
    }
}

impl AssistantMessage {
    /// Returns the concatenated text blocks.
    #[must_use]
    pub fn text(&self) -> String {
        text_of(&self.message.content)
    }

    /// Returns whether the CLI wrote the message itself, for example to report an API error.
    #[must_use]
    pub fn is_synthetic(&self) -> bool {
        self.is_api_error_message || self.message.model.as_deref() == Some(SYNTHETIC)
    }
}

/// The model name of messages that were not written by a model.
pub(crate) const SYNTHETIC: &str = "<synthetic>";

lenient_struct! {
    /// A response of the API.
    pub struct ApiMessage {
        /// The response ID.
        id: Option<String> = "id",
        /// The model.
        model: Option<String> = "model",
        /// `assistant`.
        role: Option<String> = "role",
        /// The content blocks.
        content: Vec<Block> = "content",
        /// Why the model stopped; `None` while further blocks follow.
        stop_reason: Option<String> = "stop_reason",
        /// The usage at the *start* of the response, repeated on each of its lines. Must not be summed.
        usage: Option<Usage> = "usage",
    }
}

lenient_struct! {
    /// Input to the model.
    pub struct UserMessage {
        raw,
        /// The input.
        message: UserContent = "message",
        /// The tool call that started the subagent; `None` for the main thread.
        parent_tool_use_id: Option<String> = "parent_tool_use_id",
        /// The subagent's ID.
        agent_id: Option<String> = "agent_id",
        /// The subagent's name.
        subagent_type: Option<String> = "subagent_type",
        /// The tool result in the CLI's internal format, with more detail than the model receives; its shape depends on the tool.
        tool_use_result: Option<RawJson> = "tool_use_result",
        /// The origin, if it was not the user.
        origin: Option<RawJson> = "origin",
        /// Whether this is the echo of a prompt, with `--replay-user-messages`.
        is_replay: bool = "isReplay",
        /// Whether the CLI wrote the message itself.
        is_synthetic: bool = "isSynthetic",
        /// The timestamp as written by the CLI.
        timestamp: Option<String> = "timestamp",
        /// The session ID.
        session_id: Option<String> = "session_id",
        /// The message's UUID.
        uuid: Option<String> = "uuid",
    }
}

lenient_struct! {
    /// Role and content of a user message.
    pub struct UserContent {
        /// `user`.
        role: Option<String> = "role",
        /// The content.
        content: MessageContent = "content",
    }
}

lenient_struct! {
    /// A rate limit status message.
    pub struct RateLimitEvent {
        raw,
        /// The status.
        rate_limit_info: RateLimitInfo = "rate_limit_info",
        /// The session ID.
        session_id: Option<String> = "session_id",
    }
}

lenient_struct! {
    /// The status of a rate limit.
    pub struct RateLimitInfo {
        /// `allowed`, `allowed_warning` or `rejected`.
        status: Option<String> = "status",
        /// When the limit resets, in seconds since the Unix epoch.
        resets_at: Option<u64> = "resetsAt",
        /// The limit: `five_hour`, `seven_day` and others.
        rate_limit_type: Option<String> = "rateLimitType",
        /// The used fraction, from 0 to 1.
        utilization: Option<f64> = "utilization",
    }
}

lenient_struct! {
    /// A progress message of a running tool.
    pub struct ToolProgress {
        raw,
        /// The tool call's ID.
        tool_use_id: Option<String> = "tool_use_id",
        /// The tool's name.
        tool_name: Option<String> = "tool_name",
        /// The elapsed time in seconds.
        elapsed_time_seconds: Option<f64> = "elapsed_time_seconds",
        /// The tool call that started the subagent; `None` for the main thread.
        parent_tool_use_id: Option<String> = "parent_tool_use_id",
        /// The session ID.
        session_id: Option<String> = "session_id",
    }
}

lenient_struct! {
    /// The progress of a login.
    pub struct AuthStatus {
        raw,
        /// Whether the login is in progress.
        is_authenticating: bool = "isAuthenticating",
        /// The lines to show.
        output: Vec<String> = "output",
        /// The error message.
        error: Option<String> = "error",
        /// The session ID.
        session_id: Option<String> = "session_id",
    }
}

lenient_struct! {
    /// A message of a known type without typed fields.
    pub struct OtherMessage {
        raw,
        /// The `type`.
        kind: String = "type",
        /// The session ID.
        session_id: Option<String> = "session_id",
        /// The message's UUID.
        uuid: Option<String> = "uuid",
    }
}

impl OtherMessage {
    /// The types that are parsed as `OtherMessage`.
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
