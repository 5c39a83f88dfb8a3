//! Resources and prompts of an in-process MCP server.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::handlers::{BoxFuture, CallContext};
use super::host::IntoCallbackResult;

type ReadFn = Arc<dyn Fn(CallContext) -> BoxFuture<Result<ResourceContent, String>> + Send + Sync>;
type RenderFn =
    Arc<dyn Fn(BTreeMap<String, String>, CallContext) -> BoxFuture<Result<String, String>> + Send + Sync>;

/// The content of a [`Resource`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResourceContent {
    /// Text.
    Text(String),
    /// Base64-encoded bytes.
    Blob(String),
}

impl From<String> for ResourceContent {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for ResourceContent {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl IntoCallbackResult<ResourceContent> for ResourceContent {
    fn into_result(self) -> Result<ResourceContent, String> {
        Ok(self)
    }
}

impl IntoCallbackResult<String> for String {
    fn into_result(self) -> Result<String, String> {
        Ok(self)
    }
}

/// A resource of a [`ToolServer`](super::ToolServer), which the model lists and reads with tools of the CLI.
#[derive(Clone)]
#[must_use]
pub struct Resource {
    uri: String,
    listing: Map<String, Value>,
    read: ReadFn,
}

impl Resource {
    /// Creates a resource whose content is read by a closure.
    pub fn new<F, R>(uri: impl Into<String>, name: impl Into<String>, read: F) -> Self
    where
        F: Fn(CallContext) -> R + Send + Sync + 'static,
        R: Future<Output: IntoCallbackResult<ResourceContent>> + Send + 'static,
    {
        let (uri, name) = (uri.into(), name.into());
        let mut listing = Map::new();
        listing.insert("uri".to_owned(), json!(uri));
        listing.insert("name".to_owned(), json!(name));
        let read: ReadFn = Arc::new(move |context| {
            let content = read(context);
            Box::pin(async move { content.await.into_result() })
        });
        Self { uri, listing, read }
    }

    /// Creates a resource with constant text.
    pub fn text(uri: impl Into<String>, name: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self::new(uri, name, move |_| std::future::ready(ResourceContent::Text(text.clone())))
    }

    /// Sets the description.
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.listing.insert("description".to_owned(), json!(description.into()));
        self
    }

    /// Sets the MIME type.
    pub fn with_mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.listing.insert("mimeType".to_owned(), json!(mime_type.into()));
        self
    }

    pub(super) fn uri(&self) -> &str {
        &self.uri
    }

    pub(super) fn listing(&self) -> Value {
        Value::Object(self.listing.clone())
    }

    /// Returns the result of `resources/read`.
    pub(super) async fn read(&self, context: CallContext) -> Result<Value, String> {
        let mut content = Map::new();
        content.insert("uri".to_owned(), json!(self.uri));
        if let Some(mime_type) = self.listing.get("mimeType") {
            content.insert("mimeType".to_owned(), mime_type.clone());
        }
        match (self.read)(context).await? {
            ResourceContent::Text(text) => content.insert("text".to_owned(), json!(text)),
            ResourceContent::Blob(base64) => content.insert("blob".to_owned(), json!(base64)),
        };
        Ok(json!({ "contents": [content] }))
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Resource").field("uri", &self.uri).finish_non_exhaustive()
    }
}

/// A prompt of a [`ToolServer`](super::ToolServer). Claude Code 2.1.325 does not ask in-process servers for prompts.
#[derive(Clone)]
#[must_use]
pub struct McpPrompt {
    name: String,
    description: String,
    arguments: Vec<Value>,
    render: RenderFn,
}

impl McpPrompt {
    /// Creates a prompt whose text is rendered from its arguments by a closure.
    pub fn new<F, R>(name: impl Into<String>, description: impl Into<String>, render: F) -> Self
    where
        F: Fn(BTreeMap<String, String>, CallContext) -> R + Send + Sync + 'static,
        R: Future<Output: IntoCallbackResult<String>> + Send + 'static,
    {
        let render: RenderFn = Arc::new(move |arguments, context| {
            let text = render(arguments, context);
            Box::pin(async move { text.await.into_result() })
        });
        Self { name: name.into(), description: description.into(), arguments: Vec::new(), render }
    }

    /// Declares a required argument.
    pub fn with_argument(mut self, name: impl Into<String>, description: impl Into<String>) -> Self {
        let argument = json!({"name": name.into(), "description": description.into(), "required": true});
        self.arguments.push(argument);
        self
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn listing(&self) -> Value {
        json!({"name": self.name, "description": self.description, "arguments": self.arguments})
    }

    /// Returns the result of `prompts/get`.
    pub(super) async fn render(&self, arguments: &Value, context: CallContext) -> Result<Value, String> {
        let arguments = arguments.as_object().into_iter().flatten();
        let arguments = arguments.map(|(name, value)| {
            (name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        });
        let text = (self.render)(arguments.collect(), context).await?;
        Ok(json!({
            "description": self.description,
            "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
        }))
    }
}

impl fmt::Debug for McpPrompt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("McpPrompt").field("name", &self.name).finish_non_exhaustive()
    }
}
