//! W3C trace context: `traceparent` values.

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState};

/// Returns the W3C `traceparent` of the span in this context, or an empty string if there is no span.
#[must_use]
pub fn traceparent(context: &Context) -> String {
    let span = context.span();
    let place = span.span_context();
    if !place.is_valid() {
        return String::new();
    }
    format!("00-{}-{}-{:02x}", place.trace_id(), place.span_id(), place.trace_flags().to_u8())
}

/// Parses a W3C `traceparent` into a context with a remote span.
#[must_use]
pub fn parse_traceparent(traceparent: &str) -> Option<Context> {
    let mut parts = traceparent.trim().split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    if version.len() != 2 || version == "ff" || trace.len() != 32 || span.len() != 16 || flags.len() != 2 {
        return None;
    }
    let place = SpanContext::new(
        TraceId::from_hex(trace).ok()?,
        SpanId::from_hex(span).ok()?,
        TraceFlags::new(u8::from_str_radix(flags, 16).ok()?),
        true,
        TraceState::default(),
    );
    place.is_valid().then(|| Context::new().with_remote_span_context(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traceparent_round_trips() {
        let line = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(traceparent(&parse_traceparent(line).unwrap()), line);
        for wrong in ["", "00-1-2-3", "00-00000000000000000000000000000000-b7ad6b7169203331-01", "nonsense"] {
            assert!(parse_traceparent(wrong).is_none(), "{wrong}");
        }
        assert_eq!(traceparent(&Context::new()), "");
    }
}
