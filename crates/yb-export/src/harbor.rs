//! A job directory of Harbor, which `harbor view` lists and opens.

use std::collections::BTreeMap;

use jiff::{Timestamp, ToSpan as _};
use serde_json::{Map, Value, json};
use yb_engine::log::UsageSource;
use yb_report::{OutcomeClass, Run};

use crate::record::TrialRecord;
use crate::{ExportError, Output, atif, file_name, pretty};

/// Harbor would show its default, Docker, if the configuration named no environment.
const ENVIRONMENT: &str = "youbencha:sandbox";

pub(crate) fn export(run: &Run, output: &mut Output<'_, '_>) -> Result<(), ExportError> {
    let mut job = Job::default();
    output.each(run, |output, record| {
        let result = trial_result(record);
        let folder = format!("{}/{}", file_name(&run.id), file_name(&record.trial.name));
        let mut write = |name: &str, content: &[u8]| output.write(&format!("{folder}/{name}"), content);
        write("config.json", &pretty(&result["config"]))?;
        write("agent/trajectory.json", &pretty(&atif::trajectory(record)))?;
        if let Some(score) = record.score() {
            write("verifier/reward.txt", format!("{score}\n").as_bytes())?;
        }
        let printed: Vec<String> = record
            .verdicts()
            .map(|verdict| {
                let text = |name: &str| verdict[name].as_str().unwrap_or_default();
                format!("{}: {}: {}\n", text("evaluator"), text("status"), text("message"))
            })
            .collect();
        write("verifier/test-stdout.txt", printed.concat().as_bytes())?;
        if let Some(patch) = record.patch()? {
            write("artifacts/git-diff.patch", patch.as_bytes())?;
            let manifest = json!([{ "source": "git-diff.patch", "destination": "artifacts/git-diff.patch", "type": "file", "status": "ok" }]);
            write("artifacts/manifest.json", &pretty(&manifest))?;
        }
        if let Some(error) = &record.trial.error {
            write("exception.txt", error.as_bytes())?;
        }
        write("trial.log", record.log.warnings.join("\n").as_bytes())?;
        write("result.json", &pretty(&result))?;
        job.add(&result);
        Ok(())
    })?;
    let config = json!({ "job_name": run.id, "jobs_dir": "jobs", "n_attempts": 1, "agents": job.agents, "environment": { "import_path": ENVIRONMENT }, "tasks": [], "datasets": [] });
    let folder = file_name(&run.id);
    output.write(&format!("{folder}/config.json"), &pretty(&config))?;
    output.write(&format!("{folder}/result.json"), &pretty(&job.result(run)))
}

fn uuid(text: &str) -> String {
    // Derived, so that the same trial has the same id in each export.
    let digest = blake3::hash(text.as_bytes());
    let hex = digest.to_hex();
    let part = |range: std::ops::Range<usize>| hex.get(range).unwrap_or_default().to_owned();
    format!("{}-{}-8{}-8{}-{}", part(0..8), part(8..12), part(13..16), part(17..20), part(20..32))
}

fn trial_result(record: &TrialRecord<'_>) -> Value {
    let (log, trial) = (&record.log, record.trial);
    let name = &trial.name;
    let task = json!({ "path": trial.case });
    let mut agent = json!({ "name": log.agent.name, "version": log.agent.version });
    let mut agent_config = json!({ "name": log.agent.name });
    if log.model.name != "unknown" && log.model.name != "none" {
        agent["model_info"] = json!({ "name": log.model.name, "provider": log.model.provider });
        agent_config["model_name"] = json!(log.model.name);
    }
    let execution = &log.execution;
    let start = execution.started_at.parse::<Timestamp>().unwrap_or_default();
    let end = execution.completed_at.parse::<Timestamp>().unwrap_or(start);
    let trial_start = trial.started_at.as_deref().and_then(|time| time.parse().ok()).unwrap_or(start);
    let whole = i64::try_from(trial.duration_ms.unwrap_or(0)).unwrap_or(0);
    let finish = trial_start.checked_add(whole.milliseconds()).unwrap_or(end).max(end);
    let mut value = json!({
        "id": uuid(&format!("{}/{name}", record.run.id)),
        "task_name": trial.case,
        "trial_name": name,
        "trial_uri": format!("file:///jobs/{}/{name}", record.run.id),
        "task_id": task,
        "source": record.run.name,
        "task_checksum": trial.id.clone().unwrap_or_default(),
        "config": { "task": task, "trial_name": name, "trials_dir": "trials", "agent": agent_config, "environment": { "import_path": ENVIRONMENT }, "job_id": uuid(&record.run.id) },
        "agent_info": agent,
        "started_at": trial_start.min(start).to_string(),
        "finished_at": finish.to_string(),
        "environment_setup": timing(trial_start.min(start), start),
        "agent_execution": timing(start, end),
        "verifier": timing(end, finish),
    });
    let usage = &log.usage;
    if usage.source != UsageSource::Unreported {
        let input = [usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens];
        value["agent_result"] = json!({
            "n_input_tokens": input.into_iter().fold(0, u64::saturating_add),
            "n_cache_tokens": usage.cache_read_input_tokens,
            "n_output_tokens": usage.output_tokens,
            "cost_usd": usage.cost_usd,
        });
    }
    if let Some(score) = record.score() {
        value["verifier_result"] = json!({ "rewards": { "reward": score } });
    }
    if let Some(kind) = exception(record) {
        let message = trial.error.clone().unwrap_or_else(|| trial.outcome.name.clone());
        value["exception_info"] = json!({
            "exception_type": kind,
            "exception_message": message,
            "exception_traceback": "",
            "occurred_at": end.to_string(),
        });
    }
    value
}

/// The exception that Harbor would have recorded; none for a trial that was graded.
fn exception(record: &TrialRecord<'_>) -> Option<&'static str> {
    let outcome = record.trial.outcome.name.as_str();
    match (outcome, record.trial.outcome.class) {
        ("passed" | "failed" | "cheating", _) => None,
        ("timeout", _) => Some("AgentTimeoutError"),
        ("cancelled", _) => Some("CancelledError"),
        ("grader_error", _) => Some("VerifierOutputParseError"),
        (_, OutcomeClass::Failed) => Some("NonZeroAgentExitCodeError"),
        _ => Some("EnvironmentError"),
    }
}

fn timing(start: Timestamp, end: Timestamp) -> Value {
    json!({ "started_at": start.to_string(), "finished_at": end.max(start).to_string() })
}

/// The sums over all trials.
#[derive(Default)]
struct Job {
    trials: u64,
    errors: u64,
    agents: Vec<Value>,
    evals: BTreeMap<String, Eval>,
    tokens: [Option<u64>; 3],
    cost: Option<f64>,
}

#[derive(Default)]
struct Eval {
    trials: u64,
    errors: u64,
    sum: f64,
    rewards: BTreeMap<String, Vec<Value>>,
    exceptions: BTreeMap<String, Vec<Value>>,
}

impl Job {
    fn add(&mut self, result: &Value) {
        self.trials += 1;
        let config = &result["config"]["agent"];
        if !self.agents.contains(config) {
            self.agents.push(config.clone());
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let names = [
            text(&result["agent_info"]["name"]),
            text(&result["agent_info"]["model_info"]["name"]),
            text(&result["source"]),
        ];
        let eval = self.evals.entry(names.into_iter().flatten().collect::<Vec<_>>().join("__")).or_default();
        if let Some(reward) = result["verifier_result"]["rewards"]["reward"].as_f64() {
            eval.trials += 1;
            eval.sum += reward;
            eval.rewards.entry(format!("{reward:?}")).or_default().push(result["trial_name"].clone());
        }
        if let Some(kind) = result["exception_info"]["exception_type"].as_str() {
            self.errors += 1;
            eval.errors += 1;
            eval.exceptions.entry(kind.to_owned()).or_default().push(result["trial_name"].clone());
        }
        let used = &result["agent_result"];
        for (sum, name) in self.tokens.iter_mut().zip(["n_input_tokens", "n_cache_tokens", "n_output_tokens"])
        {
            if let Some(count) = used[name].as_u64() {
                *sum = Some(sum.unwrap_or(0).saturating_add(count));
            }
        }
        if let Some(cost) = used["cost_usd"].as_f64() {
            self.cost = Some(self.cost.unwrap_or(0.0) + cost);
        }
    }

    fn result(self, run: &Run) -> Value {
        let evals: Map<String, Value> = self
            .evals
            .into_iter()
            .map(|(name, eval)| {
                let mean = if eval.trials > 0 {
                    json!([{ "mean": eval.sum / eval.trials as f64 }])
                } else {
                    json!([])
                };
                let value = json!({
                    "n_trials": eval.trials,
                    "n_errors": eval.errors,
                    "metrics": mean,
                    "pass_at_k": {},
                    "reward_stats": { "reward": eval.rewards },
                    "exception_stats": eval.exceptions,
                });
                (name, value)
            })
            .collect();
        let [input, cache, output] = self.tokens;
        let started = run.started_at.clone().unwrap_or_else(|| Timestamp::UNIX_EPOCH.to_string());
        let last = run.last_at.clone().unwrap_or_else(|| started.clone());
        let mut value = json!({
            "id": uuid(&run.id),
            "started_at": started,
            "updated_at": last,
            "n_total_trials": run.trials.len(),
            "stats": {
                "n_completed_trials": self.trials,
                "n_errored_trials": self.errors,
                "n_running_trials": 0,
                "n_pending_trials": run.trials.len() as u64 - self.trials,
                "n_cancelled_trials": 0,
                "n_retries": run.trials.iter().map(|trial| trial.attempts.len().saturating_sub(1)).sum::<usize>(),
                "evals": evals,
                "n_input_tokens": input,
                "n_cache_tokens": cache,
                "n_output_tokens": output,
                "cost_usd": self.cost,
            },
        });
        if run.condition == "finished" {
            value["finished_at"] = json!(last);
        }
        value
    }
}
