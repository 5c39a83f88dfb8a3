//! Options with the real CLI and a scripted model.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use yb_claude::{
    Agent, AgentDefinition, Effort, INLINE_LIMIT, InvocationTarget, McpServer, Options, OutputFormat,
    PermissionMode, Prompt, Session, SettingSource, Settings, SystemPrompt, TextSource, Thinking,
};
use yb_supervise::{Launch, Report};
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::RealClaude;

const HELLO: &str = "{ tape: 1, lanes: { main: [ { say: Hello. }, { say: Again. }, { say: Forked. } ] } }";
const UUID: &str = "a173f5a0-3642-4197-8000-000000000001";

/// A private Claude Code with a working directory, for one or more runs.
struct World {
    claude: RealClaude,
    server: MockServer,
    work: tempfile::TempDir,
}

/// The output of one run.
struct Run {
    report: Report,
    stdout: String,
    stderr: String,
    frames: Vec<Value>,
}

impl World {
    fn new(script: &str) -> Self {
        let script = Script::parse(script, &Vars::new()).unwrap();
        let server = MockServer::start(script, &MockServerOptions::default()).unwrap();
        Self { claude: RealClaude::new(), server, work: tempfile::tempdir().unwrap() }
    }

    fn work(&self) -> &Path {
        self.work.path()
    }

    async fn run(&self, options: &Options, prompt: impl Into<Prompt>) -> Run {
        let private = tempfile::tempdir().unwrap();
        let options = self.hermetic(options);
        let target = InvocationTarget::new(private.path().join("files"));
        let invocation = options.invocation(&prompt.into(), &target).unwrap();
        invocation.write_files().unwrap();
        self.start(&invocation).await
    }

    async fn start(&self, invocation: &yb_claude::Invocation) -> Run {
        let command = invocation.command(self.claude.program()).deadline(Duration::from_secs(60));
        let command = command.launch(Launch::Contained).shim(yb_testkit::bin("yb-shim"));
        let report = command.run().await;
        let captured = report.output.captured().unwrap();
        let stdout = String::from_utf8(captured.stdout()).unwrap();
        let stderr = String::from_utf8(captured.stderr()).unwrap();
        let frames = stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Run { report, stdout, stderr, frames }
    }

    fn hermetic(&self, options: &Options) -> Options {
        let env = self.claude.env(&self.server.base_url()).into_iter();
        env.fold(options.clone().with_cwd(self.work()), |options, (name, value)| {
            options.with_env(name, value)
        })
    }

    /// Returns the request bodies that the script answered.
    fn bodies(&self) -> Vec<Value> {
        self.server
            .requests()
            .iter()
            .filter(|seen| seen.lane.is_some())
            .map(|seen| seen.body.clone())
            .collect()
    }

    fn body(&self) -> Value {
        self.bodies().into_iter().next_back().expect("a request for the model")
    }
}

impl Run {
    #[track_caller]
    fn ok(self) -> Self {
        assert!(self.report.success(), "{}: {}{}", self.report.end, self.stdout, self.stderr);
        self
    }

    fn init(&self) -> &Value {
        self.frames.iter().find(|frame| frame["subtype"] == "init").expect("an init frame")
    }

    fn result(&self) -> &Value {
        self.frames.iter().rfind(|frame| frame["type"] == "result").expect("a result frame")
    }
}

/// Returns the texts of all user messages in a request.
fn user_texts(body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "user");
    let texts = messages.flat_map(|message| match &message["content"] {
        Value::String(text) => vec![text.clone()],
        blocks => blocks
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|block| block["text"].as_str())
            .map(str::to_owned)
            .collect(),
    });
    texts.collect()
}

mod real_claude {
    use super::*;

    #[tokio::test]
    async fn prompts_arrive_verbatim() {
        let world = World::new(HELLO);
        std::fs::write(world.work().join("note.txt"), "CONTENT OF THE NOTE").unwrap();
        for prompt in [
            "--help",
            "-x",
            "/cost",
            "/nonexistent-command a b",
            "@note.txt",
            "read @note.txt please",
            "# memory",
            "!ls",
            "  spaces around \n",
            "quotes \" ' ` $HOME $(ls) \\ \u{1f600} 日本",
        ] {
            world.run(&Options::default(), prompt).await.ok();
            let body = world.body();
            assert!(user_texts(&body).contains(&prompt.to_owned()), "{prompt}: {:?}", user_texts(&body));
            assert!(!body.to_string().contains("CONTENT OF THE NOTE"), "{prompt}");
        }
        assert_eq!(world.bodies().len(), 10);
    }

    #[tokio::test]
    async fn interpreted_prompt_is_interpreted() {
        let world = World::new(HELLO);
        std::fs::write(world.work().join("note.txt"), "CONTENT OF THE NOTE").unwrap();
        world.run(&Options::default(), Prompt::text("/cost").interpreted()).await.ok();
        assert_eq!(world.bodies().len(), 0);
        world.run(&Options::default(), Prompt::text("read @note.txt").interpreted()).await.ok();
        assert!(world.body().to_string().contains("CONTENT OF THE NOTE"));
    }

    #[tokio::test]
    async fn prompt_of_1_000_000_characters_arrives_verbatim() {
        let world = World::new(HELLO);
        let prompt: String = "/long é\n".chars().cycle().take(1_000_000).collect();
        let run = world.run(&Options::default(), prompt.as_str()).await.ok();
        assert!(user_texts(&world.body()).contains(&prompt));
        assert_eq!(run.result()["result"], "Hello.");
    }

    #[tokio::test]
    async fn system_prompt_of_300_kb_is_passed_as_file() {
        let world = World::new(HELLO);
        let (system, append) = ("SYS ".repeat(75_000), "APP ".repeat(75_000));
        let options = Options::default()
            .with_system_prompt(SystemPrompt::Text(system.clone()))
            .with_append_system_prompt(TextSource::Text(append.clone()));
        world.run(&options, "hi").await.ok();
        let text = world.body()["system"].to_string();
        assert!(text.contains(system.trim_end()) && text.contains(append.trim_end()));
    }

    #[tokio::test]
    async fn system_prompts_replace_or_append() {
        let world = World::new(HELLO);
        let options = Options::default().with_system_prompt(SystemPrompt::Text("--help".to_owned()));
        world.run(&options, "hi").await.ok();
        let blocks = world.body()["system"].as_array().unwrap().clone();
        assert!(blocks.iter().any(|block| block["text"] == "--help"), "{blocks:?}");
        let file = world.work().join("append.txt");
        std::fs::write(&file, "APPENDED FROM FILE").unwrap();
        world.run(&Options::default().with_append_system_prompt(TextSource::File(file)), "hi").await.ok();
        assert!(world.body()["system"].to_string().contains("APPENDED FROM FILE"));
        let empty = Options::default().with_system_prompt(SystemPrompt::Text(String::new()));
        world.run(&empty, "hi").await.ok();
    }

    /// CR-2.7 and C1: both flags, with a definition from a file or a large inline definition.
    #[tokio::test]
    async fn agent_from_file_runs_session() {
        let world = World::new(HELLO);
        // Not in the working directory, where the CLI would find it itself.
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(".claude/agents");
        std::fs::create_dir_all(&folder).unwrap();
        let text = "---\nname: code-reviewer\ndescription: Use it: always\ntools: Read, Grep\nmodel: haiku\n---\nAGENT PROMPT";
        std::fs::write(folder.join("code-reviewer.agent.md"), text).unwrap();
        let options =
            Options::default().with_agent_from("code-reviewer", &[world.work(), root.path()]).unwrap();
        let run = world.run(&options, "hi").await.ok();
        assert_eq!(run.init()["tools"], json!(["Read", "Grep"]));
        let body = world.body();
        assert!(body["system"].to_string().contains("AGENT PROMPT"));
        assert!(body["model"].as_str().unwrap().contains("haiku"));

        let large = AgentDefinition::new("d", "LARGE ".repeat(30_000)).with_tools(["Read"]);
        let options = Options::default()
            .with_agent_definition("large", large)
            .with_agent(Agent::Defined("large".to_owned()));
        let run = world.run(&options, "hi").await.ok();
        assert_eq!(run.init()["tools"], json!(["Read"]));
        assert!(world.body()["system"].to_string().contains(&"LARGE ".repeat(29_999)));
    }

    /// The reason for requiring a definition: with stream input the CLI ignores an unknown agent.
    #[tokio::test]
    async fn unknown_agent_is_silently_ignored() {
        let world = World::new(HELLO);
        let options = Options::default().with_agent(Agent::KnownToCli("nope".to_owned()));
        let run = world.run(&options, "hi").await.ok();
        assert_eq!(run.result()["is_error"], false);
    }

    #[tokio::test]
    async fn tools_are_selected_allowed_and_removed() {
        let world = World::new(HELLO);
        let none = [""; 0];
        let run = world.run(&Options::default().with_tools(none), "hi").await.ok();
        assert_eq!(run.init()["tools"], json!([]));
        let options = Options::default().with_tools(["Read", "Bash"]).with_disallowed_tools(["Bash"]);
        let run = world.run(&options, "hi").await.ok();
        assert_eq!(run.init()["tools"], json!(["Read"]));
    }

    #[tokio::test]
    async fn allowed_tool_needs_no_permission() {
        let script = "{ tape: 1, lanes: { main: [ { tools: [ { Bash: { command: 'touch a,b' } } ] }, { say: Done. } ] } }";
        let world = World::new(script);
        let options = Options::default().with_permission_mode(PermissionMode::DontAsk);
        let run = world.run(&options.clone().with_allowed_tools([""; 0]), "hi").await.ok();
        assert_eq!(run.result()["permission_denials"].as_array().unwrap().len(), 1);
        assert!(!world.work().join("a,b").exists());
        // A comma inside a rule is part of the rule.
        let allowed = options.with_allowed_tools(["Bash(touch a,b)", "Read"]);
        let run = world.run(&allowed, "hi").await.ok();
        assert_eq!(run.result()["permission_denials"], json!([]), "{}", run.stdout);
        assert!(world.work().join("a,b").exists());
    }

    #[tokio::test]
    async fn every_permission_mode_is_accepted() {
        let world = World::new(HELLO);
        for mode in PermissionMode::ALL {
            let options = Options::default().with_permission_mode(*mode).with_sandboxed(true);
            let run = world.run(&options, "hi").await.ok();
            assert_eq!(run.init()["permissionMode"], mode.as_str());
        }
    }

    #[tokio::test]
    async fn sessions_are_named_resumed_and_forked() {
        let world = World::new(HELLO);
        let session = |session| Options::default().with_session(session);
        let run = world.run(&session(Session::from_id(UUID)), "first").await.ok();
        assert_eq!(run.result()["session_id"], UUID);
        let run = world.run(&session(Session::Resume(UUID.to_owned())), "second").await.ok();
        assert_eq!(run.result()["session_id"], UUID);
        assert_eq!(run.result()["result"], "Again.");
        assert!(user_texts(&world.body()).contains(&"first".to_owned()));
        let of = Some(UUID.to_owned());
        let fork = "a173f5a0-3642-4197-8000-000000000002";
        let forked = session(Session::Fork { of, id: Some(fork.to_owned()) });
        let run = world.run(&forked, "third").await.ok();
        assert_eq!((&run.result()["session_id"], &run.result()["result"]), (&json!(fork), &json!("Forked.")));
        // A value that looks like a flag stays a value.
        let run = world.run(&session(Session::from_id("--dangerously-skip-permissions")), "x").await;
        assert!(!run.report.success());
        assert!(run.stderr.contains("--resume requires a valid session ID"), "{}", run.stderr);
    }

    #[tokio::test]
    async fn turn_limit_and_budget_end_run() {
        let script = "{ tape: 1, lanes: { main: [ { say: Part., tools: [ { Bash: { command: pwd } } ] }, { say: Done. } ] } }";
        let world = World::new(script);
        let run = world.run(&Options::default().with_max_turns(1), "hi").await;
        assert_eq!(run.result()["subtype"], "error_max_turns");
        let run = world.run(&Options::default().with_max_budget_usd(1e-7), "hi").await;
        assert_eq!(run.result()["subtype"], "error_max_budget_usd");
    }

    #[tokio::test]
    async fn schema_gives_structured_output() {
        let script = "{ tape: 1, lanes: { main: [ { tools: [ { StructuredOutput: { a: x } } ] } ] } }";
        let world = World::new(script);
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
        let run = world.run(&Options::default().with_json_schema(schema), "hi").await.ok();
        assert_eq!(run.result()["structured_output"], json!({"a": "x"}));
    }

    #[tokio::test]
    async fn mcp_servers_are_passed_inline_or_as_file() {
        let world = World::new(HELLO);
        let small = McpServer::stdio("/nonexistent", ["-x"]);
        let large = McpServer::stdio("/nonexistent", ["x".repeat(INLINE_LIMIT)]);
        let private = McpServer::stdio("/nonexistent", [""; 0]).with_env_or_header("TOKEN", "secret-value");
        let file = world.work().join("servers.json");
        std::fs::write(&file, "{\"mcpServers\":{\"filed\":{\"command\":\"/nonexistent\"}}}").unwrap();
        for server in [small, large, private] {
            let options = Options::default()
                .with_mcp_server("given", server)
                .with_mcp_config_file(&file)
                .with_strict_mcp_config(true);
            let run = world.run(&options, "hi").await.ok();
            let servers = run.init()["mcp_servers"].as_array().unwrap().clone();
            let mut names: Vec<_> = servers.iter().map(|server| server["name"].as_str().unwrap()).collect();
            names.sort_unstable();
            assert_eq!(names, ["filed", "given"]);
        }
    }

    #[tokio::test]
    async fn settings_are_passed_inline_or_as_file() {
        let world = World::new(HELLO);
        let settings = |padding: usize| {
            let settings = json!({"model": "claude-haiku-4-5", "unknownKey": "x".repeat(padding)});
            Options::default().with_settings(Settings::Json(settings.as_object().unwrap().clone()))
        };
        for padding in [0, INLINE_LIMIT] {
            world.run(&settings(padding), "hi").await.ok();
            assert_eq!(world.body()["model"], "claude-haiku-4-5");
        }
        std::fs::write(world.work().join("{s.json"), "{\"model\": \"claude-haiku-4-5\"}").unwrap();
        world.run(&Options::default().with_settings(Settings::File("{s.json".into())), "hi").await.ok();
        assert_eq!(world.body()["model"], "claude-haiku-4-5");
    }

    #[tokio::test]
    async fn model_and_limits_reach_request() {
        let world = World::new(HELLO);
        let options = Options::default()
            .with_model("anthropic/claude-sonnet-4-5")
            .with_fallback_models(["haiku"])
            .with_thinking(Thinking::Budget(2048))
            .with_max_output_tokens(4096)
            .with_betas(["context-1m-2025-08-07"]);
        world.run(&options, "hi").await.ok();
        let body = world.body();
        assert_eq!(body["model"], "claude-sonnet-4-5");
        assert_eq!(body["max_tokens"], 4096);
        assert_eq!(body["thinking"]["budget_tokens"], 2048);
        let seen = world.server.requests();
        let betas = seen.iter().find_map(|seen| seen.header("anthropic-beta")).unwrap();
        assert!(betas.contains("context-1m-2025-08-07"), "{betas}");
        let options = Options::default().with_effort(Effort::Low).with_task_budget(20_000);
        world.run(&options, "hi").await.ok();
        assert_eq!(world.body()["output_config"]["effort"], "low");
        assert_eq!(world.body()["output_config"]["task_budget"]["total"], 20_000);
    }

    #[tokio::test]
    async fn remaining_flags_are_accepted_by_cli() {
        let world = World::new(HELLO);
        let options = Options::default()
            .with_add_dir(world.work())
            .with_add_dir("-odd")
            .with_plugin_dir(world.work())
            .with_name("-name")
            .with_debug_file(world.work().join("debug.log"))
            .with_permission_prompt_tool("stdio")
            .with_setting_sources([SettingSource::User])
            .with_include_partial_messages(true)
            .with_include_hook_events(true)
            .with_forward_subagent_text(true)
            .with_replay_user_messages(true)
            .with_no_session_persistence(true)
            .with_exclude_dynamic_sections(true)
            .with_system_prompt_snapshot(false)
            .with_thinking_display(yb_claude::ThinkingDisplay::Summarized)
            .with_extra_arg("autocompact", "200000")
            .with_extra_flag("no-chrome")
            .with_bare(true);
        let run = world.run(&options, "hi").await.ok();
        assert!(run.frames.iter().any(|frame| frame["type"] == "stream_event"));
        assert!(world.work().join("debug.log").exists());
        world.run(&Options::default().with_setting_sources([]), "hi").await.ok();
        world
            .run(&Options::default().with_thinking(Thinking::Disabled).with_session(Session::Continue), "x")
            .await;
    }

    #[tokio::test]
    async fn json_text_and_legacy_forms_answer() {
        let world = World::new(HELLO);
        let run = world.run(&Options::default().with_output(OutputFormat::Text), "-x").await.ok();
        assert_eq!(run.stdout, "Hello.\n");
        let run = world.run(&Options::default().with_output(OutputFormat::Json), "-x").await.ok();
        assert_eq!(run.frames[0]["result"], "Hello.");
        let options =
            world.hermetic(&Options::default().with_allowed_tools(["Bash", "Read"]).with_max_turns(3));
        let large = "x".repeat(INLINE_LIMIT + 1);
        for prompt in ["List files", "-x", &large] {
            let invocation =
                options.legacy_invocation(&prompt.into(), &InvocationTarget::new("/private")).unwrap();
            let run = world.start(&invocation).await.ok();
            assert_eq!(run.frames[0]["result"], "Hello.", "{}", run.stdout);
            assert!(user_texts(&world.body()).iter().any(|text| text.trim_end() == prompt));
        }
    }
}
