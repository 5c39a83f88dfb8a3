//! Redaction of known secrets in text.

use yb_redact::Secrets;

/// Replaces each secret in a text, given by name and value, with `[REDACTED:name]`. Use [`Secrets`] for several texts.
#[must_use]
pub fn without_secrets(text: &str, secrets: impl IntoIterator<Item = (String, Vec<u8>)>) -> String {
    Secrets::of_safe_length(secrets).redact(text).into_owned()
}
