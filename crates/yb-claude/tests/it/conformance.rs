//! Runs the conformance cases against this crate; see `conformance/README.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use yb_claude::sdk::{
    Error, Exit, HookMatcher, Hooks, Host, OnFailure, PermissionResult, ScriptStep, ScriptedCli,
    ScriptedSession, SessionKey, SessionStore, StoreError, StoreFlush, ToolServer, tool,
};
use yb_claude::{
    AgentDefinition, Message, Options, PermissionMode, Prompt, Session, SettingSource, SystemPrompt,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance")
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn pairs(value: &Value) -> Vec<(String, String)> {
    let pairs = value.as_object().into_iter().flatten();
    pairs.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect()
}

fn options(asked: &Map<String, Value>) -> Options {
    let mut options = Options::default();
    for (key, value) in asked {
        let text = || value.as_str().unwrap().to_owned();
        match key.as_str() {
            "model" => options.model = Some(text()),
            "max_turns" => options.max_turns = Some(value.as_u64().unwrap() as u32),
            "max_budget_usd" => options.max_budget_usd = value.as_f64(),
            "permission_mode" => options.permission_mode = Some(text().parse::<PermissionMode>().unwrap()),
            "resume" if asked.contains_key("fork") => {
                options.session = Session::Fork { of: Some(text()), id: None };
            }
            "resume" => options.session = Session::Resume(text()),
            "tools" => options.tools = Some(texts(value)),
            "allowed_tools" => options.allowed_tools = Some(texts(value)),
            "disallowed_tools" => options.disallowed_tools = Some(texts(value)),
            "setting_sources" => {
                let sources = texts(value);
                options.setting_sources =
                    Some(sources.iter().map(|source| source.parse::<SettingSource>().unwrap()).collect());
            }
            "system_prompt" => options.system_prompt = SystemPrompt::Text(text()),
            "json_schema" => options.json_schema = Some(value.clone()),
            "agents" => {
                for (name, agent) in value.as_object().unwrap() {
                    let field = |key: &str| agent[key].as_str().unwrap().to_owned();
                    let agent = AgentDefinition::new(field("description"), field("prompt"));
                    options.agents.insert(name.clone(), agent);
                }
            }
            "env" => {
                for (name, value) in pairs(value) {
                    options = options.with_env(name, value);
                }
            }
            "extra_args" => {
                for (name, value) in pairs(value) {
                    options = options.with_extra_arg(name, value);
                }
            }
            "resume_session_at" => options.resume_at = Some(text()),
            "resume_drops_turn" => options.resume_drops_turn = Some(text()),
            "client_app" => options.client_app = Some(text()),
            "skills" if value == "all" => options = options.with_all_skills(),
            "skills" => options = options.with_skills(texts(value)),
            // Variables of the host, which the child must not inherit; `env` checks that.
            "host_env" | "fork" | "hooks" | "tools_of_host" | "can_use_tool" | "session_store"
            | "initialize" => {}
            other => panic!("an option that the runner does not know: {other}"),
        }
    }
    options
}

fn delay(one: &Value) -> Duration {
    Duration::from_millis(one["delay_ms"].as_u64().unwrap_or(0))
}

fn outcome(one: &Value) -> Result<Value, String> {
    match one["error"].as_str() {
        Some(error) => Err(error.to_owned()),
        None => Ok(one["answer"].clone()),
    }
}

/// A store that records the types of the entries of every call, by key.
#[derive(Clone, Default)]
struct RecordingStore(Arc<Mutex<BTreeMap<String, Vec<Vec<Value>>>>>);

#[async_trait]
impl SessionStore for RecordingStore {
    async fn append(&self, key: &SessionKey, entries: &[Value]) -> Result<(), StoreError> {
        let name = [Some(&key.project), Some(&key.session), key.subpath.as_ref()];
        let name: Vec<&str> = name.into_iter().flatten().map(String::as_str).collect();
        let types = entries.iter().map(|entry| entry["type"].clone()).collect();
        self.0.lock().unwrap().entry(name.join("/")).or_default().push(types);
        Ok(())
    }

    async fn load(&self, _: &SessionKey) -> Result<Option<Vec<Value>>, StoreError> {
        Ok(None)
    }
}

impl RecordingStore {
    fn appends(&self) -> Value {
        json!(*self.0.lock().unwrap())
    }
}

fn host(asked: &Map<String, Value>, cli: &ScriptedCli, store: &RecordingStore) -> Host {
    let mut host = Host::new(options(asked)).with_transport(cli.clone());
    if asked.contains_key("session_store") {
        let eager = asked["session_store"] == "eager";
        let flush = if eager { StoreFlush::Eager } else { StoreFlush::Batched };
        host = host.with_session_store(store.clone()).with_session_store_flush(flush);
    }
    for (name, value) in asked.get("initialize").and_then(Value::as_object).into_iter().flatten() {
        host = host.with_initialize_field(name, value.clone());
    }
    for hook in asked.get("hooks").and_then(Value::as_array).into_iter().flatten() {
        let mut matcher = hook["matcher"].as_str().map_or_else(HookMatcher::any, HookMatcher::new);
        if let Some(seconds) = hook["timeout"].as_u64() {
            matcher = matcher.with_timeout(Duration::from_secs(seconds));
        }
        if hook["on_failure"] == "block" {
            matcher = matcher.with_on_failure(OnFailure::Block);
        }
        let (wait, outcome) = (delay(hook), outcome(hook));
        host =
            host.with_hooks(Hooks::new().on_named(hook["event"].as_str().unwrap(), matcher, move |_, _| {
                let outcome = outcome.clone();
                async move {
                    tokio::time::sleep(wait).await;
                    outcome
                }
            }));
    }
    let mut servers: BTreeMap<&str, ToolServer> = BTreeMap::new();
    for one in asked.get("tools_of_host").and_then(Value::as_array).into_iter().flatten() {
        let (wait, outcome) = (delay(one), outcome(one));
        let name = one["name"].as_str().unwrap();
        let tool = tool(name, name, move |_: Map<String, Value>, _| {
            let outcome = outcome.clone();
            async move {
                tokio::time::sleep(wait).await;
                outcome.map(|answer| answer.as_str().unwrap().to_owned())
            }
        });
        let server = one["server"].as_str().unwrap();
        let known = servers.remove(server).unwrap_or_else(|| ToolServer::new(server));
        servers.insert(server, known.with_tool(tool));
    }
    for server in servers.into_values() {
        host = host.with_tools(server);
    }
    if let Some(wanted) = asked.get("can_use_tool").cloned() {
        host = host.with_can_use_tool(move |_, _| {
            let wanted = wanted.clone();
            async move {
                let text = |key: &str| wanted[key].as_str().unwrap_or_default().to_owned();
                match (wanted["error"].as_str(), &wanted["behavior"], wanted.get("updatedInput")) {
                    (Some(error), _, _) => Err(error.to_owned()),
                    (_, behavior, Some(input)) if behavior == "allow" => {
                        Ok(PermissionResult::allow_with(input.clone()))
                    }
                    (_, behavior, None) if behavior == "allow" => Ok(PermissionResult::allow()),
                    _ if wanted["interrupt"] == true => {
                        Ok(PermissionResult::deny_and_interrupt(text("message")))
                    }
                    _ => Ok(PermissionResult::deny(text("message"))),
                }
            }
        });
    }
    host
}

fn steps(case: &Value) -> Vec<ScriptStep> {
    let mut steps = Vec::new();
    for step in case["stdout_script"].as_array().unwrap() {
        let (kind, value) = step.as_object().unwrap().iter().find(|(key, _)| *key != "stderr").unwrap();
        steps.push(match kind.as_str() {
            "await" => {
                let name = value.as_str().unwrap();
                ScriptStep::Await(name.to_owned(), case["stdin_expect"][name].clone())
            }
            "line" => ScriptStep::Line(value.clone()),
            // The scripted CLI splits lines itself; `frames_framer.rs` tests chunks.
            "split" => ScriptStep::Bytes(format!("{value}\n").into_bytes()),
            "unterminated" => ScriptStep::Bytes(value.to_string().into_bytes()),
            "bytes" => ScriptStep::Bytes(value.as_str().unwrap().as_bytes().to_vec()),
            "pause_ms" => ScriptStep::Sleep(Duration::from_millis(value.as_u64().unwrap())),
            "await_eof" => ScriptStep::AwaitEnd,
            "exit" => {
                let stderr_tail = step["stderr"].as_str().unwrap_or_default().to_owned();
                ScriptStep::Exit(Exit { stderr_tail, ..Exit::with_code(value.as_i64().unwrap() as i32) })
            }
            other => panic!("a step that the runner does not know: {other}"),
        });
    }
    steps
}

fn shown(message: &Message) -> Value {
    match message {
        Message::Result(result) => {
            json!({"type": "result", "subtype": result.subtype.as_str(), "result": result.result})
        }
        Message::Assistant(message) => json!({"type": "assistant", "text": message.text()}),
        Message::System(system) => json!({"type": "system", "subtype": system.subtype()}),
        other => json!({"type": other.kind()}),
    }
}

fn kind_of(error: &Error) -> &'static str {
    match error {
        Error::Result(_) => "result",
        Error::Exited(_) => "exited",
        Error::Protocol(_) => "protocol",
        Error::Handshake { .. } => "handshake",
        _ => "other",
    }
}

fn fits(value: &Value, pattern: &Value) -> bool {
    match (value, pattern) {
        (Value::Object(value), Value::Object(pattern)) => {
            pattern.iter().all(|(key, pattern)| value.get(key).is_some_and(|value| fits(value, pattern)))
        }
        (Value::Array(value), Value::Array(pattern)) => {
            value.len() == pattern.len() && value.iter().zip(pattern).all(|(value, one)| fits(value, one))
        }
        _ => value == pattern,
    }
}

fn flags_of(args: &[String]) -> BTreeMap<&str, Value> {
    let following = args.iter().skip(1).map(Some).chain([None]);
    let flags = args.iter().zip(following).filter(|(word, _)| word.starts_with("--"));
    flags
        .map(|(word, next)| match (word.split_once('='), next) {
            (Some((name, value)), _) => (name, json!(value)),
            (None, Some(next)) if !next.starts_with("--") => (word.as_str(), json!(next)),
            _ => (word.as_str(), json!(true)),
        })
        .collect()
}

/// Returns the deviations from the expectation.
fn problems(
    expect: &Value,
    session: &ScriptedSession,
    messages: &[Value],
    error: Option<&Error>,
    appends: &Value,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut check = |ok: bool, what: String| {
        if !ok {
            wrong.push(what);
        }
    };
    let object = |key: &str| expect[key].as_object().cloned().unwrap_or_default();
    let list = |key: &str| expect[key].as_array().cloned().unwrap_or_default();
    let flags = flags_of(&session.args);
    for (flag, value) in object("argv") {
        let found = flags.get(flag.as_str()).unwrap_or(&Value::Null);
        check(*found == value, format!("argv: {flag} is {found}"));
    }
    let has = |word: &Value| session.args.iter().any(|arg| arg == word.as_str().unwrap());
    list("argv_has").iter().for_each(|word| check(has(word), format!("argv has no {word}")));
    list("argv_lacks").iter().for_each(|word| check(!has(word), format!("argv has {word}")));
    for text in list("argv_without") {
        let found = session.args.iter().any(|arg| arg.contains(text.as_str().unwrap()));
        check(!found, format!("{text} is in argv"));
    }
    let variable = |name: &str| session.env.get(name).cloned().flatten();
    for (name, value) in object("env") {
        check(json!(variable(&name)) == value, format!("env: {name} is {:?}", variable(&name)));
    }
    for name in list("env_set") {
        check(variable(name.as_str().unwrap()).is_some(), format!("env: {name} is not set"));
    }
    for (name, value) in object("env_not") {
        check(json!(variable(&name)) != value, format!("env: {name} is {value}"));
    }
    let mut rest = session.lines.iter();
    for pattern in list("writes") {
        check(rest.any(|line| fits(line, &pattern)), format!("never wrote {pattern}"));
    }
    if expect.get("writes_lack").is_some() {
        let agents = session.lines[0]["request"]["agents"].as_object().unwrap();
        let nulls = agents.values().any(|agent| agent.as_object().unwrap().values().any(Value::is_null));
        check(!nulls, "an agent has a null".to_owned());
    }
    for field in list("writes_without") {
        let found = session.lines[0]["request"].get(field.as_str().unwrap()).is_some();
        check(!found, format!("`initialize` has {field}"));
    }
    if expect.get("stored").is_some() {
        let all = |calls: &Value| -> Value {
            calls.as_array().unwrap().iter().flat_map(|call| call.as_array().unwrap().clone()).collect()
        };
        let stored = appends.as_object().unwrap().iter().map(|(key, calls)| (key.clone(), all(calls)));
        let stored = Value::Object(stored.collect());
        check(stored == expect["stored"], format!("stored: {stored}"));
    }
    if expect.get("appends").is_some() {
        check(*appends == expect["appends"], format!("appends: {appends}"));
    }
    let answers = |request: &str| -> Vec<&Value> {
        let responses = session.lines.iter().filter(|line| line["type"] == "control_response");
        responses.map(|line| &line["response"]).filter(|one| one["request_id"] == request).collect()
    };
    for (request, mut pattern) in object("answers") {
        let words = pattern.as_object_mut().unwrap().remove("error");
        let found = answers(&request);
        let told = |answer: &Value| {
            words.as_ref().is_none_or(|words| answer["error"].to_string().contains(words.as_str().unwrap()))
        };
        let ok = matches!(found[..], [one] if fits(one, &pattern) && told(one));
        check(ok, format!("answers to {request}: {found:?}"));
    }
    for request in list("no_answer") {
        check(answers(request.as_str().unwrap()).is_empty(), format!("answered {request}"));
    }
    if expect.get("messages").is_some() {
        check(fits(&json!(messages), &expect["messages"]), format!("messages: {messages:?}"));
    }
    for pattern in list("messages_include") {
        check(messages.iter().any(|one| fits(one, &pattern)), format!("no {pattern}: {messages:?}"));
    }
    check(json!(error.map(kind_of)) == expect["error"], format!("error: {error:?}"));
    let words = expect["error_text"].as_str().unwrap_or_default();
    check(words.is_empty() || error.unwrap().to_string().contains(words), format!("error: {error:?}"));
    let played = session.steps_before_eof.unwrap_or(0) as u64;
    check(played >= expect["eof_after"].as_u64().unwrap_or(0), format!("the input ended at step {played}"));
    wrong
}

/// A stream of prompts that are all available at once.
struct Prompts(std::collections::VecDeque<String>);

impl futures_core::Stream for Prompts {
    type Item = Prompt;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Prompt>> {
        std::task::Poll::Ready(self.0.pop_front().map(Prompt::from))
    }
}

#[tokio::test]
async fn conformance_cases_pass() {
    let (mut played, mut failed) = (0, Vec::new());
    for file in ["argv", "hooks", "permission", "tools", "framing", "endings", "parity"] {
        let text = std::fs::read_to_string(root().join(format!("cases/{file}.json"))).unwrap();
        for case in serde_json::from_str::<Vec<Value>>(&text).unwrap() {
            let cli = ScriptedCli::new(steps(&case));
            let store = RecordingStore::default();
            let host = host(case["options"].as_object().unwrap(), &cli, &store);
            let mut query = match case.get("prompts") {
                Some(prompts) => host.query_stream(Prompts(texts(prompts).into())),
                None => host.query(case["prompt"].as_str().unwrap()),
            };
            let (mut messages, mut error) = (Vec::new(), None);
            while let Some(item) = query.next().await {
                match item {
                    Ok(message) => messages.push(shown(&message)),
                    Err(one) => error = Some(one),
                }
            }
            let session = cli.sessions().pop().unwrap_or_default();
            let problems = problems(&case["expect"], &session, &messages, error.as_ref(), &store.appends());
            played += 1;
            if !problems.is_empty() {
                failed.push(format!("{file}/{}: {}", case["name"], problems.join("; ")));
            }
            let how = case["python"].as_str().unwrap();
            let known = how == "same" || how.starts_with("differs: ") || how.starts_with("not portable: ");
            assert!(known, "{}: `python` says whether and why it differs: {how}", case["name"]);
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(played >= 50, "{played} cases");
}

/// The official SDK runs every case that is certified by it; all other cases have a reason.
#[test]
fn official_python_sdk_certifies_conformance_cases() {
    let context = yb_testkit::TestContext::new();
    let script = root().join("../scripts/conformance");
    let outcome = context.command(script).timeout(Duration::from_secs(170)).run();
    assert!(outcome.success(), "{}\n{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("0 surprises"), "{}", outcome.stdout);
}
