//! Functions of this program that a prompt's tools may call, and how they are served to the model.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use yb_claude::sdk::{Tool, ToolOutput, ToolServer, tool};

use crate::config::PromptTool;
use crate::error::PromptError;
use crate::schema;

/// The name of the server that serves them; the model calls a tool `mcp__prompt-tools__NAME`.
pub const TOOL_SERVER: &str = "prompt-tools";

type Answer = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;
type Run = Arc<dyn Fn(Value) -> Answer + Send + Sync>;

/// Functions by name. What they are for and the schema of their arguments stand in the prompt.
///
/// ```
/// use serde_json::json;
/// use yb_prompt::ToolRegistry;
///
/// #[derive(serde::Deserialize)]
/// struct Add {
///     a: i64,
///     b: i64,
/// }
///
/// let tools = ToolRegistry::new()
///     .register("add", |args: Add| async move { Ok::<_, String>(args.a + args.b) })
///     .register("now", |_: serde_json::Value| async { Ok::<_, String>("noon") });
/// assert!(tools.has("add"));
/// assert_eq!(tools.tool_names(), ["add", "now"]);
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct ToolRegistry {
    tools: BTreeMap<String, RegisteredTool>,
}

impl ToolRegistry {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with one more; the last of a name counts. A text is told to the model as it is, any other value as JSON, an
    /// error as an error.
    pub fn register<A, R, E, F, Fut>(mut self, name: impl Into<String>, function: F) -> Self
    where
        A: DeserializeOwned + Send + 'static,
        R: Serialize,
        E: Display,
        F: Fn(A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
    {
        let run: Run = Arc::new(move |arguments| match serde_json::from_value::<A>(arguments) {
            Ok(arguments) => {
                let answer = function(arguments);
                Box::pin(async move { told(&answer.await.map_err(|error| error.to_string())?) })
            }
            Err(error) => Box::pin(std::future::ready(Err(format!("invalid arguments: {error}")))),
        });
        let name = name.into();
        self.tools.insert(name.clone(), RegisteredTool { name, run });
        self
    }

    /// The function of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&RegisteredTool> {
        self.tools.get(name)
    }

    /// Whether there is one of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.tools.contains_key(name)
    }

    /// Their names, sorted.
    #[must_use]
    pub fn tool_names(&self) -> Vec<&str> {
        self.tools.keys().map(String::as_str).collect()
    }
}

impl fmt::Debug for ToolRegistry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.tools.keys()).finish()
    }
}

fn told(value: &impl Serialize) -> Result<String, String> {
    match serde_json::to_value(value) {
        Ok(Value::String(text)) => Ok(text),
        Ok(value) => serde_json::to_string_pretty(&value).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// A function of the registry.
#[derive(Clone)]
pub struct RegisteredTool {
    name: String,
    run: Run,
}

impl RegisteredTool {
    /// Calls it: what the model would be told.
    ///
    /// # Errors
    /// The function's own, and arguments that it can't take.
    pub async fn call(&self, arguments: Value) -> Result<String, String> {
        (self.run)(arguments).await
    }

    /// The same as a tool of a session, whose arguments are held against the prompt's schema first.
    fn serve(&self, description: &str, parameters: &Value) -> Result<Tool, PromptError> {
        let field = || format!("tools.{}.parameters", self.name);
        schema::check(parameters)
            .map_err(|reason| PromptError::invalid(field(), format!("not a valid JSON Schema: {reason}")))?;
        let validator = jsonschema::validator_for(parameters)
            .map_err(|error| PromptError::invalid(field(), format!("not a valid JSON Schema: {error}")))?;
        let (validator, own) = (Arc::new(validator), self.clone());
        let served = tool(self.name.as_str(), description, move |arguments: Value, _cx| {
            let (validator, own) = (Arc::clone(&validator), own.clone());
            async move {
                let findings = schema::findings_of(&validator, &arguments);
                if !findings.is_empty() {
                    return ToolOutput::error(format!("invalid arguments: {}", findings.join("; ")));
                }
                match own.call(arguments).await {
                    Ok(text) => ToolOutput::text(text),
                    Err(reason) => ToolOutput::error(format!("the tool `{}` failed: {reason}", own.name)),
                }
            }
        });
        Ok(served.with_schema(as_object_schema(parameters)))
    }
}

impl fmt::Debug for RegisteredTool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RegisteredTool").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Arguments are always an object, and the CLI asks every schema to say so.
fn as_object_schema(parameters: &Value) -> Value {
    match parameters {
        Value::Object(map) if !map.contains_key("type") => {
            let mut map = map.clone();
            map.insert("type".to_owned(), Value::from("object"));
            Value::Object(map)
        }
        Value::Object(_) => parameters.clone(),
        _ => serde_json::json!({"type": "object"}),
    }
}

/// What a prompt's tools come to.
#[derive(Debug, Default)]
pub(crate) struct Offered {
    /// Those that are registered.
    pub(crate) server: Option<ToolServer>,
    /// Those that need no permission.
    pub(crate) allowed: Vec<String>,
    /// Those that the prompt describes and nobody registered.
    pub(crate) missing: Vec<String>,
}

pub(crate) fn offer(tools: &[PromptTool], registry: &ToolRegistry) -> Result<Offered, PromptError> {
    let mut offered = Offered::default();
    for wanted in tools {
        match wanted {
            PromptTool::Named(name) => {
                let mcp = name.strip_prefix("mcp://").and_then(|rest| rest.split_once('/'));
                offered.allowed.push(match mcp {
                    Some((server, tool)) => format!("mcp__{server}__{tool}"),
                    None => name.clone(),
                });
            }
            PromptTool::Served { name, description, parameters } => {
                let field = format!("tools.{name}.parameters");
                schema::check(parameters).map_err(|reason| {
                    PromptError::invalid(field, format!("not a valid JSON Schema: {reason}"))
                })?;
                let Some(found) = registry.get(name) else {
                    offered.missing.push(name.clone());
                    continue;
                };
                let server = offered.server.take().unwrap_or_else(|| ToolServer::new(TOOL_SERVER));
                offered.server = Some(server.with_tool(found.serve(description, parameters)?));
            }
        }
    }
    if let Some(server) = &offered.server {
        offered.allowed.extend(server.tool_names());
    }
    Ok(offered)
}
