//! Control frames: only the envelope is typed, the body stays raw.

use serde::de::{Deserializer, Error};

use super::lenient::{LenientDeserialize, lenient_struct};
use super::raw::{RawJson, SourceText};

lenient_struct! {
    /// A control request from the CLI to its host.
    pub struct ControlRequest {
        raw,
        /// The request ID, which the response must repeat.
        request_id: String = "request_id",
        /// The request.
        request: ControlRequestBody = "request",
    }
}

/// The body of a control request: `can_use_tool`, `hook_callback`, `mcp_message` and others.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ControlRequestBody {
    /// The kind of request.
    pub subtype: String,
    /// The whole body, including the subtype.
    pub body: RawJson,
}

lenient_struct! {
    /// The subtype, which selects the handler.
    struct Subtype {
        /// The kind of request.
        subtype: String = "subtype",
    }
}

impl LenientDeserialize for ControlRequestBody {
    fn read<'de, D: Deserializer<'de>>(input: D, source: &SourceText) -> Result<Option<Self>, D::Error> {
        let Some(body) = RawJson::read(input, source)? else { return Ok(None) };
        let subtype = Subtype::read(&mut serde_json::Deserializer::from_str(body.as_str()), source);
        let subtype = subtype.map_err(D::Error::custom)?.unwrap_or_default().subtype;
        Ok(Some(Self { subtype, body }))
    }
}

lenient_struct! {
    /// A control response from the CLI.
    pub struct ControlResponse {
        raw,
        /// The body.
        response: ControlResponseBody = "response",
    }
}

lenient_struct! {
    /// The body of a control response.
    pub struct ControlResponseBody {
        /// `success` or `error`.
        subtype: String = "subtype",
        /// The request ID.
        request_id: String = "request_id",
        /// The payload of a successful response.
        response: Option<RawJson> = "response",
        /// The error message.
        error: Option<String> = "error",
        /// The error code, such as `unsupported_request`.
        error_code: Option<String> = "error_code",
    }
}

lenient_struct! {
    /// The cancellation of a control request by the CLI.
    pub struct ControlCancelRequest {
        raw,
        /// The request ID.
        request_id: String = "request_id",
    }
}
