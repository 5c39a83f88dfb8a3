//! Sessions on disk, written by the real CLI and read by this and the official SDK.

use serde_json::{Value, json};
use yb_claude::sdk::{Error, Sessions};
use yb_claude::{Options, Session};

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
    assert!(info.created_at.is_some() && info.bytes > 0);
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
    let directory = sessions.info(&id).unwrap().path.with_extension("");
    assert!(directory.is_dir());
    sessions.delete(&id).unwrap();
    assert!(!directory.exists());
}
