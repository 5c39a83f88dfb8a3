//! One-shot queries: the `Provider` trait and its implementation with Claude Code.

mod claude_code;
mod context;
mod error;
mod fallback;
mod message;
mod response;
mod run;

use async_trait::async_trait;

pub use claude_code::ClaudeCodeProvider;
pub use context::{Context, ContextEntry, Role};
pub use error::ProviderError;
pub use fallback::FallbackProvider;
pub use message::{MessageMetadata, OutgoingMessage, StopReason};

/// A backend that answers a message. Object-safe, `Send` and `Sync`.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Returns the name, as used in [`MessageMetadata::provider_used`].
    fn name(&self) -> &str;

    /// Returns whether the user has to configure an API key.
    fn requires_api_key(&self) -> bool;

    /// Answers the message of the context.
    ///
    /// # Errors
    /// [`ProviderError`] if there is no answer.
    async fn complete(&self, context: &Context) -> Result<OutgoingMessage, ProviderError>;

    /// Returns whether the provider is usable, without a model request.
    async fn is_available(&self) -> bool;
}
