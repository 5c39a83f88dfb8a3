//! Prompts, passed to the CLI without being interpreted.

use serde_json::{Value, json};

use super::issue::OptionIssue;

/// The maximum length of a prompt in characters.
pub const MAX_PROMPT_CHARS: usize = 1_000_000;

/// A prompt: text or content blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    content: PromptContent,
    interpreted: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum PromptContent {
    Text(String),
    Blocks(Vec<Value>),
}

impl Prompt {
    /// Creates a text prompt, which the model receives verbatim.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: PromptContent::Text(text.into()), interpreted: false }
    }

    /// Creates a prompt from content blocks of the Messages API, such as images. Requires `stream-json` output.
    #[must_use]
    pub fn blocks(blocks: Vec<Value>) -> Self {
        Self { content: PromptContent::Blocks(blocks), interpreted: false }
    }

    /// Lets the CLI interpret the prompt as if typed: a leading `/` runs a command, and `@file` is expanded.
    #[must_use]
    pub fn interpreted(mut self) -> Self {
        self.interpreted = true;
        self
    }

    /// Returns the text of a text prompt.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match &self.content {
            PromptContent::Text(text) => Some(text),
            PromptContent::Blocks(_) => None,
        }
    }

    /// Returns the user frame for stdin, with its newline.
    ///
    /// `client_composed` prevents interpretation of `/` and `@file`, from
    /// [`Version::VERBATIM_PROMPTS`](crate::Version::VERBATIM_PROMPTS) on; older versions ignore it.
    pub(crate) fn frame(&self) -> Vec<u8> {
        let content = match &self.content {
            PromptContent::Text(text) => json!(text),
            PromptContent::Blocks(blocks) => json!(blocks),
        };
        let mut frame = json!({
            "type": "user",
            "message": {"role": "user", "content": content},
            "parent_tool_use_id": null,
            "session_id": "",
        });
        if !self.interpreted {
            frame["client_composed"] = Value::Bool(true);
        }
        let mut line = frame.to_string().into_bytes();
        line.push(b'\n');
        line
    }

    /// Whether a CLI that interprets prompts could change this one. Conservative, because only the CLI knows its commands.
    pub(crate) fn may_be_interpreted(&self) -> bool {
        let text = |text: &str| {
            let mut before = ' ';
            let mentions = text.chars().any(|letter| {
                let mention = letter == '@' && !before.is_alphanumeric();
                before = letter;
                mention
            });
            mentions || text.trim_start().starts_with('/')
        };
        !self.interpreted
            && match &self.content {
                PromptContent::Text(content) => text(content),
                PromptContent::Blocks(blocks) => {
                    blocks.iter().filter_map(|block| block["text"].as_str()).any(text)
                }
            }
    }

    /// Validates the prompt.
    pub(crate) fn check(&self) -> Option<OptionIssue> {
        let issue = |message: String, hint: &str| Some(OptionIssue::new("prompt", message, hint));
        match &self.content {
            PromptContent::Text(text) => {
                if text.trim().is_empty() {
                    return issue("expected text, got a blank prompt".to_owned(), "describe the task");
                }
                let chars = text.chars().count();
                if chars > MAX_PROMPT_CHARS {
                    let message = format!("expected at most {MAX_PROMPT_CHARS} characters, got {chars}");
                    return issue(message, "put the long part into a file and refer to it");
                }
                if text.contains('\0') {
                    return issue("expected text without NUL characters".to_owned(), "remove the NUL");
                }
            }
            PromptContent::Blocks(blocks) => {
                let typed = |block: &Value| block["type"].is_string();
                if blocks.is_empty() || !blocks.iter().all(typed) {
                    return issue(
                        "expected content blocks (objects with a `type`)".to_owned(),
                        "add at least one block",
                    );
                }
            }
        }
        None
    }
}

impl From<&str> for Prompt {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_is_one_line_and_verbatim() {
        let line = String::from_utf8(Prompt::text("a\n\"b\"\u{2028}").frame()).unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        let frame: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(frame["message"]["content"], "a\n\"b\"\u{2028}");
        assert_eq!(frame["client_composed"], true);
        let typed = Prompt::text("/cost").interpreted().frame();
        assert_eq!(serde_json::from_slice::<Value>(&typed).unwrap().get("client_composed"), None);
    }

    #[test]
    fn interpreted_syntax_is_detected() {
        for changed in ["/cost", "  /x", "@file", "see @file", "(@a/b)", "é @f"] {
            assert!(Prompt::text(changed).may_be_interpreted(), "{changed}");
            assert!(!Prompt::text(changed).interpreted().may_be_interpreted(), "{changed}");
        }
        for kept in ["hello", "a/b", "me@example.org", "-x"] {
            assert!(!Prompt::text(kept).may_be_interpreted(), "{kept}");
        }
    }
}
