//! Harbor tasks as cases: a directory with `task.toml`, `instruction.md`, `environment/`, `tests/` and `solution/` is converted
//! to the text of a case, so that everything that reads cases reads tasks too. Directories of tasks become suites.
//!
//! Keys that would change the result and are not supported are errors; nothing is left out silently.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use toml_edit::{DocumentMut, Item};

use super::{AgentSpecs, files};
use yb_yaml::Span;
use yb_yaml::diagnostic::{Diagnostic, Diagnostics};

/// The configuration of a task, and of a set of tasks.
const TASK: &str = "task.toml";
const DATASET: &str = "dataset.toml";
/// What Harbor waits for, in seconds.
const VERIFIER_TIMEOUT: f64 = 600.0;

/// Returns the file that stands for a directory: the task, or the set of tasks. Other paths are returned as they are.
pub(crate) fn file_of(path: &Path) -> PathBuf {
    if path.join(TASK).is_file() {
        path.join(TASK)
    } else if path.is_dir() && (path.join(DATASET).is_file() || !tasks(path).is_empty()) {
        path.join(DATASET)
    } else {
        path.to_owned()
    }
}

/// Returns the text of a task or of a set of tasks; `None` for other files. A task has the first of these agents, unless a variant
/// sets another.
pub(crate) fn read(path: &Path, agents: &AgentSpecs) -> Option<Result<Vec<u8>, Vec<Diagnostic>>> {
    let name = path.file_name()?;
    let dir = super::dir_of(path);
    if name == DATASET {
        return Some(Ok(dataset(dir).to_string().into_bytes()));
    }
    if name != TASK {
        return None;
    }
    let found = files::read(path, yb_yaml::MAX_BYTES).map_err(|error| error.to_string());
    let found = found.and_then(|bytes| String::from_utf8(bytes).map_err(|error| error.to_string()));
    let converted = found.and_then(|text| convert(dir, &text));
    let with_agent = |mut case: Value| {
        case["agent"]["type"] = json!(agents.iter().next().map(|spec| spec.name));
        case.to_string().into_bytes()
    };
    Some(converted.map(with_agent).map_err(|message| {
        let mut found = Diagnostics::new(path, "");
        let (message, hint) = message
            .split_once('\n')
            .unwrap_or((&message, "the guide on Harbor tasks lists what is supported"));
        found.error(Span::WHOLE, "", format!("Harbor task: {message}")).hint(hint);
        found.into_vec()
    }))
}

/// Lists the tasks in a directory.
fn tasks(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().join(TASK).is_file())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

fn dataset(dir: &Path) -> Value {
    let named = fs::read_to_string(dir.join(DATASET)).ok().and_then(|text| {
        let document = json_of(text.parse::<DocumentMut>().ok()?.as_item());
        Some(document["dataset"]["name"].as_str()?.to_owned())
    });
    let fallback = || dir.canonicalize().ok()?.file_name()?.to_str().map(str::to_owned);
    let cases: Vec<String> = tasks(dir).iter().map(|name| format!("{name}/{TASK}")).collect();
    json!({
        "youbencha": super::fields::VERSION,
        "name": named.or_else(fallback).unwrap_or_else(|| "tasks".to_owned()),
        "cases": cases,
    })
}

/// A section of the configuration.
struct Section<'a>(&'a Value);

impl<'a> Section<'a> {
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        self.get(key).and_then(Value::as_str)
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.get(key).and_then(Value::as_f64)
    }

    /// Reads an amount in MB: a number, or an old one such as `2G`.
    fn megabytes(&self, key: &str, old: &str) -> Option<u64> {
        if let Some(number) = self.number(key) {
            return Some(number as u64);
        }
        let text = self.text(old)?.trim();
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match text[digits.len()..].to_ascii_uppercase().chars().next() {
            Some('G') => 1024.0,
            Some('K') => 1.0 / 1024.0,
            _ => 1.0,
        };
        digits.parse::<f64>().ok().map(|number| (number * unit) as u64)
    }

    fn env(&self) -> Map<String, Value> {
        let entries = self.get("env").and_then(Value::as_object).into_iter().flatten();
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        entries.map(|(name, value)| (name.clone(), json!(host_variables(&text(value))))).collect()
    }

    /// Returns the network, if the section sets it: whether it is open, and the hosts that may be reached otherwise.
    fn network(&self) -> Result<Option<(bool, Vec<Value>)>, String> {
        let hosts = || self.get("allowed_hosts").and_then(Value::as_array).cloned().unwrap_or_default();
        Ok(match (self.text("network_mode"), self.get("allow_internet").and_then(Value::as_bool)) {
            (Some("public"), _) | (None, Some(true)) => Some((true, Vec::new())),
            (Some("no-network"), _) | (None, Some(false)) => Some((false, Vec::new())),
            (Some("allowlist"), _) => Some((false, hosts())),
            (Some(other), _) => return Err(format!("unknown network mode: `{other}`")),
            (None, None) => None,
        })
    }
}

fn convert(dir: &Path, text: &str) -> Result<Value, String> {
    let document = text.parse::<DocumentMut>().map_err(|error| error.to_string())?;
    let document = json_of(document.as_item());
    let section = |name: &str| Section(&document[name]);
    let (task, agent, verifier, environment) =
        (section("task"), section("agent"), section("verifier"), section("environment"));
    refuse(dir, &document)?;

    let folder = dir.canonicalize().ok().and_then(|dir| Some(dir.file_name()?.to_str()?.to_owned()));
    let name = task.text("name").map(str::to_owned).or(folder).unwrap_or_else(|| "task".to_owned());
    let description = task.text("description").filter(|text| !text.trim().is_empty());
    let of_environment = environment.network()?.unwrap_or((true, Vec::new()));
    let (open, hosts) = agent.network()?.unwrap_or_else(|| of_environment.clone());
    let verifier_network = verifier.network()?.unwrap_or(of_environment);

    let mut root = Map::new();
    match environment.text("docker_image") {
        Some(image) => root.insert("image".to_owned(), json!(image)),
        None => root.insert("dockerfile".to_owned(), json!("environment")),
    };
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            root.insert(key.to_owned(), value);
        }
    };
    set("workdir", environment.text("workdir").map(|path| json!(path)));
    set("user", user(&agent).map(|user| json!(user)));
    set("env", Some(Value::Object(environment.env())));

    let mut config = Map::new();
    let instruction =
        fs::read_to_string(dir.join("instruction.md")).map_err(|error| format!("instruction.md: {error}"))?;
    let shown = without_canary(&instruction);
    if shown == instruction {
        config.insert("prompt_file".to_owned(), json!("instruction.md"));
    } else {
        config.insert("prompt".to_owned(), json!(shown.trim()));
    }
    let servers = mcp_servers(&environment)?;
    if !servers.is_empty() {
        config.insert("mcp_servers".to_owned(), Value::Object(servers));
    }

    let timeout = verifier.number("timeout_sec").unwrap_or(VERIFIER_TIMEOUT);
    let mut grading = json!({
        "tests": "tests",
        "env": Value::Object(verifier.env()),
        "timeout": milliseconds(timeout),
        "network": verifier_network.0,
    });
    if let Some(user) = user(&verifier) {
        grading["user"] = json!(user);
    }
    let collect: Vec<Value> = list(verifier.get("collect"))
        .filter_map(|hook| Some(json!(hook.get("command")?.as_str()?)))
        .collect();
    if !collect.is_empty() {
        grading["collect"] = Value::Array(collect);
    }
    let mut case = json!({
        "youbencha": super::fields::VERSION,
        "name": name,
        "description": description.map_or_else(|| format!("Harbor task {name}"), str::to_owned),
        "environment": root,
        "agent": { "config": config },
        "evaluators": [{ "name": super::fields::REWARD_EVALUATOR, "config": grading }],
        // The agent needs its model, also where the task has no network.
        "network": if open { json!("open") } else { json!({ "mode": "model-only", "allow": hosts }) },
        "timeouts": { "agent": agent.number("timeout_sec").map_or(0, milliseconds), "evaluators": milliseconds(timeout) },
    });
    if dir.join("solution/solve.sh").is_file() {
        case["solution"] = json!({ "command": oracle(&section("solution")) });
    }
    let mut limits = Map::new();
    for (key, amount) in [
        ("memory_mb", environment.megabytes("memory_mb", "memory")),
        ("disk_mb", environment.megabytes("storage_mb", "storage")),
    ] {
        if let Some(amount) = amount {
            limits.insert(key.to_owned(), json!(amount));
        }
    }
    if !limits.is_empty() {
        case["limits"] = Value::Object(limits);
    }
    if let Some(check) = environment.get("healthcheck") {
        case["pre_execution"] =
            json!([{ "name": "script", "config": { "command": healthcheck(&Section(check)) } }]);
    }
    Ok(case)
}

/// Refuses what would change the result and is not supported. The text after a line feed is the way out.
fn refuse(dir: &Path, document: &Value) -> Result<(), String> {
    let environment = Section(&document["environment"]);
    let verifier = Section(&document["verifier"]);
    let refused = |what: &str| Err(format!("{what} is not supported\nrun the task with Harbor"));
    if list(document.get("steps")).next().is_some() {
        return refused("a task with `[[steps]]`");
    }
    if environment.text("os").is_some_and(|os| os != "linux") {
        return refused("an environment other than Linux");
    }
    if environment.number("gpus").is_some_and(|gpus| gpus > 0.0) || environment.get("tpu").is_some() {
        return refused("an environment with GPUs or TPUs");
    }
    if environment.get("skills_dir").is_some() {
        return refused("`environment.skills_dir`");
    }
    if verifier.get("environment").is_some() || verifier.text("environment_mode") == Some("separate") {
        return refused("a verifier in an environment of its own");
    }
    if dir.join("trajectory.json").exists() {
        return refused("a task with a prior trajectory");
    }
    let compose =
        ["docker-compose.yaml", "docker-compose.yml"].map(|name| dir.join("environment").join(name));
    for file in compose.iter().filter(|file| file.is_file()) {
        let text = fs::read_to_string(file).unwrap_or_default();
        let mut found = Diagnostics::new(file, &text);
        let root = super::parse_tree(&text, file, &mut found);
        let services =
            root.as_ref().and_then(|root| root.get("services")).map_or(0, |all| all.entries().len());
        if services != 1 {
            return refused("a task with several compose services");
        }
    }
    if environment.text("docker_image").is_none() && !dir.join("environment/Dockerfile").is_file() {
        return Err(
            "no environment\nadd environment/Dockerfile, or set `environment.docker_image`".to_owned()
        );
    }
    if !dir.join("tests/test.sh").is_file() {
        return Err("no tests/test.sh\nadd the script that writes /logs/verifier/reward.txt".to_owned());
    }
    Ok(())
}

/// Returns the user of a section, which may be a number.
fn user(section: &Section<'_>) -> Option<String> {
    match section.get("user")? {
        Value::String(name) => Some(name.clone()),
        id => Some(id.to_string()),
    }
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1000.0).max(0.0) as u64
}

/// Removes the leading lines with a canary, and the blank lines after them.
fn without_canary(text: &str) -> &str {
    let mut rest = text;
    loop {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let trimmed = line.trim();
        let is_comment =
            (trimmed.starts_with("<!--") && trimmed.ends_with("-->")) || trimmed.starts_with('#');
        let is_canary = is_comment && trimmed.to_ascii_lowercase().contains("canary");
        let is_blank_after = trimmed.is_empty() && rest.len() < text.len();
        if rest.is_empty() || !(is_canary || is_blank_after) {
            return rest;
        }
        rest = after;
    }
}

/// Converts references to variables of the host: `${NAME}` and `${NAME:-default}`.
fn host_variables(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, reference)) = rest.split_once("${") {
        out.push_str(before);
        let Some((name, after)) = reference.split_once('}') else {
            out.push_str("${");
            rest = reference;
            continue;
        };
        match name.split_once(":-") {
            Some((name, default)) if std::env::var_os(name).is_none() => out.push_str(default),
            Some((name, _)) => out.push_str(&format!("${{ENV:{name}}}")),
            None => out.push_str(&format!("${{ENV:{name}}}")),
        }
        rest = after;
    }
    out + rest
}

fn mcp_servers(environment: &Section<'_>) -> Result<Map<String, Value>, String> {
    let mut servers = Map::new();
    for server in list(environment.get("mcp_servers")) {
        let name = server["name"].as_str().ok_or("an MCP server without a name")?;
        let mut converted = Map::new();
        let kind = match server["transport"].as_str() {
            Some("stdio") => "stdio",
            Some("streamable-http" | "http") => "http",
            _ => "sse",
        };
        converted.insert("type".to_owned(), json!(kind));
        for key in ["url", "command", "args", "headers"] {
            if !server[key].is_null() {
                converted.insert(key.to_owned(), server[key].clone());
            }
        }
        servers.insert(name.to_owned(), Value::Object(converted));
    }
    Ok(servers)
}

/// Returns the command line of the reference solution. As in Harbor, its exit code does not count.
fn oracle(solution: &Section<'_>) -> String {
    let mut exports = String::new();
    for (name, value) in solution.env() {
        let value = value.as_str().unwrap_or_default().replace('\'', "'\\''");
        exports.push_str(&format!("export {name}='{value}'; "));
    }
    format!(
        "mkdir -p /solution && cp -R \"$YB_CASE_DIR/solution/.\" /solution/ && chmod +x /solution/solve.sh && export DEBIAN_FRONTEND=noninteractive; {exports}(/solution/solve.sh) > /logs/agent/oracle.txt 2>&1 || true"
    )
}

fn healthcheck(check: &Section<'_>) -> String {
    let command = check.text("command").unwrap_or("true").replace('\'', "'\\''");
    let tries = check.number("retries").unwrap_or(3.0).max(1.0) as u64;
    let interval = check.number("interval_sec").unwrap_or(5.0);
    let start = check.number("start_period_sec").unwrap_or(0.0);
    format!(
        "sleep {start}; tries=0; until sh -c '{command}'; do tries=$((tries + 1)); [ $tries -lt {tries} ] || exit 1; sleep {interval}; done"
    )
}

/// Converts TOML to JSON.
fn json_of(item: &Item) -> Value {
    fn of_value(value: &toml_edit::Value) -> Value {
        match value {
            toml_edit::Value::String(text) => json!(text.value()),
            toml_edit::Value::Integer(number) => json!(number.value()),
            toml_edit::Value::Float(number) => json!(number.value()),
            toml_edit::Value::Boolean(flag) => json!(flag.value()),
            toml_edit::Value::Datetime(time) => json!(time.value().to_string()),
            toml_edit::Value::Array(items) => items.iter().map(of_value).collect(),
            toml_edit::Value::InlineTable(table) => {
                table.iter().map(|(key, value)| (key.to_owned(), of_value(value))).collect()
            }
        }
    }
    match item {
        Item::None => Value::Null,
        Item::Value(value) => of_value(value),
        Item::Table(table) => table.iter().map(|(key, item)| (key.to_owned(), json_of(item))).collect(),
        Item::ArrayOfTables(tables) => tables
            .iter()
            .map(|table| table.iter().map(|(key, item)| (key.to_owned(), json_of(item))).collect::<Value>())
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let usual = [
            ("instruction.md", "Write the file."),
            ("environment/Dockerfile", "FROM x\n"),
            ("tests/test.sh", "echo 1 > /logs/verifier/reward.txt\n"),
        ];
        for (name, content) in usual.iter().chain(files) {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        dir
    }

    #[test]
    fn every_key_of_a_task_is_converted() {
        let dir = task(&[
            ("solution/solve.sh", ""),
            ("instruction.md", "<!-- benchmark CANARY GUID x -->\n# canary y\n\nDo `${it}`.\n"),
        ]);
        let text = r#"
            schema_version = "1.4"
            [task]
            name = "org/name"
            description = "A task."
            [agent]
            timeout_sec = 120.5
            user = "agent"
            [verifier]
            timeout_sec = 30
            env = { KEY = "${TOKEN}", MODE = "${NO_SUCH_VARIABLE:-fast}" }
            user = 0
            [[verifier.collect]]
            command = "save"
            [environment]
            docker_image = "example.org/image:1"
            workdir = "/work"
            memory = "2G"
            storage_mb = 500
            network_mode = "allowlist"
            allowed_hosts = ["example.org"]
            env = { A = "b" }
            [[environment.mcp_servers]]
            name = "files"
            transport = "streamable-http"
            url = "http://127.0.0.1:1/mcp"
            [environment.healthcheck]
            command = "true"
            [solution]
            env = { X = "it's" }
        "#;
        let case = convert(dir.path(), text).unwrap();
        assert_eq!(case["name"], "org/name");
        assert_eq!(
            case["environment"],
            json!({"image": "example.org/image:1", "workdir": "/work", "user": "agent", "env": {"A": "b"}})
        );
        assert_eq!(case["agent"]["config"]["prompt"], "Do `${it}`.");
        assert_eq!(case["agent"]["config"]["mcp_servers"]["files"]["type"], "http");
        assert_eq!(case["timeouts"], json!({"agent": 120_500, "evaluators": 30_000}));
        assert_eq!(case["limits"], json!({"memory_mb": 2048, "disk_mb": 500}));
        assert_eq!(case["network"], json!({"mode": "model-only", "allow": ["example.org"]}));
        let grading = &case["evaluators"][0]["config"];
        assert_eq!(grading["env"], json!({"KEY": "${ENV:TOKEN}", "MODE": "fast"}));
        assert_eq!((&grading["user"], &grading["network"]), (&json!("0"), &json!(false)));
        assert_eq!(grading["collect"], json!(["save"]));
        assert!(
            case["solution"]["command"]
                .as_str()
                .unwrap()
                .contains(r"export X='it'\''s'; (/solution/solve.sh)")
        );
        assert!(
            case["pre_execution"][0]["config"]["command"].as_str().unwrap().contains("until sh -c 'true'")
        );
    }

    #[test]
    fn unsupported_tasks_are_refused_with_the_reason() {
        for (text, said) in [
            ("[[steps]]\nname = 'a'", "[[steps]]"),
            ("[environment]\nos = 'windows'", "other than Linux"),
            ("[environment]\ngpus = 1", "GPUs"),
            ("[verifier.environment]\ndocker_image = 'x'", "of its own"),
            ("[verifier]\nenvironment_mode = 'separate'", "of its own"),
            ("[environment]\nnetwork_mode = 'odd'", "`odd`"),
            ("= 1", "TOML"),
        ] {
            let error = convert(task(&[]).path(), text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
        let several = task(&[("environment/docker-compose.yaml", "services: {main: {}, db: {}}\n")]);
        assert!(convert(several.path(), "").unwrap_err().contains("several compose services"));
        let one = task(&[("environment/docker-compose.yaml", "services: {main: {}}\n")]);
        assert!(convert(one.path(), "").is_ok());
        let none = tempfile::tempdir().unwrap();
        assert!(convert(none.path(), "").unwrap_err().contains("no environment"));
    }

    #[test]
    fn directories_stand_for_tasks_and_sets() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b", "a", "other"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        for name in ["a", "b"] {
            fs::write(dir.path().join(name).join(TASK), "").unwrap();
        }
        assert_eq!(file_of(&dir.path().join("a")), dir.path().join("a/task.toml"));
        assert_eq!(file_of(&dir.path().join("other")), dir.path().join("other"));
        assert_eq!(file_of(dir.path()), dir.path().join(DATASET));
        assert_eq!(dataset(dir.path())["cases"], json!(["a/task.toml", "b/task.toml"]));
        fs::write(dir.path().join(DATASET), "[dataset]\nname = 'org/set'\n").unwrap();
        assert_eq!(dataset(dir.path())["name"], "org/set");
    }
}
