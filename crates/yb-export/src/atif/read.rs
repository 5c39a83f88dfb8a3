//! Trajectories as logs, so that evaluators and `yb show` read them like those of our own trials.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use yb_engine::adapter::Isolation;
use yb_engine::case::NetworkMode;
use yb_engine::log::{
    AgentInfo, Environment, Execution, ExecutionStatus, FunctionCall, LogMessage, LogParts, MessageToolCall,
    ModelInfo, ModelSource, OutputFiles, Role, ToolCallRecord, Usage, UsageSource, YouBenchaLog,
};

/// The versions that are read.
const PREFIX: &str = "ATIF-v1.";
/// How deeply subagents may be nested.
const MAX_DEPTH: usize = 32;

/// An error reading a trajectory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AtifError {
    /// The text is not JSON.
    #[error("invalid JSON")]
    Json(#[from] serde_json::Error),
    /// The text is JSON, but not a trajectory of a known version.
    #[error("not an ATIF trajectory of version 1: {0}")]
    NotATrajectory(String),
    /// A field has the wrong type.
    #[error("invalid trajectory: `{place}`: {reason}")]
    Field {
        /// The path of the field.
        place: String,
        /// What is wrong.
        reason: &'static str,
    },
}

/// Returns whether a JSON document looks like a trajectory.
#[must_use]
pub fn is_atif(bytes: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Version {
        schema_version: Option<String>,
        #[serde(default)]
        steps: Option<serde::de::IgnoredAny>,
    }
    serde_json::from_slice::<Version>(bytes).is_ok_and(|found| {
        found.steps.is_some() && found.schema_version.is_some_and(|version| version.starts_with(PREFIX))
    })
}

/// Reads a trajectory as a log. Media are replaced by their names; token ids and log probabilities are dropped.
///
/// # Errors
/// If it is not a trajectory, or a field that a log needs has the wrong type.
pub fn read_atif(bytes: &[u8]) -> Result<YouBenchaLog, AtifError> {
    let root: Value = serde_json::from_slice(bytes)?;
    match root["schema_version"].as_str() {
        Some(version) if version.starts_with(PREFIX) => {}
        Some(version) => return Err(AtifError::NotATrajectory(format!("`schema_version` is `{version}`"))),
        None => return Err(AtifError::NotATrajectory("`schema_version` is missing".to_owned())),
    }
    let mut reader = Reader::default();
    reader.trajectory(&root, None, "", 0)?;
    let agent = &root["agent"];
    let name =
        text(agent, "name").ok_or(AtifError::Field { place: "agent.name".into(), reason: "missing" })?;
    // What another export of ours put there; what is not there is derived.
    let ours = &root["extra"]["youbencha"];
    let times: Vec<&str> = reader
        .messages
        .iter()
        .map(|message| message.timestamp.as_str())
        .filter(|time| !time.is_empty())
        .collect();
    let (started, completed) = (times.first().copied(), times.last().copied());
    let execution = kept::<Execution>(&ours["execution"])
        .unwrap_or_else(|| execution(started.unwrap_or_default(), completed.unwrap_or_default(), &root));
    let model = text(agent, "model_name").unwrap_or_else(|| "unknown".to_owned());
    let model = kept::<ModelInfo>(&ours["model"]).unwrap_or_else(|| ModelInfo {
        source: if model == "unknown" { ModelSource::Unknown } else { ModelSource::Result },
        name: model,
        provider: "unknown".to_owned(),
        parameters: BTreeMap::new(),
    });
    let mut log = YouBenchaLog::new(LogParts {
        agent: AgentInfo {
            name,
            version: text(agent, "version").unwrap_or_else(|| "unknown".to_owned()),
            adapter_version: "atif".to_owned(),
        },
        model,
        execution,
        messages: Vec::new(),
        tool_calls: Vec::new(),
        usage: kept::<Usage>(&ours["usage"]).unwrap_or_else(|| usage(&root["final_metrics"])),
        errors: kept(&ours["errors"]).unwrap_or_default(),
        warnings: kept(&ours["warnings"]).unwrap_or_default(),
        environment: kept::<Environment>(&ours["environment"]).unwrap_or_else(|| Environment {
            os: "unknown".to_owned(),
            node_version: "none".to_owned(),
            youbencha_version: env!("CARGO_PKG_VERSION").to_owned(),
            working_directory: String::new(),
        }),
        output: OutputFiles::default(),
        outcome: None,
        omitted: None,
    });
    (log.messages, log.tool_calls) = (reader.messages, reader.calls);
    Ok(log)
}

/// Parses what an export of ours kept in `extra`.
fn kept<T: DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_value(value.clone()).ok()
}

fn text(value: &Value, name: &str) -> Option<String> {
    value[name].as_str().map(str::to_owned)
}

#[derive(Default)]
struct Reader {
    messages: Vec<LogMessage>,
    calls: Vec<ToolCallRecord>,
}

impl Reader {
    fn trajectory(
        &mut self,
        value: &Value,
        parent: Option<&str>,
        place: &str,
        depth: usize,
    ) -> Result<(), AtifError> {
        if depth > MAX_DEPTH {
            return Err(AtifError::Field {
                place: place.to_owned(),
                reason: "subagents are nested too deeply",
            });
        }
        let at = |field: &str| format!("{place}{field}");
        let steps = value["steps"]
            .as_array()
            .ok_or_else(|| AtifError::Field { place: at("steps"), reason: "expected a list" })?;
        for (number, step) in steps.iter().enumerate() {
            let place = at(&format!("steps[{number}]."));
            self.step(step, value, parent, &place, depth)?;
        }
        Ok(())
    }

    fn step(
        &mut self,
        step: &Value,
        trajectory: &Value,
        parent: Option<&str>,
        place: &str,
        depth: usize,
    ) -> Result<(), AtifError> {
        let role = match step["source"].as_str() {
            Some("system") => Role::System,
            Some("user") => Role::User,
            Some("agent") => Role::Assistant,
            _ => {
                let reason = "expected `system`, `user` or `agent`";
                return Err(AtifError::Field { place: format!("{place}source"), reason });
            }
        };
        let timestamp = text(step, "timestamp").unwrap_or_default();
        let calls: Vec<MessageToolCall> =
            list(step, "tool_calls").map(|call| call_of(call, place)).collect::<Result<_, _>>()?;
        let message = LogMessage {
            role,
            content: content(&step["message"]),
            thinking: text(step, "reasoning_content").unwrap_or_default(),
            timestamp: timestamp.clone(),
            tool_calls: calls.clone(),
            tool_call_id: None,
            parent_tool_call_id: parent.map(str::to_owned),
        };
        let is_empty = message.content.is_empty() && message.thinking.is_empty() && calls.is_empty();
        if !is_empty {
            self.messages.push(message);
        }
        let results: Vec<&Value> = list(&step["observation"], "results").collect();
        let first_call = self.calls.len();
        for (call, source) in calls.iter().zip(list(step, "tool_calls")) {
            let result = results.iter().find(|result| result["source_call_id"] == json!(call.id));
            let result_text = result.map(|result| content(&result["content"]));
            self.calls.push(ToolCallRecord {
                id: Some(call.id.clone()),
                name: call.function.name.clone(),
                arguments: call.function.arguments.clone(),
                result_bytes: result_text.as_ref().map(|text| text.len() as u64),
                is_error: result.map(|result| result["extra"]["is_error"] == json!(true)),
                result: result_text,
                started_at: text(&source["extra"], "started_at")
                    .or_else(|| Some(timestamp.clone()).filter(|time| !time.is_empty())),
                completed_at: text(&source["extra"], "completed_at"),
                parent_tool_call_id: parent.map(str::to_owned),
            });
        }
        for result in results {
            let call = result["source_call_id"].as_str();
            self.subagents(result, call, trajectory, place, depth)?;
            if result["content"].is_null() {
                continue;
            }
            let times = self.calls.get(first_call..).unwrap_or_default();
            let completed = times.iter().find(|record| record.id.as_deref() == call);
            let completed = completed.and_then(|record| record.completed_at.clone());
            self.messages.push(LogMessage {
                role: Role::Tool,
                content: content(&result["content"]),
                thinking: String::new(),
                timestamp: completed.unwrap_or_else(|| timestamp.clone()),
                tool_calls: Vec::new(),
                tool_call_id: call.map(str::to_owned),
                parent_tool_call_id: parent.map(str::to_owned),
            });
        }
        Ok(())
    }

    /// Reads the embedded trajectories that a result refers to. Those in other files are not read.
    fn subagents(
        &mut self,
        result: &Value,
        call: Option<&str>,
        trajectory: &Value,
        place: &str,
        depth: usize,
    ) -> Result<(), AtifError> {
        for (number, reference) in list(result, "subagent_trajectory_ref").enumerate() {
            let Some(id) = reference["trajectory_id"].as_str() else { continue };
            let found =
                list(trajectory, "subagent_trajectories").find(|one| one["trajectory_id"] == json!(id));
            if let Some(subagent) = found {
                let place = format!("{place}observation.subagent_trajectory_ref[{number}].");
                self.trajectory(subagent, Some(call.unwrap_or(id)), &place, depth + 1)?;
            }
        }
        Ok(())
    }
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}

fn call_of(call: &Value, place: &str) -> Result<MessageToolCall, AtifError> {
    let field = |name: &'static str| {
        text(call, name)
            .ok_or_else(|| AtifError::Field { place: format!("{place}tool_calls.{name}"), reason: "missing" })
    };
    let arguments = if call["arguments"].is_null() { json!(Map::new()) } else { call["arguments"].clone() };
    Ok(MessageToolCall {
        id: field("tool_call_id")?,
        kind: "function".to_owned(),
        function: FunctionCall { name: field("function_name")?, arguments: arguments.to_string() },
    })
}

/// Returns the text of a message: a string, or parts, of which media are named.
fn content(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let part = |part: &Value| match part["type"].as_str() {
                Some("text") => text(part, "text").unwrap_or_default(),
                Some(kind) => {
                    format!("[{kind}: {}]", part["source"]["path"].as_str().unwrap_or("without a path"))
                }
                None => String::new(),
            };
            parts.iter().map(part).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

fn usage(totals: &Value) -> Usage {
    let count = |name: &str| totals[name].as_u64();
    let (prompt, output) = (count("total_prompt_tokens"), count("total_completion_tokens"));
    let cost = totals["total_cost_usd"].as_f64();
    if prompt.is_none() && output.is_none() && cost.is_none() {
        return Usage::unreported();
    }
    let cached = count("total_cached_tokens").unwrap_or(0);
    let input = prompt.unwrap_or(0).saturating_sub(cached);
    let output = output.unwrap_or(0);
    Usage {
        input_tokens: input,
        prompt_tokens: input,
        output_tokens: output,
        completion_tokens: output,
        total_tokens: input.saturating_add(output),
        cache_read_input_tokens: cached,
        cost_usd: cost,
        estimated_cost_usd: cost,
        source: UsageSource::SelfReported,
        cost_source: cost.map(|_| UsageSource::SelfReported),
        ..Usage::unreported()
    }
}

fn execution(started_at: &str, completed_at: &str, root: &Value) -> Execution {
    let time = |text: &str| text.parse::<jiff::Timestamp>().ok();
    let duration = time(started_at).zip(time(completed_at)).map(|(start, end)| end.duration_since(start));
    let turns = list(root, "steps").filter(|step| step["source"] == json!("agent")).count();
    Execution {
        started_at: started_at.to_owned(),
        completed_at: completed_at.to_owned(),
        duration_ms: duration.and_then(|span| u64::try_from(span.as_millis()).ok()).unwrap_or(0),
        exit_code: 0,
        status: ExecutionStatus::Success,
        timed_out: false,
        isolation: Isolation::None,
        syscall_filter: None,
        network: NetworkMode::Open,
        refused_connections: Vec::new(),
        api_observation: None,
        permission_mode: None,
        containment: None,
        trust_repo_settings: false,
        session_id: text(root, "session_id"),
        num_turns: Some(turns as u64),
        ending: None,
        stop_reason: None,
        api_retries: 0,
        permission_denials: 0,
        argv: Vec::new(),
        env: Vec::new(),
        stdin: None,
    }
}
