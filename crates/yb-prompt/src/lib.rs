#![doc = include_str!("../README.md")]

mod adapter;
mod client;
mod config;
mod error;
mod expression;
mod header;
mod loader;
mod message;
mod models;
mod options;
mod prompt;
mod references;
mod schema;
mod template;
mod tools;
mod yaml;

pub use adapter::{ADAPTER_NAME, AdaptOptions, Adapter, ClaudeAgentObjectParams, ClaudeAgentTextParams};
pub use client::{ClientConfig, ObjectPrompt, PromptClient, QueryParams, TextPrompt, create_client};
pub use config::{
    ImageConfig, ModelSettings, ObjectConfig, ObjectSettings, PromptConfig, PromptTool, SpeechConfig,
    TestSettings, TextConfig,
};
pub use error::{PromptError, SourceLocation, UnsupportedOutput};
pub use loader::{FileLoader, Loader, MemoryLoader};
pub use message::{MessageContent, MessagePart, RichChatMessage, Role};
pub use models::{ModelConfig, ModelPattern, ModelRegistry};
pub use options::{
    AdapterOptions, ClaudeAgentQueryOptions, McpServerConfig, OutputFormat, SystemPromptConfig,
};
pub use prompt::{DatasetRow, Prompt};
pub use tools::{RegisteredTool, TOOL_SERVER, ToolRegistry};
