//! In-process tools: async closures with typed arguments that the model can call.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use yb_supervise::CancellationToken;

use super::handlers::{BoxFuture, CallContext};
use super::resources::{McpPrompt, Resource};
use super::schema::schema_of;

type ToolFn = Arc<dyn Fn(Value, ToolContext) -> BoxFuture<ToolOutput> + Send + Sync>;

/// A tool that runs in this process.
#[derive(Clone)]
pub struct Tool {
    name: String,
    description: String,
    schema: Value,
    annotations: Map<String, Value>,
    run: ToolFn,
}

/// Creates a tool from a closure. The schema is derived from the type of the arguments.
///
/// ```
/// use yb_claude::sdk::{ToolServer, tool};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add {
///     a: f64,
///     b: f64,
/// }
///
/// let add = tool("add", "Adds two numbers", |args: Add, _cx| async move { (args.a + args.b).to_string() });
/// let server = ToolServer::new("calc").with_tool(add);
/// assert_eq!(server.tool_names(), ["mcp__calc__add"]);
/// ```
///
/// The closure returns any [`IntoToolOutput`]: a string, a JSON value, a [`ToolOutput`], or a `Result` of these. Errors,
/// panics and invalid arguments are reported to the model.
pub fn tool<A, F, R>(name: impl Into<String>, description: impl Into<String>, run: F) -> Tool
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(A, ToolContext) -> R + Send + Sync + 'static,
    R: Future<Output: IntoToolOutput> + Send + 'static,
{
    let mut schema = schema_of::<A>();
    if schema.get("type").is_none() {
        schema["type"] = json!("object");
    }
    let call: ToolFn = Arc::new(move |arguments, context| {
        // The CLI sends no arguments for a tool without parameters.
        let arguments = if arguments.is_null() { json!({}) } else { arguments };
        match serde_json::from_value::<A>(arguments) {
            Ok(arguments) => {
                let output = run(arguments, context);
                Box::pin(async move { output.await.into_output() })
            }
            Err(error) => {
                Box::pin(std::future::ready(ToolOutput::error(format!("invalid arguments: {error}"))))
            }
        }
    });
    Tool { name: name.into(), description: description.into(), schema, annotations: Map::new(), run: call }
}

impl Tool {
    /// Replaces the schema of the arguments.
    #[must_use]
    pub fn with_schema(mut self, schema: Value) -> Self {
        self.schema = schema;
        self
    }

    /// Adds an annotation for the CLI, such as `readOnlyHint`, which allows concurrent calls.
    #[must_use]
    pub fn with_annotation(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.annotations.insert(name.into(), value.into());
        self
    }

    /// Returns the schema of the arguments.
    #[must_use]
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    fn listing(&self) -> Value {
        let mut listing =
            json!({"name": self.name, "description": self.description, "inputSchema": self.schema});
        if !self.annotations.is_empty() {
            listing["annotations"] = json!(self.annotations);
        }
        listing
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tool").field("name", &self.name).finish_non_exhaustive()
    }
}

/// An in-process MCP server: tools, resources and prompts. Stateless, so several sessions can share it.
#[derive(Debug, Clone)]
#[must_use]
pub struct ToolServer {
    name: String,
    version: String,
    instructions: Option<String>,
    tools: BTreeMap<String, Tool>,
    resources: BTreeMap<String, Resource>,
    prompts: BTreeMap<String, McpPrompt>,
}

impl ToolServer {
    /// Creates a server without tools.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: "1.0.0".to_owned(),
            instructions: None,
            tools: BTreeMap::new(),
            resources: BTreeMap::new(),
            prompts: BTreeMap::new(),
        }
    }

    /// Adds a tool; replaces a tool with the same name.
    pub fn with_tool(mut self, tool: Tool) -> Self {
        self.tools.insert(tool.name.clone(), tool);
        self
    }

    /// Adds a resource; replaces a resource with the same URI.
    pub fn with_resource(mut self, resource: Resource) -> Self {
        self.resources.insert(resource.uri().to_owned(), resource);
        self
    }

    /// Adds a prompt; replaces a prompt with the same name.
    pub fn with_prompt(mut self, prompt: McpPrompt) -> Self {
        self.prompts.insert(prompt.name().to_owned(), prompt);
        self
    }

    /// Sets the instructions, which the CLI adds to the system prompt.
    pub fn with_instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Sets the version, 1.0.0 by default.
    pub fn with_version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the full tool names, as used by the model and in permission rules.
    #[must_use]
    pub fn tool_names(&self) -> Vec<String> {
        self.tools.keys().map(|tool| format!("mcp__{}__{tool}", self.name)).collect()
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    pub(super) fn instructions(&self) -> Option<&str> {
        self.instructions.as_deref()
    }

    pub(super) fn has_resources(&self) -> bool {
        !self.resources.is_empty()
    }

    pub(super) fn has_prompts(&self) -> bool {
        !self.prompts.is_empty()
    }

    pub(super) fn resource(&self, uri: &str) -> Option<&Resource> {
        self.resources.get(uri)
    }

    pub(super) fn resource_listing(&self) -> Vec<Value> {
        self.resources.values().map(Resource::listing).collect()
    }

    pub(super) fn prompt(&self, name: &str) -> Option<&McpPrompt> {
        self.prompts.get(name)
    }

    pub(super) fn prompt_listing(&self) -> Vec<Value> {
        self.prompts.values().map(McpPrompt::listing).collect()
    }

    pub(super) fn listing(&self) -> Vec<Value> {
        self.tools.values().map(Tool::listing).collect()
    }

    /// Starts a tool call.
    pub(super) fn start(&self, params: &Value, context: ToolContext) -> RunningTool {
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        let mut task = JoinSet::new();
        if let Some(tool) = self.tools.get(&name) {
            let (run, arguments) = (Arc::clone(&tool.run), params["arguments"].clone());
            task.spawn(async move { run(arguments, context).await });
        }
        RunningTool { name, task }
    }
}

/// A running tool call, in its own task to isolate panics. Dropping it aborts the task.
pub(super) struct RunningTool {
    name: String,
    task: JoinSet<ToolOutput>,
}

impl RunningTool {
    /// Waits for the output; a panic becomes an error for the model.
    pub(super) async fn output(&mut self) -> ToolOutput {
        match self.task.join_next().await {
            Some(Ok(output)) => output,
            Some(Err(_)) => ToolOutput::error(format!("tool `{}` panicked", self.name)),
            None => ToolOutput::error(format!("unknown tool: `{}`", self.name)),
        }
    }
}

/// The context of a tool call.
#[derive(Debug, Clone)]
pub struct ToolContext {
    tool_use_id: Option<String>,
    call: CallContext,
    cancelled: CancellationToken,
}

impl ToolContext {
    pub(super) fn new(params: &Value, call: CallContext, cancelled: CancellationToken) -> Self {
        let tool_use_id = params["_meta"]["claudecode/toolUseId"].as_str().map(str::to_owned);
        Self { tool_use_id, call, cancelled }
    }

    /// Returns the tool call's ID, as used in messages and hooks.
    #[must_use]
    pub fn tool_use_id(&self) -> Option<&str> {
        self.tool_use_id.as_deref()
    }

    /// Waits until the call is cancelled.
    pub async fn cancelled(&self) {
        tokio::select! {
            () = self.call.cancelled() => {}
            () = self.cancelled.cancelled() => {}
        }
    }
}

/// The output of a tool: content blocks and an error flag.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolOutput {
    content: Vec<Value>,
    structured: Option<Value>,
    is_error: bool,
}

impl ToolOutput {
    /// Creates a text output.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![json!({"type": "text", "text": text.into()})], ..Self::default() }
    }

    /// Creates an error output, which the model receives.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Creates an empty output.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Adds an MCP content block: text, image or resource.
    #[must_use]
    pub fn with_block(mut self, block: Value) -> Self {
        self.content.push(block);
        self
    }

    /// Adds a base64-encoded image.
    #[must_use]
    pub fn with_image(self, data: impl Into<String>, media_type: impl Into<String>) -> Self {
        self.with_block(json!({"type": "image", "data": data.into(), "mimeType": media_type.into()}))
    }

    /// Sets the structured content.
    #[must_use]
    pub fn with_structured(mut self, value: Value) -> Self {
        self.structured = Some(value);
        self
    }

    pub(super) fn into_json(self) -> Value {
        let mut result = json!({"content": self.content, "isError": self.is_error});
        if let Some(value) = self.structured {
            result["structuredContent"] = value;
        }
        result
    }
}

/// The return value of a tool.
pub trait IntoToolOutput {
    /// Converts to content blocks.
    fn into_output(self) -> ToolOutput;
}

impl IntoToolOutput for ToolOutput {
    fn into_output(self) -> ToolOutput {
        self
    }
}

impl IntoToolOutput for String {
    fn into_output(self) -> ToolOutput {
        ToolOutput::text(self)
    }
}

impl IntoToolOutput for &str {
    fn into_output(self) -> ToolOutput {
        ToolOutput::text(self)
    }
}

impl IntoToolOutput for () {
    fn into_output(self) -> ToolOutput {
        ToolOutput::empty()
    }
}

impl IntoToolOutput for Value {
    fn into_output(self) -> ToolOutput {
        ToolOutput::text(self.to_string())
    }
}

impl<T: IntoToolOutput, E: Display> IntoToolOutput for Result<T, E> {
    fn into_output(self) -> ToolOutput {
        match self {
            Ok(output) => output.into_output(),
            Err(error) => ToolOutput::error(error.to_string()),
        }
    }
}
