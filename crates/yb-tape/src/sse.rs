//! Server-sent events as slices of the stream they came in: nothing is lost, so that what is put together again is the same.

/// One event with everything up to and including the blank line that ends it; the last may lack its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event<'b> {
    pub(crate) raw: &'b [u8],
}

/// The events of a body, in order; their slices together are the body.
pub(crate) fn split(body: &[u8]) -> Vec<Event<'_>> {
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
            events.push(Event { raw: &body[start..at] });
            start = at;
        }
        line_is_empty = true;
    }
    if start < body.len() {
        events.push(Event { raw: &body[start..] });
    }
    events
}

impl Event<'_> {
    /// Its data, the lines of it joined; nothing when it has none or is not UTF-8.
    pub(crate) fn data(&self) -> Option<String> {
        let text = std::str::from_utf8(self.raw).ok()?;
        let mut lines = lines(text).filter_map(|line| line.strip_prefix("data:"));
        let mut data = value(lines.next()?).to_owned();
        for line in lines {
            data.push('\n');
            data.push_str(value(line));
        }
        Some(data)
    }

    /// The same event with other data in one line.
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

/// Lines ended by `\n`, `\r\n` or `\r`.
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
        fn nothing_is_lost_and_every_event_but_the_last_has_an_end(
            body in "(data: ?[a-z\u{e4}{}]{0,5}|event: x|: c|\n|\r\n|\r){0,40}"
        ) {
            let events = split(body.as_bytes());
            let joined: Vec<u8> = events.iter().flat_map(|event| event.raw.iter().copied()).collect();
            prop_assert_eq!(joined, body.as_bytes());
            for event in events.iter().rev().skip(1) {
                prop_assert!(event.raw.ends_with(b"\n") || event.raw.ends_with(b"\r"));
            }
        }

        #[test]
        fn any_bytes_come_back(body in proptest::collection::vec(any::<u8>(), 0..500)) {
            let joined: Vec<u8> = split(&body).iter().flat_map(|event| event.raw.iter().copied()).collect();
            prop_assert_eq!(joined, body);
        }

        #[test]
        fn data_that_was_put_in_is_what_comes_out(data in "[^\r\n]{0,30}") {
            let raw = b"event: e\r\ndata: old\r\ndata: older\r\n\r\n";
            let changed = split(raw)[0].with_data(&data);
            prop_assert_eq!(split(&changed).len(), 1);
            prop_assert_eq!(split(&changed)[0].data(), Some(data));
        }
    }

    #[test]
    fn data_lines_are_joined_and_comments_are_not_data() {
        let body = b"event: a\ndata: one\ndata:two\n\n: ping\n\ndata: rest";
        let found: Vec<_> = split(body).iter().map(Event::data).collect();
        assert_eq!(found, [Some("one\ntwo".to_owned()), None, Some("rest".to_owned())]);
    }
}
