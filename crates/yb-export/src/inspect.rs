//! Logs of Inspect: an `.eval` archive per variant of a run, whose samples are its trials.

mod events;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use yb_engine::log::UsageSource;
use yb_report::Run;

use self::events::Events;
use crate::conversation::{Conversation, Step, StepSource, Thread, ToolUse};
use crate::record::TrialRecord;
use crate::zip::ZipWriter;
use crate::{ExportError, Output, file_name, pretty};

/// The score of the whole trial; the others are those of evaluators.
const OUTCOME: &str = "outcome";

/// Writes an archive per variant. Trials of a variant have one agent, which is a task of Inspect.
pub(crate) fn export(run: &Run, output: &mut Output<'_, '_>) -> Result<(), ExportError> {
    let mut variants: Vec<&str> = Vec::new();
    for trial in &run.trials {
        if !variants.contains(&trial.variant.as_str()) {
            variants.push(&trial.variant);
        }
    }
    for variant in variants {
        archive(run, variant, output)?;
    }
    Ok(())
}

fn archive(run: &Run, variant: &str, output: &mut Output<'_, '_>) -> Result<(), ExportError> {
    let mut log = EvalLog::default();
    for trial in run.trials.iter().filter(|trial| trial.variant == variant) {
        match TrialRecord::read(run, trial)? {
            Some(record) => {
                log.add(&record)?;
                output.summary.trials += 1;
            }
            None => output.summary.skipped.push(format!("{}: {}", trial.name, trial.outcome.name)),
        }
    }
    if log.summaries.is_empty() {
        return Ok(());
    }
    let started = run.started_at.as_deref().unwrap_or_default();
    let created = started.parse::<Timestamp>().unwrap_or_default();
    let task = format!("{}/{variant}", run.name);
    // The parts of a name are separated by `_`, so the task has none.
    let name =
        format!("{}_{}_{}.eval", created.strftime("%Y-%m-%dT%H-%M-%S-00-00"), dashed(&task), dashed(&run.id));
    let bytes = log
        .finish(run, &task, created)
        .map_err(|source| ExportError::Write { path: name.clone(), source })?;
    output.write(&name, &bytes)
}

/// Keeps letters, digits and dashes.
fn dashed(text: &str) -> String {
    text.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect()
}

/// ISO 8601 with an offset, as Inspect writes it.
fn iso(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.f+00:00").to_string()
}

fn iso_text(text: &str) -> Option<String> {
    text.parse::<Timestamp>().ok().map(iso)
}

#[derive(Default)]
struct EvalLog {
    zip: ZipWriter,
    summaries: Vec<Value>,
    /// The sum of the scores and their number, by scorer.
    scores: Vec<(String, f64, u64)>,
    agent: Value,
    model: String,
    last: Option<Timestamp>,
    usage: Map<String, Value>,
}

impl EvalLog {
    fn add(&mut self, record: &TrialRecord<'_>) -> Result<(), ExportError> {
        let sample = sample(record);
        let id = file_name(&record.trial.case);
        let name = format!("samples/{id}_epoch_{}.json", record.trial.repeat);
        self.zip
            .add(&name, &pretty(&sample))
            .map_err(|source| ExportError::Write { path: name.clone(), source })?;
        let mut summary = Map::new();
        for key in [
            "id",
            "uuid",
            "epoch",
            "input",
            "target",
            "metadata",
            "scores",
            "model_usage",
            "started_at",
            "completed_at",
            "total_time",
            "working_time",
            "error",
        ] {
            if let Some(value) = sample.get(key) {
                summary.insert(key.to_owned(), value.clone());
            }
        }
        summary.insert("completed".to_owned(), json!(true));
        summary.insert("message_count".to_owned(), json!(sample["messages"].as_array().map_or(0, Vec::len)));
        if let Some(error) = sample["error"]["message"].as_str() {
            summary.insert("error".to_owned(), json!(error));
        }
        self.summaries.push(Value::Object(summary));
        for (name, score) in sample["scores"].as_object().into_iter().flatten() {
            let value = match score["value"].as_str() {
                Some("C") => 1.0,
                Some("I") => 0.0,
                _ => continue,
            };
            match self.scores.iter_mut().find(|(known, _, _)| known == name) {
                Some((_, sum, count)) => (*sum, *count) = (*sum + value, *count + 1),
                None => self.scores.push((name.clone(), value, 1)),
            }
        }
        let log = &record.log;
        self.agent = json!({ "name": log.agent.name, "version": log.agent.version });
        self.model.clone_from(&log.model.name);
        self.last = self.last.max(log.execution.completed_at.parse().ok());
        for (model, used) in sample["model_usage"].as_object().into_iter().flatten() {
            add_usage(self.usage.entry(model.clone()).or_insert_with(|| json!({})), used);
        }
        Ok(())
    }

    fn finish(mut self, run: &Run, task: &str, created: Timestamp) -> std::io::Result<Vec<u8>> {
        let version = run.youbencha.clone().unwrap_or_default();
        let epochs = self.summaries.iter().filter_map(|one| one["epoch"].as_u64()).max().unwrap_or(1);
        let mut ids: Vec<Value> = Vec::new();
        for summary in &self.summaries {
            if !ids.contains(&summary["id"]) {
                ids.push(summary["id"].clone());
            }
        }
        let scores: Vec<Value> = self
            .scores
            .iter()
            .map(|(name, sum, count)| {
                let accuracy = json!({ "name": "accuracy", "value": sum / *count as f64, "params": {} });
                json!({ "name": name, "scorer": name, "scored_samples": count,
                    "unscored_samples": self.summaries.len() as u64 - count, "params": {}, "metrics": { "accuracy": accuracy } })
            })
            .collect();
        let scorers: Vec<Value> = self.scores.iter().map(|(name, ..)| json!({ "name": name })).collect();
        let completed = self.last.unwrap_or(created);
        let header = json!({
            "version": 2,
            "status": "success",
            "eval": {
                "eval_id": dashed(&format!("{}-{task}", run.id)),
                "run_id": run.id,
                "created": iso(created),
                "task": task,
                "task_id": dashed(task),
                "task_version": 0,
                "task_attribs": {},
                "task_args": {},
                "solver": self.agent["name"],
                "solver_args": {},
                "dataset": { "name": run.name, "samples": ids.len(), "sample_ids": ids, "shuffled": false },
                "model": self.model,
                "model_args": {},
                "model_generate_config": {},
                "config": { "epochs": epochs },
                "packages": { "youbencha": version },
                "metadata": { "agent": self.agent, "run": run.id },
                "scorers": scorers,
            },
            "plan": { "name": "plan", "steps": [{ "solver": self.agent["name"], "params": {} }], "config": {} },
            "results": {
                "total_samples": self.summaries.len(),
                "completed_samples": self.summaries.len(),
                "scores": scores,
            },
            "stats": { "started_at": iso(created), "completed_at": iso(completed), "model_usage": self.usage },
        });
        self.zip.add("summaries.json", &pretty(&Value::Array(self.summaries)))?;
        self.zip.add("header.json", &pretty(&header))?;
        self.zip.finish()
    }
}

fn add_usage(sum: &mut Value, used: &Value) {
    for (name, value) in used.as_object().into_iter().flatten() {
        let added = match (sum[name].as_u64().unwrap_or(0), value.as_u64()) {
            (before, Some(now)) => json!(before.saturating_add(now)),
            (_, None) => json!(sum[name].as_f64().unwrap_or(0.0) + value.as_f64().unwrap_or(0.0)),
        };
        sum[name] = added;
    }
}

fn sample(record: &TrialRecord<'_>) -> Value {
    let (log, trial) = (&record.log, record.trial);
    let conversation = Conversation::of(record);
    let prompt = conversation.main.steps.iter().find(|step| step.source == StepSource::User);
    let input = prompt.map(|step| step.message.clone()).unwrap_or_default();
    let messages = messages(&conversation.main, &log.model.name, "");
    let mut builder = Events {
        conversation: &conversation,
        model: &log.model.name,
        events: Vec::new(),
        next: 0,
        open: Vec::new(),
    };
    builder.push(
        "sample_init",
        &log.execution.started_at,
        None,
        json!({
            "sample": { "input": input, "target": "" },
            "state": {},
        }),
    );
    builder.steps(&conversation.main, None);
    let scores = scores(record);
    let graded_at = &log.execution.completed_at;
    for (name, score) in &scores {
        builder.push(
            "score",
            graded_at,
            None,
            json!({ "score": score, "target": "", "intermediate": false, "scorer": name }),
        );
    }
    let events = builder.events;
    let answer = conversation.main.steps.iter().rev().find(|step| step.is_answer && !step.message.is_empty());
    let completion = answer.map(|step| step.message.clone()).unwrap_or_default();
    let usage = model_usage(record);
    let mut output = json!({
        "model": log.model.name,
        "choices": [{
            "message": { "role": "assistant", "content": completion, "source": "generate", "model": log.model.name },
            "stop_reason": "stop",
        }],
        "completion": completion,
    });
    if let Some((_, used)) = usage.iter().next().filter(|_| usage.len() == 1) {
        output["usage"] = used.clone();
    }
    let seconds = log.execution.duration_ms as f64 / 1000.0;
    let mut value = json!({
        "id": file_name(&trial.case),
        "uuid": format!("{}/{}", record.run.id, trial.name),
        "epoch": trial.repeat,
        "input": input,
        "target": "",
        "messages": messages,
        "output": output,
        "scores": scores,
        "metadata": {
            "run": record.run.id,
            "trial": trial.name,
            "case": trial.case,
            "variant": trial.variant,
            "outcome": trial.outcome.name,
            "agent": log.agent.name,
            "agent_version": log.agent.version,
            "commit": trial.commit,
            "isolation": trial.isolation,
        },
        "store": {},
        "events": events,
        "model_usage": usage,
        "attachments": {},
        "total_time": seconds,
        "working_time": seconds,
    });
    for (name, time) in
        [("started_at", &log.execution.started_at), ("completed_at", &log.execution.completed_at)]
    {
        if let Some(time) = iso_text(time) {
            value[name] = json!(time);
        }
    }
    if let Some(error) = &trial.error {
        value["error"] = json!({ "message": error, "traceback": "", "traceback_ansi": "" });
    }
    value
}

/// The usage by model; the total if the agent does not report models.
fn model_usage(record: &TrialRecord<'_>) -> Map<String, Value> {
    let usage = &record.log.usage;
    let mut found = Map::new();
    if usage.source == UsageSource::Unreported {
        return found;
    }
    let value = |input: u64, output: u64, read: u64, write: u64, cost: Option<f64>| {
        let total = [input, output, read, write].into_iter().fold(0, u64::saturating_add);
        let mut value = json!({ "input_tokens": input, "output_tokens": output, "total_tokens": total,
            "input_tokens_cache_read": read, "input_tokens_cache_write": write });
        if let Some(cost) = cost {
            value["total_cost"] = json!(cost);
        }
        value
    };
    for (name, one) in &usage.by_model {
        let used = value(
            one.input_tokens,
            one.output_tokens,
            one.cache_read_input_tokens,
            one.cache_creation_input_tokens,
            one.cost_usd,
        );
        found.insert(name.clone(), used);
    }
    if found.is_empty() {
        let used = value(
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_input_tokens,
            usage.cache_creation_input_tokens,
            usage.cost_usd,
        );
        found.insert(record.log.model.name.clone(), used);
    }
    found
}

/// The outcome, and the verdict of each evaluator: `C` if it passed, `I` if it failed. One that could not decide has no score.
fn scores(record: &TrialRecord<'_>) -> Map<String, Value> {
    let mut scores = Map::new();
    if let Some(score) = record.score() {
        let letter = if score > 0.0 { "C" } else { "I" };
        let explanation = record.trial.error.clone().unwrap_or_else(|| record.trial.outcome.name.clone());
        scores.insert(OUTCOME.to_owned(), json!({ "value": letter, "explanation": explanation }));
    }
    for verdict in record.verdicts() {
        let letter = match verdict["status"].as_str() {
            Some("passed") => "C",
            Some("failed") => "I",
            _ => continue,
        };
        let name = verdict["evaluator"].as_str().unwrap_or("unknown");
        let mut unique = name.to_owned();
        let mut again = 1;
        while scores.contains_key(&unique) {
            again += 1;
            unique = format!("{name}-{again}");
        }
        let metadata = json!({ "metrics": verdict["metrics"], "checks": verdict["checks"] });
        scores.insert(
            unique,
            json!({ "value": letter, "explanation": verdict["message"], "metadata": metadata }),
        );
    }
    scores
}

fn messages(thread: &Thread, model: &str, prefix: &str) -> Vec<Value> {
    let mut found = Vec::new();
    for (at, step) in thread.steps.iter().enumerate() {
        let id = format!("{prefix}m{}", at + 1);
        match step.source {
            StepSource::Agent => {
                found.push(answer(step, model, &id));
                for call in &step.calls {
                    if call.result.is_some() {
                        found.push(result(call, &format!("{id}-{}", call.id)));
                    }
                }
            }
            StepSource::User => {
                found.push(json!({ "id": id, "role": "user", "content": step.message, "source": "input" }));
            }
            StepSource::System => {
                let text =
                    if step.orphans.is_empty() { step.message.clone() } else { step.orphans.join("\n") };
                found.push(json!({ "id": id, "role": "system", "content": text }));
            }
        }
    }
    found
}

fn answer(step: &Step, model: &str, id: &str) -> Value {
    let content = if step.thinking.is_empty() {
        json!(step.message)
    } else {
        json!([{ "type": "reasoning", "reasoning": step.thinking }, { "type": "text", "text": step.message }])
    };
    let model = step.usage.as_ref().and_then(|usage| usage.model.as_deref()).unwrap_or(model);
    let mut value =
        json!({ "id": id, "role": "assistant", "content": content, "source": "generate", "model": model });
    if !step.calls.is_empty() {
        value["tool_calls"] = step
            .calls
            .iter()
            .map(|call| json!({ "id": call.id, "function": call.name, "arguments": call.arguments, "type": "function" }))
            .collect();
    }
    value
}

fn result(call: &ToolUse, id: &str) -> Value {
    let text = call.result.clone().unwrap_or_default();
    let mut value =
        json!({ "id": id, "role": "tool", "content": text, "tool_call_id": call.id, "function": call.name });
    if call.is_error == Some(true) {
        value["error"] = json!({ "type": "unknown", "message": text });
    }
    value
}
