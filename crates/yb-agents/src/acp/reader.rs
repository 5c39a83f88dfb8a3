//! One session of the Agent Client Protocol: the requests to the agent, and its messages.

use serde_json::{Map, Value, json};
use yb_claude::Message;

use super::super::bounds::{OpenText, RecentMap, push_warning};
use super::super::cli::permission_mode;
use super::super::reader::{
    Failure, FailureKind, MessageContext, Reader, ReportedUsage, RetryBehavior, RunEnd, assistant_text,
    event, keep_alive, permission_denied, run_result, thinking, tool_call, tool_result,
};
use super::super::{AcpConfig, ExecutionContext};

/// The version of the protocol that is spoken here.
const VERSION: u64 = 1;
/// The protocol's code for an agent that wants credentials.
const AUTH_REQUIRED: i64 = -32000;
/// JSON-RPC's code for an unknown method.
const NO_SUCH_METHOD: i64 = -32601;
/// Kinds of tools that change nothing.
const READING: [&str; 4] = ["read", "search", "think", "fetch"];

/// The request that waits for its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Initialize,
    Authenticate,
    NewSession,
    Model,
    Prompt,
    Over,
}

/// The client of one session.
#[derive(Debug)]
pub(crate) struct AcpReader {
    step: Step,
    auth_method: Option<String>,
    cwd: String,
    model: Option<String>,
    servers: Vec<Value>,
    mode: String,
    prompt: String,
    session: String,
    /// Bytes to write to stdin.
    outgoing: Vec<u8>,
    /// The chunks of the current answer.
    open: OpenText,
    /// The chunks of the thinking before it.
    thought: OpenText,
    last: String,
    turns: u64,
    /// Tool calls by id, and whether each has a result.
    calls: RecentMap<bool>,
    warnings: Vec<String>,
}

impl AcpReader {
    pub(crate) fn new(own: &AcpConfig, context: &ExecutionContext, prompt: &str) -> Self {
        let config = &context.config;
        let mut reader = Self {
            step: Step::Initialize,
            auth_method: own.auth_method.clone(),
            cwd: context.workspace.to_string_lossy().into_owned(),
            model: config.model.clone(),
            servers: config.mcp_servers.iter().map(|(name, server)| server_of(name, server)).collect(),
            mode: permission_mode(config).to_owned(),
            prompt: prompt.to_owned(),
            session: String::new(),
            outgoing: Vec::new(),
            open: OpenText::default(),
            thought: OpenText::default(),
            last: String::new(),
            turns: 0,
            calls: RecentMap::default(),
            warnings: Vec::new(),
        };
        let capabilities =
            json!({ "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false });
        let client = json!({ "name": "youbencha", "version": env!("CARGO_PKG_VERSION") });
        reader.ask(
            Step::Initialize,
            "initialize",
            &json!({ "protocolVersion": VERSION, "clientCapabilities": capabilities, "clientInfo": client }),
        );
        reader
    }

    fn ask(&mut self, step: Step, method: &str, params: &Value) {
        self.step = step;
        self.send(&json!({ "jsonrpc": "2.0", "id": step as u8, "method": method, "params": params }));
    }

    fn send(&mut self, message: &Value) {
        self.outgoing.extend(message.to_string().into_bytes());
        self.outgoing.push(b'\n');
    }

    fn begin_session(&mut self) {
        let params = json!({ "cwd": self.cwd, "mcpServers": self.servers });
        self.ask(Step::NewSession, "session/new", &params);
    }

    fn begin_prompt(&mut self) {
        let prompt = json!([{ "type": "text", "text": self.prompt }]);
        self.ask(Step::Prompt, "session/prompt", &json!({ "sessionId": self.session, "prompt": prompt }));
    }

    /// Handles the response to the last request.
    fn answered(&mut self, result: &Value) -> Vec<Message> {
        match self.step {
            Step::Initialize => {
                let spoken = result["protocolVersion"].as_u64();
                if spoken.is_some_and(|spoken| spoken != VERSION) {
                    let warning = format!(
                        "the agent speaks version {} of the protocol, and was spoken to in version {VERSION}",
                        result["protocolVersion"]
                    );
                    push_warning(&mut self.warnings, &warning);
                }
                match self.auth_method.clone() {
                    Some(method) => {
                        self.ask(Step::Authenticate, "authenticate", &json!({ "methodId": method }));
                    }
                    None => self.begin_session(),
                }
                began(&result["agentInfo"]).into_iter().collect()
            }
            Step::Authenticate => {
                self.begin_session();
                Vec::new()
            }
            Step::NewSession => {
                result["sessionId"].as_str().unwrap_or_default().clone_into(&mut self.session);
                match self.model.clone() {
                    Some(model) => self.choose(&model, result),
                    None => self.begin_prompt(),
                }
                Vec::new()
            }
            Step::Model => {
                self.begin_prompt();
                Vec::new()
            }
            Step::Prompt => self.end_prompt(result),
            Step::Over => Vec::new(),
        }
    }

    /// Selects the model in the way that the agent offers.
    fn choose(&mut self, model: &str, session: &Value) {
        let session_id = self.session.clone();
        let options = session["configOptions"].as_array().into_iter().flatten();
        let option =
            options.filter(|option| option["category"] == "model").find_map(|option| option["id"].as_str());
        if let Some(option) = option {
            let params = json!({ "sessionId": session_id, "configId": option, "value": model });
            self.ask(Step::Model, "session/set_config_option", &params);
        } else if session.get("models").is_some_and(Value::is_object) {
            let params = json!({ "sessionId": session_id, "modelId": model });
            self.ask(Step::Model, "session/set_model", &params);
        } else {
            self.warnings.push("`model` has no effect: the agent offers no choice of models".to_owned());
            self.begin_prompt();
        }
    }

    fn refused(&mut self, error: &Value) -> Vec<Message> {
        let failure = failure(error);
        if self.step == Step::Model {
            push_warning(
                &mut self.warnings,
                &format!("the agent did not take the model: {}", failure.message),
            );
            self.begin_prompt();
            return Vec::new();
        }
        let mut messages = self.flush();
        let (failure, error) = match failure {
            unknown @ Failure { status: None, kind: None, .. } => (None, Some(unknown.message)),
            known => (Some(known), None),
        };
        let finish = RunEnd { failure, error, turns: Some(self.turns), ..RunEnd::default() };
        messages.extend(run_result(&finish));
        self.step = Step::Over;
        messages
    }

    fn end_prompt(&mut self, result: &Value) -> Vec<Message> {
        let mut messages = self.flush();
        let stop = result["stopReason"].as_str().unwrap_or("end_turn");
        let used = used(result);
        let error = match stop {
            "end_turn" | "max_turn_requests" => None,
            other => Some(format!("the agent stopped: {other}")),
        };
        messages.extend(run_result(&RunEnd {
            text: self.last.clone(),
            error,
            max_turns: stop == "max_turn_requests",
            turns: Some(self.turns),
            used,
            by_model: self.model.clone().zip(used).into_iter().collect(),
            ..RunEnd::default()
        }));
        self.step = Step::Over;
        messages
    }

    /// Ends the current answer, with the thinking before it.
    fn flush(&mut self) -> Vec<Message> {
        let text = self.open.take();
        let thought = thinking(&self.thought.take(), &MessageContext::default());
        let message = assistant_text(&text, &MessageContext::default());
        if message.is_some() {
            self.turns += 1;
            self.last = text;
        }
        thought.into_iter().chain(message).collect()
    }

    fn update(&mut self, update: &Value) -> Vec<Message> {
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "agent_message_chunk" => {
                self.open.push(update["content"]["text"].as_str().unwrap_or_default());
                keep_alive().into_iter().collect()
            }
            "tool_call" | "tool_call_update" => self.call(update),
            "agent_thought_chunk" => {
                self.thought.push(update["content"]["text"].as_str().unwrap_or_default());
                keep_alive().into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Handles a tool call, and its result once.
    fn call(&mut self, call: &Value) -> Vec<Message> {
        let Some(id) = call["toolCallId"].as_str().map(str::to_owned) else { return Vec::new() };
        let mut messages = Vec::new();
        // A pending call gets its arguments later.
        let known = self.calls.contains(&id);
        let status = call["status"].as_str().unwrap_or_default();
        if !known && (status != "pending" || call.get("rawInput").is_some_and(Value::is_object)) {
            messages = self.flush();
            self.calls.insert(&id, false);
            let (name, arguments) = tool(call);
            messages.extend(tool_call(&id, &name, &arguments, &MessageContext::default()));
        }
        if matches!(status, "completed" | "failed") && self.calls.get(&id) != Some(&true) {
            self.calls.insert(&id, true);
            messages.extend(tool_result(&id, &output(call), status == "failed", &MessageContext::default()));
        }
        messages
    }

    /// Answers a permission request by the permission mode of the case.
    fn permit(&mut self, id: &Value, params: &Value) -> Vec<Message> {
        let call = &params["toolCall"];
        let kind = call["kind"].as_str().unwrap_or("other");
        let yes = match self.mode.as_str() {
            "bypassPermissions" | "auto" => true,
            "acceptEdits" => READING.contains(&kind) || ["edit", "move", "delete"].contains(&kind),
            _ => READING.contains(&kind),
        };
        // Allowed once, so that each call is reported.
        let wanted = if yes { ["allow_once", "allow_always"] } else { ["reject_once", "reject_always"] };
        let options = params["options"].as_array().map_or(&[][..], Vec::as_slice);
        let option = wanted.iter().find_map(|kind| options.iter().find(|option| option["kind"] == **kind));
        let outcome = match option {
            Some(option) => json!({ "outcome": "selected", "optionId": option["optionId"] }),
            None => json!({ "outcome": "cancelled" }),
        };
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": { "outcome": outcome } }));
        let mut known = call.clone();
        known["status"] = "in_progress".into();
        let mut messages = self.call(&known);
        if !yes {
            let (name, _) = tool(call);
            messages.extend(permission_denied(call["toolCallId"].as_str().unwrap_or_default(), &name));
        }
        messages
    }
}

impl Reader for AcpReader {
    /// The protocol does not report retries.
    fn retry_behavior(&self) -> RetryBehavior {
        RetryBehavior::Silent
    }

    fn parse_line(&mut self, line: &[u8]) -> Result<Vec<Message>, String> {
        let Some(event) = event(line)? else { return Ok(Vec::new()) };
        let event = Value::Object(event);
        let id = event.get("id");
        Ok(match (event["method"].as_str(), id) {
            (Some("session/update"), _) => self.update(&event["params"]["update"]),
            (Some("session/request_permission"), Some(id)) => self.permit(id, &event["params"]),
            (Some(method), Some(id)) => {
                let error = json!({ "code": NO_SUCH_METHOD, "message": format!("no such method: {method}") });
                self.send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
                Vec::new()
            }
            (Some(_), None) => Vec::new(),
            (None, Some(id)) if id.as_u64() == Some(self.step as u64) => match event.get("error") {
                Some(error) if !error.is_null() => self.refused(error),
                _ => self.answered(&event["result"]),
            },
            (None, _) => Vec::new(),
        })
    }

    fn take_input(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outgoing)
    }

    fn is_prompted(&self) -> bool {
        matches!(self.step, Step::Prompt | Step::Over)
    }

    fn is_done(&self) -> bool {
        self.step == Step::Over
    }

    fn finish(&mut self, _stderr: &str) -> Vec<Message> {
        self.flush()
    }

    fn warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}

/// The start of the session, with the name of the agent.
fn began(info: &Value) -> Option<Message> {
    let version = match (info["name"].as_str(), info["version"].as_str()) {
        (Some(name), Some(version)) => Some(format!("{name} {version}")),
        (name, version) => name.or(version).map(str::to_owned),
    };
    let init = json!({ "type": "system", "subtype": "init", "claude_code_version": version });
    Message::parse(init.to_string().as_bytes()).ok()
}

/// The protocol has kinds of tools and titles of calls, and no names.
fn tool(call: &Value) -> (String, Value) {
    let name = call["kind"].as_str().unwrap_or("other").to_owned();
    if let Some(input) = call.get("rawInput").filter(|input| input.is_object()) {
        return (name, input.clone());
    }
    let paths = call["locations"].as_array().into_iter().flatten().filter_map(|place| place["path"].as_str());
    let mut arguments = Map::new();
    arguments.insert("title".to_owned(), call["title"].clone());
    if let Some(path) = paths.into_iter().next() {
        arguments.insert("path".to_owned(), path.into());
    }
    (name, Value::Object(arguments))
}

/// The text of a tool result.
fn output(call: &Value) -> String {
    let parts =
        call["content"].as_array().into_iter().flatten().filter_map(|part| match part["type"].as_str() {
            Some("content") => part["content"]["text"].as_str().map(str::to_owned),
            Some("diff") => Some(format!("changed {}", part["path"].as_str().unwrap_or_default())),
            _ => None,
        });
    let text = parts.collect::<Vec<_>>().join("\n");
    match &call["rawOutput"] {
        raw if !text.is_empty() || raw.is_null() => text,
        Value::String(raw) => raw.clone(),
        raw => raw["output"].as_str().map_or_else(|| raw.to_string(), str::to_owned),
    }
}

/// The usage in a response: by the protocol, or by the Gemini CLI.
fn used(result: &Value) -> Option<ReportedUsage> {
    let count = |usage: &Value, key: &str| usage[key].as_u64().unwrap_or_default();
    if let Some(usage) = result.get("usage").filter(|usage| usage.is_object()) {
        return Some(ReportedUsage {
            input: count(usage, "inputTokens"),
            output: count(usage, "outputTokens").saturating_add(count(usage, "thoughtTokens")),
            cache_read: count(usage, "cachedReadTokens"),
            cache_write: count(usage, "cachedWriteTokens"),
            usd: None,
        });
    }
    let usage = result.pointer("/_meta/quota/token_count")?;
    Some(ReportedUsage {
        input: count(usage, "input_tokens"),
        output: count(usage, "output_tokens"),
        ..ReportedUsage::default()
    })
}

/// Classifies an error message.
fn failure(error: &Value) -> Failure {
    const WORDS: [(&str, FailureKind); 7] = [
        ("authenticat", FailureKind::Unauthenticated),
        ("api key", FailureKind::Unauthenticated),
        ("rate limit", FailureKind::RateLimited),
        ("quota", FailureKind::RateLimited),
        ("fetch failed", FailureKind::Network),
        ("cannot connect", FailureKind::Network),
        ("econn", FailureKind::Network),
    ];
    let message = error["message"].as_str().unwrap_or("without a reason");
    let details = match &error["data"] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        data => data["details"].as_str().map_or_else(|| data.to_string(), str::to_owned),
    };
    let words = if details.is_empty() { message.to_owned() } else { format!("{message}: {details}") };
    let code = error["code"].as_i64().unwrap_or_default();
    let status = u16::try_from(code).ok().filter(|status| (400..600).contains(status)).or_else(|| {
        let (_, after) = words.split_once("\"code\":").or_else(|| words.split_once("\"statusCode\":"))?;
        after.trim_start().get(..3)?.parse().ok().filter(|status| (400..600).contains(status))
    });
    if let Some(status) = status {
        return Failure::status(status, words);
    }
    let lower = words.to_lowercase();
    let known = WORDS.into_iter().find(|(word, _)| lower.contains(word)).map(|(_, kind)| kind);
    match known.or((code == AUTH_REQUIRED).then_some(FailureKind::Unauthenticated)) {
        Some(kind) => Failure::kind(kind, words),
        None => Failure { message: words, ..Failure::default() },
    }
}

/// Converts an MCP server to the format of the protocol.
fn server_of(name: &str, server: &Map<String, Value>) -> Value {
    let pairs = |key: &str| -> Vec<Value> {
        let map = server.get(key).and_then(Value::as_object);
        map.into_iter().flatten().map(|(name, value)| json!({ "name": name, "value": value })).collect()
    };
    match server.get("url") {
        Some(url) => {
            let kind = server.get("type").and_then(Value::as_str).unwrap_or("http");
            json!({ "type": kind, "name": name, "url": url, "headers": pairs("headers") })
        }
        None => json!({
            "name": name, "command": server.get("command"), "env": pairs("env"),
            "args": server.get("args").cloned().unwrap_or_else(|| json!([])),
        }),
    }
}
