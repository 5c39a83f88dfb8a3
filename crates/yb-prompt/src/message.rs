//! Chat messages with attachments.

use serde_json::{Value, json};

/// The role of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// System prompt.
    System,
    /// User.
    User,
    /// Model.
    Assistant,
}

impl Role {
    /// Returns the role as in the message JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// A message of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RichChatMessage {
    /// The role.
    pub role: Role,
    /// The content.
    pub content: MessageContent,
}

/// The content of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageContent {
    /// Text only.
    Text(String),
    /// Text and attachments, in order.
    Parts(Vec<MessagePart>),
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessagePart {
    /// Text.
    Text(String),
    /// An image: a URL or base64 data.
    Image {
        /// The URL or data.
        image: String,
        /// The media type.
        media_type: Option<String>,
    },
    /// A file: a URL or base64 data.
    File {
        /// The URL or data.
        data: String,
        /// The media type.
        media_type: String,
    },
}

impl RichChatMessage {
    /// Creates a text message.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self { role, content: MessageContent::Text(text.into()) }
    }

    /// Returns the message as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let content = match &self.content {
            MessageContent::Text(text) => json!(text),
            MessageContent::Parts(parts) => parts.iter().map(MessagePart::to_json).collect(),
        };
        json!({"role": self.role.as_str(), "content": content})
    }

    /// Returns the text, with a placeholder for each attachment.
    fn flat(&self) -> String {
        match &self.content {
            MessageContent::Text(text) => text.clone(),
            MessageContent::Parts(parts) => {
                let words = parts.iter().map(|part| match part {
                    MessagePart::Text(text) => text.as_str(),
                    MessagePart::Image { .. } => "[Attached image]",
                    MessagePart::File { .. } => "[Attached file]",
                });
                words.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
            }
        }
    }
}

impl MessagePart {
    fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => json!({"type": "text", "text": text}),
            Self::Image { image, media_type: None } => json!({"type": "image", "image": image}),
            Self::Image { image, media_type } => {
                json!({"type": "image", "image": image, "mimeType": media_type})
            }
            Self::File { data, media_type } => json!({"type": "file", "data": data, "mimeType": media_type}),
        }
    }
}

/// Joins the user and assistant messages into one prompt, separated by empty lines and without roles.
pub(crate) fn flatten(messages: &[RichChatMessage]) -> String {
    let texts = messages.iter().filter(|message| message.role != Role::System).map(RichChatMessage::flat);
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// Returns the text of the first system message.
pub(crate) fn system(messages: &[RichChatMessage]) -> Option<String> {
    let message = messages.iter().find(|message| message.role == Role::System)?;
    let text = match &message.content {
        MessageContent::Text(text) => text.clone(),
        MessageContent::Parts(parts) => {
            let words = parts.iter().filter_map(|part| match part {
                MessagePart::Text(text) => Some(text.as_str()),
                _ => None,
            });
            words.collect::<Vec<_>>().join("\n")
        }
    };
    (!text.is_empty()).then_some(text)
}
