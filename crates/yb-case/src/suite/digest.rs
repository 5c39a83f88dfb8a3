//! Digests of a combination: of the task, and of its grading. They are independent of file paths, comments and key order.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::Combination;
use crate::{AgentConfig, Case, ConfiguredEvaluator, Expected, Prompt, Script, Start, Tape, TapeSource};
use yb_repo::Source;

/// Incremented when the digest of an unchanged case changes.
const VERSION: u32 = 1;

impl Combination {
    /// Returns the digest of the task: everything that the agent can observe, with this commit as start tree.
    ///
    /// References to environment variables are not expanded.
    #[must_use]
    pub fn task_digest(&self, commit: &str) -> String {
        let case = &self.case;
        let (repo, branch) = match &case.start {
            // A local repository is identified by the commit, independent of its path.
            Start::Repo { repo, branch, .. } => match Source::parse(repo, &case.dir) {
                Ok(source @ Source::Remote(_)) => (source.to_string(), branch.as_deref()),
                _ => ("local".to_owned(), branch.as_deref()),
            },
            Start::Directory(_) => ("directory".to_owned(), None),
            Start::Image => ("image".to_owned(), None),
        };
        let prompt = match &case.agent.prompt {
            Prompt::Text(text) | Prompt::File { text, .. } => json!({ "text": text.trim() }),
            Prompt::InWorkspace(path) => json!({ "in_workspace": path.to_string_lossy() }),
        };
        let env: Map<String, Value> =
            case.env.iter().map(|variable| (variable.name.clone(), json!(variable.value))).collect();
        let mut task = json!({
            "youbencha_task": VERSION,
            "start": { "repo": repo, "branch": branch, "commit": commit },
            "prompt": prompt,
            "agent": {
                "type": case.agent.kind,
                "version": self.agent_version,
                "model": case.agent.model,
                "agent_name": case.agent.agent_name,
                "config": config(&case.agent.config),
            },
            "env": env,
            "pre_execution": case.pre_execution.iter().map(script).collect::<Vec<_>>(),
            "timeout_ms": milliseconds(case.timeouts.agent),
            "max_budget_usd": case.max_budget_usd,
            "capture_include": case.capture_include,
            "isolation": case.isolation.as_str(),
        });
        if !case.prepare_for_agent.is_empty() {
            task["prepare"] = case.prepare_for_agent.iter().map(script).collect();
        }
        // Only explicit values: defaults of the machine do not change the digest.
        if let Some(network) = &case.network {
            task["network"] = json!({ "mode": network.mode, "allow": network.allow });
        }
        if case.limits != crate::TrialLimits::default() {
            task["limits"] = json!(case.limits);
        }
        if let Some(environment) = &case.environment {
            task["environment"] = json!(environment.key());
        }
        if !case.overlay.is_empty() {
            task["files"] = case.overlay.key();
        }
        // A replay repeats the same task; a script is part of the task.
        if let Some(Tape { source: TapeSource::Script(path), .. }) = &case.tape {
            task["script"] = json!(path.strip_prefix(&case.dir).unwrap_or(path));
        }
        digest(&task)
    }

    /// Returns the digest of the grading.
    #[must_use]
    pub fn grade_digest(&self) -> String {
        self.case.grade_digest()
    }
}

impl Case {
    /// Returns the digest of everything in the case that decides whether its start tree fails and its reference solution
    /// passes. `facts` are those outside of it: commits, versions, the sandbox.
    #[must_use]
    pub fn check_digest(&self, facts: &[&str]) -> String {
        let mut check = json!({
            "youbencha_check": VERSION,
            "grading": self.grade_digest(),
            "facts": facts,
            "pre_execution": self.pre_execution.iter().map(script).collect::<Vec<_>>(),
            "prepare_for_agent": self.prepare_for_agent.iter().map(script).collect::<Vec<_>>(),
            "files": self.overlay.key(),
            "capture_include": self.capture_include,
            "limits": self.limits,
            "solution": self.reference().map(|solution| solution.key()),
        });
        if let Some(environment) = &self.environment {
            check["environment"] = json!(environment.key());
        }
        // Without an agent only hooks see the variables.
        let has_hooks = !self.pre_execution.is_empty() || !self.prepare_for_agent.is_empty();
        if has_hooks && !self.env.is_empty() {
            let env: Map<String, Value> =
                self.env.iter().map(|variable| (variable.name.clone(), json!(variable.value))).collect();
            check["env"] = Value::Object(env);
        }
        digest(&check)
    }

    fn grade_digest(&self) -> String {
        let case = self;
        let mut graded = json!({
            "youbencha_grade": VERSION,
            "evaluators": case.evaluators.iter().map(evaluator).collect::<Vec<_>>(),
            "expected": case.expected.as_ref().map(expected),
            "timeout_ms": milliseconds(case.timeouts.evaluators),
        });
        if !case.prepare.is_empty() {
            graded["prepare"] = case.prepare.iter().map(script).collect();
        }
        if let Some(globs) = &case.may_change {
            graded["may_change"] = json!(globs);
        }
        digest(&graded)
    }
}

fn expected(expected: &Expected) -> String {
    match expected {
        // Compatible with earlier digests.
        Expected::Branch(name) => name.clone(),
        other => other.key(),
    }
}

fn evaluator(evaluator: &ConfiguredEvaluator) -> Value {
    json!({ "name": evaluator.name, "config": evaluator.config, "files": evaluator.inputs })
}

fn config(config: &AgentConfig) -> Value {
    let mut value = json!({
        "append_system_prompt": config.append_system_prompt,
        "system_prompt": config.system_prompt,
        "permission_mode": config.permission_mode,
        "tools": config.tools,
        "allowed_tools": config.allowed_tools,
        "disallowed_tools": config.disallowed_tools,
        "max_tokens": config.max_tokens,
        "temperature": config.temperature,
        "max_turns": config.max_turns,
        "mcp_servers": config.mcp_servers,
        "effort": config.effort,
        "settings": config.settings,
        "add_dirs": config.add_dirs.iter().map(crate::AddedDir::key).collect::<Vec<_>>(),
        "extra_args": config.extra_args,
        "trust_repo_settings": config.trust_repo_settings,
        "section": config.section,
    });
    for (key, add_ons) in [("plugins", &config.plugins), ("skills", &config.skills)] {
        if !add_ons.is_empty() {
            value[key] = add_ons.iter().map(|one| json!([one.name, one.digest])).collect();
        }
    }
    // Absent if there are none: compatible with earlier digests.
    if !config.agents.is_empty() {
        let definitions = config.agents.iter().map(|(name, agent)| {
            let agent = json!({
                "description": agent.description,
                "prompt": agent.prompt,
                "tools": agent.tools,
                "model": agent.model,
            });
            (name.clone(), agent)
        });
        value["agents"] = Value::Object(definitions.collect());
    }
    value
}

fn script(script: &Script) -> Value {
    let env: Map<String, Value> =
        script.env.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({
        "command": script.command,
        "args": script.args,
        "env": env,
        "timeout_ms": milliseconds(Some(script.timeout)),
        "working_dir": script.working_dir,
    })
}

fn milliseconds(time: Option<Duration>) -> Option<u64> {
    time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

fn digest(value: &Value) -> String {
    let mut text = String::new();
    canonical(value, &mut text);
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// Writes canonical JSON: sorted keys, no whitespace, integral numbers without a decimal point.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (at, (key, value)) in entries.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                canonical(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                canonical(item, out);
            }
            out.push(']');
        }
        Value::Number(number) if number.is_f64() => match number.as_f64() {
            Some(whole) if whole.fract() == 0.0 && whole.abs() < 9e15 => out.push_str(&format!("{whole:.0}")),
            _ => out.push_str(&number.to_string()),
        },
        plain => out.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::canonical;

    #[test]
    fn canonical_json_is_unique() {
        let mut text = String::new();
        canonical(&json!({"b": [1.0, 0.5, "x\"y", null], "a": {"d": true, "c": -3}}), &mut text);
        assert_eq!(text, r#"{"a":{"c":-3,"d":true},"b":[1,0.5,"x\"y",null]}"#);
    }
}
