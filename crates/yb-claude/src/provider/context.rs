//! What a provider is asked: a system prompt, the conversation so far, and the message to answer.

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// One earlier message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextEntry {
    /// Who said it.
    pub role: Role,
    /// What was said.
    pub content: String,
}

/// A question with everything that belongs to it. What is `None` is up to the provider.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Context {
    /// How the model should behave; may be empty.
    pub system_prompt: String,
    /// What was said before, oldest first.
    pub history: Vec<ContextEntry>,
    /// What to answer.
    pub current_message: String,
    /// A session to go on with. Its provider knows the history already, so it is not sent again.
    pub session_id: Option<String>,
    /// Another model for this one call.
    pub model: Option<String>,
    /// The subagent that answers this one call, instead of the general one.
    pub agent_name: Option<String>,
    /// Another limit of turns for this one call.
    pub max_turns: Option<u32>,
    /// Other tools for this one call; an empty list is no tools at all.
    pub allowed_tools: Option<Vec<String>>,
    /// Whether the message goes alone and as it is, without labels.
    pub bare: bool,
}

impl Context {
    /// A message without history or system prompt.
    pub fn new(current_message: impl Into<String>) -> Self {
        Self { current_message: current_message.into(), ..Self::default() }
    }

    /// A message that goes alone and as it is, without labels.
    pub fn bare(current_message: impl Into<String>) -> Self {
        Self { bare: true, ..Self::new(current_message) }
    }

    /// Sets the system prompt.
    #[must_use]
    pub fn with_system_prompt(mut self, system_prompt: impl Into<String>) -> Self {
        self.system_prompt = system_prompt.into();
        self
    }

    /// Adds an earlier message.
    #[must_use]
    pub fn with_history(mut self, role: Role, content: impl Into<String>) -> Self {
        self.history.push(ContextEntry { role, content: content.into() });
        self
    }

    /// Goes on with a session.
    #[must_use]
    pub fn with_session(mut self, session_id: impl Into<String>) -> Self {
        self.session_id = Some(session_id.into());
        self
    }

    /// Asks another model, this once.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Asks a subagent, this once.
    #[must_use]
    pub fn with_agent(mut self, agent_name: impl Into<String>) -> Self {
        self.agent_name = Some(agent_name.into());
        self
    }

    /// Limits the turns otherwise, this once.
    #[must_use]
    pub fn with_max_turns(mut self, max_turns: u32) -> Self {
        self.max_turns = Some(max_turns);
        self
    }

    /// Allows other tools, this once; an empty list is no tools at all.
    #[must_use]
    pub fn with_allowed_tools(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_tools = Some(tools.into_iter().map(Into::into).collect());
        self
    }

    /// Everything as one text, for a provider that takes a single prompt: labelled parts with blank lines between.
    ///
    /// A subagent brings its own system prompt and gets the bare message. A session has seen the history.
    ///
    /// ```
    /// use yb_claude::{Context, Role};
    /// let context = Context::new("And in winter?")
    ///     .with_system_prompt("Be brief.")
    ///     .with_history(Role::User, "When do bears sleep?")
    ///     .with_history(Role::Assistant, "At night.");
    /// assert_eq!(
    ///     context.to_prompt_string(),
    ///     "[System]\nBe brief.\n\n[User]\nWhen do bears sleep?\n\n[Assistant]\nAt night.\n\n[User]\nAnd in winter?"
    /// );
    /// ```
    pub fn to_prompt_string(&self) -> String {
        if self.bare || self.agent_name.is_some() {
            return self.current_message.clone();
        }
        if self.session_id.is_some() {
            let parts = [self.system_prompt.as_str(), self.current_message.as_str()];
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            return format!("[User]\n{}", parts.join("\n\n"));
        }
        let mut parts = Vec::with_capacity(self.history.len() + 2);
        if !self.system_prompt.is_empty() {
            parts.push(format!("[System]\n{}", self.system_prompt));
        }
        for entry in &self.history {
            let label = match entry.role {
                Role::User => "[User]",
                Role::Assistant => "[Assistant]",
            };
            parts.push(format!("{label}\n{}", entry.content));
        }
        parts.push(format!("[User]\n{}", self.current_message));
        parts.join("\n\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(context: &Context, expected: &str) {
        assert_eq!(context.to_prompt_string(), expected);
    }

    #[test]
    fn a_bare_message_is_labelled() {
        check(&Context::new("hi"), "[User]\nhi");
        check(&Context::bare("hi"), "hi");
    }

    #[test]
    fn a_session_gets_no_history() {
        let context = Context::new("hi").with_history(Role::User, "old").with_session("s");
        check(&context, "[User]\nhi");
        check(&context.with_system_prompt("Be brief."), "[User]\nBe brief.\n\nhi");
    }

    #[test]
    fn a_subagent_gets_the_bare_message_also_in_a_session() {
        check(&Context::new("hi").with_system_prompt("x").with_session("s").with_agent("a"), "hi");
    }
}
