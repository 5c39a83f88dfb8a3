//! What is said to the model, by whom, with what is attached.

use serde_json::{Value, json};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The rules of the conversation.
    System,
    /// The one who asks.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// As messages spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// One message of a prompt, as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RichChatMessage {
    /// By whom.
    pub role: Role,
    /// What.
    pub content: Content,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Words alone.
    Text(String),
    /// Words and attachments, in their order.
    Parts(Vec<Part>),
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// Words.
    Text(String),
    /// A picture: an address, or base64.
    Image {
        /// The picture.
        image: String,
        /// Its media type.
        media_type: Option<String>,
    },
    /// A file: an address, or base64.
    File {
        /// The file.
        data: String,
        /// Its media type.
        media_type: String,
    },
}

impl RichChatMessage {
    /// A message of words.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self { role, content: Content::Text(text.into()) }
    }

    /// The same as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let content = match &self.content {
            Content::Text(text) => json!(text),
            Content::Parts(parts) => parts.iter().map(Part::to_json).collect(),
        };
        json!({"role": self.role.as_str(), "content": content})
    }

    /// Its words, with a mark where something is attached.
    fn flat(&self) -> String {
        match &self.content {
            Content::Text(text) => text.clone(),
            Content::Parts(parts) => {
                let words = parts.iter().map(|part| match part {
                    Part::Text(text) => text.as_str(),
                    Part::Image { .. } => "[Attached image]",
                    Part::File { .. } => "[Attached file]",
                });
                words.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
            }
        }
    }
}

impl Part {
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

/// The one prompt that an agent is given: everything that user and assistant say, in order, with an empty line between
/// the messages and without names.
pub(crate) fn flatten(messages: &[RichChatMessage]) -> String {
    let said = messages.iter().filter(|message| message.role != Role::System).map(RichChatMessage::flat);
    said.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// The words of the first system message.
pub(crate) fn system(messages: &[RichChatMessage]) -> Option<String> {
    let message = messages.iter().find(|message| message.role == Role::System)?;
    let text = match &message.content {
        Content::Text(text) => text.clone(),
        Content::Parts(parts) => {
            let words = parts.iter().filter_map(|part| match part {
                Part::Text(text) => Some(text.as_str()),
                _ => None,
            });
            words.collect::<Vec<_>>().join("\n")
        }
    };
    (!text.is_empty()).then_some(text)
}
