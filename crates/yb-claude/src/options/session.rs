//! The command of an SDK session: large or private options are sent in `initialize`, not as arguments.

use serde_json::{Map, Value, json};

use super::argv::Argv;
use super::{
    EnvChange, Invocation, InvocationTarget, OptionIssue, Options, OptionsError, OutputFormat, Skills,
    SystemPrompt, TextSource, agent,
};
use crate::env_vars as vars;

impl Options {
    /// Returns the invocation of a session, whose prompts are sent over stdin, and the fields of its `initialize` request.
    pub(crate) fn session_invocation(
        &self,
        target: &InvocationTarget,
        handles_permissions: bool,
    ) -> Result<(Invocation, Map<String, Value>), OptionsError> {
        let mut warnings = self.check_with(self.session_errors(handles_permissions), Vec::new())?;
        if handles_permissions {
            warnings.extend(self.unreachable_permission_handler());
        }
        let (mut rest, initialize) = self.split();
        if handles_permissions {
            rest.permission_prompt_tool = Some("stdio".to_owned());
        }
        let mut argv = Argv::new(&target.private_dir);
        argv.literals(&["--output-format", "stream-json", "--verbose", "--input-format", "stream-json"]);
        rest.push_limits(&mut argv);
        rest.push_rest(&mut argv);
        let mut invocation = rest.finish(argv, Vec::new(), warnings)?;
        self.add_sdk_variables(&mut invocation);
        Ok((invocation, initialize))
    }

    fn session_errors(&self, handles_permissions: bool) -> Vec<OptionIssue> {
        let mut errors = Vec::new();
        if self.output != OutputFormat::StreamJson {
            let message = format!("a session requires `stream-json`, not `{}`", self.output);
            errors.push(OptionIssue::new("output", message, "remove it"));
        }
        if handles_permissions && self.permission_prompt_tool.is_some() {
            errors.push(OptionIssue::new(
                "permission_prompt_tool",
                "conflicts with the permission callback",
                "use one of the two",
            ));
        }
        errors
    }

    /// Warns about tools for which the permission callback is never called.
    fn unreachable_permission_handler(&self) -> Vec<OptionIssue> {
        let mut warnings = Vec::new();
        let hint = "a `PreToolUse` hook is called for every tool call";
        if self.permission_mode == Some(super::PermissionMode::BypassPermissions) {
            let message = "the permission callback is never called in this mode";
            warnings.push(OptionIssue::new("permission_mode", message, hint));
        }
        for (at, tool) in self.allowed_tools.iter().flatten().enumerate() {
            if !tool.contains('(') {
                let message = format!("the permission callback is never called for `{tool}`");
                warnings.push(OptionIssue::new(format!("allowed_tools[{at}]"), message, hint));
            }
        }
        warnings
    }

    /// Splits off the options that are sent in `initialize`.
    fn split(&self) -> (Self, Map<String, Value>) {
        let (mut rest, mut fields) = (self.clone(), Map::new());
        if let SystemPrompt::Text(text) = &self.system_prompt {
            fields.insert("systemPrompt".to_owned(), json!([text]));
            rest.system_prompt = SystemPrompt::Preset;
        }
        if let Some(TextSource::Text(text)) = &self.append_system_prompt {
            fields.insert("appendSystemPrompt".to_owned(), json!(text));
            rest.append_system_prompt = None;
        }
        if let Some(schema) = rest.json_schema.take() {
            fields.insert("jsonSchema".to_owned(), schema);
        }
        if let Some(Skills::Named(skills)) = &self.skills {
            fields.insert("skills".to_owned(), json!(skills));
        }
        if !self.agents.is_empty() {
            fields.insert("agents".to_owned(), agent::config(&self.agents));
            rest.agents.clear();
        }
        (rest, fields)
    }

    /// Adds variables that identify the SDK to the CLI.
    fn add_sdk_variables(&self, invocation: &mut Invocation) {
        let mut set = |name: &str, value: &str, overridable: bool| {
            let known = invocation.env.iter().position(|(known, _)| known == name);
            match known {
                Some(_) if overridable => {}
                Some(at) => invocation.env[at].1 = EnvChange::Set(value.into()),
                None => invocation.env.push((name.into(), EnvChange::Set(value.into()))),
            }
        };
        set(vars::CLAUDE_AGENT_SDK_VERSION, env!("CARGO_PKG_VERSION"), false);
        set(vars::CLAUDE_CODE_SDK_READS_SESSION_STATE, "1", true);
    }
}
