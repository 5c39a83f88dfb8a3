//! The command of a conversation in both directions: what is large or private travels in `initialize`, not in arguments.

use serde_json::{Map, Value, json};

use super::argv::Argv;
use super::{
    EnvChange, Finding, Invocation, Options, OptionsError, OutputFormat, SystemPrompt, Target, TextSource,
    agent,
};
use crate::env_vars as vars;

impl Options {
    /// The command of a session whose prompts come over stdin later, and the fields of `initialize` that go with it.
    pub(crate) fn session_invocation(
        &self,
        target: &Target,
        asks_host: bool,
    ) -> Result<(Invocation, Map<String, Value>), OptionsError> {
        let mut warnings = self.check_with(self.session_errors(asks_host), Vec::new())?;
        if asks_host {
            warnings.extend(self.shadowed_questions());
        }
        let (mut rest, initialize) = self.split();
        if asks_host {
            rest.permission_prompt_tool = Some("stdio".to_owned());
        }
        let mut argv = Argv::new(&target.private_dir);
        argv.words(&["--output-format", "stream-json", "--verbose", "--input-format", "stream-json"]);
        rest.push_limits(&mut argv);
        rest.push_rest(&mut argv);
        let mut invocation = rest.finish(argv, Vec::new(), warnings)?;
        self.add_sdk_variables(&mut invocation);
        Ok((invocation, initialize))
    }

    fn session_errors(&self, asks_host: bool) -> Vec<Finding> {
        let mut errors = Vec::new();
        if self.output != OutputFormat::StreamJson {
            let message = format!("a session speaks `stream-json`, not `{}`", self.output);
            errors.push(Finding::new("output", message, "leave it out"));
        }
        if asks_host && self.permission_prompt_tool.is_some() {
            errors.push(Finding::new(
                "permission_prompt_tool",
                "there is a callback for permissions already",
                "have one of the two",
            ));
        }
        errors
    }

    /// Tools that nobody will be asked about although there is a callback.
    fn shadowed_questions(&self) -> Vec<Finding> {
        let mut doubts = Vec::new();
        let hint = "a `PreToolUse` hook hears of every call";
        if self.permission_mode == Some(super::PermissionMode::BypassPermissions) {
            let message = "the callback for permissions is never asked in this mode";
            doubts.push(Finding::new("permission_mode", message, hint));
        }
        for (at, tool) in self.allowed_tools.iter().flatten().enumerate() {
            if !tool.contains('(') {
                let message = format!("the callback for permissions is never asked about `{tool}`");
                doubts.push(Finding::new(format!("allowed_tools[{at}]"), message, hint));
            }
        }
        doubts
    }

    /// These options without what `initialize` carries, and that.
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
        if let Some(skills) = &self.skills {
            fields.insert("skills".to_owned(), json!(skills));
        }
        if !self.agents.is_empty() {
            fields.insert("agents".to_owned(), agent::config(&self.agents));
            rest.agents.clear();
        }
        (rest, fields)
    }

    /// What the CLI is told about who speaks to it.
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
