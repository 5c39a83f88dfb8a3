//! The acceptance scenarios of the specification with a fake `claude`.

use serde_json::{Value, json};
use yb_model::log::{ExecutionStatus, YouBenchaLog};
use yb_model::outcome::Outcome;

use crate::support::{PROMPT, Stage, init, success};

#[tokio::test]
async fn us1_as1_claude_runs_in_print_mode_with_the_prompt() {
    let stage = Stage::dumping();
    stage.run().await;
    assert!(stage.dump().has("-p"));
    assert_eq!(stage.dump().prompt(), PROMPT);
}

#[tokio::test]
async fn us1_as2_all_output_is_in_the_artifacts() {
    let stage = Stage::fake(
        "[{print: to stdout}, {print: {line: to stderr, to: stderr}}, {print: {escaped: 'no end'}}]",
    );
    stage.run().await;
    let log = stage.terminal_log();
    for part in ["to stdout\n", "to stderr\n", "no end"] {
        assert!(log.contains(part), "{log:?}");
    }
    assert_eq!(std::fs::read_to_string(stage.path("artifacts/frames.jsonl")).unwrap(), "to stdout\nno end");
}

#[tokio::test]
async fn us1_as3_exit_code_0_is_success() {
    let done = Stage::frames(&[init(), success("ok")], 0).run().await;
    assert_eq!(done.result.status, ExecutionStatus::Success);
    assert_eq!(done.json["execution"]["status"], "success");
}

#[tokio::test]
async fn us1_as4_another_exit_code_is_failed_with_details() {
    let done = Stage::fake("[{print: {line: 'Error: it broke', to: stderr}}, {exit: 1}]").run().await;
    assert_eq!(done.json["execution"]["status"], "failed");
    assert!(done.log.errors[0].message.contains("Error: it broke"));
}

#[tokio::test]
async fn us2_as1_an_agent_is_passed_with_its_definition() {
    let stage = Stage::dumping().configured(|config| config.agent_name = Some("code-reviewer".to_owned()));
    let case = stage.write("case/.claude/agents/code-reviewer.md", "---\ndescription: d\n---\nReview.");
    let root = case.ancestors().nth(3).unwrap().to_owned();
    let stage = stage.with(|context| context.search_roots = vec![root]);
    stage.run().await;
    let dump = stage.dump();
    assert!(dump.argv().iter().any(|argument| argument.starts_with("--agents={\"code-reviewer\"")));
    assert!(!stage.path("workspace/.claude").exists());
}

#[tokio::test]
async fn us2_as2_a_model_is_passed() {
    let stage =
        Stage::dumping().configured(|config| config.model = Some("claude-sonnet-4-5-20250929".to_owned()));
    stage.run().await;
    assert!(stage.dump().has("--model=claude-sonnet-4-5-20250929"));
}

#[tokio::test]
async fn us2_as3_without_either_the_default_is_used() {
    let stage = Stage::dumping();
    stage.run().await;
    let dump = stage.dump();
    assert!(
        !dump
            .argv()
            .iter()
            .any(|argument| argument.starts_with("--model") || argument.starts_with("--agent"))
    );
}

#[tokio::test]
async fn us3_as1_the_case_directory_comes_before_the_workspace() {
    let stage = Stage::dumping().configured(|config| {
        config.prompt = None;
        config.prompt_file = Some("./prompts/task.md".into());
    });
    stage.write("case/prompts/task.md", "of the case");
    stage.write("workspace/prompts/task.md", "of the workspace");
    let root = stage.path("case");
    let stage = stage.with(|context| context.search_roots = vec![root]);
    let done = stage.run().await;
    assert_eq!(stage.dump().prompt(), "of the case");
    assert_eq!(done.log.messages[0].content, "of the case");
}

#[tokio::test]
async fn us3_as1_the_log_has_the_prompt_that_was_sent() {
    let stage =
        Stage::fake("[{read_stdin: {}}, {write: {path: task.md, line: forged}}]").configured(|config| {
            config.prompt = None;
            config.prompt_file = Some("task.md".into());
        });
    stage.write("workspace/task.md", "the task");
    let done = stage.run().await;
    assert_eq!(std::fs::read_to_string(stage.path("workspace/task.md")).unwrap(), "forged\n");
    assert_eq!(done.log.messages[0].content, "the task");
}

#[tokio::test]
async fn us3_as2_prompt_and_prompt_file_exclude_each_other() {
    let stage = Stage::dumping().configured(|config| config.prompt_file = Some("task.md".into()));
    let error = stage.refused().await;
    assert!(error.to_string().contains("mutually exclusive"), "{error}");
    assert_eq!(error.code().for_agent(stage.adapter.spec()), "CLAUDE_INVALID_CONFIG");
    let neither = Stage::dumping().configured(|config| config.prompt = None).refused().await;
    assert!(neither.to_string().contains("is required"), "{neither}");
}

#[tokio::test]
async fn us3_as3_missing_prompt_file_is_named() {
    let with_file = |file: &str| {
        let file = file.to_owned();
        Stage::dumping().configured(move |config| {
            config.prompt = None;
            config.prompt_file = Some(file.into());
        })
    };
    let stage = with_file("missing.md");
    let error = stage.refused().await.to_string();
    assert!(error.contains("not found: `missing.md`") && error.contains("workspace/missing.md"), "{error}");
    assert!(!stage.path("workspace/dump.json").exists());
    for path in ["../secret.md", "/etc/passwd", "a/../../b"] {
        let error = with_file(path).refused().await.to_string();
        assert!(error.contains("relative path without `..`"), "{error}");
    }
    #[cfg(unix)]
    {
        let stage = with_file("link.md");
        let secret = stage.write("secret.md", "secret");
        std::os::unix::fs::symlink(secret, stage.path("workspace/link.md")).unwrap();
        let error = stage.refused().await.to_string();
        assert!(error.contains("leads out of its directory"), "{error}");
    }
}

#[tokio::test]
async fn us4_as1_a_log_is_in_the_artifacts() {
    let stage = Stage::frames(&[init(), success("ok")], 0);
    stage.run().await;
    let log = YouBenchaLog::read(&stage.path("artifacts/youbencha-log.json")).unwrap();
    assert_eq!((log.agent.name.as_str(), log.version.as_str()), ("claude-code", "1.0.0"));
}

#[tokio::test]
async fn us4_as2_messages_tools_and_metadata_are_structured() {
    let call = json!({"type": "assistant", "message": {"id": "m", "content": [
        {"type": "text", "text": "I write."}, {"type": "tool_use", "id": "t", "name": "Write", "input": {"a": 1}}]}});
    let denied = json!({"type": "user", "message": {"content": [
        {"type": "tool_result", "tool_use_id": "t", "is_error": true, "content": "not allowed"}]}});
    let unknown = json!({"type": "brand_new", "x": 1});
    let done = Stage::frames(&[init(), unknown, call, denied, success("ok")], 0).run().await;
    assert_eq!(done.log.messages.len(), 3);
    assert_eq!(
        (done.log.tool_calls[0].is_error, done.log.tool_calls[0].result.as_deref()),
        (Some(true), Some("not allowed"))
    );
    assert_eq!(done.log.execution.num_turns, Some(1));
    assert_eq!(done.log.environment.working_directory, done.json["environment"]["working_directory"]);
}

#[tokio::test]
async fn us4_as3_usage_is_captured() {
    let done = Stage::frames(&[init(), success("ok")], 0).run().await;
    assert_eq!(done.log.usage.total_tokens, 6912);
    assert_eq!(done.log.usage.cost_usd, Some(0.25));
}

#[tokio::test]
async fn us5_as1_append_system_prompt() {
    let stage = Stage::dumping().configured(|config| {
        config.append_system_prompt = Some("Be brief; \"$HOME\".".to_owned());
        config.system_prompt = Some("You are a tester.".to_owned());
    });
    stage.run().await;
    assert!(stage.dump().has("--append-system-prompt=Be brief; \"$HOME\"."));
    assert!(stage.dump().has("--system-prompt=You are a tester."));
}

#[tokio::test]
async fn us5_as2_permission_mode() {
    for (given, passed) in
        [("plan", "plan"), ("acceptEdits", "acceptEdits"), ("auto", "auto"), ("ask", "default")]
    {
        let stage = Stage::dumping().configured(|config| config.permission_mode = Some(given.to_owned()));
        let done = stage.run().await;
        let dump = stage.dump();
        assert!(dump.has(&format!("--permission-mode={passed}")), "{:?}", dump.argv());
        assert_eq!(done.json["execution"]["permission_mode"], passed);
        assert_eq!(done.log.warnings.iter().any(|warning| warning.contains("`ask`")), given == "ask");
        // The classifier of `auto` needs hosts other than the model's.
        assert_eq!(dump.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC").is_none(), given == "auto");
    }
    let wrong = Stage::dumping().configured(|config| config.permission_mode = Some("yolo".to_owned()));
    let error = wrong.refused().await.to_string();
    assert!(error.contains("`permission_mode`") && error.contains("`plan`"), "{error}");
}

#[tokio::test]
async fn us5_as3_allowed_tools() {
    let stage = Stage::dumping().configured(|config| {
        config.allowed_tools = Some(vec!["Read".to_owned(), "Write".to_owned(), "Bash(git *)".to_owned()]);
        config.disallowed_tools = Some(vec!["WebFetch".to_owned()]);
        config.tools = Some(Vec::new());
    });
    stage.run().await;
    assert!(stage.dump().has("--allowedTools=Read,Write,Bash(git *)"), "{:?}", stage.dump().argv());
    assert!(stage.dump().has("--disallowedTools=WebFetch") && stage.dump().has("--tools="));
}

#[tokio::test]
async fn c34_other_flags_of_the_configuration() {
    let server: Value = json!({"command": "serve", "env": {"SERVER_TOKEN": "mcp-secret-0123456789"}});
    let stage = Stage::dumping().configured(|config| {
        config.max_turns = Some(3);
        config.max_budget_usd = Some(0.5);
        config.effort = Some("high".to_owned());
        config.max_tokens = Some(4096);
        config.temperature = Some(0.5);
        config.add_dirs = vec!["/more".into()];
        config.extra_args = vec!["--betas=x".to_owned(), "--debug".to_owned()];
        config.mcp_servers = [("srv".to_owned(), server.as_object().unwrap().clone())].into();
        config.settings = Some(json!({"outputStyle": "x"}).as_object().unwrap().clone());
    });
    let done = stage.run().await;
    let dump = stage.dump();
    for argument in
        ["--max-turns=3", "--max-budget-usd=0.5", "--effort=high", "--add-dir=/more", "--betas=x", "--debug"]
    {
        assert!(dump.has(argument), "{argument}: {:?}", dump.argv());
    }
    assert!(dump.has("--settings={\"outputStyle\":\"x\"}"));
    assert_eq!(dump.env("CLAUDE_CODE_MAX_OUTPUT_TOKENS"), Some("4096"));
    assert!(!dump.argv().join(" ").contains("mcp-secret"), "a secret in argv");
    assert_eq!(
        done.json["model"]["parameters"],
        json!({"effort": "high", "max_tokens": 4096, "temperature": 0.5})
    );
    assert!(done.log.warnings.iter().any(|warning| warning.contains("temperature")));

    let bad = Stage::dumping().configured(|config| config.extra_args = vec!["-p".to_owned()]);
    assert!(bad.refused().await.to_string().contains("`extra_args`"));
    let own =
        Stage::dumping().configured(|config| config.extra_args = vec!["--output-format=text".to_owned()]);
    assert!(own.refused().await.to_string().contains("output-format"));
}

/// SC-009, adapter part: a reached limit is reported as such.
#[tokio::test]
async fn c15_turn_and_cost_limits_are_distinguished() {
    let limit = |subtype: &str| {
        let result = json!({"type": "result", "subtype": subtype, "is_error": true, "errors": ["Reached it"], "num_turns": 2});
        Stage::frames(&[init(), result], 1)
    };
    let turns = limit("error_max_turns").run().await;
    assert_eq!((turns.codes(), turns.result.outcome), (vec!["CLAUDE_MAX_TURNS"], Some(Outcome::Failed)));
    assert_eq!(turns.log.errors[0].message, "error_max_turns: Reached it");
    let budget = limit("error_max_budget_usd").run().await;
    assert_eq!((budget.codes(), budget.result.outcome), (vec!["CLAUDE_MAX_BUDGET"], Some(Outcome::Budget)));
    let other = limit("error_during_execution").run().await;
    assert_eq!(
        (other.codes(), other.result.outcome),
        (vec!["CLAUDE_AGENT_FAILED"], Some(Outcome::AgentError))
    );
}
