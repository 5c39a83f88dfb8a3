//! Control frames: the envelope only, which says who asks whom; what is asked stays raw.

use serde::de::{Deserializer, Error};

use super::lax::{Lax, lax_struct};
use super::raw::{RawJson, Source};

lax_struct! {
    /// The CLI asks its host something and waits for the answer.
    pub struct ControlRequest {
        raw,
        /// What the answer must repeat.
        request_id: String = "request_id",
        /// The question.
        request: ControlBody = "request",
    }
}

/// A question: `can_use_tool`, `hook_callback`, `mcp_message` and others.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ControlBody {
    /// What is asked.
    pub subtype: String,
    /// The whole question, with its subtype.
    pub body: RawJson,
}

lax_struct! {
    /// What decides who handles a question.
    struct Subtype {
        /// What is asked.
        subtype: String = "subtype",
    }
}

impl Lax for ControlBody {
    fn read<'de, D: Deserializer<'de>>(input: D, source: &Source) -> Result<Option<Self>, D::Error> {
        let Some(body) = RawJson::read(input, source)? else { return Ok(None) };
        let subtype = Subtype::read(&mut serde_json::Deserializer::from_str(body.as_str()), source);
        let subtype = subtype.map_err(D::Error::custom)?.unwrap_or_default().subtype;
        Ok(Some(Self { subtype, body }))
    }
}

lax_struct! {
    /// The CLI answers its host.
    pub struct ControlResponse {
        raw,
        /// The answer.
        response: ControlAnswer = "response",
    }
}

lax_struct! {
    /// An answer.
    pub struct ControlAnswer {
        /// `success` or `error`.
        subtype: String = "subtype",
        /// The question.
        request_id: String = "request_id",
        /// What was asked for.
        response: Option<RawJson> = "response",
        /// What went wrong.
        error: Option<String> = "error",
        /// The same as a name, `unsupported_request` for example.
        error_code: Option<String> = "error_code",
    }
}

lax_struct! {
    /// The CLI no longer wants an answer.
    pub struct ControlCancel {
        raw,
        /// The question.
        request_id: String = "request_id",
    }
}
