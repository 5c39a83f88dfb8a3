//! Redaction of known secrets in text.

/// The length from which a value is redacted, as in the output of a child: shorter ones occur in ordinary text.
const MIN_SECRET_BYTES: usize = 8;

/// Replaces each secret in a text, given by name and value, with `[REDACTED:name]`.
#[must_use]
pub fn without_secrets(text: &str, secrets: impl IntoIterator<Item = (String, Vec<u8>)>) -> String {
    let mut text = text.to_owned();
    for (name, value) in secrets {
        if let Ok(value) = std::str::from_utf8(&value)
            && value.len() >= MIN_SECRET_BYTES
        {
            text = text.replace(value, &format!("[REDACTED:{name}]"));
        }
    }
    text
}
