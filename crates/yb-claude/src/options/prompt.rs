//! What the user says, and how it reaches the CLI without being interpreted on the way.

use serde_json::{Value, json};

use super::finding::Finding;

/// The longest prompt, in characters.
pub const MAX_PROMPT_CHARS: usize = 1_000_000;

/// What the user says.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    content: Content,
    interpreted: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Content {
    Text(String),
    Blocks(Vec<Value>),
}

impl Prompt {
    /// A text, which the model gets as it is.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: Content::Text(text.into()), interpreted: false }
    }

    /// Blocks of the Messages API, such as images; only with stream output.
    #[must_use]
    pub fn blocks(blocks: Vec<Value>) -> Self {
        Self { content: Content::Blocks(blocks), interpreted: false }
    }

    /// The same, read as if it were typed: a leading `/` is a command, and `@file` the file's content.
    #[must_use]
    pub fn interpreted(mut self) -> Self {
        self.interpreted = true;
        self
    }

    /// The text, if it is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            Content::Blocks(_) => None,
        }
    }

    /// The line that says it on the CLI's stdin, with its newline.
    ///
    /// `client_composed` keeps a leading `/` from running a command and `@file` from being expanded, from
    /// [`Version::VERBATIM_PROMPTS`](crate::Version::VERBATIM_PROMPTS) on; older versions ignore the field.
    pub(crate) fn frame(&self) -> Vec<u8> {
        let content = match &self.content {
            Content::Text(text) => json!(text),
            Content::Blocks(blocks) => json!(blocks),
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

    /// Whether a CLI that interprets prompts would change it. A guess on the safe side: only it knows its commands.
    pub(crate) fn would_change(&self) -> bool {
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
                Content::Text(content) => text(content),
                Content::Blocks(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).any(text),
            }
    }

    /// What is wrong with it.
    pub(crate) fn check(&self) -> Option<Finding> {
        let finding = |message: String, hint: &str| Some(Finding::new("prompt", message, hint));
        match &self.content {
            Content::Text(text) => {
                if text.trim().is_empty() {
                    return finding("expected a text, it is blank".to_owned(), "say what to do");
                }
                let chars = text.chars().count();
                if chars > MAX_PROMPT_CHARS {
                    let message = format!("expected at most {MAX_PROMPT_CHARS} characters, it has {chars}");
                    return finding(message, "put the long part into a file and let the prompt name it");
                }
                if text.contains('\0') {
                    return finding("expected text, it contains a NUL".to_owned(), "remove it");
                }
            }
            Content::Blocks(blocks) => {
                let typed = |block: &Value| block["type"].is_string();
                if blocks.is_empty() || !blocks.iter().all(typed) {
                    return finding(
                        "expected content blocks, objects with a `type`".to_owned(),
                        "give at least one block",
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
    fn the_frame_is_one_line_and_verbatim() {
        let line = String::from_utf8(Prompt::text("a\n\"b\"\u{2028}").frame()).unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        let frame: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(frame["message"]["content"], "a\n\"b\"\u{2028}");
        assert_eq!(frame["client_composed"], true);
        let typed = Prompt::text("/cost").interpreted().frame();
        assert_eq!(serde_json::from_slice::<Value>(&typed).unwrap().get("client_composed"), None);
    }

    #[test]
    fn what_the_cli_would_interpret_is_seen() {
        for changed in ["/cost", "  /x", "@file", "see @file", "(@a/b)", "é @f"] {
            assert!(Prompt::text(changed).would_change(), "{changed}");
            assert!(!Prompt::text(changed).interpreted().would_change(), "{changed}");
        }
        for kept in ["hello", "a/b", "me@example.org", "-x"] {
            assert!(!Prompt::text(kept).would_change(), "{kept}");
        }
    }
}
