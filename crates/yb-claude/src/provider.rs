//! One question, one answer: the `Provider` trait, and Claude Code behind it.

mod answer;
mod claude_code;
mod context;
mod error;
mod fallback;
mod message;
mod run;

use async_trait::async_trait;

pub use claude_code::ClaudeCodeProvider;
pub use context::{Context, ContextEntry, Role};
pub use error::ProviderError;
pub use fallback::FallbackProvider;
pub use message::{MessageMetadata, OutgoingMessage, Stop};

/// Something that answers a message. Usable as `Box<dyn Provider>`, from any thread.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Its name, as it stands in [`MessageMetadata::provider_used`].
    fn name(&self) -> &str;

    /// Whether its user has to configure a key for it.
    fn requires_api_key(&self) -> bool;

    /// Answers.
    ///
    /// # Errors
    /// [`ProviderError`] when there is no answer.
    async fn complete(&self, context: &Context) -> Result<OutgoingMessage, ProviderError>;

    /// Whether asking makes sense at all; costs nothing and never fails.
    async fn is_available(&self) -> bool;
}
