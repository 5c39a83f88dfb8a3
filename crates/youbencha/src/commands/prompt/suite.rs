//! Writes the rows of a dataset as a suite for `yb run`.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use yb_claude::McpServer;
use yb_engine::adapter::{Adapter as _, ClaudeCode};
use yb_engine::safe_name;
use yb_prompt::{
    ClaudeAgentQueryOptions, DatasetRow, McpServerConfig, Prompt, QueryParams, SystemPromptConfig,
};

use crate::error::{CliError, ErrorKind};

/// The comparisons of an answer with the expected output.
const EVALS: [&str; 4] = ["equals", "contains", "matches", "json"];
/// Names that AgentMark's examples and templates use.
const ALIASES: [&str; 2] = ["exact_match", "exact_match_json"];

/// The files of a suite.
#[derive(Debug)]
pub(super) struct PromptSuite {
    files: Vec<(PathBuf, String)>,
}

impl PromptSuite {
    /// Creates a suite with a case for each row.
    pub(super) fn new(
        prompt: &Prompt,
        rows: &[(DatasetRow, QueryParams)],
        gates: Map<String, Value>,
    ) -> Result<Self, CliError> {
        let evals = evals(prompt)?;
        let width = rows.iter().map(|(row, _)| row.line.to_string().len()).max().unwrap_or(1);
        let mut files = Vec::new();
        for (row, formatted) in rows {
            let name = format!("row-{:0width$}", row.line);
            let (text, query) = match formatted {
                QueryParams::Text(params) => (&params.prompt, &params.options),
                QueryParams::Object(params) => (&params.prompt, &params.options),
            };
            let mut case = case(prompt, &name, row, query)?;
            let graders = graders(row, query, &evals)?;
            let mut put = |end: &str, text: String| files.push((PathBuf::from(format!("{name}{end}")), text));
            let mut evaluators = Vec::new();
            for (evaluator, assertions) in graders {
                let end = format!(".{evaluator}.json");
                evaluators.push(
                    json!({ "name": evaluator, "config": { "assertions_file": format!("{name}{end}") } }),
                );
                put(&end, pretty(&assertions));
            }
            case["evaluators"] = json!(evaluators);
            put(".json", pretty(&case));
            put(".prompt.txt", text.clone());
        }
        let cases: Vec<String> =
            rows.iter().map(|(row, _)| format!("row-{:0width$}.json", row.line)).collect();
        let mut suite = json!({
            "youbencha": 1,
            "name": prompt.name(),
            "description": format!("The rows of a dataset of {}, as `yb prompt test` wrote them.", prompt.path()),
            "cases": cases,
        });
        if !gates.is_empty() {
            suite["gates"] = Value::Object(gates);
        }
        files.push((PathBuf::from(SUITE_FILE), pretty(&suite)));
        Ok(Self { files })
    }

    /// Writes the files to a directory named by their content, so that a stopped run can resume after the prompt was changed.
    /// Returns the path of the suite file.
    pub(super) fn write(&self, root: &Path, prompt: &Prompt) -> Result<PathBuf, CliError> {
        let mut digest = blake3::Hasher::new();
        for (path, text) in &self.files {
            digest.update(path.to_string_lossy().as_bytes()).update(b"\0");
            digest.update(text.as_bytes()).update(b"\0");
        }
        let short: String = digest.finalize().to_hex().chars().take(12).collect();
        let folder = root.join("prompts").join(format!("{}-{short}", safe_name(prompt.name())));
        // The start tree is empty.
        std::fs::create_dir_all(folder.join(START)).map_err(CliError::failed_to("write the suite"))?;
        for (path, text) in &self.files {
            let path = folder.join(path);
            if std::fs::read_to_string(&path).ok().as_deref() != Some(text) {
                std::fs::write(&path, text).map_err(CliError::failed_to("write the suite"))?;
            }
        }
        Ok(folder.join(SUITE_FILE))
    }
}

const SUITE_FILE: &str = "suite.json";
const START: &str = "start";

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// Returns the evals of the header, or the default of the prompt kind: the name as written, and the comparison.
fn evals(prompt: &Prompt) -> Result<Vec<(&str, &'static str)>, CliError> {
    let settings = prompt.test_settings();
    let default = if prompt.kind() == "object_config" { "json" } else { "equals" };
    let mut named: Vec<&str> = settings.evals.iter().map(String::as_str).collect();
    if named.is_empty() {
        named.push(default);
    }
    let thresholds = settings.score_thresholds.iter().map(|(name, _)| name.as_str());
    let canonical = |name: &str| match name {
        "exact_match" => Some(default),
        "exact_match_json" => Some("json"),
        name => EVALS.into_iter().find(|known| *known == name),
    };
    for name in named.iter().copied().chain(thresholds) {
        if canonical(name).is_none() {
            let message = format!("{}: unknown eval: `{name}`", prompt.path());
            return Err(CliError::new(ErrorKind::Usage, message).hint(format!(
                "expected one of `{}`, `{}`",
                EVALS.join("`, `"),
                ALIASES.join("`, `")
            )));
        }
        if !named.contains(&name) {
            let message = format!("{}: threshold for an unused eval: `{name}`", prompt.path());
            return Err(CliError::new(ErrorKind::Usage, message).hint("add it to `test_settings.evals`"));
        }
    }
    named.sort_unstable();
    named.dedup();
    Ok(named.into_iter().filter_map(|name| Some((name, canonical(name)?))).collect())
}

/// Returns the evaluator of an eval.
pub(super) fn evaluator(eval: &str) -> String {
    format!("answer-{eval}")
}

/// Returns the expected value. Datasets often have JSON in a string.
fn expected_json(expected: &Value) -> Value {
    let parsed = expected.as_str().and_then(|text| serde_json::from_str(text).ok());
    parsed.unwrap_or_else(|| expected.clone())
}

/// Returns whether a strict case takes this model.
fn is_full_name(model: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    model.strip_prefix("claude-").is_some_and(|rest| !rest.is_empty() && rest.chars().all(plain))
}

/// Builds the evaluators of one row with their assertions: one for each eval, so that each has its own pass rate.
fn graders(
    row: &DatasetRow,
    query: &ClaudeAgentQueryOptions,
    evals: &[(&str, &str)],
) -> Result<Vec<(String, Value)>, CliError> {
    let wrong = |eval: &str, expected: &str| {
        let message = format!("line {}: `{eval}` needs {expected} as `expected_output`", row.line);
        CliError::new(ErrorKind::Usage, message)
    };
    let mut always = Map::new();
    if let Some(format) = &query.output_format {
        always.insert("json_schema".to_owned(), format.schema.clone());
    }
    let Some(expected) = &row.expected_output else {
        if always.is_empty() {
            // Without expectations, any non-empty answer passes.
            always.insert("matches".to_owned(), json!([r"\S"]));
        }
        return Ok(vec![("answer".to_owned(), Value::Object(always))]);
    };
    let grader = |(name, comparison): &(&str, &str)| {
        let value = match (*comparison, expected) {
            ("json", value) => expected_json(value),
            ("equals", Value::String(text)) => json!(text),
            ("equals", Value::Number(_) | Value::Bool(_)) => json!(expected.to_string()),
            ("equals", _) => return Err(wrong(name, "a text")),
            (_, Value::String(text)) => json!([text]),
            (_, Value::Array(items)) if items.iter().all(Value::is_string) => json!(items),
            _ => return Err(wrong(name, "a text or a list of texts")),
        };
        let mut assertions = always.clone();
        assertions.insert((*comparison).to_owned(), value);
        Ok((evaluator(name), Value::Object(assertions)))
    };
    evals.iter().map(grader).collect()
}

fn case(
    prompt: &Prompt,
    name: &str,
    row: &DatasetRow,
    query: &ClaudeAgentQueryOptions,
) -> Result<Value, CliError> {
    let mut config = Map::new();
    let mut put = |key: &str, value: Value| {
        if !value.is_null() {
            config.insert(key.to_owned(), value);
        }
    };
    put("prompt_file", json!(format!("{name}.prompt.txt")));
    match &query.system_prompt {
        None => put("system_prompt", json!("")),
        Some(SystemPromptConfig::Text(text)) => put("system_prompt", json!(text)),
        Some(SystemPromptConfig::Preset { append }) => put("append_system_prompt", json!(append)),
    }
    let mode = query.permission_mode.unwrap_or(yb_claude::PermissionMode::Default);
    put("permission_mode", json!(mode.as_str()));
    put("max_turns", json!(query.max_turns));
    put("allowed_tools", json!(query.allowed_tools));
    put("disallowed_tools", json!(query.disallowed_tools));
    let servers: Map<String, Value> = query
        .mcp_servers
        .iter()
        .filter_map(|(name, server)| match server {
            McpServerConfig::External(McpServer::Stdio { command, args, env }) => {
                Some((name.clone(), json!({"command": command, "args": args, "env": env})))
            }
            McpServerConfig::External(McpServer::Http { url, headers }) => {
                Some((name.clone(), json!({"type": "http", "url": url, "headers": headers})))
            }
            _ => None,
        })
        .collect();
    if !servers.is_empty() {
        put("mcp_servers", Value::Object(servers));
    }
    let mut extra_args = Map::new();
    if let Some(format) = &query.output_format {
        extra_args.insert("json-schema".to_owned(), json!(format.schema.to_string()));
    }
    // A case names a model in full. An alias of the prompt is passed on to the CLI, as `yb prompt run` does.
    let (model, alias) = match query.model.as_deref() {
        Some(model) if is_full_name(model) => (Some(model), None),
        other => (None, other),
    };
    extra_args.extend(alias.map(|alias| ("model".to_owned(), json!(alias))));
    if !extra_args.is_empty() {
        put("extra_args", Value::Object(extra_args));
    }
    let mut config = Value::Object(config);
    if config.to_string().contains("${") {
        let message = format!("line {}: `${{` is not supported in the system prompt or the schema", row.line);
        return Err(CliError::new(ErrorKind::Usage, message)
            .hint("a case would expand it as a variable; move it to `<User>`"));
    }
    for (name, server) in &query.mcp_servers {
        if let McpServerConfig::InProcess(_) = server {
            let url = format!("http://127.0.0.1:${{ENV:{}}}", super::tool_host::VARIABLE);
            config["mcp_servers"][name] = json!({ "type": "http", "url": url });
        }
    }
    let mut case = json!({
        "youbencha": 1,
        "name": name,
        "description": format!("Line {} of the dataset of {}", row.line, prompt.name()),
        "directory": START,
        "agent": { "type": ClaudeCode.spec().name, "config": config },
    });
    if let Some(model) = model {
        case["agent"]["model"] = json!(model);
    }
    if let Some(usd) = query.max_budget_usd {
        case["max_budget_usd"] = json!(usd);
    }
    Ok(case)
}
