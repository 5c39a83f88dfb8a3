//! ATIF, the Agent Trajectory Interchange Format of Harbor: one JSON document per trial.
//!
//! Objects of the format reject unknown keys, so what it has no key for is in `extra`.

mod read;

use serde_json::{Map, Value, json};
use yb_engine::adapter::AnswerUsage;
use yb_engine::log::{UsageSource, YouBenchaLog};

use crate::conversation::{Conversation, Step, StepSource, Thread, ToolUse};
use crate::record::TrialRecord;

pub use read::{AtifError, is_atif, read_atif};

/// The version that is written.
pub const ATIF_VERSION: &str = "ATIF-v1.8";

/// Returns the trajectory of a trial.
pub(crate) fn trajectory(record: &TrialRecord<'_>) -> Value {
    let conversation = Conversation::of(record);
    let log = &record.log;
    let mut root = trajectory_of(&conversation.main, None, &conversation, log, &mut Vec::new());
    if let Some(session) = &log.execution.session_id {
        root["session_id"] = json!(session);
    }
    root["trajectory_id"] = json!(record.trial.name);
    root["final_metrics"] = final_metrics(&conversation, log);
    root["extra"] = json!({ "youbencha": details(record) });
    let notes = notes(record);
    if !notes.is_empty() {
        root["notes"] = json!(notes);
    }
    root
}

/// What ATIF has no keys for.
fn details(record: &TrialRecord<'_>) -> Value {
    let (log, trial) = (&record.log, record.trial);
    let verdicts: Vec<Value> = record
        .verdicts()
        .map(|verdict| {
            let mut kept = Map::new();
            for name in ["evaluator", "status", "message", "metrics", "checks", "trust", "graded_code"] {
                if !verdict[name].is_null() {
                    kept.insert(name.to_owned(), verdict[name].clone());
                }
            }
            Value::Object(kept)
        })
        .collect();
    let mut details = json!({
        "run": record.run.id,
        "trial": trial.name,
        "case": trial.case,
        "variant": trial.variant,
        "repeat": trial.repeat,
        "outcome": trial.outcome.name,
        "verdicts": verdicts,
        "execution": log.execution,
        "usage": log.usage,
        "model": log.model,
        "environment": log.environment,
        "errors": log.errors,
        "warnings": log.warnings,
    });
    if let Some(score) = record.score() {
        details["score"] = json!(score);
    }
    if let Some(commit) = &trial.commit {
        details["commit"] = json!(commit);
    }
    details
}

fn notes(record: &TrialRecord<'_>) -> String {
    match record.missing_messages {
        0 => String::new(),
        missing => format!("{missing} messages between the first and the last ones are missing"),
    }
}

/// Returns the trajectory of a thread with those of its subagents. `open` has the calls above it, against cycles.
fn trajectory_of(
    thread: &Thread,
    id: Option<&str>,
    conversation: &Conversation,
    log: &YouBenchaLog,
    open: &mut Vec<String>,
) -> Value {
    let mut agent = json!({ "name": log.agent.name, "version": log.agent.version });
    if log.model.name != "unknown" && log.model.name != "none" {
        agent["model_name"] = json!(log.model.name);
    }
    let mut steps: Vec<Value> = Vec::new();
    let mut subagents: Vec<Value> = Vec::new();
    for step in &thread.steps {
        for call in &step.calls {
            let known = subagents.iter().any(|one| one["trajectory_id"] == json!(call.id));
            if let Some(thread) = conversation.subagents.get(&call.id)
                && !known
                && !open.contains(&call.id)
            {
                open.push(call.id.clone());
                subagents.push(trajectory_of(thread, Some(&call.id), conversation, log, open));
                open.pop();
            }
        }
        steps.push(step_value(step, steps.len() + 1, &subagents, log));
    }
    if steps.is_empty() {
        // A trajectory has at least one step.
        let started = &log.execution.started_at;
        steps.push(json!({ "step_id": 1, "timestamp": started, "source": "user", "message": "" }));
    }
    let mut value = json!({ "schema_version": ATIF_VERSION, "agent": agent, "steps": steps });
    if let Some(id) = id {
        value["trajectory_id"] = json!(id);
    }
    if !subagents.is_empty() {
        value["subagent_trajectories"] = Value::Array(subagents);
    }
    value
}

fn step_value(step: &Step, id: usize, subagents: &[Value], log: &YouBenchaLog) -> Value {
    let source = match step.source {
        StepSource::System => "system",
        StepSource::User => "user",
        StepSource::Agent => "agent",
    };
    let mut value =
        json!({ "step_id": id, "timestamp": step.timestamp, "source": source, "message": step.message });
    if step.source == StepSource::Agent {
        if !step.is_answer {
            value["llm_call_count"] = json!(0);
        } else if !step.thinking.is_empty() {
            value["reasoning_content"] = json!(step.thinking);
        }
        let model = step.usage.as_ref().and_then(|usage| usage.model.as_deref());
        let known = Some(log.model.name.as_str()).filter(|name| *name != "unknown" && step.is_answer);
        if let Some(model) = model.or(known) {
            value["model_name"] = json!(model);
        }
        if let Some(usage) = &step.usage {
            value["metrics"] = metrics(usage);
        }
        if !step.calls.is_empty() {
            value["tool_calls"] = step.calls.iter().map(call_value).collect();
        }
    }
    let of_call = |call: &ToolUse| {
        let subagent = subagents.iter().any(|one| one["trajectory_id"] == json!(call.id));
        if call.result.is_none() && !subagent {
            return None;
        }
        let mut result = json!({ "source_call_id": call.id });
        if let Some(text) = &call.result {
            result["content"] = json!(text);
        }
        if subagent {
            result["subagent_trajectory_ref"] = json!([{ "trajectory_id": call.id }]);
        }
        if call.is_error == Some(true) {
            result["extra"] = json!({ "is_error": true });
        }
        Some(result)
    };
    let mut results: Vec<Value> = step.calls.iter().filter_map(of_call).collect();
    results.extend(step.orphans.iter().map(|text| json!({ "content": text })));
    if !results.is_empty() {
        value["observation"] = json!({ "results": results });
    }
    value
}

fn call_value(call: &ToolUse) -> Value {
    let mut value = json!({
        "tool_call_id": call.id,
        "function_name": call.name,
        "arguments": call.arguments,
    });
    let mut extra = Map::new();
    for (name, time) in [("started_at", &call.started_at), ("completed_at", &call.completed_at)] {
        if let Some(time) = time {
            extra.insert(name.to_owned(), json!(time));
        }
    }
    if !extra.is_empty() {
        value["extra"] = Value::Object(extra);
    }
    value
}

/// The input of an answer counts cached tokens; its output is only there if the agent printed it.
fn metrics(usage: &AnswerUsage) -> Value {
    let prompt = usage
        .input_tokens
        .saturating_add(usage.cache_read_input_tokens)
        .saturating_add(usage.cache_creation_input_tokens);
    let mut value = json!({ "prompt_tokens": prompt, "cached_tokens": usage.cache_read_input_tokens });
    if let Some(output) = usage.output_tokens {
        value["completion_tokens"] = json!(output);
    }
    if usage.cache_creation_input_tokens > 0 {
        value["extra"] = json!({ "cache_creation_input_tokens": usage.cache_creation_input_tokens });
    }
    value
}

/// Totals, with those of subagents.
fn final_metrics(conversation: &Conversation, log: &YouBenchaLog) -> Value {
    let usage = &log.usage;
    let steps: usize = conversation.threads().map(|(_, thread)| thread.steps.len()).sum();
    let mut value = json!({ "total_steps": steps.max(1) });
    if usage.source != UsageSource::Unreported {
        let prompt = usage
            .input_tokens
            .saturating_add(usage.cache_read_input_tokens)
            .saturating_add(usage.cache_creation_input_tokens);
        value["total_prompt_tokens"] = json!(prompt);
        value["total_completion_tokens"] = json!(usage.output_tokens);
        value["total_cached_tokens"] = json!(usage.cache_read_input_tokens);
        value["extra"] = json!({ "source": usage.source });
    }
    if let Some(cost) = usage.cost_usd {
        value["total_cost_usd"] = json!(cost);
    }
    value
}
