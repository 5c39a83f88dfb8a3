//! The arguments, variables, stdin and files of each option.

use std::ffi::OsString;
use std::time::Duration;

use serde_json::{Value, json};
use yb_claude::{
    Agent, AgentDefinition, Effort, EnvChange, INLINE_LIMIT, Invocation, InvocationTarget, McpServer,
    Options, OptionsError, OutputFormat, PermissionMode, Prompt, Session, SettingSource, Settings,
    SystemPrompt, TextSource, Thinking, ThinkingDisplay, Version,
};

const BASE: [&str; 6] =
    ["-p", "--output-format", "stream-json", "--verbose", "--input-format", "stream-json"];
const UUID: &str = "a173f5a0-3642-4197-8000-000000000001";

fn target() -> InvocationTarget {
    InvocationTarget::new("/private")
}

fn build(options: &Options) -> Invocation {
    options.invocation(&"hello".into(), &target()).unwrap_or_else(|error| panic!("{error}: {options:?}"))
}

fn args(invocation: &Invocation) -> Vec<&str> {
    invocation.args.iter().map(|arg| arg.to_str().unwrap()).collect()
}

/// Returns the arguments without the default ones.
#[track_caller]
fn check(options: &Options, expect: &[&str]) {
    let invocation = build(options);
    let args = args(&invocation);
    assert_eq!(args[..BASE.len()], BASE);
    assert_eq!(args[BASE.len()..], *expect);
    assert_eq!(invocation.files, []);
}

/// Returns the variables that differ from the default options.
#[track_caller]
fn check_env(options: &Options, expect: &[(&str, Option<&str>)]) {
    let usual = build(&Options::default()).env;
    let invocation = build(options);
    assert_eq!(args(&invocation), BASE);
    let mut changed: Vec<(String, Option<String>)> = Vec::new();
    for (name, change) in &invocation.env {
        if usual.iter().all(|(known, before)| known != name || before != change) {
            let value = match change {
                EnvChange::Set(value) => Some(value.to_str().unwrap().to_owned()),
                EnvChange::Remove => None,
            };
            changed.push((name.to_str().unwrap().to_owned(), value));
        }
    }
    let expect: Vec<_> =
        expect.iter().map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned))).collect();
    assert_eq!(changed, expect);
}

fn options() -> Options {
    Options::default()
}

#[test]
fn model_and_thinking_options_become_arguments() {
    check(&options(), &[]);
    check(&options().with_model("sonnet"), &["--model=sonnet"]);
    check(&options().with_model("anthropic/claude-opus-5-5[1m]"), &["--model=claude-opus-5-5[1m]"]);
    check(&options().with_fallback_models(["haiku", "anthropic/sonnet"]), &["--fallback-model=haiku,sonnet"]);
    check(&options().with_betas(["a", "b"]), &["--betas=a,b"]);
    for (effort, word) in [(Effort::Low, "low"), (Effort::Xhigh, "xhigh"), (Effort::Max, "max")] {
        check(&options().with_effort(effort), &[&format!("--effort={word}")]);
    }
    check(&options().with_thinking(Thinking::Adaptive), &["--thinking=adaptive"]);
    check(&options().with_thinking(Thinking::Disabled), &["--thinking=disabled"]);
    check(&options().with_thinking(Thinking::Budget(2048)), &["--max-thinking-tokens=2048"]);
    check(&options().with_thinking_display(ThinkingDisplay::Omitted), &["--thinking-display=omitted"]);
}

#[test]
fn limits() {
    check(&options().with_max_turns(3), &["--max-turns=3"]);
    check(&options().with_max_budget_usd(0.5), &["--max-budget-usd=0.5"]);
    check(&options().with_max_budget_usd(1e-7), &["--max-budget-usd=0.0000001"]);
    check(&options().with_task_budget(20_000), &["--task-budget=20000"]);
    let schema = json!({"type": "object"});
    check(&options().with_json_schema(schema), &["--json-schema={\"type\":\"object\"}"]);
}

#[test]
fn system_prompts() {
    let text = |text: &str| SystemPrompt::Text(text.to_owned());
    check(&options().with_system_prompt(SystemPrompt::Preset), &[]);
    check(&options().with_system_prompt(text("")), &["--system-prompt="]);
    check(&options().with_system_prompt(text("--help")), &["--system-prompt=--help"]);
    check(&options().with_system_prompt(SystemPrompt::File("s.txt".into())), &["--system-prompt-file=s.txt"]);
    let append = TextSource::Text("-x\ny".to_owned());
    check(&options().with_append_system_prompt(append), &["--append-system-prompt=-x\ny"]);
    let append = TextSource::File("a.txt".into());
    check(&options().with_append_system_prompt(append), &["--append-system-prompt-file=a.txt"]);
    check(&options().with_exclude_dynamic_sections(true), &["--exclude-dynamic-system-prompt-sections"]);
    check(&options().with_system_prompt_snapshot(true), &["--system-prompt-snapshot=on"]);
    check(&options().with_system_prompt_snapshot(false), &["--system-prompt-snapshot=off"]);
}

#[test]
fn tools_and_permissions() {
    let none = [""; 0];
    check(&options().with_tools(none), &["--tools="]);
    check(&options().with_tools(["Read", "Bash"]), &["--tools=Read,Bash"]);
    check(&options().with_allowed_tools(none), &["--allowedTools="]);
    check(
        &options().with_allowed_tools(["Bash(git *)", "mcp__a__*"]),
        &["--allowedTools=Bash(git *),mcp__a__*"],
    );
    check(&options().with_disallowed_tools(["Edit"]), &["--disallowedTools=Edit"]);
    for mode in PermissionMode::ALL {
        check(&options().with_permission_mode(*mode), &[&format!("--permission-mode={mode}")]);
    }
    check(&options().with_permission_prompt_tool("stdio"), &["--permission-prompt-tool=stdio"]);
    check(&options().with_add_dir("/a b").with_add_dir("-c"), &["--add-dir=/a b", "--add-dir=-c"]);
}

#[test]
fn permission_modes_have_aliases() {
    for (name, mode, warns) in [
        ("plan", PermissionMode::Plan, false),
        ("auto", PermissionMode::Auto, false),
        ("default", PermissionMode::Default, false),
        ("ask", PermissionMode::Default, true),
        ("manual", PermissionMode::Default, true),
    ] {
        let (read, warning) = PermissionMode::parse_with_aliases(name).unwrap();
        assert_eq!((read, warning.is_some()), (mode, warns), "{name}");
    }
    let error = PermissionMode::parse_with_aliases("yolo").unwrap_err().to_string();
    assert!(error.contains("`acceptEdits`") && error.contains("`yolo`"), "{error}");
    assert_eq!(PermissionMode::ALL.len(), 6);
}

#[test]
fn configuration() {
    check(&options().with_strict_mcp_config(true), &["--strict-mcp-config"]);
    check(
        &options().with_mcp_server("s", McpServer::stdio("run", ["-x"])),
        &[
            "--mcp-config={\"mcpServers\":{\"s\":{\"args\":[\"-x\"],\"command\":\"run\",\"env\":{},\"type\":\"stdio\"}}}",
        ],
    );
    check(
        &options().with_mcp_config_file("m.json").with_mcp_config_file("{odd.json"),
        &["--mcp-config=m.json", "--mcp-config=./{odd.json"],
    );
    let settings = json!({"model": "haiku"}).as_object().unwrap().clone();
    check(&options().with_settings(Settings::Json(settings)), &["--settings={\"model\":\"haiku\"}"]);
    check(&options().with_settings(Settings::File("s.json".into())), &["--settings=s.json"]);
    check(&options().with_setting_sources([]), &["--setting-sources="]);
    check(
        &options().with_setting_sources([SettingSource::User, SettingSource::Project, SettingSource::Local]),
        &["--setting-sources=user,project,local"],
    );
    check(&options().with_plugin_dir("p").with_plugin_dir("q"), &["--plugin-dir=p", "--plugin-dir=q"]);
    check(&options().with_bare(true), &["--bare"]);
    check(&options().with_debug_file("d.log"), &["--debug-file=d.log"]);
    check(&options().with_name("-n"), &["--name=-n"]);
    check(&options().with_no_session_persistence(true), &["--no-session-persistence"]);
    check(&options().with_include_partial_messages(true), &["--include-partial-messages"]);
    check(&options().with_include_hook_events(true), &["--include-hook-events"]);
    check(&options().with_forward_subagent_text(true), &["--forward-subagent-text"]);
    check(&options().with_replay_user_messages(true), &["--replay-user-messages"]);
    check(
        &options().with_extra_flag("chrome").with_extra_arg("effort", "--max"),
        &["--chrome", "--effort=--max"],
    );
}

/// CR-2.7: the definition and the name.
#[test]
fn agent_is_passed_as_definition_and_name() {
    let agent = AgentDefinition::new("Reviews", "You review.").with_tools(["Read"]).with_model("haiku");
    let definition = "{\"code-reviewer\":{\"description\":\"Reviews\",\"model\":\"haiku\",\"prompt\":\"You review.\",\"tools\":[\"Read\"]}}";
    check(
        &options()
            .with_agent_definition("code-reviewer", agent)
            .with_agent(Agent::Defined("code-reviewer".to_owned())),
        &[&format!("--agents={definition}"), "--agent=code-reviewer"],
    );
    let known = options().with_agent(Agent::KnownToCli("Explore".to_owned()));
    let invocation = build(&known);
    assert_eq!(args(&invocation)[BASE.len()..], ["--agent=Explore"]);
    assert_eq!(invocation.warnings[0].field, "agent");
}

#[test]
fn agent_is_searched_in_roots_in_order() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join(".claude/agents")).unwrap();
    std::fs::write(root.path().join(".claude/agents/r.md"), "---\ndescription: d\n---\np\n").unwrap();
    let empty = tempfile::tempdir().unwrap();
    let found = options().with_agent_from("r", &[empty.path(), root.path()]).unwrap();
    let expect = "--agents={\"r\":{\"description\":\"d\",\"prompt\":\"p\"}}";
    check(&found, &[expect, "--agent=r"]);
    let error = options().with_agent_from("nope", &[empty.path()]).unwrap_err();
    assert!(error.to_string().contains("nope.agent.md"), "{error}");
    let inline = options().with_agent_definition("nope", AgentDefinition::new("d", "p"));
    assert!(inline.with_agent_from("nope", &[]).is_ok());
}

#[test]
fn sessions() {
    let session = |session| options().with_session(session);
    let (id, resume) = (format!("--session-id={UUID}"), format!("--resume={UUID}"));
    check(&session(Session::New), &[]);
    check(&session(Session::WithId(UUID.to_owned())), &[&id]);
    check(&session(Session::from_id(UUID)), &[&id]);
    check(
        &session(Session::from_id("--dangerously-skip-permissions")),
        &["--resume=--dangerously-skip-permissions"],
    );
    check(&session(Session::Resume(UUID.to_owned())), &[&resume]);
    check(&session(Session::Continue), &["--continue"]);
    check(&session(Session::Fork { of: None, id: None }), &["--continue", "--fork-session"]);
    let fork = Session::Fork { of: Some("t".to_owned()), id: Some(UUID.to_owned()) };
    check(&session(fork), &["--resume=t", "--fork-session", &id]);
    check(
        &session(Session::Resume(UUID.to_owned())).with_resume_at("m"),
        &[&resume, "--resume-session-at=m"],
    );
}

#[test]
fn variables() {
    check_env(&options().with_max_output_tokens(1234), &[("CLAUDE_CODE_MAX_OUTPUT_TOKENS", Some("1234"))]);
    check_env(&options().with_max_retries(0), &[("CLAUDE_CODE_MAX_RETRIES", Some("0"))]);
    check_env(&options().with_api_timeout(Duration::from_millis(1500)), &[("API_TIMEOUT_MS", Some("1500"))]);
    check_env(&options().with_background_tasks(true), &[("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", None)]);
    check_env(&options().with_entrypoint("mine"), &[("CLAUDE_CODE_ENTRYPOINT", Some("mine"))]);
    check_env(&options().with_sandboxed(true), &[("IS_SANDBOX", Some("1"))]);
    let name = "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING";
    check_env(&options().with_file_checkpointing(true), &[(name, Some("true"))]);
    check_env(&options().with_trace_parent("00-a"), &[("TRACEPARENT", Some("00-a"))]);
    check_env(&options().with_trace_state("b=c"), &[("TRACESTATE", Some("b=c"))]);
    check_env(&options().with_cwd("/w"), &[("PWD", Some("/w"))]);
    check_env(&options().with_env("A", "b").without_env("C"), &[("A", Some("b")), ("C", None)]);
    check_env(&options().with_env("CLAUDE_CODE_ENTRYPOINT", "x"), &[("CLAUDE_CODE_ENTRYPOINT", Some("x"))]);
    assert_eq!(build(&options().with_cwd("/w")).cwd, Some("/w".into()));
}

#[test]
fn inherited_variables_are_removed() {
    let removed = |options: &Options| -> Vec<OsString> {
        let env = build(options).env;
        env.into_iter().filter(|(_, change)| *change == EnvChange::Remove).map(|(name, _)| name).collect()
    };
    let usual = removed(&options());
    for name in [
        "CLAUDECODE",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "CLAUDE_CODE_ENABLE_TELEMETRY",
        "TRACEPARENT",
        "NODE_OPTIONS",
    ] {
        assert!(usual.contains(&name.into()), "{name}");
    }
    let exporting = removed(&options().with_telemetry_export(true));
    assert!(!exporting.contains(&"OTEL_EXPORTER_OTLP_ENDPOINT".into()));
    assert!(exporting.contains(&"CLAUDECODE".into()));
}

#[test]
fn secrets_are_variables_and_hidden_in_debug() {
    let options = options()
        .with_api_key("sk-key-0123456789")
        .with_auth_token("tok-0123456789")
        .with_oauth_token("oauth-0123456789")
        .with_base_url("http://user:pass-0123456789@host")
        .with_env("MY_SECRET", "env-0123456789")
        .with_env("PLAIN", "plain-0123456789")
        .with_mcp_server(
            "s",
            McpServer::http("http://h").with_env_or_header("Authorization", "head-0123456789"),
        )
        .with_settings(Settings::Json(json!({"env": {"X": "set-0123456789"}}).as_object().unwrap().clone()));
    let invocation = build(&options);
    let names: Vec<_> = invocation.secrets.iter().map(|(name, _)| name.as_str()).collect();
    let expect = [
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "MY_SECRET",
    ];
    assert_eq!(names, expect);
    let shown = format!("{options:?} {invocation:?} {:?}", invocation.args);
    assert!(!shown.contains("0123456789"), "{shown}");
    assert_eq!(invocation.files.len(), 2);
    assert_eq!(build(&Options::default().with_base_url("http://127.0.0.1:1")).secrets, []);
}

#[test]
fn prompt_is_verbatim_frame_on_stdin() {
    for text in ["/cost", "@file", "-x", "a\nb", "\"quoted\" `tick` $HOME 日本"] {
        let invocation = options().invocation(&text.into(), &target()).unwrap();
        assert_eq!(args(&invocation), BASE);
        assert_eq!(invocation.warnings, []);
        let frame: Value = serde_json::from_slice(&invocation.stdin).unwrap();
        let expect = json!({
            "type": "user",
            "message": {"role": "user", "content": text},
            "parent_tool_use_id": null,
            "session_id": "",
            "client_composed": true,
        });
        assert_eq!(frame, expect);
    }
}

#[test]
fn interpreted_prompt_causes_warning() {
    let old = target().with_version(Version::new(2, 1, 247));
    let new = target().with_version(Version::new(2, 1, 248));
    for (output, target, warns) in [
        (OutputFormat::StreamJson, &new, false),
        (OutputFormat::StreamJson, &old, true),
        (OutputFormat::Json, &new, true),
        (OutputFormat::Text, &new, true),
    ] {
        let options = options().with_output(output);
        let invocation = options.invocation(&"/cost".into(), target).unwrap();
        assert_eq!(invocation.warnings.len(), usize::from(warns), "{output}");
        assert_eq!(options.invocation(&"plain".into(), target).unwrap().warnings, []);
        let asked_for = Prompt::text("/cost").interpreted();
        assert_eq!(options.invocation(&asked_for, target).unwrap().warnings, []);
        assert_eq!(options.with_strict(true).invocation(&"/cost".into(), target).is_err(), warns);
    }
}

#[test]
fn json_and_text_formats_take_plain_prompt_on_stdin() {
    for output in [OutputFormat::Json, OutputFormat::Text] {
        let invocation = options().with_output(output).invocation(&"-x".into(), &target()).unwrap();
        assert_eq!(args(&invocation), ["-p", "--output-format", output.as_str()]);
        assert_eq!(invocation.stdin, b"-x");
        let blocks = Prompt::blocks(vec![json!({"type": "text", "text": "a"})]);
        assert!(options().with_output(output).invocation(&blocks, &target()).is_err());
        assert!(options().invocation(&blocks, &target()).is_ok());
    }
}

#[test]
fn large_values_become_private_files() {
    let large = "x".repeat(INLINE_LIMIT);
    let agent = AgentDefinition::new("d", large.clone());
    let settings = json!({ "k": large }).as_object().unwrap().clone();
    let directory = tempfile::tempdir().unwrap();
    let private = directory.path().join("private");
    let options = options()
        .with_system_prompt(SystemPrompt::Text(large.clone()))
        .with_append_system_prompt(TextSource::Text(large.clone()))
        .with_mcp_server("s", McpServer::stdio(large.clone(), [""; 0]))
        .with_settings(Settings::Json(settings))
        .with_agent_definition("a", agent);
    let invocation = options.invocation(&"hello".into(), &InvocationTarget::new(&private)).unwrap();
    let expect = [
        ("--system-prompt-file", "system-prompt.txt"),
        ("--append-system-prompt-file", "append-system-prompt.txt"),
        ("--mcp-config", "mcp.json"),
        ("--settings", "settings.json"),
        ("--agents", "agents.json"),
    ];
    let expect: Vec<_> =
        expect.iter().map(|(flag, file)| format!("{flag}={}", private.join(file).display())).collect();
    assert_eq!(args(&invocation)[BASE.len()..], expect);
    invocation.write_files().unwrap();
    assert_eq!(std::fs::read_to_string(private.join("system-prompt.txt")).unwrap(), large);
    let agents: Value = serde_json::from_slice(&std::fs::read(private.join("agents.json")).unwrap()).unwrap();
    assert_eq!(agents["a"]["prompt"], large);
    assert!(invocation.write_files().is_err(), "a file that is there is never overwritten");
    #[cfg(unix)]
    for (path, expect) in [(private.clone(), 0o700), (private.join("mcp.json"), 0o600)] {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, expect);
    }
    let relative = options.invocation(&"hello".into(), &InvocationTarget::new("private"));
    assert!(matches!(relative, Err(OptionsError::Invalid(_))));
}

#[test]
fn value_that_fits_nowhere_is_an_error() {
    let large = "x".repeat(INLINE_LIMIT);
    let schema = options().with_json_schema(json!({ "description": large }));
    let error = schema.invocation(&"hello".into(), &target()).unwrap_err();
    assert!(
        matches!(&error, OptionsError::TooLarge { what, .. } if what == "argument `--json-schema`"),
        "{error}"
    );
    let variable = options().with_env("A", large.as_str());
    let error = variable.invocation(&"hello".into(), &target()).unwrap_err();
    assert!(matches!(&error, OptionsError::TooLarge { what, .. } if what.contains("`A`")), "{error}");
    let nul = options().with_name("a\0b");
    let error = nul.invocation(&"hello".into(), &target()).unwrap_err();
    assert!(matches!(&error, OptionsError::NulByte { what } if what == "argument `--name`"), "{error}");
    assert!(options().invocation(&"a\0b".into(), &target()).is_err());
}
