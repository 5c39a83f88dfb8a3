//! What a prompt asks for, beside its words: the typed form of its header, and the same with its messages.

use serde_json::{Map, Value};

use crate::message::RichChatMessage;

/// How the model is asked, in prompts for texts and for objects.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelSettings {
    /// The model, as the registry knows it.
    pub model_name: String,
    /// How often the model may be called.
    pub max_calls: Option<u32>,
    /// What the model may call.
    pub tools: Vec<PromptTool>,
    /// Everything else, such as `temperature`, which the Claude Agent SDK does not know.
    pub other: Map<String, Value>,
}

impl ModelSettings {
    /// Settings with this model alone.
    pub fn of(model_name: impl Into<String>) -> Self {
        Self { model_name: model_name.into(), ..Self::default() }
    }
}

/// A tool that a prompt names.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum PromptTool {
    /// One that the program serves: what it is for, and the JSON Schema of its arguments. The function comes from the
    /// [`ToolRegistry`](crate::ToolRegistry).
    Served {
        /// Its name.
        name: String,
        /// What it is for.
        description: String,
        /// The JSON Schema of its arguments.
        parameters: Value,
    },
    /// One that exists elsewhere: of Claude Code, such as `Read`, or of an MCP server, as `mcp://server/tool`.
    Named(String),
}

impl PromptTool {
    /// A tool that the program serves.
    pub fn served(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        Self::Served { name: name.into(), description: description.into(), parameters }
    }
}

/// A prompt for a text, filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct TextConfig {
    /// The prompt's name.
    pub name: String,
    /// Its messages.
    pub messages: Vec<RichChatMessage>,
    /// `text_config` of its header.
    pub text_config: ModelSettings,
}

/// A prompt for an object, filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectConfig {
    /// The prompt's name.
    pub name: String,
    /// Its messages.
    pub messages: Vec<RichChatMessage>,
    /// `object_config` of its header.
    pub object_config: ObjectSettings,
}

/// How the model is asked for an object.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectSettings {
    /// As for a text.
    pub model: ModelSettings,
    /// The JSON Schema of the object.
    pub schema: Value,
    /// What the object is called; the Claude Agent SDK has no use for it.
    pub schema_name: Option<String>,
    /// What the object is for; the Claude Agent SDK has no use for it.
    pub schema_description: Option<String>,
}

/// A prompt for a picture, filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageConfig {
    /// The prompt's name.
    pub name: String,
    /// What stands in `<ImagePrompt>`.
    pub prompt: String,
    /// `image_config` of its header.
    pub image_config: Map<String, Value>,
}

/// A prompt for spoken words, filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeechConfig {
    /// The prompt's name.
    pub name: String,
    /// What stands in `<SpeechPrompt>`.
    pub text: String,
    /// `speech_config` of its header.
    pub speech_config: Map<String, Value>,
}

/// What a prompt asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum PromptConfig {
    /// A text.
    Text(TextConfig),
    /// An object.
    Object(ObjectConfig),
    /// A picture.
    Image(ImageConfig),
    /// Spoken words.
    Speech(SpeechConfig),
}

/// How a prompt is tested.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct TestSettings {
    /// Props to try it with.
    pub props: Option<Value>,
    /// A file with rows, relative to the prompt's.
    pub dataset: Option<String>,
    /// How answers are held against what is expected.
    pub evals: Vec<String>,
    /// The name under which results are kept, to compare later ones with.
    pub experiment_key: Option<String>,
    /// By how much the pass rate may fall, from 0 to 1.
    pub regression_tolerance: Option<f64>,
    /// The share of rows that must pass, by eval, from 0 to 1.
    pub score_thresholds: Vec<(String, f64)>,
}
