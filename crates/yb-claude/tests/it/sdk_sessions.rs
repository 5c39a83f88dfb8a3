//! Sessions on disk, written by the real CLI and read by this and the official SDK.

use async_trait::async_trait;
use serde_json::{Value, json};
use yb_claude::sdk::{
    Error, MemorySessionStore, SessionInfo, SessionKey, SessionStore, Sessions, StoreError, StoredSession,
    StoredSessions, TranscriptEntry,
};
use yb_claude::{Options, PermissionMode, Session};

use crate::sdk_support::Trial;

/// Runs a program with the official SDK, which prints JSON.
fn official(config: &std::path::Path, program: &str, arguments: &[&str]) -> Value {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let context = yb_testkit::TestContext::new();
    // Installs the SDK, if necessary.
    assert!(context.run(root.join("scripts/conformance"), ["no-such-case"]).success());
    let python = root.join(".tools/claude-agent-sdk-0.2.182/bin/python");
    let program = format!("import claude_agent_sdk as s, json, sys\n{program}");
    let command = context.command(python).args(["-c", &program]).args(arguments);
    let outcome = command.env("CLAUDE_CONFIG_DIR", config).run();
    assert!(outcome.success(), "{}", outcome.stderr);
    serde_json::from_str(&outcome.stdout).unwrap()
}

#[tokio::test]
async fn real_claude_sessions_are_listed_read_and_forked() {
    let trial = Trial::replies(
        "{ say: I look., tools: [ { Bash: { command: echo 1, description: One } }, { Bash: { command: echo 2, description: Two } } ] }, \
         { say: Done. }, { say: Two. }, { say: Three. }",
    );
    let options = || trial.options().with_allowed_tools(["Bash"]);
    let first = trial.host_with(options()).query("look around").result().await.unwrap();
    let id = first.session_id.unwrap();
    let other = trial.host_with(options()).query("another").result().await.unwrap().session_id.unwrap();

    let config = trial.claude.private().join("config");
    let sessions = Sessions::in_config_dir(&config).with_project(trial.workspace.path());
    let listed = sessions.list().unwrap();
    assert_eq!(listed.len(), 2);
    let info = sessions.info(&id).unwrap();
    assert_eq!(info.first_prompt.as_deref(), Some("look around"));
    assert!(info.created_at.is_some() && info.bytes.is_some_and(|bytes| bytes > 0));
    assert_eq!(
        std::fs::canonicalize(info.cwd.unwrap()).unwrap(),
        std::fs::canonicalize(trial.workspace.path()).unwrap()
    );
    let messages = sessions.messages(&id).unwrap();
    assert_eq!(messages.first().unwrap().text(), "look around");
    assert_eq!(messages.last().unwrap().text(), "Done.");
    assert!(messages.last().unwrap().to_message().is_some());

    let theirs = official(
        &config,
        "print(json.dumps({'list': [[i.session_id, i.first_prompt] for i in s.list_sessions()],
  'messages': [[m.type, m.uuid] for m in s.get_session_messages(sys.argv[1])]}))",
        &[&id],
    );
    let ours: Vec<Value> = messages.iter().map(|one| json!([one.kind, one.uuid])).collect();
    assert_eq!(Value::Array(ours), theirs["messages"]);
    let mut ours: Vec<Value> = listed.iter().map(|one| json!([one.id, one.first_prompt])).collect();
    let mut list = theirs["list"].as_array().unwrap().clone();
    ours.sort_by_key(Value::to_string);
    list.sort_by_key(Value::to_string);
    assert_eq!(ours, list);

    let copy = sessions.fork(&id, None).unwrap();
    assert_eq!(sessions.messages(&copy).unwrap().len(), messages.len());
    let resumed: Options = options().with_session(Session::Resume(copy.clone()));
    let third = trial.host_with(resumed).query("go on").result().await.unwrap();
    assert_eq!((third.result.as_deref(), third.session_id.as_ref()), (Some("Two."), Some(&copy)));
    assert_eq!(sessions.messages(&id).unwrap().len(), messages.len(), "the original is as it was");

    let short = sessions.fork(&id, Some(&messages[0].uuid)).unwrap();
    assert_eq!(sessions.messages(&short).unwrap().len(), 1);
    assert!(matches!(sessions.fork(&id, Some("none")), Err(Error::Transcript { .. })));
    assert!(sessions.messages("none").is_err());
    assert!(Sessions::in_config_dir(trial.workspace.path()).list().unwrap().is_empty());
    let _ = other;
}

#[tokio::test]
async fn real_claude_sessions_are_renamed_tagged_and_deleted() {
    let trial = Trial::replies("{ say: One. }, { say: Two. }");
    let id = trial.host().query("hi").result().await.unwrap().session_id.unwrap();
    let config = trial.claude.private().join("config");
    let sessions = Sessions::in_config_dir(&config);
    sessions.rename(&id, " A good title ").unwrap();
    sessions.tag(&id, Some("experiment")).unwrap();
    let info = sessions.info(&id).unwrap();
    assert_eq!((info.title.as_deref(), info.tag.as_deref()), (Some("A good title"), Some("experiment")));
    // The official SDK reads our entries, and we read its entries.
    let theirs = official(
        &config,
        "i = s.get_session_info(sys.argv[1])
s.rename_session(sys.argv[1], 'Another title')
s.tag_session(sys.argv[1], None)
print(json.dumps([i.custom_title, i.tag]))",
        &[&id],
    );
    assert_eq!(theirs, json!(["A good title", "experiment"]));
    let info = sessions.info(&id).unwrap();
    assert_eq!((info.title.as_deref(), info.tag.as_deref()), (Some("Another title"), None));
    // The CLI can still resume it, and renames it on request.
    let resumed = trial.options().with_session(Session::Resume(id.clone()));
    let client = trial.host_with(resumed).connect().await.unwrap();
    assert_eq!(client.turn("go on").text().await.unwrap(), "Two.");
    client.rename("A third title").await.unwrap();
    client.close().await.unwrap();
    assert_eq!(sessions.info(&id).unwrap().title.as_deref(), Some("A third title"));

    assert!(sessions.rename(&id, "  ").is_err() && sessions.tag(&id, Some(" ")).is_err());
    sessions.delete(&id).unwrap();
    assert!(sessions.list().unwrap().is_empty());
    assert!(sessions.delete(&id).is_err() && sessions.rename(&id, "x").is_err());
}

#[tokio::test]
async fn real_claude_subagent_transcripts_are_read_and_deleted() {
    let trial = Trial::new(
        "{ tape: 1, lanes: { main: [ { tools: [ { Agent: { description: Look, prompt: Look around., \
           subagent_type: general-purpose } } ] }, { say: Done. } ], \
           sub: { match: Look around, replies: [ { tools: [ { Bash: { command: echo 1, description: One } } ] }, \
           { say: Nothing here. } ] } } }",
    );
    let options = trial.options().with_allowed_tools(["Agent", "Bash"]);
    let id = trial.host_with(options).query("delegate").result().await.unwrap().session_id.unwrap();
    let config = trial.claude.private().join("config");
    let sessions = Sessions::in_config_dir(&config);
    let agents = sessions.subagents(&id).unwrap();
    assert_eq!(agents.len(), 1);
    let messages = sessions.subagent_messages(&id, &agents[0]).unwrap();
    assert!(messages[0].text().contains("Look around."), "{messages:?}");
    assert_eq!(messages.last().unwrap().text(), "Nothing here.");
    let theirs = official(
        &config,
        "agents = s.list_subagents(sys.argv[1])
print(json.dumps([agents, [[m.type, m.uuid] for m in s.get_subagent_messages(sys.argv[1], agents[0])]]))",
        &[&id],
    );
    let ours: Vec<Value> = messages.iter().map(|one| json!([one.kind, one.uuid])).collect();
    assert_eq!(json!([agents, ours]), theirs);
    assert!(sessions.subagent_messages(&id, "none").is_err());
    let directory = sessions.info(&id).unwrap().path.unwrap().with_extension("");
    assert!(directory.is_dir());
    sessions.delete(&id).unwrap();
    assert!(!directory.exists());
}

/// A store that keeps no summaries and deletes nothing: its optional methods have their defaults.
struct PlainStore(MemorySessionStore);

#[async_trait]
impl SessionStore for PlainStore {
    async fn append(&self, key: &SessionKey, entries: &[Value]) -> Result<(), StoreError> {
        self.0.append(key, entries).await
    }

    async fn load(&self, key: &SessionKey) -> Result<Option<Vec<Value>>, StoreError> {
        self.0.load(key).await
    }

    async fn list_sessions(&self, project: &str) -> Result<Vec<StoredSession>, StoreError> {
        self.0.list_sessions(project).await
    }
}

fn uuids(messages: &[TranscriptEntry]) -> Value {
    messages.iter().map(|one| json!([one.kind, one.uuid])).collect()
}

fn listing(sessions: &[SessionInfo]) -> Value {
    sessions.iter().map(|one| json!([one.id, one.title, one.tag, one.first_prompt])).collect()
}

/// Writes the content of a store for the official SDK.
async fn dump(store: &MemorySessionStore) -> tempfile::NamedTempFile {
    let mut all = Vec::new();
    for key in store.keys() {
        let mut named = json!({"project_key": key.project, "session_id": key.session});
        if let Some(subpath) = &key.subpath {
            named["subpath"] = json!(subpath);
        }
        all.push(json!([named, store.load(&key).await.unwrap().unwrap()]));
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), Value::Array(all).to_string()).unwrap();
    file
}

#[tokio::test]
async fn real_claude_sessions_in_a_store_are_listed_read_and_changed() {
    let trial = Trial::new(
        "{ tape: 1, lanes: { main: [ { tools: [ { Agent: { description: Look, prompt: Look around., \
           subagent_type: general-purpose } } ] }, { say: Done. }, { say: Again. } ], \
           other: { match: something else, replies: [ { say: Other. } ] }, \
           sub: { match: Look around, replies: [ { say: Nothing here. } ] } } }",
    );
    let store = MemorySessionStore::new();
    let host = |options: Options| trial.host_with(options).with_session_store(store.clone());
    let options = || trial.options().with_allowed_tools(["Agent"]);
    let id = host(options()).query("delegate").result().await.unwrap().session_id.unwrap();
    let other = host(options()).query("something else").result().await.unwrap().session_id.unwrap();
    let stored = StoredSessions::new(store.clone(), trial.workspace.path());
    let files = Sessions::in_config_dir(trial.claude.private().join("config"));

    // The store has what the files have.
    let listed = stored.list().await.unwrap();
    assert_eq!(listed.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), [&other, &id]);
    assert!(listed.iter().all(|one| one.path.is_none() && one.bytes.is_none()));
    let (info, on_disk) = (stored.info(&id).await.unwrap(), files.info(&id).unwrap());
    assert_eq!(info.first_prompt.as_deref(), Some("delegate"));
    assert_eq!((&info.cwd, &info.created_at), (&on_disk.cwd, &on_disk.created_at));
    let messages = stored.messages(&id).await.unwrap();
    assert_eq!(uuids(&messages), uuids(&files.messages(&id).unwrap()));
    let agents = stored.subagents(&id).await.unwrap();
    assert_eq!(agents, files.subagents(&id).unwrap());
    let of_agent = stored.subagent_messages(&id, &agents[0]).await.unwrap();
    assert_eq!(of_agent.last().unwrap().text(), "Nothing here.");
    assert_eq!(uuids(&of_agent), uuids(&files.subagent_messages(&id, &agents[0]).unwrap()));

    // The official SDK reads the same, before and after the same changes.
    let before = dump(&store).await;
    stored.rename(&id, " A good title ").await.unwrap();
    stored.tag(&id, Some("experiment")).await.unwrap();
    stored.tag(&other, Some("x")).await.unwrap();
    stored.tag(&other, None).await.unwrap();
    let program = "import asyncio
async def fill(path):
    store = s.InMemorySessionStore()
    for key, entries in json.load(open(path)):
        await store.append(key, entries)
    return store
async def read(store, place, id):
    agents = await s.list_subagents_from_store(store, id, place)
    return [sorted([i.session_id, i.custom_title, i.tag, i.first_prompt] for i in await s.list_sessions_from_store(store, place)),
        [[m.type, m.uuid] for m in await s.get_session_messages_from_store(store, id, place)], agents,
        [[m.type, m.uuid] for m in await s.get_subagent_messages_from_store(store, id, agents[0], place)]]
async def main(before, after, place, id, other):
    store = await fill(before)
    await s.rename_session_via_store(store, id, ' A good title ', place)
    await s.tag_session_via_store(store, id, 'experiment', place)
    await s.tag_session_via_store(store, other, 'x', place)
    await s.tag_session_via_store(store, other, None, place)
    return [await read(store, place, id), await read(await fill(after), place, id)]
print(json.dumps(asyncio.run(main(*sys.argv[1:]))))";
    let (after, place) = (dump(&store).await, trial.workspace.path());
    let arguments = [before.path(), after.path(), place].map(|path| path.to_str().unwrap());
    let theirs = official(place, program, &[&arguments[..], &[&id, &other]].concat());
    let mut list = listing(&stored.list().await.unwrap());
    list.as_array_mut().unwrap().sort_by_key(Value::to_string);
    let ours = json!([list, uuids(&messages), agents, uuids(&of_agent)]);
    assert_eq!(theirs, json!([ours, ours]));
    // A store without summaries is listed by loading.
    let plain = StoredSessions::new(PlainStore(store.clone()), place);
    assert_eq!(plain.list().await.unwrap(), stored.list().await.unwrap());
    assert!(plain.delete(&id).await.unwrap_err().to_string().contains("the store does not delete"));

    // A copy can be resumed, and the original is as it was.
    let copy = stored.fork(&id, None).await.unwrap();
    assert_eq!(stored.info(&copy).await.unwrap().title.as_deref(), Some("A good title (fork)"));
    let resumed = host(options().with_session(Session::Resume(copy.clone())));
    assert_eq!(resumed.query("go on").text().await.unwrap(), "Again.");
    assert_eq!(stored.messages(&copy).await.unwrap().len(), messages.len() + 2);
    assert_eq!(uuids(&stored.messages(&id).await.unwrap()), uuids(&messages));
    let short = stored.fork(&id, Some(&messages[0].uuid)).await.unwrap();
    let short = stored.messages(&short).await.unwrap();
    assert_eq!(short.len(), 1);
    assert_ne!(short[0].uuid, messages[0].uuid);

    assert!(stored.rename(&id, " ").await.is_err() && stored.rename("none", "x").await.is_err());
    assert!(
        stored.fork(&id, Some("none")).await.is_err() && stored.subagent_messages(&id, "x").await.is_err()
    );
    stored.delete(&id).await.unwrap();
    assert!(stored.info(&id).await.is_err() && stored.subagents(&id).await.unwrap().is_empty());
    assert!(stored.delete(&id).await.is_err());

    // A session in files is copied to another store, and resumed from there.
    let copied = MemorySessionStore::new();
    files.copy_to_store(&id, &copied).await.unwrap();
    let in_copy = StoredSessions::new(copied.clone(), place);
    assert_eq!(uuids(&in_copy.messages(&id).await.unwrap()), uuids(&messages));
    assert_eq!(in_copy.subagents(&id).await.unwrap(), agents);
    files.delete(&id).unwrap();
    let resumed =
        trial.host_with(options().with_session(Session::Resume(id.clone()))).with_session_store(copied);
    assert_eq!(resumed.query("go on").text().await.unwrap(), "Again.");
}

#[tokio::test]
async fn real_claude_sessions_of_all_worktrees_are_listed() {
    let trial = Trial::replies("{ say: One. }, { say: Two. }");
    let root = tempfile::tempdir().unwrap();
    let main = root.path().join("main");
    std::fs::create_dir(&main).unwrap();
    yb_testkit::git::Repo::init(&main).write("a.txt", "a").commit("start");
    let context = yb_testkit::TestContext::new();
    let linked = root.path().join("linked");
    let added = context.command("git").args(["worktree", "add", "-q"]).arg(&linked).current_dir(&main).run();
    assert!(added.success(), "{}", added.stderr);
    for (place, prompt) in [(&main, "in main"), (&linked, "in linked")] {
        trial.host_with(trial.options().with_cwd(place)).query(prompt).text().await.unwrap();
    }
    trial.host().query("elsewhere").text().await.unwrap();
    let config = trial.claude.private().join("config");
    let prompts = |sessions: Sessions| {
        let mut all: Vec<String> =
            sessions.list().unwrap().into_iter().filter_map(|info| info.first_prompt).collect();
        all.sort();
        all
    };
    for place in [&main, &linked] {
        let sessions = Sessions::in_config_dir(&config).with_worktrees(place);
        assert_eq!(prompts(sessions), ["in linked", "in main"]);
        assert_eq!(prompts(Sessions::in_config_dir(&config).with_project(place)).len(), 1);
    }
    let theirs = official(
        &config,
        "print(json.dumps(sorted(i.first_prompt for i in s.list_sessions(sys.argv[1]))))",
        &[main.to_str().unwrap()],
    );
    assert_eq!(theirs, json!(["in linked", "in main"]));
    assert_eq!(
        prompts(Sessions::in_config_dir(&config).with_worktrees(trial.workspace.path())),
        ["elsewhere"]
    );
}

/// The public interface of the official SDK with what corresponds to it here: an item in the sources of this crate.
const COUNTERPARTS: &[(&str, &str)] = &[
    ("query", "pub fn query("),
    ("create_sdk_mcp_server", "impl ToolServer {"),
    ("tool", "pub fn tool<"),
    ("list_sessions", "pub fn list(&self)"),
    ("get_session_info", "pub fn info("),
    ("get_session_messages", "pub fn messages("),
    ("list_subagents", "pub fn subagents("),
    ("get_subagent_messages", "pub fn subagent_messages("),
    ("rename_session", "pub fn rename("),
    ("tag_session", "pub fn tag("),
    ("delete_session", "pub fn delete("),
    ("fork_session", "pub fn fork("),
    ("list_sessions_from_store", "pub async fn list(&self)"),
    ("get_session_info_from_store", "pub async fn info("),
    ("get_session_messages_from_store", "pub async fn messages("),
    ("list_subagents_from_store", "pub async fn subagents("),
    ("get_subagent_messages_from_store", "pub async fn subagent_messages("),
    ("rename_session_via_store", "pub async fn rename("),
    ("tag_session_via_store", "pub async fn tag("),
    ("delete_session_via_store", "pub async fn delete("),
    ("fork_session_via_store", "pub async fn fork("),
    ("import_session_to_store", "pub async fn copy_to_store("),
    ("fold_session_summary", "pub fn add(&mut self, entries: &[Value])"),
    ("project_key_for_directory", "pub fn in_directory("),
    ("SessionStore.append", "async fn append("),
    ("SessionStore.load", "async fn load("),
    ("SessionStore.list_sessions", "async fn list_sessions("),
    ("SessionStore.list_session_summaries", "async fn list_summaries("),
    ("SessionStore.delete", "async fn delete("),
    ("SessionStore.list_subkeys", "async fn list_subpaths("),
    ("ClaudeSDKClient.connect", "pub async fn connect("),
    ("ClaudeSDKClient.disconnect", "pub async fn close("),
    ("ClaudeSDKClient.query", "pub async fn send("),
    ("ClaudeSDKClient.receive_messages", "pub fn unclaimed("),
    ("ClaudeSDKClient.receive_response", "pub fn turn("),
    ("ClaudeSDKClient.interrupt", "pub async fn interrupt("),
    ("ClaudeSDKClient.set_model", "pub async fn set_model("),
    ("ClaudeSDKClient.set_permission_mode", "pub async fn set_permission_mode("),
    ("ClaudeSDKClient.rewind_files", "pub async fn rewind_files("),
    ("ClaudeSDKClient.stop_task", "pub async fn stop_task("),
    ("ClaudeSDKClient.get_context_usage", "pub async fn context_usage("),
    ("ClaudeSDKClient.get_mcp_status", "pub async fn mcp_status("),
    ("ClaudeSDKClient.reconnect_mcp_server", "pub async fn mcp_reconnect("),
    ("ClaudeSDKClient.toggle_mcp_server", "pub async fn mcp_toggle("),
    ("ClaudeSDKClient.get_server_info", "pub fn initialize_response("),
    ("options.tools", "pub tools:"),
    ("options.allowed_tools", "pub allowed_tools:"),
    ("options.disallowed_tools", "pub disallowed_tools:"),
    ("options.system_prompt", "pub system_prompt:"),
    ("options.mcp_servers", "pub mcp_servers:"),
    ("options.strict_mcp_config", "pub strict_mcp_config:"),
    ("options.permission_mode", "pub permission_mode:"),
    ("options.permission_prompt_tool_name", "pub permission_prompt_tool:"),
    ("options.continue_conversation", "    Continue,"),
    ("options.resume", "    Resume(String),"),
    ("options.session_id", "    WithId("),
    ("options.fork_session", "    Fork {"),
    ("options.resume_session_at", "pub resume_at:"),
    ("options.resume_drops_turn", "pub resume_drops_turn:"),
    ("options.max_turns", "pub max_turns:"),
    ("options.max_budget_usd", "pub max_budget_usd:"),
    ("options.task_budget", "pub task_budget:"),
    ("options.model", "pub model:"),
    ("options.fallback_model", "pub fallback_models:"),
    ("options.betas", "pub betas:"),
    ("options.cwd", "pub cwd:"),
    ("options.cli_path", "pub fn with_program("),
    ("options.settings", "pub settings:"),
    ("options.setting_sources", "pub setting_sources:"),
    ("options.add_dirs", "pub add_dirs:"),
    ("options.env", "pub env:"),
    ("options.extra_args", "pub extra_args:"),
    ("options.max_buffer_size", "pub fn with_line_limit("),
    ("options.debug_stderr", "pub fn with_stderr("),
    ("options.stderr", "pub fn with_stderr("),
    ("options.can_use_tool", "pub fn with_can_use_tool<"),
    ("options.hooks", "pub fn with_hooks("),
    ("options.user", "pub fn with_user("),
    ("options.include_partial_messages", "pub include_partial_messages:"),
    ("options.include_hook_events", "pub include_hook_events:"),
    ("options.forward_subagent_text", "pub forward_subagent_text:"),
    ("options.verbatim_prompts", "VERBATIM_PROMPTS"),
    ("options.agents", "pub agents:"),
    ("options.skills", "pub skills:"),
    ("options.sandbox", "pub sandbox:"),
    ("options.plugins", "pub plugin_dirs:"),
    ("options.max_thinking_tokens", "pub thinking:"),
    ("options.thinking", "pub thinking:"),
    ("options.effort", "pub effort:"),
    ("options.output_format", "pub json_schema:"),
    ("options.enable_file_checkpointing", "pub file_checkpointing:"),
    ("options.session_store", "pub fn with_session_store("),
    ("options.session_store_flush", "pub fn with_session_store_flush("),
    ("options.load_timeout_ms", "pub fn with_session_store_timeout("),
    ("options.client_app", "pub client_app:"),
];

/// Reads all sources of this crate.
fn sources(directory: &std::path::Path, text: &mut String) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn python_sdk_has_no_function_option_or_value_without_a_counterpart() {
    let context = yb_testkit::TestContext::new();
    let theirs = official(
        context.root(),
        "import dataclasses, inspect, typing
public = lambda c: [n for n in vars(c) if not n.startswith('_') and callable(getattr(c, n))]
names = [n for n in s.__all__ if inspect.isfunction(getattr(s, n))]
names += [f'SessionStore.{n}' for n in public(s.SessionStore)]
names += [f'ClaudeSDKClient.{n}' for n in public(s.ClaudeSDKClient)]
names += [f'options.{f.name}' for f in dataclasses.fields(s.ClaudeAgentOptions)]
print(json.dumps({'names': sorted(names), 'modes': sorted(typing.get_args(s.PermissionMode)),
  'efforts': sorted(typing.get_args(s.EffortLevel))}))",
        &[],
    );
    let mut ours: Vec<&str> = COUNTERPARTS.iter().map(|(theirs, _)| *theirs).collect();
    ours.sort_unstable();
    assert_eq!(theirs["names"], json!(ours));
    let mut text = String::new();
    sources(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut text);
    for (theirs, ours) in COUNTERPARTS {
        assert!(text.contains(ours), "{theirs}: `{ours}`");
    }
    let mut modes: Vec<&str> = PermissionMode::ALL.iter().map(|mode| mode.as_str()).collect();
    modes.sort_unstable();
    assert_eq!(theirs["modes"], json!(modes));
    let mut efforts: Vec<&str> = yb_claude::Effort::ALL.iter().map(|effort| effort.as_str()).collect();
    efforts.sort_unstable();
    assert_eq!(theirs["efforts"], json!(efforts));
}
