//! Tools that run in this process: an async closure with typed arguments becomes a tool that the model can call.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use yb_supervise::CancellationToken;

use super::handlers::{Boxed, CallContext};
use super::schema::schema_of;

type Run = Arc<dyn Fn(Value, ToolContext) -> Boxed<ToolOutput> + Send + Sync>;

/// A tool that runs in this process.
#[derive(Clone)]
pub struct Tool {
    name: String,
    description: String,
    schema: Value,
    annotations: Map<String, Value>,
    run: Run,
}

/// A tool from a closure. The schema of its arguments comes from their type.
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
/// let server = ToolServer::new("calc").with(add);
/// assert_eq!(server.tool_names(), ["mcp__calc__add"]);
/// ```
///
/// It answers with anything that is a [`ToolAnswer`]: a text, a JSON value, a [`ToolOutput`], or a `Result` of these.
/// An error is told to the model; so is a panic, and arguments that don't fit.
pub fn tool<A, F, R>(name: impl Into<String>, description: impl Into<String>, run: F) -> Tool
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(A, ToolContext) -> R + Send + Sync + 'static,
    R: Future<Output: ToolAnswer> + Send + 'static,
{
    let mut schema = schema_of::<A>();
    if schema.get("type").is_none() {
        schema["type"] = json!("object");
    }
    let call: Run = Arc::new(move |arguments, context| {
        // No arguments at all is what the CLI sends for a tool that has none.
        let arguments = if arguments.is_null() { json!({}) } else { arguments };
        match serde_json::from_value::<A>(arguments) {
            Ok(arguments) => {
                let answer = run(arguments, context);
                Box::pin(async move { answer.await.into_output() })
            }
            Err(error) => {
                Box::pin(std::future::ready(ToolOutput::error(format!("invalid arguments: {error}"))))
            }
        }
    });
    Tool { name: name.into(), description: description.into(), schema, annotations: Map::new(), run: call }
}

impl Tool {
    /// The same with a schema that was written by hand.
    #[must_use]
    pub fn with_schema(mut self, schema: Value) -> Self {
        self.schema = schema;
        self
    }

    /// The same with a hint for the CLI, such as `readOnlyHint`, without which calls don't run side by side.
    #[must_use]
    pub fn with_annotation(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.annotations.insert(name.into(), value.into());
        self
    }

    /// The schema of its arguments.
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

/// Tools under one name. It keeps nothing between calls, so many sessions can share one.
#[derive(Debug, Clone)]
#[must_use]
pub struct ToolServer {
    name: String,
    version: String,
    tools: BTreeMap<String, Tool>,
}

impl ToolServer {
    /// A server without tools.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), version: "1.0.0".to_owned(), tools: BTreeMap::new() }
    }

    /// The same with one more tool; the last of a name counts.
    pub fn with(mut self, tool: Tool) -> Self {
        self.tools.insert(tool.name.clone(), tool);
        self
    }

    /// The same with another version than 1.0.0.
    pub fn with_version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names under which the model calls its tools, and which rules of permission use.
    #[must_use]
    pub fn tool_names(&self) -> Vec<String> {
        self.tools.keys().map(|tool| format!("mcp__{}__{tool}", self.name)).collect()
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    pub(super) fn listing(&self) -> Vec<Value> {
        self.tools.values().map(Tool::listing).collect()
    }

    /// Starts one tool.
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

/// A tool at work, in a task of its own so that a panic stops there. Dropping it ends the task.
pub(super) struct RunningTool {
    name: String,
    task: JoinSet<ToolOutput>,
}

impl RunningTool {
    /// What came of it; a panic is an error that the model is told, like any other.
    pub(super) async fn output(&mut self) -> ToolOutput {
        match self.task.join_next().await {
            Some(Ok(output)) => output,
            Some(Err(_)) => ToolOutput::error(format!("the tool `{}` panicked", self.name)),
            None => ToolOutput::error(format!("no tool is called `{}`", self.name)),
        }
    }
}

/// What a tool knows beside its arguments.
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

    /// The call, as messages and hooks name it.
    #[must_use]
    pub fn tool_use_id(&self) -> Option<&str> {
        self.tool_use_id.as_deref()
    }

    /// Waits until nobody wants the answer any more.
    pub async fn cancelled(&self) {
        tokio::select! {
            () = self.call.cancelled() => {}
            () = self.cancelled.cancelled() => {}
        }
    }
}

/// What a tool answers: content blocks, and whether they tell of an error.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolOutput {
    content: Vec<Value>,
    structured: Option<Value>,
    is_error: bool,
}

impl ToolOutput {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![json!({"type": "text", "text": text.into()})], ..Self::default() }
    }

    /// An error in words, which the model is told.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Nothing yet; add [`block`](Self::with_block)s.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// The same with one more MCP content block: a text, an image, a resource.
    #[must_use]
    pub fn with_block(mut self, block: Value) -> Self {
        self.content.push(block);
        self
    }

    /// The same with an image, base64 and its media type.
    #[must_use]
    pub fn with_image(self, data: impl Into<String>, media_type: impl Into<String>) -> Self {
        self.with_block(json!({"type": "image", "data": data.into(), "mimeType": media_type.into()}))
    }

    /// The same with a value beside the blocks.
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

/// Anything that a tool may answer with.
pub trait ToolAnswer {
    /// The same as content blocks.
    fn into_output(self) -> ToolOutput;
}

impl ToolAnswer for ToolOutput {
    fn into_output(self) -> ToolOutput {
        self
    }
}

impl ToolAnswer for String {
    fn into_output(self) -> ToolOutput {
        ToolOutput::text(self)
    }
}

impl ToolAnswer for &str {
    fn into_output(self) -> ToolOutput {
        ToolOutput::text(self)
    }
}

impl ToolAnswer for () {
    fn into_output(self) -> ToolOutput {
        ToolOutput::empty()
    }
}

impl ToolAnswer for Value {
    fn into_output(self) -> ToolOutput {
        ToolOutput::text(self.to_string())
    }
}

impl<T: ToolAnswer, E: Display> ToolAnswer for Result<T, E> {
    fn into_output(self) -> ToolOutput {
        match self {
            Ok(answer) => answer.into_output(),
            Err(error) => ToolOutput::error(error.to_string()),
        }
    }
}
