//! Redaction of known secrets in text.

/// A shorter value is not redacted, as in the output of a child.
const SHORTEST: usize = 8;

/// The text without these secrets.
#[must_use]
pub fn without_secrets(text: &str, secrets: impl IntoIterator<Item = (String, Vec<u8>)>) -> String {
    let mut text = text.to_owned();
    for (name, value) in secrets {
        // Shorter ones can't be told from ordinary words.
        if let Ok(value) = std::str::from_utf8(&value)
            && value.len() >= SHORTEST
        {
            text = text.replace(value, &format!("[REDACTED:{name}]"));
        }
    }
    text
}
