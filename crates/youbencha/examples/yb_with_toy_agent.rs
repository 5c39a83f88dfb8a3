//! `yb` with one more agent: everything about it is in this file.
//!
//! The agent is a program `toy` on `PATH`, which reads its prompt from stdin and prints its answer.

use async_trait::async_trait;
use yb_engine::adapter::{
    Adapter, AdapterError, AgentConfig, Availability, Command, CommandConfig, ExecutionContext,
    ExecutionResult, Host, Intent,
};
use yb_engine::case::shape::{Field, Kind, Object, text};
use yb_engine::case::{
    AgentProgram, AgentSpec, AgentTool, ConfigKeys, Credentials, ModelApi, NpmProgram, ToolPurpose,
};
use yb_engine::log::YouBenchaLog;
use youbencha::Extensions;

static SPEC: AgentSpec = AgentSpec {
    summary: "an agent for tests",
    log_dir: "toy-logs",
    program: AgentProgram::Npm(NpmProgram {
        bin: "toy",
        path_variable: "YB_TOY",
        package: "toy-agent",
        tested: "1.0.0",
        megabytes: 1,
        install_scripts: false,
    }),
    credentials: Credentials { variables: &["TOY_KEY"], login: None, hint: "set `TOY_KEY`" },
    variables: &["TOY_KEY", "TOY_BASE_URL"],
    apis: &[ModelApi {
        variable: "TOY_BASE_URL",
        address: "https://api.toy.example",
        suffix: "/v9",
        key: "TOY_KEY",
    }],
    tools: &[AgentTool::new(ToolPurpose::Read, "look"), AgentTool::new(ToolPurpose::Edit, "change")],
    tool_kinds: &[],
    config_keys: ConfigKeys::Only(&["tools", "effort"]),
    section: Field::new("toy", Kind::Object(&SECTION), "For toy alone; others ignore it."),
    ..AgentSpec::new("toy", "Toy")
};

static SECTION: Object =
    Object { name: "toyAgent", fields: &[Field::new("mood", text(1, 20), "How it answers.")] };

struct Toy;

impl Toy {
    /// The same execution as one of the built-in `command` adapter.
    fn as_command(context: &ExecutionContext) -> ExecutionContext {
        let mut context = context.clone();
        context.config = Self::command_config(&context.config);
        context
    }

    fn command_config(config: &AgentConfig) -> AgentConfig {
        let mood = config.section.get("mood").and_then(serde_json::Value::as_str).unwrap_or("calm");
        let own = CommandConfig::new(["toy", mood]);
        AgentConfig { section: own.to_section(), ..config.clone() }
    }
}

#[async_trait]
impl Adapter for Toy {
    fn spec(&self) -> &'static AgentSpec {
        &SPEC
    }

    fn validate(&self, intent: &Intent<'_>) -> Result<(), AdapterError> {
        let config = Self::command_config(intent.config);
        Command.validate(&Intent { config: &config, ..*intent })
    }

    async fn check_availability(&self, config: &AgentConfig, host: &Host) -> Availability {
        Command.check_availability(&Self::command_config(config), host).await
    }

    async fn execute(&self, context: &ExecutionContext) -> Result<ExecutionResult, AdapterError> {
        Command.execute(&Self::as_command(context)).await
    }

    fn normalize_log(&self, result: &ExecutionResult, context: &ExecutionContext) -> YouBenchaLog {
        let mut log = Command.normalize_log(result, &Self::as_command(context));
        log.agent_info.name = SPEC.name.to_owned();
        log.agent.name = SPEC.name.to_owned();
        log
    }
}

fn main() -> std::process::ExitCode {
    youbencha::run_with(&Extensions::builtin().with_adapter(&Toy))
}
