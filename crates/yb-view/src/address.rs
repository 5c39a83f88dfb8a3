//! Addresses: percent-encoding, paths and query strings, which hold everything that a page shows.

/// The parameters of a request, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Parses `a=b&c=d`, as in an address or in a form.
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|part| !part.is_empty()).map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (decode(&name.replace('+', " ")), decode(&value.replace('+', " ")))
        });
        Self { pairs: pairs.collect() }
    }

    /// Returns a parameter that is present and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.pairs.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// Returns the page number, from 1.
    pub(crate) fn page(&self) -> usize {
        self.get("page").and_then(|page| page.parse().ok()).unwrap_or(1).max(1)
    }

    /// Sets, replaces or removes a parameter.
    #[must_use]
    pub(crate) fn with(&self, name: &str, value: Option<&str>) -> Self {
        let mut pairs: Vec<_> = self.pairs.iter().filter(|(known, _)| known != name).cloned().collect();
        pairs.extend(value.map(|value| (name.to_owned(), value.to_owned())));
        Self { pairs }
    }

    /// Returns `?a=b`, or nothing without parameters.
    pub(crate) fn to_suffix(&self) -> String {
        let parts: Vec<String> = self
            .pairs
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{}={}", encode(name), encode(value)))
            .collect();
        if parts.is_empty() { String::new() } else { format!("?{}", parts.join("&")) }
    }
}

/// Splits a path into decoded segments. A segment that could leave its directory makes the path invalid.
pub(crate) fn segments(path: &str) -> Option<Vec<String>> {
    let parts: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(decode).collect();
    let plain = |part: &String| part != "." && part != ".." && !part.contains(['/', '\\', '\0']);
    parts.iter().all(plain).then_some(parts)
}

/// Returns the path of a run's page.
pub(crate) fn run(id: &str) -> String {
    format!("/runs/{}", encode(id))
}

/// Returns the path of a trial's page.
pub(crate) fn trial(run: &str, folder: &str) -> String {
    format!("/runs/{}/trials/{}", encode(run), encode(folder))
}

/// Encodes a text for a path segment or a query.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte));
            }
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = (bytes[at] == b'%').then(|| bytes.get(at + 1..at + 3)).flatten();
        let byte = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        decoded.push(byte.unwrap_or(bytes[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_is_parsed_changed_and_written() {
        let query = Query::parse("q=a+b%26c&page=3&empty=&x");
        assert_eq!((query.get("q"), query.get("empty"), query.page()), (Some("a b&c"), None, 3));
        assert_eq!(query.with("page", None).with("case", Some("ü")).to_suffix(), "?q=a%20b%26c&case=%C3%BC");
        assert_eq!(Query::parse("").to_suffix(), "");
        assert_eq!(Query::parse("page=0&q=%zz%").get("q"), Some("%zz%"));
        assert_eq!(Query::parse("page=0").page(), 1);
    }

    #[test]
    fn paths_never_leave_their_directory() {
        assert_eq!(segments("/runs/a%20b/"), Some(vec!["runs".to_owned(), "a b".to_owned()]));
        for path in ["/runs/..", "/runs/%2e%2e/x", "/a%2fb", "/a%5cb", "/a%00", "/runs/%2E%2E%2Fetc"] {
            assert_eq!(segments(path), None, "{path}");
        }
    }
}
