//! Converts options to arguments. User-controlled values are passed as `--flag=value`, so they can't become flags.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use serde_json::{Map, Value};

use super::{
    EnvChange, INLINE_LIMIT, Invocation, InvocationTarget, OptionIssue, Options, OptionsError, OutputFormat,
    PrivateFile, Prompt, Session, Settings, Skills, SystemPrompt, TextSource, Thinking, agent, mcp,
};
use crate::version::Version;

/// Arguments under construction, and the files they refer to.
pub(crate) struct Argv<'a> {
    pub(crate) args: Vec<OsString>,
    files: Vec<PrivateFile>,
    private_dir: &'a Path,
}

/// Whether a value may appear in a process list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Secrecy {
    Public,
    Private,
}

impl<'a> Argv<'a> {
    pub(crate) fn new(private_dir: &'a Path) -> Self {
        Self { args: Vec::new(), files: Vec::new(), private_dir }
    }

    /// Adds fixed arguments.
    pub(crate) fn literals(&mut self, args: &[&str]) {
        self.args.extend(args.iter().map(OsString::from));
    }

    fn flag(&mut self, name: &str, on: bool) {
        if on {
            self.args.push(format!("--{name}").into());
        }
    }

    fn value(&mut self, name: &str, value: impl AsRef<OsStr>) {
        let mut argument = OsString::from(format!("--{name}="));
        argument.push(value);
        self.args.push(argument);
    }

    fn option(&mut self, name: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.value(name, value.to_string());
        }
    }

    fn list(&mut self, name: &str, list: Option<&Vec<String>>) {
        self.option(name, list.map(|list| list.join(",")));
    }

    /// Adds a path, which the CLI must not mistake for JSON.
    fn path(&mut self, name: &str, path: &Path) {
        let looks_like_json =
            path.as_os_str().as_encoded_bytes().first().is_some_and(|byte| b"{[".contains(byte));
        let path = if looks_like_json { Path::new(".").join(path) } else { path.to_owned() };
        self.value(name, path);
    }

    /// Adds a text inline or, if it is large or private, as a file for another flag.
    fn text(&mut self, name: &str, by_file: (&str, &str), text: &str, secrecy: Secrecy) {
        let (file_flag, file_name) = by_file;
        if secrecy == Secrecy::Public && name.len() + text.len() + 3 <= INLINE_LIMIT {
            return self.value(name, text);
        }
        let path = self.private_dir.join(file_name);
        self.value(file_flag, &path);
        self.files.push(PrivateFile { path, bytes: text.as_bytes().to_vec() });
    }

    fn json(&mut self, name: &str, file_name: &str, value: &Value, secrecy: Secrecy) {
        self.text(name, (name, file_name), &value.to_string(), secrecy);
    }
}

impl Options {
    /// Creates the invocation for one prompt. Pure: runs, reads and writes nothing.
    ///
    /// With [`OutputFormat::StreamJson`] the prompt is a frame on stdin, and the model receives it verbatim. With other
    /// formats, and with versions before [`Version::VERBATIM_PROMPTS`], the CLI interprets the prompt: a leading `/` runs
    /// a command and `@file` is expanded. The invocation has a warning if that affects the prompt.
    ///
    /// # Errors
    /// If an option is invalid (see [`validate`](Self::validate)), or a value is too large.
    pub fn invocation(&self, prompt: &Prompt, target: &InvocationTarget) -> Result<Invocation, OptionsError> {
        let warnings = self.validate_with_prompt(prompt, target)?;
        let mut argv = Argv::new(&target.private_dir);
        argv.literals(&["-p", "--output-format", self.output.as_str()]);
        let stdin = if self.output == OutputFormat::StreamJson {
            argv.literals(&["--verbose", "--input-format", "stream-json"]);
            prompt.frame()
        } else {
            prompt.as_text().unwrap_or_default().as_bytes().to_vec()
        };
        self.push_limits(&mut argv);
        self.push_rest(&mut argv);
        self.finish(argv, stdin, warnings)
    }

    /// Adds turns, session and allowed tools; the legacy command places these itself.
    pub(crate) fn push_limits(&self, argv: &mut Argv<'_>) {
        argv.option("max-turns", self.max_turns);
        self.push_session(argv);
        argv.list("allowedTools", self.allowed().as_ref());
    }

    /// Returns the allowed tools, including skills.
    pub(crate) fn allowed(&self) -> Option<Vec<String>> {
        let skills = self.skills.as_ref().map(Skills::rules);
        match &self.allowed_tools {
            None if skills.is_none() => None,
            tools => Some(tools.iter().flatten().cloned().chain(skills.into_iter().flatten()).collect()),
        }
    }

    /// Validates the options and the prompt.
    pub(crate) fn validate_with_prompt(
        &self,
        prompt: &Prompt,
        target: &InvocationTarget,
    ) -> Result<Vec<OptionIssue>, OptionsError> {
        let mut warnings = Vec::new();
        let old = target.version.as_ref().is_some_and(|version| *version < Version::VERBATIM_PROMPTS);
        let reason = match self.output {
            OutputFormat::StreamJson if !old => None,
            OutputFormat::StreamJson => Some(format!("Claude Code before {}", Version::VERBATIM_PROMPTS)),
            output => Some(format!("output format `{output}`")),
        };
        if let Some(reason) = reason.filter(|_| prompt.may_be_interpreted()) {
            let message = format!("with {reason}, a leading `/` runs a command and `@file` is expanded");
            let hint = "use `stream-json` output and a newer version, or change the prompt";
            warnings.push(OptionIssue::new("prompt", message, hint));
        }
        self.check_with(prompt.check().into_iter().chain(self.text_only(prompt)), warnings)
    }

    fn text_only(&self, prompt: &Prompt) -> Option<OptionIssue> {
        let blocks = self.output != OutputFormat::StreamJson && prompt.as_text().is_none();
        blocks.then(|| {
            let message =
                format!("expected text: output format `{}` does not support content blocks", self.output);
            OptionIssue::new("prompt", message, "use `stream-json` output")
        })
    }

    pub(crate) fn push_session(&self, argv: &mut Argv<'_>) {
        match &self.session {
            Session::New => {}
            Session::WithId(id) => argv.value("session-id", id),
            Session::Resume(id) => argv.value("resume", id),
            Session::Continue => argv.flag("continue", true),
            Session::Fork { of, id } => {
                match of {
                    Some(of) => argv.value("resume", of),
                    None => argv.flag("continue", true),
                }
                argv.flag("fork-session", true);
                argv.option("session-id", id.as_ref());
            }
        }
        argv.option("resume-session-at", self.resume_at.as_ref());
        argv.option("resume-drops-turn", self.resume_drops_turn.as_ref());
    }

    /// Adds everything except output, turns, session and allowed tools, which the legacy command places itself.
    pub(crate) fn push_rest(&self, argv: &mut Argv<'_>) {
        argv.option("model", self.model.as_deref().map(without_provider));
        if !self.fallback_models.is_empty() {
            let models: Vec<_> = self.fallback_models.iter().map(|model| without_provider(model)).collect();
            argv.value("fallback-model", models.join(","));
        }
        argv.option("betas", (!self.betas.is_empty()).then(|| self.betas.join(",")));
        argv.option("effort", self.effort);
        match self.thinking {
            None => {}
            Some(Thinking::Adaptive) => argv.value("thinking", "adaptive"),
            Some(Thinking::Disabled) => argv.value("thinking", "disabled"),
            Some(Thinking::Budget(tokens)) => argv.value("max-thinking-tokens", tokens.to_string()),
        }
        argv.option("thinking-display", self.thinking_display);
        argv.option("max-budget-usd", self.max_budget_usd);
        argv.option("task-budget", self.task_budget);
        self.push_prompts(argv);
        argv.list("tools", self.tools.as_ref());
        argv.list("disallowedTools", self.disallowed_tools.as_ref());
        argv.option("permission-mode", self.permission_mode);
        argv.option("permission-prompt-tool", self.permission_prompt_tool.as_ref());
        self.add_dirs.iter().for_each(|dir| argv.value("add-dir", dir));
        self.push_configuration(argv);
        argv.flag("no-session-persistence", self.no_session_persistence);
        argv.option("name", self.name.as_ref());
        argv.flag("include-partial-messages", self.include_partial_messages);
        argv.flag("include-hook-events", self.include_hook_events);
        argv.flag("forward-subagent-text", self.forward_subagent_text);
        argv.flag("replay-user-messages", self.replay_user_messages);
        argv.option("json-schema", self.json_schema.as_ref());
        argv.flag("bare", self.bare);
        if let Some(file) = &self.debug_file {
            argv.value("debug-file", file);
        }
        for (flag, value) in &self.extra_args {
            match value {
                Some(value) => argv.value(flag, value),
                None => argv.flag(flag, true),
            }
        }
    }

    fn push_prompts(&self, argv: &mut Argv<'_>) {
        match &self.system_prompt {
            SystemPrompt::Preset => {}
            SystemPrompt::Text(text) => {
                let by_file = ("system-prompt-file", "system-prompt.txt");
                argv.text("system-prompt", by_file, text, Secrecy::Public);
            }
            SystemPrompt::File(path) => argv.value("system-prompt-file", path),
        }
        match &self.append_system_prompt {
            None => {}
            Some(TextSource::Text(text)) => {
                let by_file = ("append-system-prompt-file", "append-system-prompt.txt");
                argv.text("append-system-prompt", by_file, text, Secrecy::Public);
            }
            Some(TextSource::File(path)) => argv.value("append-system-prompt-file", path),
        }
        argv.flag("exclude-dynamic-system-prompt-sections", self.exclude_dynamic_sections);
        argv.option(
            "system-prompt-snapshot",
            self.system_prompt_snapshot.map(|on| if on { "on" } else { "off" }),
        );
    }

    fn push_configuration(&self, argv: &mut Argv<'_>) {
        let secrecy = |private: bool| if private { Secrecy::Private } else { Secrecy::Public };
        if !self.mcp_servers.is_empty() {
            let private = self.mcp_servers.values().any(super::McpServer::is_private);
            argv.json("mcp-config", "mcp.json", &mcp::config(&self.mcp_servers), secrecy(private));
        }
        self.mcp_config_files.iter().for_each(|file| argv.path("mcp-config", file));
        argv.flag("strict-mcp-config", self.strict_mcp_config);
        match (&self.settings, &self.sandbox) {
            (None, None) => {}
            (Some(Settings::File(path)), _) => argv.path("settings", path),
            (settings, sandbox) => {
                let mut map = match settings {
                    Some(Settings::Json(map)) => map.clone(),
                    _ => Map::new(),
                };
                if let Some(sandbox) = sandbox {
                    map.insert("sandbox".to_owned(), Value::Object(sandbox.clone()));
                }
                let private = map.contains_key("env");
                argv.json("settings", "settings.json", &Value::Object(map), secrecy(private));
            }
        }
        let sources = self.setting_sources.as_ref();
        argv.option(
            "setting-sources",
            sources.map(|all| all.iter().map(|one| one.as_str()).collect::<Vec<_>>().join(",")),
        );
        if !self.agents.is_empty() {
            let private = self.agents.values().any(super::AgentDefinition::is_private);
            argv.json("agents", "agents.json", &agent::config(&self.agents), secrecy(private));
        }
        argv.option("agent", self.agent.as_ref().map(super::Agent::name));
        self.plugin_dirs.iter().for_each(|dir| argv.value("plugin-dir", dir));
    }

    pub(crate) fn finish(
        &self,
        argv: Argv<'_>,
        stdin: Vec<u8>,
        warnings: Vec<OptionIssue>,
    ) -> Result<Invocation, OptionsError> {
        let env: Vec<(OsString, EnvChange)> = self.environment().into_iter().collect();
        for argument in &argv.args {
            check_size(argument, argument.len(), || {
                let text = argument.to_string_lossy();
                format!(
                    "argument `{}`",
                    text.split('=').next().unwrap_or_default().chars().take(60).collect::<String>()
                )
            })?;
        }
        for (name, change) in &env {
            let what = || format!("environment variable `{}`", name.to_string_lossy());
            check_size(name, name.len(), what)?;
            if let EnvChange::Set(value) = change {
                check_size(value, name.len() + value.len() + 1, what)?;
            }
        }
        if !argv.files.is_empty() && !argv.private_dir.is_absolute() {
            return Err(OptionsError::Invalid(vec![OptionIssue::new(
                "private_dir",
                format!("expected an absolute path: {}", argv.private_dir.display()),
                "the CLI may run in a different directory",
            )]));
        }
        let (args, files) = (argv.args, argv.files);
        Ok(Invocation { args, env, stdin, cwd: self.cwd.clone(), secrets: self.secrets(), files, warnings })
    }
}

/// Removes the `anthropic/` prefix that other tools use.
pub(crate) fn without_provider(model: &str) -> &str {
    model.strip_prefix("anthropic/").unwrap_or(model)
}

fn check_size(value: &OsStr, bytes: usize, what: impl Fn() -> String) -> Result<(), OptionsError> {
    if bytes > INLINE_LIMIT {
        return Err(OptionsError::TooLarge { what: what(), bytes, limit: INLINE_LIMIT });
    }
    if value.as_encoded_bytes().contains(&0) {
        return Err(OptionsError::NulByte { what: what() });
    }
    Ok(())
}
