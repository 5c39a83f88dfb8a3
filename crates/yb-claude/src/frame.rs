//! Parses the CLI's output: bytes and JSON only, no processes.
//!
//! A [`Framer`] splits bytes into lines, each line is parsed into a [`Message`], and a [`RunSummary`] aggregates the messages.

mod block;
mod control;
mod decode;
mod framer;
mod head_tail;
pub(crate) mod lenient;
mod message;
pub(crate) mod raw;
mod read;
mod repair;
mod result;
mod stream_event;
mod summary;
mod system;
mod type_tag;

pub use block::{
    Block, MediaBlock, MessageContent, RedactedThinkingBlock, ServerToolResultBlock, TextBlock,
    ThinkingBlock, ToolResultBlock, ToolUseBlock,
};
pub use control::{
    ControlCancelRequest, ControlRequest, ControlRequestBody, ControlResponse, ControlResponseBody,
};
pub use decode::DecodeError;
#[cfg(feature = "sdk")]
pub(crate) use framer::excerpt;
pub use framer::{Frame, FrameError, Framer, SkipReason, SkippedLine};
pub use head_tail::HeadTail;
pub use message::{
    ApiMessage, AssistantMessage, AuthStatus, Message, OtherMessage, RateLimitEvent, RateLimitInfo,
    ToolProgress, UserContent, UserMessage,
};
pub use raw::RawJson;
pub use read::{read_json, read_stream};
pub use result::{
    CacheCreation, ModelUsage, PermissionDenial, ResultMessage, ResultSubtype, TurnOrigin, Usage,
};
pub use stream_event::{ApiEvent, Delta, StreamEvent};
pub use summary::{
    ApiFailure, ApiFailureKind, ModelName, ModelSource, RunSummary, RunUsage, SessionTotals, SummaryLimits,
    Tokens, ToolCall, ToolOutcome, UsageBaseline, UsageSource,
};
pub use system::{
    ApiRetry, BackgroundTask, BackgroundTasks, CompactBoundary, CompactMetadata, HookMessage, InitMessage,
    LoadedPlugin, McpServerStatus, ModelFallback, OtherSystemMessage, PermissionDenied, PluginError,
    SessionStateMessage, StatusMessage, SystemMessage, SystemText, TaskMessage, TaskPatch, TaskUsage,
    ThinkingTokens,
};
