//! Typed configuration: the header of a prompt, and rendered prompts.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use yb_claude::McpServer;

use crate::message::RichChatMessage;

/// Model settings of text and object prompts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelSettings {
    /// The model name, resolved by the registry.
    pub model_name: String,
    /// The maximum number of model calls.
    pub max_calls: Option<u32>,
    /// The tools of the prompt.
    pub tools: Vec<PromptTool>,
    /// MCP servers by name, which the CLI starts or connects to.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// All other settings, such as `temperature`, which the Claude Agent SDK does not support.
    pub other: Map<String, Value>,
}

impl ModelSettings {
    /// Creates settings with this model and no others.
    pub fn new(model_name: impl Into<String>) -> Self {
        Self { model_name: model_name.into(), ..Self::default() }
    }
}

/// A tool of a prompt.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum PromptTool {
    /// A function of the host program, registered in the [`ToolRegistry`](crate::ToolRegistry).
    Function {
        /// The name.
        name: String,
        /// The description for the model.
        description: String,
        /// The JSON Schema of the arguments.
        parameters: Value,
        /// A program and its arguments that a host may run instead of a function. Empty if there is none.
        command: Vec<String>,
    },
    /// A tool of Claude Code, such as `Read`, or of an MCP server, as `mcp://server/tool`.
    External(String),
}

impl PromptTool {
    /// Creates a function tool.
    pub fn function(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        Self::Function { name: name.into(), description: description.into(), parameters, command: Vec::new() }
    }
}

/// A rendered prompt for text.
#[derive(Debug, Clone, PartialEq)]
pub struct TextConfig {
    /// The prompt name.
    pub name: String,
    /// The messages.
    pub messages: Vec<RichChatMessage>,
    /// `text_config` of the header.
    pub text_config: ModelSettings,
}

/// A rendered prompt for an object.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectConfig {
    /// The prompt name.
    pub name: String,
    /// The messages.
    pub messages: Vec<RichChatMessage>,
    /// `object_config` of the header.
    pub object_config: ObjectSettings,
}

/// Settings of object prompts.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectSettings {
    /// The model settings.
    pub model: ModelSettings,
    /// The JSON Schema of the object.
    pub schema: Value,
    /// The name of the schema. Ignored by the Claude Agent SDK.
    pub schema_name: Option<String>,
    /// The description of the schema. Ignored by the Claude Agent SDK.
    pub schema_description: Option<String>,
}

/// A rendered prompt for an image.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageConfig {
    /// The prompt name.
    pub name: String,
    /// The content of `<ImagePrompt>`.
    pub prompt: String,
    /// `image_config` of the header.
    pub image_config: Map<String, Value>,
}

/// A rendered prompt for speech.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeechConfig {
    /// The prompt name.
    pub name: String,
    /// The content of `<SpeechPrompt>`.
    pub text: String,
    /// `speech_config` of the header.
    pub speech_config: Map<String, Value>,
}

/// A rendered prompt.
#[derive(Debug, Clone, PartialEq)]
pub enum PromptConfig {
    /// Text.
    Text(TextConfig),
    /// An object.
    Object(ObjectConfig),
    /// An image.
    Image(ImageConfig),
    /// Speech.
    Speech(SpeechConfig),
}

/// Test settings of a prompt.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct TestSettings {
    /// Props for a trial rendering.
    pub props: Option<Value>,
    /// A JSON Lines file, relative to the prompt file.
    pub dataset: Option<String>,
    /// The evals that compare outputs with expected outputs.
    pub evals: Vec<String>,
    /// The name of the baseline.
    pub experiment_key: Option<String>,
    /// The tolerated drop of the pass rate, from 0 to 1.
    pub regression_tolerance: Option<f64>,
    /// The minimum pass rate by eval, from 0 to 1.
    pub score_thresholds: Vec<(String, f64)>,
}
