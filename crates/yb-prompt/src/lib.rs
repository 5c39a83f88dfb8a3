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
pub use client::{ClientConfig, Formatted, ObjectPrompt, PromptClient, TextPrompt, create_client};
pub use config::{
    ImageConfig, ModelSettings, ObjectConfig, ObjectSettings, PromptConfig, PromptTool, SpeechConfig,
    TestSettings, TextConfig,
};
pub use error::{Place, PromptError, Unsupported};
pub use loader::{FileLoader, Loader, MemoryLoader};
pub use message::{Content, Part, RichChatMessage, Role};
pub use models::{ModelConfig, ModelPattern, ModelRegistry};
pub use options::{
    AdapterOptions, ClaudeAgentQueryOptions, McpServerConfig, OutputFormat, SystemPromptConfig,
};
pub use prompt::{Prompt, Row};
pub use tools::{RegisteredTool, TOOL_SERVER, ToolRegistry};
