//! Validates options. All rules are checked, so that every problem is reported at once.

use std::path::Path;

use super::argv::without_provider;
use super::values::is_uuid;
use super::{
    Agent, EnvChange, OptionIssue, Options, OptionsError, OutputFormat, Session, Skills, SystemPrompt,
    TextSource, tools,
};

/// The maximum length of a system prompt in strict mode, in characters.
const MAX_SYSTEM_PROMPT: usize = 50_000;
/// The maximum length of an appended system prompt in strict mode, in characters.
const MAX_APPENDED: usize = 10_000;
const MAX_AGENT_NAME: usize = 100;
const MAX_OUTPUT_TOKENS: u32 = 200_000;

/// Flags that this crate sets itself, and that must not be overridden.
const RESERVED_FLAGS: [&str; 10] = [
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
    /// Validates all fields and returns warnings. With [`strict`](Self::strict), warnings are errors.
    ///
    /// # Errors
    /// [`OptionsError::Invalid`] with all errors.
    pub fn validate(&self) -> Result<Vec<OptionIssue>, OptionsError> {
        self.check_with([], Vec::new())
    }

    pub(crate) fn check_with(
        &self,
        errors: impl IntoIterator<Item = OptionIssue>,
        warnings: Vec<OptionIssue>,
    ) -> Result<Vec<OptionIssue>, OptionsError> {
        let mut check = Checker { errors: errors.into_iter().collect(), warnings };
        self.check_models(&mut check);
        self.check_limits(&mut check);
        self.check_prompts(&mut check);
        self.check_tools(&mut check);
        self.check_agents(&mut check);
        self.check_session(&mut check);
        self.check_stream_only(&mut check);
        self.check_environment(&mut check);
        self.check_extra_args(&mut check);
        let Checker { mut errors, mut warnings } = check;
        if self.strict {
            errors.append(&mut warnings);
        }
        if errors.is_empty() { Ok(warnings) } else { Err(OptionsError::Invalid(errors)) }
    }

    fn check_models(&self, check: &mut Checker) {
        let fallbacks = self.fallback_models.iter().enumerate();
        let fallbacks = fallbacks.map(|(at, model)| (format!("fallback_models[{at}]"), model));
        for (field, model) in self.model.iter().map(|model| ("model".to_owned(), model)).chain(fallbacks) {
            if self.strict {
                check.require(
                    is_full_model(model),
                    field,
                    "expected `claude-` and a name, such as `claude-sonnet-4-5`",
                    "use the full name, without alias or provider",
                );
            } else {
                check.require(
                    is_model(without_provider(model)),
                    field,
                    "expected an alias such as `sonnet`, or a model's full name",
                    "a name has no spaces and no commas",
                );
            }
        }
        let same = self.model.as_ref().is_some_and(|model| self.fallback_models.contains(model));
        check.warn_unless(
            !same,
            "fallback_models",
            "the model can't be its own fallback",
            "use another model",
        );
        for (at, beta) in self.betas.iter().enumerate() {
            let header = !beta.is_empty() && beta.chars().all(|c| c.is_ascii_graphic() && c != ',');
            check.require(
                header,
                format!("betas[{at}]"),
                "expected a beta header name",
                "one name per element",
            );
        }
    }

    fn check_limits(&self, check: &mut Checker) {
        check.require(self.max_turns != Some(0), "max_turns", "expected at least 1", "omit it for no limit");
        let budget = self.max_budget_usd.is_none_or(|usd| usd.is_finite() && usd > 0.0);
        check.require(budget, "max_budget_usd", "expected a number above 0", "omit it for no limit");
        check.require(
            self.task_budget != Some(0),
            "task_budget",
            "expected at least 1",
            "omit it for no budget",
        );
        let tokens = self.max_output_tokens.is_none_or(|tokens| (1..=MAX_OUTPUT_TOKENS).contains(&tokens));
        let expected = format!("expected 1 to {MAX_OUTPUT_TOKENS}");
        check.require(tokens, "max_output_tokens", expected, "omit it for the model's maximum");
        if let Some(temperature) = self.temperature {
            if (0.0..=1.0).contains(&temperature) {
                check.warn_unless(
                    false,
                    "temperature",
                    "not supported by the CLI; it has no effect",
                    "omit it",
                );
            } else {
                check.require(
                    false,
                    "temperature",
                    "expected 0 to 1",
                    "omit it: the CLI does not support it",
                );
            }
        }
        let schema = self.json_schema.as_ref().is_none_or(serde_json::Value::is_object);
        check.require(schema, "json_schema", "expected a JSON Schema object", "wrap it: `{\"type\": …}`");
    }

    fn check_prompts(&self, check: &mut Checker) {
        let mut length = |field: &str, text: &str, limit: usize| {
            let chars = text.chars().count();
            let message = format!("expected at most {limit} characters, got {chars}");
            check.warn_unless(chars <= limit, field, message, "a long prompt costs tokens in every turn");
        };
        if let SystemPrompt::Text(text) = &self.system_prompt {
            length("system_prompt", text, MAX_SYSTEM_PROMPT);
        }
        if let Some(TextSource::Text(text)) = &self.append_system_prompt {
            length("append_system_prompt", text, MAX_APPENDED);
        }
        let has_nul = |text: &str| text.contains('\0');
        if let SystemPrompt::Text(text) = &self.system_prompt {
            check.require(
                !has_nul(text),
                "system_prompt",
                "expected text without NUL characters",
                "remove the NUL",
            );
        }
        if let Some(TextSource::Text(text)) = &self.append_system_prompt {
            check.require(
                !has_nul(text),
                "append_system_prompt",
                "expected text without NUL characters",
                "remove the NUL",
            );
        }
    }

    fn check_tools(&self, check: &mut Checker) {
        let lists = [
            ("tools", &self.tools),
            ("allowed_tools", &self.allowed_tools),
            ("disallowed_tools", &self.disallowed_tools),
        ];
        for (field, list) in lists {
            for (at, rule) in list.iter().flatten().enumerate() {
                let hint = "one tool per element; letters, digits, `_`, `-`, and a rule in parentheses";
                check.require(tools::is_rule(rule), format!("{field}[{at}]"), tools::EXPECTED, hint);
            }
        }
        for (at, skill) in self.skills.iter().flat_map(Skills::names).enumerate() {
            let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.:/".contains(letter);
            check.require(
                !skill.is_empty() && !skill.starts_with('-') && skill.chars().all(plain),
                format!("skills[{at}]"),
                "expected a skill name",
                "one name per element; letters, digits, `_`, `-`, `.`, `:` and `/`",
            );
        }
        let in_file = matches!(self.settings, Some(super::Settings::File(_))) && self.sandbox.is_some();
        check.require(
            !in_file,
            "sandbox",
            "conflicts with a settings file, because it is merged into the settings",
            "put it into the file",
        );
        if let Some(tool) = &self.permission_prompt_tool {
            let hint = "use the full name of the tool, or `stdio`";
            check.require(tools::is_rule(tool), "permission_prompt_tool", tools::EXPECTED, hint);
        }
    }

    fn check_agents(&self, check: &mut Checker) {
        for (name, definition) in &self.agents {
            let field = format!("agents[{name}]");
            check_name(check, &field, name);
            let described = !definition.description.trim().is_empty();
            check.require(described, &field, "expected a description", "describe when to use the agent");
            check.require(
                !definition.prompt.trim().is_empty(),
                &field,
                "expected a prompt",
                "describe what the agent does",
            );
        }
        match &self.agent {
            None => {}
            Some(Agent::Defined(name)) => {
                check_name(check, "agent", name);
                let message = format!("no definition of agent `{name}`");
                let hint = "add its definition, or use `Agent::KnownToCli`";
                check.require(self.agents.contains_key(name), "agent", message, hint);
            }
            Some(Agent::KnownToCli(name)) => {
                let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic());
                check.require(plain, "agent", "expected a name", "letters, digits, `-`, `_` and `:`");
                let message = format!("`{name}` is silently ignored if the CLI does not know it");
                check.warn_unless(false, "agent", message, "add its definition");
            }
        }
        for name in self.mcp_servers.keys() {
            let named =
                !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
            let hint = "letters, digits, `-`, `_` and `.`";
            check.require(named, format!("mcp_servers[{name}]"), "expected a server name", hint);
        }
    }

    fn check_session(&self, check: &mut Checker) {
        let new_id = match &self.session {
            Session::WithId(id) => Some(id),
            Session::Fork { id, .. } => id.as_ref(),
            _ => None,
        };
        let uuid = new_id.is_none_or(|id| is_uuid(id));
        check.require(
            uuid,
            "session",
            "expected a UUID as the ID of a new session",
            "use `Session::Resume` for an existing session",
        );
        let existing = match &self.session {
            Session::Resume(id) => Some(id),
            Session::Fork { of, .. } => of.as_ref(),
            _ => None,
        };
        let named = existing.is_none_or(|id| !id.trim().is_empty());
        check.require(
            named,
            "session",
            "expected the ID of the session to resume",
            "every result message contains it",
        );
        let resumes = !matches!(self.session, Session::New | Session::WithId(_));
        let at = self.resume_at.is_none() || resumes;
        check.require(at, "resume_at", "only valid for a resumed session", "resume a session, or omit it");
        let drops = self.resume_drops_turn.is_none() || self.resume_at.is_some();
        check.require(drops, "resume_drops_turn", "only valid with `resume_at`", "add it, or omit both");
    }

    fn check_stream_only(&self, check: &mut Checker) {
        let fields = [
            ("include_partial_messages", self.include_partial_messages),
            ("include_hook_events", self.include_hook_events),
            ("forward_subagent_text", self.forward_subagent_text),
            ("replay_user_messages", self.replay_user_messages),
        ];
        for (field, set) in fields {
            let possible = !set || self.output == OutputFormat::StreamJson;
            check.require(
                possible,
                field,
                "only valid with `stream-json` output",
                "use output format `stream-json`",
            );
        }
    }

    fn check_environment(&self, check: &mut Checker) {
        for (name, change) in &self.env {
            let bytes = name.as_encoded_bytes();
            let field = format!("env[{}]", name.to_string_lossy());
            let named = !bytes.is_empty() && !bytes.contains(&b'=') && !bytes.contains(&0);
            check.require(
                named,
                &field,
                "expected a variable name without `=`",
                "pass name and value separately",
            );
            if let EnvChange::Set(value) = change {
                check.require(
                    !value.as_encoded_bytes().contains(&0),
                    &field,
                    "expected a value without NUL characters",
                    "remove the NUL",
                );
            }
        }
        let client_app = self.client_app.as_deref().unwrap_or_default();
        check.require(
            client_app.chars().all(|letter| letter.is_ascii_graphic() && !"(),".contains(letter)),
            "client_app",
            "expected a name and a version such as `my-app/1.0`",
            "use printable ASCII without spaces, commas and parentheses",
        );
        let cwd = self.cwd.as_deref().is_none_or(Path::is_absolute);
        check.require(cwd, "cwd", "expected an absolute path", "make it absolute");
    }

    fn check_extra_args(&self, check: &mut Checker) {
        for (at, (flag, _)) in self.extra_args.iter().enumerate() {
            let field = format!("extra_args[{at}]");
            let named = flag.starts_with(|c: char| c.is_ascii_alphabetic())
                && flag.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
            check.require(named, &field, "expected a flag name without dashes", "pass the value separately");
            let own = RESERVED_FLAGS.contains(&flag.as_str());
            let message = format!("`--{flag}` is reserved");
            check.require(!own, &field, message, "use the corresponding option, if there is one");
        }
    }
}

fn check_name(check: &mut Checker, field: &str, name: &str) {
    let word = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let message = format!("expected 1 to {MAX_AGENT_NAME} letters, digits, `-` and `_` as agent name");
    check.require(word && name.len() <= MAX_AGENT_NAME, field, message, "rename the agent");
}

/// Strict: `claude-` followed by word characters, dashes and dots.
fn is_full_model(model: &str) -> bool {
    model.strip_prefix("claude-").is_some_and(|rest| {
        !rest.is_empty() && rest.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
    })
}

/// Lenient: aliases, a `[1m]` suffix, and model names of cloud providers.
fn is_model(model: &str) -> bool {
    model.starts_with(|c: char| c.is_ascii_alphanumeric())
        && model.chars().all(|c| c.is_ascii_alphanumeric() || "_-.:/@[]".contains(c))
}

struct Checker {
    errors: Vec<OptionIssue>,
    warnings: Vec<OptionIssue>,
}

impl Checker {
    fn require(&mut self, valid: bool, field: impl Into<String>, message: impl Into<String>, hint: &str) {
        if !valid {
            self.errors.push(OptionIssue::new(field, message, hint));
        }
    }

    fn warn_unless(&mut self, valid: bool, field: impl Into<String>, message: impl Into<String>, hint: &str) {
        if !valid {
            self.warnings.push(OptionIssue::new(field, message, hint));
        }
    }
}
