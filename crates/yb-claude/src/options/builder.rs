//! A `with_…` method for each option.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

use super::{
    Agent, AgentDefinition, Effort, EnvChange, McpServer, Options, OutputFormat, PermissionMode, Secret,
    Session, SettingSource, Settings, Skills, SystemPrompt, TextSource, Thinking, ThinkingDisplay,
};

macro_rules! setters {
    ($($name:ident($argument:ident: $type:ty) => $field:ident = $value:expr;)+) => {
        impl Options {
            $(
                #[doc = concat!("Sets [`", stringify!($field), "`](Self::", stringify!($field), ").")]
                #[must_use]
                pub fn $name(mut self, $argument: $type) -> Self {
                    self.$field = $value;
                    self
                }
            )+
        }
    };
}

/// Collects strings.
fn texts(items: impl IntoIterator<Item = impl Into<String>>) -> Vec<String> {
    items.into_iter().map(Into::into).collect()
}

setters! {
    with_strict(strict: bool) => strict = strict;
    with_output(output: OutputFormat) => output = output;
    with_model(model: impl Into<String>) => model = Some(model.into());
    with_fallback_models(models: impl IntoIterator<Item = impl Into<String>>) => fallback_models = texts(models);
    with_betas(betas: impl IntoIterator<Item = impl Into<String>>) => betas = texts(betas);
    with_effort(effort: Effort) => effort = Some(effort);
    with_thinking(thinking: Thinking) => thinking = Some(thinking);
    with_thinking_display(display: ThinkingDisplay) => thinking_display = Some(display);
    with_max_turns(turns: u32) => max_turns = Some(turns);
    with_max_budget_usd(usd: f64) => max_budget_usd = Some(usd);
    with_task_budget(tokens: u64) => task_budget = Some(tokens);
    with_max_output_tokens(tokens: u32) => max_output_tokens = Some(tokens);
    with_temperature(temperature: f64) => temperature = Some(temperature);
    with_system_prompt(prompt: SystemPrompt) => system_prompt = prompt;
    with_append_system_prompt(text: TextSource) => append_system_prompt = Some(text);
    with_exclude_dynamic_sections(exclude: bool) => exclude_dynamic_sections = exclude;
    with_system_prompt_snapshot(keep: bool) => system_prompt_snapshot = Some(keep);
    with_tools(tools: impl IntoIterator<Item = impl Into<String>>) => tools = Some(texts(tools));
    with_allowed_tools(tools: impl IntoIterator<Item = impl Into<String>>) => allowed_tools = Some(texts(tools));
    with_disallowed_tools(tools: impl IntoIterator<Item = impl Into<String>>) => disallowed_tools = Some(texts(tools));
    with_permission_mode(mode: PermissionMode) => permission_mode = Some(mode);
    with_permission_prompt_tool(tool: impl Into<String>) => permission_prompt_tool = Some(tool.into());
    with_sandboxed(sandboxed: bool) => sandboxed = sandboxed;
    with_cwd(directory: impl Into<PathBuf>) => cwd = Some(directory.into());
    with_strict_mcp_config(strict: bool) => strict_mcp_config = strict;
    with_settings(settings: Settings) => settings = Some(settings);
    with_sandbox(sandbox: Map<String, Value>) => sandbox = Some(sandbox);
    with_skills(skills: impl IntoIterator<Item = impl Into<String>>) => skills = Some(Skills::Named(texts(skills)));
    with_setting_sources(sources: impl IntoIterator<Item = SettingSource>) =>
        setting_sources = Some(sources.into_iter().collect());
    with_agent(agent: Agent) => agent = Some(agent);
    with_session(session: Session) => session = session;
    with_resume_at(message: impl Into<String>) => resume_at = Some(message.into());
    with_resume_drops_turn(prompt: impl Into<String>) => resume_drops_turn = Some(prompt.into());
    with_no_session_persistence(off: bool) => no_session_persistence = off;
    with_name(name: impl Into<String>) => name = Some(name.into());
    with_include_partial_messages(include: bool) => include_partial_messages = include;
    with_include_hook_events(include: bool) => include_hook_events = include;
    with_forward_subagent_text(forward: bool) => forward_subagent_text = forward;
    with_replay_user_messages(replay: bool) => replay_user_messages = replay;
    with_json_schema(schema: Value) => json_schema = Some(schema);
    with_bare(bare: bool) => bare = bare;
    with_debug_file(file: impl Into<PathBuf>) => debug_file = Some(file.into());
    with_api_key(key: impl Into<Secret>) => api_key = Some(key.into());
    with_auth_token(token: impl Into<Secret>) => auth_token = Some(token.into());
    with_oauth_token(token: impl Into<Secret>) => oauth_token = Some(token.into());
    with_base_url(url: impl Into<Secret>) => base_url = Some(url.into());
    with_max_retries(retries: u32) => max_retries = Some(retries);
    with_api_timeout(timeout: Duration) => api_timeout = Some(timeout);
    with_background_tasks(background: bool) => background_tasks = background;
    with_telemetry_export(export: bool) => telemetry_export = export;
    with_entrypoint(entrypoint: impl Into<String>) => entrypoint = Some(entrypoint.into());
    with_client_app(client_app: impl Into<String>) => client_app = Some(client_app.into());
    with_file_checkpointing(checkpointing: bool) => file_checkpointing = checkpointing;
    with_trace_parent(parent: impl Into<String>) => trace_parent = Some(parent.into());
    with_trace_state(state: impl Into<String>) => trace_state = Some(state.into());
}

impl Options {
    /// Enables all [`skills`](Self::skills).
    #[must_use]
    pub fn with_all_skills(mut self) -> Self {
        self.skills = Some(Skills::All);
        self
    }

    /// Adds one of the [`add_dirs`](Self::add_dirs).
    #[must_use]
    pub fn with_add_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.add_dirs.push(directory.into());
        self
    }

    /// Adds one of the [`plugin_dirs`](Self::plugin_dirs).
    #[must_use]
    pub fn with_plugin_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.plugin_dirs.push(directory.into());
        self
    }

    /// Sets a variable in [`env`](Self::env).
    #[must_use]
    pub fn with_env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), EnvChange::Set(value.into()));
        self
    }

    /// Removes a variable in [`env`](Self::env), even if it is inherited.
    #[must_use]
    pub fn without_env(mut self, name: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), EnvChange::Remove);
        self
    }

    /// Adds one of the [`mcp_servers`](Self::mcp_servers).
    #[must_use]
    pub fn with_mcp_server(mut self, name: impl Into<String>, server: McpServer) -> Self {
        self.mcp_servers.insert(name.into(), server);
        self
    }

    /// Adds one of the [`mcp_config_files`](Self::mcp_config_files).
    #[must_use]
    pub fn with_mcp_config_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.mcp_config_files.push(file.into());
        self
    }

    /// Adds one of the [`agents`](Self::agents).
    #[must_use]
    pub fn with_agent_definition(mut self, name: impl Into<String>, definition: AgentDefinition) -> Self {
        self.agents.insert(name.into(), definition);
        self
    }

    /// Adds a flag, given without dashes: `--flag`.
    #[must_use]
    pub fn with_extra_flag(mut self, flag: impl Into<String>) -> Self {
        self.extra_args.push((flag.into(), None));
        self
    }

    /// Adds a flag, given without dashes, and its value: `--flag=value`.
    #[must_use]
    pub fn with_extra_arg(mut self, flag: impl Into<String>, value: impl Into<OsString>) -> Self {
        self.extra_args.push((flag.into(), Some(value.into())));
        self
    }
}
