//! Tools: functions of the host program, served to the model over MCP.

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

/// The name of the MCP server. The model calls a tool as `mcp__prompt-tools__NAME`.
pub const TOOL_SERVER: &str = "prompt-tools";

type ToolFuture = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;
type ToolFunction = Arc<dyn Fn(Value) -> ToolFuture + Send + Sync>;

/// Functions by name. Their descriptions and argument schemas are in the prompt.
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
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a function. The last registration of a name wins. Strings are returned to the model as is, other values as
    /// JSON, errors as tool errors.
    pub fn register<A, R, E, F, Fut>(self, name: impl Into<String>, function: F) -> Self
    where
        A: DeserializeOwned + Send + 'static,
        R: Serialize,
        E: Display,
        F: Fn(A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
    {
        self.register_described(name, "", serde_json::json!({"type": "object"}), function)
    }

    /// Registers a function like [`register`](Self::register), with the description and the argument schema for prompts that
    /// only list its name.
    pub fn register_described<A, R, E, F, Fut>(
        mut self,
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Value,
        function: F,
    ) -> Self
    where
        A: DeserializeOwned + Send + 'static,
        R: Serialize,
        E: Display,
        F: Fn(A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
    {
        let run: ToolFunction = Arc::new(move |arguments| match serde_json::from_value::<A>(arguments) {
            Ok(arguments) => {
                let answer = function(arguments);
                Box::pin(async move { to_tool_result(&answer.await.map_err(|error| error.to_string())?) })
            }
            Err(error) => Box::pin(std::future::ready(Err(format!("invalid arguments: {error}")))),
        });
        let (name, description) = (name.into(), description.into());
        self.tools.insert(name.clone(), RegisteredTool { name, run, description, parameters });
        self
    }

    /// Returns the function with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&RegisteredTool> {
        self.tools.get(name)
    }

    /// Returns whether a function with this name is registered.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.tools.contains_key(name)
    }

    /// Returns all names, sorted.
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

fn to_tool_result(value: &impl Serialize) -> Result<String, String> {
    match serde_json::to_value(value) {
        Ok(Value::String(text)) => Ok(text),
        Ok(value) => serde_json::to_string_pretty(&value).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// A registered function.
#[derive(Clone)]
pub struct RegisteredTool {
    name: String,
    run: ToolFunction,
    description: String,
    parameters: Value,
}

impl RegisteredTool {
    /// Calls the function and returns the result for the model.
    ///
    /// # Errors
    /// Fails with the function's error, or if the arguments have the wrong type.
    pub async fn call(&self, arguments: Value) -> Result<String, String> {
        (self.run)(arguments).await
    }

    /// Returns the function as an SDK tool that validates its arguments against the prompt's schema.
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
                    Err(reason) => ToolOutput::error(format!("tool `{}` failed: {reason}", own.name)),
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

/// Adds `type: object`, which the CLI requires of every argument schema.
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

/// The tools of a prompt, resolved against the registry.
#[derive(Debug, Default)]
pub(crate) struct ToolSelection {
    /// Serves the registered functions.
    pub(crate) server: Option<ToolServer>,
    /// Tools that need no permission.
    pub(crate) allowed: Vec<String>,
    /// Functions that are not registered.
    pub(crate) missing: Vec<String>,
}

pub(crate) fn select_tools(
    tools: &[PromptTool],
    registry: &ToolRegistry,
) -> Result<ToolSelection, PromptError> {
    let mut selection = ToolSelection::default();
    let serve = |selection: &mut ToolSelection, tool: Tool| {
        let server = selection.server.take().unwrap_or_else(|| ToolServer::new(TOOL_SERVER));
        selection.server = Some(server.with_tool(tool));
    };
    for tool in tools {
        match tool {
            // Tools of Claude Code begin with a capital letter, those of MCP servers with `mcp`.
            PromptTool::External(name)
                if name.starts_with(|first: char| first.is_ascii_lowercase()) && !name.starts_with("mcp") =>
            {
                match registry.get(name) {
                    Some(found) => {
                        serve(&mut selection, found.serve(&found.description, &found.parameters)?);
                    }
                    None => selection.missing.push(name.clone()),
                }
            }
            PromptTool::External(name) => {
                let mcp = name.strip_prefix("mcp://").and_then(|rest| rest.split_once('/'));
                selection.allowed.push(match mcp {
                    Some((server, tool)) => format!("mcp__{server}__{tool}"),
                    None => name.clone(),
                });
            }
            PromptTool::Function { name, description, parameters, .. } => {
                let field = format!("tools.{name}.parameters");
                schema::check(parameters).map_err(|reason| {
                    PromptError::invalid(field, format!("not a valid JSON Schema: {reason}"))
                })?;
                let Some(found) = registry.get(name) else {
                    selection.missing.push(name.clone());
                    continue;
                };
                serve(&mut selection, found.serve(description, parameters)?);
            }
        }
    }
    if let Some(server) = &selection.server {
        selection.allowed.extend(server.tool_names());
    }
    Ok(selection)
}
