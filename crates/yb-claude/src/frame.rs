//! What the CLI prints, as messages: a layer that knows bytes and JSON and nothing of processes.
//!
//! Bytes go through a [`Framer`], lines become a [`Message`] each, messages are folded into a [`RunSummary`].

mod block;
mod control;
mod decode;
mod framer;
pub(crate) mod lax;
mod message;
mod peek;
pub(crate) mod raw;
mod read;
mod repair;
mod result;
mod stream_event;
mod summary;
mod system;

pub use block::{
    Block, Content, Media, RedactedThinkingBlock, ServerToolResult, TextBlock, ThinkingBlock, ToolResult,
    ToolUse,
};
pub use control::{ControlAnswer, ControlBody, ControlCancel, ControlRequest, ControlResponse};
pub use decode::DecodeError;
#[cfg(feature = "sdk")]
pub(crate) use framer::excerpt;
pub use framer::{Frame, FrameError, Framer, Skip, SkippedLine};
pub use message::{
    ApiMessage, AssistantMessage, AuthStatus, Message, Notice, RateLimitEvent, RateLimitInfo, ToolProgress,
    UserContent, UserMessage,
};
pub use raw::RawJson;
pub use read::{read_json, read_stream};
pub use result::{CacheCreation, ModelUsage, Origin, PermissionDenial, ResultMessage, ResultSubtype, Usage};
pub use stream_event::{ApiEvent, Delta, StreamEvent};
pub use summary::{
    ApiFailure, ApiFailureKind, Baseline, ModelName, ModelSource, RunSummary, SessionTotals, Spent, Tokens,
    ToolCall, ToolOutcome, UsageSource,
};
pub use system::{
    ApiRetry, BackgroundTask, BackgroundTasks, CompactBoundary, CompactMetadata, Hook, Init, McpServerStatus,
    ModelFallback, Note, OtherSystem, PermissionDenied, SessionState, Status, System, Task, TaskPatch,
    TaskUsage, ThinkingTokens,
};
