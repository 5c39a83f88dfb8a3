//! The rules that options obey. All of them are looked at, so that a user hears of every problem at once.

use std::path::Path;

use super::argv::without_provider;
use super::values::is_uuid;
use super::{
    Agent, EnvChange, Finding, Options, OptionsError, OutputFormat, Session, SystemPrompt, TextSource, tools,
};

/// The longest system prompt that passes in strict mode, in characters.
const MAX_SYSTEM_PROMPT: usize = 50_000;
/// The longest addition to a system prompt that passes in strict mode, in characters.
const MAX_APPENDED: usize = 10_000;
const MAX_AGENT_NAME: usize = 100;
const MAX_OUTPUT_TOKENS: u32 = 200_000;

/// Flags that this crate sets itself: a second one would break what it relies on.
const OWN_FLAGS: [&str; 10] = [
    "print",
    "p",
    "output-format",
    "input-format",
    "verbose",
    "version",
    "help",
    "dangerously-skip-permissions",
    "allow-dangerously-skip-permissions",
    "background",
];

impl Options {
    /// Looks at every field.
    ///
    /// Lenient, it gives what is doubtful as warnings; with [`strict`](Self::strict), each of them is an error.
    ///
    /// # Errors
    /// [`OptionsError::Invalid`] with everything that is wrong.
    pub fn validate(&self) -> Result<Vec<Finding>, OptionsError> {
        self.check_with([], Vec::new())
    }

    pub(crate) fn check_with(
        &self,
        errors: impl IntoIterator<Item = Finding>,
        doubts: Vec<Finding>,
    ) -> Result<Vec<Finding>, OptionsError> {
        let mut check = Check { errors: errors.into_iter().collect(), doubts };
        self.check_models(&mut check);
        self.check_limits(&mut check);
        self.check_prompts(&mut check);
        self.check_tools(&mut check);
        self.check_agents(&mut check);
        self.check_session(&mut check);
        self.check_stream_only(&mut check);
        self.check_environment(&mut check);
        self.check_extra_args(&mut check);
        let Check { mut errors, mut doubts } = check;
        if self.strict {
            errors.append(&mut doubts);
        }
        if errors.is_empty() { Ok(doubts) } else { Err(OptionsError::Invalid(errors)) }
    }

    fn check_models(&self, check: &mut Check) {
        let fallbacks = self.fallback_models.iter().enumerate();
        let fallbacks = fallbacks.map(|(at, model)| (format!("fallback_models[{at}]"), model));
        for (field, model) in self.model.iter().map(|model| ("model".to_owned(), model)).chain(fallbacks) {
            if self.strict {
                check.rule(
                    is_full_model(model),
                    field,
                    "expected `claude-` and a name, such as `claude-sonnet-4-5`",
                    "write the full name, without alias or provider",
                );
            } else {
                check.rule(
                    is_model(without_provider(model)),
                    field,
                    "expected an alias such as `sonnet`, or a model's full name",
                    "a name has no spaces and no commas",
                );
            }
        }
        let same = self.model.as_ref().is_some_and(|model| self.fallback_models.contains(model));
        check.doubt(!same, "fallback_models", "the model itself is no fallback", "name another model");
        for (at, beta) in self.betas.iter().enumerate() {
            let header = !beta.is_empty() && beta.chars().all(|c| c.is_ascii_graphic() && c != ',');
            check.rule(
                header,
                format!("betas[{at}]"),
                "expected the name of a beta header",
                "one name in each element",
            );
        }
    }

    fn check_limits(&self, check: &mut Check) {
        check.rule(
            self.max_turns != Some(0),
            "max_turns",
            "expected at least 1",
            "leave it out for no limit",
        );
        let budget = self.max_budget_usd.is_none_or(|usd| usd.is_finite() && usd > 0.0);
        check.rule(budget, "max_budget_usd", "expected a number above 0", "leave it out for no limit");
        check.rule(
            self.task_budget != Some(0),
            "task_budget",
            "expected at least 1",
            "leave it out for no budget",
        );
        let tokens = self.max_output_tokens.is_none_or(|tokens| (1..=MAX_OUTPUT_TOKENS).contains(&tokens));
        let expected = format!("expected 1 to {MAX_OUTPUT_TOKENS}");
        check.rule(tokens, "max_output_tokens", expected, "leave it out for what the model can");
        if let Some(temperature) = self.temperature {
            if (0.0..=1.0).contains(&temperature) {
                check.doubt(false, "temperature", "unsupported by the CLI, it has no effect", "leave it out");
            } else {
                check.rule(
                    false,
                    "temperature",
                    "expected 0 to 1",
                    "leave it out: the CLI does not support it",
                );
            }
        }
        let schema = self.json_schema.as_ref().is_none_or(serde_json::Value::is_object);
        check.rule(schema, "json_schema", "expected a JSON Schema, an object", "wrap it: `{\"type\": …}`");
    }

    fn check_prompts(&self, check: &mut Check) {
        let mut length = |field: &str, text: &str, limit: usize| {
            let chars = text.chars().count();
            let message = format!("expected at most {limit} characters, it has {chars}");
            check.doubt(chars <= limit, field, message, "a long prompt costs tokens in every turn");
        };
        if let SystemPrompt::Text(text) = &self.system_prompt {
            length("system_prompt", text, MAX_SYSTEM_PROMPT);
        }
        if let Some(TextSource::Text(text)) = &self.append_system_prompt {
            length("append_system_prompt", text, MAX_APPENDED);
        }
        let has_nul = |text: &str| text.contains('\0');
        if let SystemPrompt::Text(text) = &self.system_prompt {
            check.rule(!has_nul(text), "system_prompt", "expected text, it contains a NUL", "remove it");
        }
        if let Some(TextSource::Text(text)) = &self.append_system_prompt {
            check.rule(
                !has_nul(text),
                "append_system_prompt",
                "expected text, it contains a NUL",
                "remove it",
            );
        }
    }

    fn check_tools(&self, check: &mut Check) {
        let lists = [
            ("tools", &self.tools),
            ("allowed_tools", &self.allowed_tools),
            ("disallowed_tools", &self.disallowed_tools),
        ];
        for (field, list) in lists {
            for (at, rule) in list.iter().flatten().enumerate() {
                let hint = "one tool in each element; letters, digits, `_`, `-`, and a rule in parentheses";
                check.rule(tools::is_rule(rule), format!("{field}[{at}]"), tools::EXPECTED, hint);
            }
        }
        for (at, skill) in self.skills.iter().flatten().enumerate() {
            let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.:/".contains(letter);
            check.rule(
                !skill.is_empty() && !skill.starts_with('-') && skill.chars().all(plain),
                format!("skills[{at}]"),
                "expected the name of a skill",
                "one name in each element; letters, digits, `_`, `-`, `.`, `:` and `/`",
            );
        }
        let in_file = matches!(self.settings, Some(super::Settings::File(_))) && self.sandbox.is_some();
        check.rule(
            !in_file,
            "sandbox",
            "expected settings that are no file, for it becomes a part of them",
            "write it into the file",
        );
        if let Some(tool) = &self.permission_prompt_tool {
            let hint = "give the whole name of the tool, or `stdio`";
            check.rule(tools::is_rule(tool), "permission_prompt_tool", tools::EXPECTED, hint);
        }
    }

    fn check_agents(&self, check: &mut Check) {
        for (name, definition) in &self.agents {
            let field = format!("agents[{name}]");
            check_name(check, &field, name);
            let described = !definition.description.trim().is_empty();
            check.rule(
                described,
                &field,
                "expected a description",
                "say in a sentence when to use the agent",
            );
            check.rule(
                !definition.prompt.trim().is_empty(),
                &field,
                "expected a prompt",
                "say what the agent does",
            );
        }
        match &self.agent {
            None => {}
            Some(Agent::Defined(name)) => {
                check_name(check, "agent", name);
                let message = format!("no definition of agent `{name}`");
                let hint = "look it up, add its definition, or say that the CLI knows it";
                check.rule(self.agents.contains_key(name), "agent", message, hint);
            }
            Some(Agent::KnownToCli(name)) => {
                let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic());
                check.rule(plain, "agent", "expected a name", "letters, digits, `-`, `_` and `:`");
                let message = format!("`{name}` is ignored in silence if the CLI does not know it");
                check.doubt(false, "agent", message, "add its definition, so that it is known");
            }
        }
        for name in self.mcp_servers.keys() {
            let named =
                !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
            let hint = "letters, digits, `-`, `_` and `.`";
            check.rule(named, format!("mcp_servers[{name}]"), "expected a server's name", hint);
        }
    }

    fn check_session(&self, check: &mut Check) {
        let new_id = match &self.session {
            Session::WithId(id) => Some(id),
            Session::Fork { id, .. } => id.as_ref(),
            _ => None,
        };
        let uuid = new_id.is_none_or(|id| is_uuid(id));
        check.rule(
            uuid,
            "session",
            "expected a UUID as the id of a new session",
            "an existing one is resumed",
        );
        let existing = match &self.session {
            Session::Resume(id) => Some(id),
            Session::Fork { of, .. } => of.as_ref(),
            _ => None,
        };
        let named = existing.is_none_or(|id| !id.trim().is_empty());
        check.rule(named, "session", "expected the id of the session to resume", "it is in every result");
        let resumes = !matches!(self.session, Session::New | Session::WithId(_));
        let at = self.resume_at.is_none() || resumes;
        check.rule(
            at,
            "resume_at",
            "expected only with a session that is resumed",
            "resume one, or leave it out",
        );
    }

    fn check_stream_only(&self, check: &mut Check) {
        let fields = [
            ("include_partial_messages", self.include_partial_messages),
            ("include_hook_events", self.include_hook_events),
            ("forward_subagent_text", self.forward_subagent_text),
            ("replay_user_messages", self.replay_user_messages),
        ];
        for (field, set) in fields {
            let possible = !set || self.output == OutputFormat::StreamJson;
            check.rule(
                possible,
                field,
                "expected only with stream output",
                "use output format `stream-json`",
            );
        }
    }

    fn check_environment(&self, check: &mut Check) {
        for (name, change) in &self.env {
            let bytes = name.as_encoded_bytes();
            let field = format!("env[{}]", name.to_string_lossy());
            let named = !bytes.is_empty() && !bytes.contains(&b'=') && !bytes.contains(&0);
            check.rule(named, &field, "expected a variable's name, without `=`", "give name and value apart");
            if let EnvChange::Set(value) = change {
                check.rule(
                    !value.as_encoded_bytes().contains(&0),
                    &field,
                    "expected a value without NUL",
                    "remove it",
                );
            }
        }
        let cwd = self.cwd.as_deref().is_none_or(Path::is_absolute);
        check.rule(cwd, "cwd", "expected an absolute path", "make it absolute first");
    }

    fn check_extra_args(&self, check: &mut Check) {
        for (at, (flag, _)) in self.extra_args.iter().enumerate() {
            let field = format!("extra_args[{at}]");
            let named = flag.starts_with(|c: char| c.is_ascii_alphabetic())
                && flag.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
            check.rule(named, &field, "expected a flag's name, without its dashes", "give its value apart");
            let own = OWN_FLAGS.contains(&flag.as_str());
            let message = format!("`--{flag}` is not for this place");
            check.rule(!own, &field, message, "there is an option for it, or it must not change");
        }
    }
}

fn check_name(check: &mut Check, field: &str, name: &str) {
    let word = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let message = format!("expected 1 to {MAX_AGENT_NAME} letters, digits, `-` and `_` as an agent's name");
    check.rule(word && name.len() <= MAX_AGENT_NAME, field, message, "rename the agent");
}

/// The strict form: `claude-` and word characters, dashes and dots.
fn is_full_model(model: &str) -> bool {
    model.strip_prefix("claude-").is_some_and(|rest| {
        !rest.is_empty() && rest.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
    })
}

/// The lenient form: aliases, a `[1m]` suffix, and the names that cloud providers give.
fn is_model(model: &str) -> bool {
    model.starts_with(|c: char| c.is_ascii_alphanumeric())
        && model.chars().all(|c| c.is_ascii_alphanumeric() || "_-.:/@[]".contains(c))
}

struct Check {
    errors: Vec<Finding>,
    doubts: Vec<Finding>,
}

impl Check {
    fn rule(&mut self, holds: bool, field: impl Into<String>, message: impl Into<String>, hint: &str) {
        if !holds {
            self.errors.push(Finding::new(field, message, hint));
        }
    }

    fn doubt(&mut self, holds: bool, field: impl Into<String>, message: impl Into<String>, hint: &str) {
        if !holds {
            self.doubts.push(Finding::new(field, message, hint));
        }
    }
}
