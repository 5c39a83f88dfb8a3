//! Two digests of a combination: what the agent sees, and how its work is judged. Neither knows files, comments or order of keys.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::Combination;
use crate::{AgentConfig, ConfiguredEvaluator, Expected, Prompt, Script, Start, Tape, TapeSource};
use yb_repo::Source;

/// Changes whenever the same case would get another digest.
const VERSION: u32 = 1;

impl Combination {
    /// The digest of what the agent sees and is given, when its starting tree is this commit.
    ///
    /// Values of the environment are in it as they are written, never as they are.
    #[must_use]
    pub fn task_digest(&self, commit: &str) -> String {
        let case = &self.case;
        let (repo, branch) = match &case.start {
            // On this machine the commit says it all, wherever the repository is.
            Start::Repo { repo, branch, .. } => match Source::parse(repo, &case.dir) {
                Ok(source @ Source::Remote(_)) => (source.to_string(), branch.as_deref()),
                _ => ("local".to_owned(), branch.as_deref()),
            },
            Start::Directory(_) => ("directory".to_owned(), None),
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
        // Only where they are said: what nobody says is the machine's, and changes no digest.
        if let Some(network) = &case.network {
            task["network"] = json!({ "mode": network.mode, "allow": network.allow });
        }
        if case.limits != crate::Limits::default() {
            task["limits"] = json!(case.limits);
        }
        // A replay is the same task again; who plays a script's part is another.
        if let Some(Tape { source: TapeSource::Script(path), .. }) = &case.tape {
            task["script"] = json!(path.strip_prefix(&case.dir).unwrap_or(path));
        }
        digest(&task)
    }

    /// The digest of how the work is judged.
    #[must_use]
    pub fn grade_digest(&self) -> String {
        let case = &self.case;
        let mut graded = json!({
            "youbencha_grade": VERSION,
            "evaluators": case.evaluators.iter().map(evaluator).collect::<Vec<_>>(),
            "expected": case.expected.as_ref().map(expected),
            "timeout_ms": milliseconds(case.timeouts.evaluators),
        });
        if !case.prepare.is_empty() {
            graded["prepare"] = case.prepare.iter().map(script).collect();
        }
        digest(&graded)
    }
}

fn expected(expected: &Expected) -> String {
    match expected {
        // As it always was.
        Expected::Branch(name) => name.clone(),
        other => other.key(),
    }
}

fn evaluator(evaluator: &ConfiguredEvaluator) -> Value {
    json!({ "name": evaluator.name, "config": evaluator.config, "files": evaluator.inputs })
}

fn config(config: &AgentConfig) -> Value {
    json!({
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
        "add_dirs": config.add_dirs,
        "extra_args": config.extra_args,
        "trust_repo_settings": config.trust_repo_settings,
        "section": config.section,
    })
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

/// JSON in one way only: sorted keys, no spaces, and a whole number without a point.
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
    fn there_is_one_way_to_write_a_value() {
        let mut text = String::new();
        canonical(&json!({"b": [1.0, 0.5, "x\"y", null], "a": {"d": true, "c": -3}}), &mut text);
        assert_eq!(text, r#"{"a":{"c":-3,"d":true},"b":[1,0.5,"x\"y",null]}"#);
    }
}
