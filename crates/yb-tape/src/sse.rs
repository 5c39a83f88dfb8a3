//! Lossless parser for server-sent events: the events are slices of the body, which they add up to.

/// A server-sent event, including the blank line that ends it. The last event of a body may be incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseEvent<'b> {
    raw: &'b [u8],
}

/// Splits a body into events, in order.
///
/// ```
/// use yb_tape::sse::split_events;
///
/// let data: Vec<_> = split_events(b"data: one\n\ndata: two\n\n").iter().filter_map(|event| event.data()).collect();
/// assert_eq!(data, ["one", "two"]);
/// ```
#[must_use]
pub fn split_events(body: &[u8]) -> Vec<SseEvent<'_>> {
    let mut events = Vec::new();
    let mut start = 0;
    let mut at = 0;
    let mut line_is_empty = true;
    while at < body.len() {
        let end_of_line = match body[at] {
            b'\r' if body.get(at + 1) == Some(&b'\n') => 2,
            b'\r' | b'\n' => 1,
            _ => {
                line_is_empty = false;
                at += 1;
                continue;
            }
        };
        at += end_of_line;
        if line_is_empty {
            events.push(SseEvent { raw: &body[start..at] });
            start = at;
        }
        line_is_empty = true;
    }
    if start < body.len() {
        events.push(SseEvent { raw: &body[start..] });
    }
    events
}

impl<'b> SseEvent<'b> {
    /// Returns the bytes of the event as received.
    #[must_use]
    pub fn raw(&self) -> &'b [u8] {
        self.raw
    }

    /// Returns the data lines joined with `\n`, or `None` if there are none or the event is not UTF-8.
    #[must_use]
    pub fn data(&self) -> Option<String> {
        let text = std::str::from_utf8(self.raw).ok()?;
        let mut lines = lines(text).filter_map(|line| line.strip_prefix("data:"));
        let mut data = value(lines.next()?).to_owned();
        for line in lines {
            data.push('\n');
            data.push_str(value(line));
        }
        Some(data)
    }

    /// Returns the event with its data replaced by one line.
    pub(crate) fn with_data(&self, data: &str) -> Vec<u8> {
        let text = String::from_utf8_lossy(self.raw);
        let mut out = String::with_capacity(text.len());
        let mut is_written = false;
        for line in lines(&text) {
            if !line.starts_with("data:") {
                out.push_str(line);
                out.push('\n');
            } else if !is_written {
                is_written = true;
                out.push_str("data: ");
                out.push_str(data);
                out.push('\n');
            }
        }
        out.into_bytes()
    }
}

fn value(after_colon: &str) -> &str {
    after_colon.strip_prefix(' ').unwrap_or(after_colon)
}

/// Splits into lines ending in `\n`, `\r\n` or `\r`.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest.filter(|text| !text.is_empty())?;
        let Some(end) = text.find(['\r', '\n']) else {
            rest = None;
            return Some(text);
        };
        let after = if text[end..].starts_with("\r\n") { end + 2 } else { end + 1 };
        rest = Some(&text[after..]);
        Some(&text[..end])
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn split_events_is_lossless_and_only_the_last_event_may_be_incomplete(
            body in "(data: ?[a-z\u{e4}{}]{0,5}|event: x|: c|\n|\r\n|\r){0,40}"
        ) {
            let events = split_events(body.as_bytes());
            let joined: Vec<u8> = events.iter().flat_map(|event| event.raw.iter().copied()).collect();
            prop_assert_eq!(joined, body.as_bytes());
            for event in events.iter().rev().skip(1) {
                prop_assert!(event.raw.ends_with(b"\n") || event.raw.ends_with(b"\r"));
            }
        }

        #[test]
        fn split_events_is_lossless_for_any_bytes(body in proptest::collection::vec(any::<u8>(), 0..500)) {
            let joined: Vec<u8> = split_events(&body).iter().flat_map(|event| event.raw.iter().copied()).collect();
            prop_assert_eq!(joined, body);
        }

        #[test]
        fn with_data_round_trips(data in "[^\r\n]{0,30}") {
            let raw = b"event: e\r\ndata: old\r\ndata: older\r\n\r\n";
            let changed = split_events(raw)[0].with_data(&data);
            prop_assert_eq!(split_events(&changed).len(), 1);
            prop_assert_eq!(split_events(&changed)[0].data(), Some(data));
        }
    }

    #[test]
    fn data_joins_lines_and_skips_comments() {
        let body = b"event: a\ndata: one\ndata:two\n\n: ping\n\ndata: rest";
        let found: Vec<_> = split_events(body).iter().map(SseEvent::data).collect();
        assert_eq!(found, [Some("one\ntwo".to_owned()), None, Some("rest".to_owned())]);
    }
}
