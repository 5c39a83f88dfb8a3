//! Content blocks of messages to and from the model.

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::lenient::{LenientDeserialize, lenient_struct, otherwise_none};
use super::raw::{RawJson, SourceText};
use super::type_tag::TypeTag;

/// The maximum nesting of tool results in tool results; real output never exceeds two.
const MAX_DEPTH: usize = 4;

/// A content block of a message.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Block {
    /// Text.
    Text(TextBlock),
    /// Thinking.
    Thinking(ThinkingBlock),
    /// Encrypted thinking, which only the API can read.
    RedactedThinking(RedactedThinkingBlock),
    /// A call of a tool that the CLI runs.
    ToolUse(ToolUseBlock),
    /// The result of a tool call.
    ToolResult(ToolResultBlock),
    /// A call of a tool that the API runs, such as a web search.
    ServerToolUse(ToolUseBlock),
    /// The result of an API tool: every block whose type ends in `_tool_result`.
    ServerToolResult(ServerToolResultBlock),
    /// An image.
    Image(MediaBlock),
    /// A document.
    Document(MediaBlock),
    /// A block type that this version does not know.
    Unknown {
        /// The `type`; empty if absent.
        kind: String,
        /// The whole block.
        raw: RawJson,
    },
}

lenient_struct! {
    /// A text block.
    pub struct TextBlock {
        /// The text.
        text: String = "text",
        /// The cited sources.
        citations: Option<RawJson> = "citations",
    }
}

lenient_struct! {
    /// A thinking block.
    pub struct ThinkingBlock {
        /// The thinking text; empty if only the signature is passed on.
        thinking: String = "thinking",
        /// The signature with which the API verifies the thinking when it is sent back.
        signature: Option<String> = "signature",
    }
}

lenient_struct! {
    /// An encrypted thinking block.
    pub struct RedactedThinkingBlock {
        /// The ciphertext.
        data: String = "data",
    }
}

lenient_struct! {
    /// A tool call.
    pub struct ToolUseBlock {
        /// The tool call's ID, referenced by its result.
        id: String = "id",
        /// The name of the tool; `mcp__<server>__<tool>` for tools of an MCP server.
        name: String = "name",
        /// The arguments, a JSON object.
        input: RawJson = "input",
    }
}

lenient_struct! {
    /// The result of a tool call.
    pub struct ToolResultBlock {
        /// The tool call's ID.
        tool_use_id: String = "tool_use_id",
        /// The content of the result.
        content: MessageContent = "content",
        /// Whether the tool failed or was denied.
        is_error: bool = "is_error",
    }
}

lenient_struct! {
    /// The result of an API tool.
    pub struct ServerToolResultBlock {
        /// The type of the block, such as `web_search_tool_result`.
        kind: String = "type",
        /// The tool call's ID.
        tool_use_id: String = "tool_use_id",
        /// The content of the result; its shape depends on the tool.
        content: Option<RawJson> = "content",
    }
}

lenient_struct! {
    /// An image or a document.
    pub struct MediaBlock {
        /// The source of the data.
        source: Option<RawJson> = "source",
    }
}

impl LenientDeserialize for Block {
    fn read<'de, D: Deserializer<'de>>(input: D, source: &SourceText) -> Result<Option<Self>, D::Error> {
        let raw = <&RawValue>::deserialize(input)?.get();
        let kind = TypeTag::read(raw).kind.unwrap_or_default();
        let typed = source.deeper(MAX_DEPTH, || -> serde_json::Result<_> {
            let input = &mut serde_json::Deserializer::from_str(raw);
            Ok(match &*kind {
                "text" => LenientDeserialize::read(input, source)?.map(Block::Text),
                "thinking" => LenientDeserialize::read(input, source)?.map(Block::Thinking),
                "redacted_thinking" => LenientDeserialize::read(input, source)?.map(Block::RedactedThinking),
                "tool_use" => LenientDeserialize::read(input, source)?.map(Block::ToolUse),
                "tool_result" => LenientDeserialize::read(input, source)?.map(Block::ToolResult),
                "server_tool_use" | "mcp_tool_use" => {
                    LenientDeserialize::read(input, source)?.map(Block::ServerToolUse)
                }
                "image" => LenientDeserialize::read(input, source)?.map(Block::Image),
                "document" => LenientDeserialize::read(input, source)?.map(Block::Document),
                kind if kind.ends_with("_tool_result") => {
                    LenientDeserialize::read(input, source)?.map(Block::ServerToolResult)
                }
                _ => None,
            })
        });
        let typed = typed.transpose().map_err(D::Error::custom)?.flatten();
        Ok(Some(typed.unwrap_or_else(|| Block::Unknown { kind: kind.into_owned(), raw: source.part(raw) })))
    }
}

/// The content of a message or tool result: plain text or blocks.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum MessageContent {
    /// Plain text.
    Text(String),
    /// A list of blocks.
    Blocks(Vec<Block>),
}

impl MessageContent {
    /// Returns the concatenated text of all text blocks.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Blocks(blocks) => text_of(blocks),
        }
    }

    /// Returns the blocks; empty for plain text.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        match self {
            Self::Text(_) => &[],
            Self::Blocks(blocks) => blocks,
        }
    }
}

/// Concatenates the text blocks without a separator, because citations split sentences into several blocks.
pub(crate) fn text_of(blocks: &[Block]) -> String {
    blocks
        .iter()
        .filter_map(|block| if let Block::Text(text) = block { Some(&*text.text) } else { None })
        .collect()
}

impl Default for MessageContent {
    fn default() -> Self {
        Self::Blocks(Vec::new())
    }
}

impl LenientDeserialize for MessageContent {
    fn read<'de, D: Deserializer<'de>>(input: D, source: &SourceText) -> Result<Option<Self>, D::Error> {
        struct ContentVisitor<'s>(&'s SourceText);

        impl<'de> Visitor<'de> for ContentVisitor<'_> {
            type Value = Option<MessageContent>;

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Some(MessageContent::Text(text.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut blocks = Vec::new();
                while let Some(block) = seq.next_element_seed(super::lenient::LenientSeed::new(self.0))? {
                    blocks.extend(block);
                }
                Ok(Some(MessageContent::Blocks(blocks)))
            }

            otherwise_none!(map);
        }

        input.deserialize_any(ContentVisitor(source))
    }
}
