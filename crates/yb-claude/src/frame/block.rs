//! What a message of the model or to the model is made of.

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::lax::{Lax, lax_struct, otherwise_none};
use super::peek::Peek;
use super::raw::{RawJson, Source};

/// Results hold blocks, which may be results again; nothing real goes further than two.
const DEEPEST: usize = 4;

/// One part of a message.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Block {
    /// What the model says, or what it is told.
    Text(TextBlock),
    /// What the model thinks.
    Thinking(ThinkingBlock),
    /// Thoughts that only the API can read.
    RedactedThinking(RedactedThinkingBlock),
    /// A tool that the CLI is to run.
    ToolUse(ToolUse),
    /// What that tool gave.
    ToolResult(ToolResult),
    /// A tool that the API runs itself, a web search for example.
    ServerToolUse(ToolUse),
    /// What such a tool gave: every block whose type ends in `_tool_result`.
    ServerToolResult(ServerToolResult),
    /// A picture.
    Image(Media),
    /// A document.
    Document(Media),
    /// A kind that this version does not know.
    Unknown {
        /// Its `type`; empty when it has none.
        kind: String,
        /// All of it.
        raw: RawJson,
    },
}

lax_struct! {
    /// A piece of text.
    pub struct TextBlock {
        /// The text.
        text: String = "text",
        /// The sources it cites.
        citations: Option<RawJson> = "citations",
    }
}

lax_struct! {
    /// A piece of thinking.
    pub struct ThinkingBlock {
        /// The thought, possibly empty when only the signature is passed on.
        thinking: String = "thinking",
        /// What lets the API trust the thought when it is sent back.
        signature: Option<String> = "signature",
    }
}

lax_struct! {
    /// An encrypted piece of thinking.
    pub struct RedactedThinkingBlock {
        /// The ciphertext.
        data: String = "data",
    }
}

lax_struct! {
    /// A call of a tool.
    pub struct ToolUse {
        /// What the result refers to.
        id: String = "id",
        /// The name of the tool; `mcp__<server>__<tool>` for tools of an MCP server.
        name: String = "name",
        /// The arguments, a JSON object.
        input: RawJson = "input",
    }
}

lax_struct! {
    /// What a tool gave.
    pub struct ToolResult {
        /// The call.
        tool_use_id: String = "tool_use_id",
        /// The outcome in words or pictures.
        content: Content = "content",
        /// The tool failed, or was not allowed to run.
        is_error: bool = "is_error",
    }
}

lax_struct! {
    /// What a tool of the API gave.
    pub struct ServerToolResult {
        /// The type of the block, `web_search_tool_result` for example.
        kind: String = "type",
        /// The call.
        tool_use_id: String = "tool_use_id",
        /// The outcome; its shape depends on the tool.
        content: Option<RawJson> = "content",
    }
}

lax_struct! {
    /// A picture or a document.
    pub struct Media {
        /// Where its bytes are.
        source: Option<RawJson> = "source",
    }
}

impl Lax for Block {
    fn read<'de, D: Deserializer<'de>>(input: D, source: &Source) -> Result<Option<Self>, D::Error> {
        let raw = <&RawValue>::deserialize(input)?.get();
        let kind = Peek::at(raw).kind.unwrap_or_default();
        let typed = source.deeper(DEEPEST, || -> serde_json::Result<_> {
            let input = &mut serde_json::Deserializer::from_str(raw);
            Ok(match &*kind {
                "text" => Lax::read(input, source)?.map(Block::Text),
                "thinking" => Lax::read(input, source)?.map(Block::Thinking),
                "redacted_thinking" => Lax::read(input, source)?.map(Block::RedactedThinking),
                "tool_use" => Lax::read(input, source)?.map(Block::ToolUse),
                "tool_result" => Lax::read(input, source)?.map(Block::ToolResult),
                "server_tool_use" | "mcp_tool_use" => Lax::read(input, source)?.map(Block::ServerToolUse),
                "image" => Lax::read(input, source)?.map(Block::Image),
                "document" => Lax::read(input, source)?.map(Block::Document),
                kind if kind.ends_with("_tool_result") => {
                    Lax::read(input, source)?.map(Block::ServerToolResult)
                }
                _ => None,
            })
        });
        let typed = typed.transpose().map_err(D::Error::custom)?.flatten();
        Ok(Some(typed.unwrap_or_else(|| Block::Unknown { kind: kind.into_owned(), raw: source.part(raw) })))
    }
}

/// What a message or a result says: plain text, or parts.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Content {
    /// A plain string.
    Text(String),
    /// A list of parts.
    Blocks(Vec<Block>),
}

impl Content {
    /// The text of all parts, one after the other.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Blocks(blocks) => text_of(blocks),
        }
    }

    /// The parts; none when it is a plain string.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        match self {
            Self::Text(_) => &[],
            Self::Blocks(blocks) => blocks,
        }
    }
}

/// The text of the text parts; citations cut a sentence into several of them, so nothing goes between.
pub(crate) fn text_of(blocks: &[Block]) -> String {
    blocks
        .iter()
        .filter_map(|block| if let Block::Text(text) = block { Some(&*text.text) } else { None })
        .collect()
}

impl Default for Content {
    fn default() -> Self {
        Self::Blocks(Vec::new())
    }
}

impl Lax for Content {
    fn read<'de, D: Deserializer<'de>>(input: D, source: &Source) -> Result<Option<Self>, D::Error> {
        struct Either<'s>(&'s Source);

        impl<'de> Visitor<'de> for Either<'_> {
            type Value = Option<Content>;

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Some(Content::Text(text.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut blocks = Vec::new();
                while let Some(block) = seq.next_element_seed(super::lax::Seed::new(self.0))? {
                    blocks.extend(block);
                }
                Ok(Some(Content::Blocks(blocks)))
            }

            otherwise_none!(map);
        }

        input.deserialize_any(Either(source))
    }
}
