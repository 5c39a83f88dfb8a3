//! The MCP methods of an in-process server: tools, resources, prompts and cancellation.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use yb_supervise::CancellationToken;

use super::handlers::{CANCEL_GRACE, CallContext};
use super::tools::{ToolContext, ToolServer};

/// The protocol version, if the CLI requests none.
const PROTOCOL: &str = "2025-11-25";
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const INTERNAL_ERROR: i64 = -32603;
const RESOURCE_NOT_FOUND: i64 = -32002;
const CANCELLED: i64 = -32800;

/// Pending calls by server and ID, for cancellation by a notification.
#[derive(Default)]
pub(super) struct OpenCalls(Mutex<HashMap<(String, String), CancellationToken>>);

impl OpenCalls {
    fn all(&self) -> std::sync::MutexGuard<'_, HashMap<(String, String), CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a call from the list when dropped.
struct OpenCallGuard<'a> {
    calls: &'a OpenCalls,
    key: (String, String),
}

impl Drop for OpenCallGuard<'_> {
    fn drop(&mut self) {
        self.calls.all().remove(&self.key);
    }
}

impl ToolServer {
    /// Handles one MCP message, for a program that serves the tools over a transport of its own. Returns nothing for a notification.
    pub async fn respond(&self, message: &Value) -> Option<Value> {
        message.get("id").filter(|id| !id.is_null())?;
        respond(self, message, CallContext::new(CancellationToken::new()), &OpenCalls::default()).await
    }
}

/// Handles one message.
pub(super) async fn respond(
    server: &ToolServer,
    message: &Value,
    context: CallContext,
    open_calls: &OpenCalls,
) -> Option<Value> {
    let method = message["method"].as_str().unwrap_or_default();
    let Some(id) = message.get("id").filter(|id| !id.is_null()) else {
        if method == "notifications/cancelled" {
            let key = (server.name().to_owned(), message["params"]["requestId"].to_string());
            if let Some(call) = open_calls.all().get(&key) {
                call.cancel();
            }
        }
        // A notification has no response, but the control request that carries it has.
        return Some(json!({"jsonrpc": "2.0", "result": {}}));
    };
    let params = &message["params"];
    let result = match method {
        "initialize" => initialize_result(server, params),
        "ping" => json!({}),
        "tools/list" => json!({"tools": server.listing()}),
        "resources/list" if server.has_resources() => json!({"resources": server.resource_listing()}),
        "resources/templates/list" if server.has_resources() => json!({"resourceTemplates": []}),
        "prompts/list" if server.has_prompts() => json!({"prompts": server.prompt_listing()}),
        "resources/read" if server.has_resources() => {
            let uri = params["uri"].as_str().unwrap_or_default();
            let Some(resource) = server.resource(uri) else {
                return Some(error(id, RESOURCE_NOT_FOUND, &format!("unknown resource: `{uri}`")));
            };
            match resource.read(context).await {
                Ok(result) => result,
                Err(reason) => return Some(error(id, INTERNAL_ERROR, &reason)),
            }
        }
        "prompts/get" if server.has_prompts() => {
            let name = params["name"].as_str().unwrap_or_default();
            let Some(prompt) = server.prompt(name) else {
                return Some(error(id, INVALID_PARAMS, &format!("unknown prompt: `{name}`")));
            };
            match prompt.render(&params["arguments"], context).await {
                Ok(result) => result,
                Err(reason) => return Some(error(id, INTERNAL_ERROR, &reason)),
            }
        }
        "tools/call" => {
            let key = (server.name().to_owned(), id.to_string());
            let cancelled = CancellationToken::new();
            open_calls.all().insert(key.clone(), cancelled.clone());
            let _guard = OpenCallGuard { calls: open_calls, key };
            let context = ToolContext::new(params, context, cancelled.clone());
            let mut running = server.start(params, context);
            tokio::select! {
                biased;
                () = cancelled.cancelled() => {
                    // The response does not wait for the tool.
                    tokio::spawn(async move {
                        let _ = tokio::time::timeout(CANCEL_GRACE, running.output()).await;
                    });
                    return Some(error(id, CANCELLED, "call was cancelled"));
                }
                output = running.output() => output.into_json(),
            }
        }
        other => return Some(error(id, METHOD_NOT_FOUND, &format!("unknown method: `{other}`"))),
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// Returns the result of `initialize`, with the capabilities that the server uses.
fn initialize_result(server: &ToolServer, params: &Value) -> Value {
    let version = params["protocolVersion"].as_str().unwrap_or(PROTOCOL);
    let mut capabilities = json!({"tools": {"listChanged": false}});
    if server.has_resources() {
        capabilities["resources"] = json!({"listChanged": false});
    }
    if server.has_prompts() {
        capabilities["prompts"] = json!({"listChanged": false});
    }
    let mut result = json!({
        "protocolVersion": version,
        "capabilities": capabilities,
        "serverInfo": {"name": server.name(), "version": server.version()},
    });
    if let Some(instructions) = server.instructions() {
        result["instructions"] = json!(instructions);
    }
    result
}

/// Returns the error for an unknown server.
pub(super) fn no_server(name: &str, message: &Value) -> Option<Value> {
    let id = message.get("id").cloned().unwrap_or(Value::Null);
    Some(error(&id, METHOD_NOT_FOUND, &format!("unknown tool server: `{name}`")))
}

fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}
