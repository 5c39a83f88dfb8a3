//! The input of a provider: a system prompt, the conversation so far, and the message to answer.

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// An earlier message of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextEntry {
    /// The author.
    pub role: Role,
    /// The text.
    pub content: String,
}

/// A message with its context. Fields that are `None` use the provider's defaults.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Context {
    /// The system prompt; may be empty.
    pub system_prompt: String,
    /// Earlier messages, oldest first.
    pub history: Vec<ContextEntry>,
    /// The message to answer.
    pub current_message: String,
    /// The session to resume. It already contains the history, which is not sent again.
    pub session_id: Option<String>,
    /// The model for this call.
    pub model: Option<String>,
    /// The agent for this call.
    pub agent_name: Option<String>,
    /// The turn limit for this call.
    pub max_turns: Option<u32>,
    /// The allowed tools for this call; an empty list means no tools.
    pub allowed_tools: Option<Vec<String>>,
    /// Whether the message is sent verbatim, without labels, history and system prompt.
    pub bare: bool,
}

impl Context {
    /// Creates a context without history or system prompt.
    pub fn new(current_message: impl Into<String>) -> Self {
        Self { current_message: current_message.into(), ..Self::default() }
    }

    /// Creates a context whose message is sent verbatim, without labels.
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

    /// Resumes a session.
    #[must_use]
    pub fn with_session(mut self, session_id: impl Into<String>) -> Self {
        self.session_id = Some(session_id.into());
        self
    }

    /// Sets the model for this call.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets the agent for this call.
    #[must_use]
    pub fn with_agent(mut self, agent_name: impl Into<String>) -> Self {
        self.agent_name = Some(agent_name.into());
        self
    }

    /// Sets the turn limit for this call.
    #[must_use]
    pub fn with_max_turns(mut self, max_turns: u32) -> Self {
        self.max_turns = Some(max_turns);
        self
    }

    /// Sets the allowed tools for this call; an empty list means no tools.
    #[must_use]
    pub fn with_allowed_tools(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_tools = Some(tools.into_iter().map(Into::into).collect());
        self
    }

    /// Formats the context as a single prompt: labeled parts, separated by blank lines.
    ///
    /// An agent has its own system prompt and receives only the message. A resumed session does not receive the history.
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
    fn message_is_labeled_unless_bare() {
        check(&Context::new("hi"), "[User]\nhi");
        check(&Context::bare("hi"), "hi");
    }

    #[test]
    fn session_prompt_omits_history() {
        let context = Context::new("hi").with_history(Role::User, "old").with_session("s");
        check(&context, "[User]\nhi");
        check(&context.with_system_prompt("Be brief."), "[User]\nBe brief.\n\nhi");
    }

    #[test]
    fn agent_prompt_is_bare_message() {
        check(&Context::new("hi").with_system_prompt("x").with_session("s").with_agent("a"), "hi");
    }
}
