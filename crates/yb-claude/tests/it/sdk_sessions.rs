//! Sessions on disk, written by the real CLI and read by this and the official SDK.

use serde_json::{Value, json};
use yb_claude::sdk::{Error, Sessions};
use yb_claude::{Options, Session};

use crate::sdk_support::Trial;

/// Returns the official SDK's view of the same directory.
fn official(config: &std::path::Path, id: &str) -> Value {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let context = yb_testkit::TestContext::new();
    // Installs the SDK, if necessary.
    assert!(context.run(root.join("scripts/conformance"), ["no-such-case"]).success());
    let program = "import claude_agent_sdk as s, json, sys
print(json.dumps({'list': [[i.session_id, i.first_prompt] for i in s.list_sessions()],
  'messages': [[m.type, m.uuid] for m in s.get_session_messages(sys.argv[1])]}))";
    let python = root.join(".tools/claude-agent-sdk-0.2.182/bin/python");
    let outcome = context.command(python).args(["-c", program, id]).env("CLAUDE_CONFIG_DIR", config).run();
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

    let theirs = official(&config, &id);
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
