//! Detects variables with secrets by their names.

use std::ffi::OsStr;

use serde_json::{Map, Value};
use yb_model::secrets::without_secrets;

use super::Environment;

/// Suffixes of names whose values are secrets.
const SECRET_WORDS: [&str; 9] =
    ["KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS", "HEADERS", "AUTH"];

/// The secrets among these variables, by name.
pub(crate) fn secrets(env: &Environment) -> impl Iterator<Item = (String, Vec<u8>)> {
    env.iter()
        .filter(|(name, value)| is_secret(name, value))
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.as_encoded_bytes().to_vec()))
}

/// The text without the values of secrets.
pub(crate) fn redacted(text: &str, env: &Environment) -> String {
    without_secrets(text, secrets(env))
}

/// The secrets in variables and headers of a JSON object, such as an MCP server's.
pub(crate) fn secrets_of_json(map: &Map<String, Value>) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for (name, value) in map {
        match value {
            Value::Object(inner) => found.extend(secrets_of_json(inner)),
            Value::String(text)
                if is_secret(OsStr::new(name), OsStr::new(text))
                    || name.eq_ignore_ascii_case("authorization") =>
            {
                // A scheme such as `Bearer` is no secret and may be missing where the token appears.
                let token = text.rsplit(' ').next().unwrap_or(text);
                found.push((name.clone(), token.as_bytes().to_vec()));
            }
            _ => {}
        }
    }
    found
}

fn is_secret(name: &OsStr, value: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_uppercase();
    let last = name.rsplit(['_', '-']).next().unwrap_or_default();
    // An address is a secret only if it contains a password.
    let named = SECRET_WORDS.contains(&last) || last == "URL" && value.to_string_lossy().contains('@');
    named && !value.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_servers_and_in_texts() {
        let server = serde_json::json!({"headers": {"authorization": "Bearer abcdefgh", "X": "y"},
            "env": {"API_KEY": "k", "MODE": "on"}, "args": ["--x"]});
        let mut found = secrets_of_json(server.as_object().unwrap());
        found.sort();
        let expected = [("API_KEY", "k"), ("authorization", "abcdefgh")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())));
        let env =
            [("A_KEY", "long-enough"), ("B_KEY", "short")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(redacted("long-enough short", &env.into()), "[REDACTED:A_KEY] short");
    }

    #[test]
    fn secrets_are_known_by_their_names() {
        let secret = |name: &str, value: &str| is_secret(OsStr::new(name), OsStr::new(value));
        for name in ["ANTHROPIC_API_KEY", "github_token", "X-AUTH", "ANTHROPIC_CUSTOM_HEADERS", "KEY"] {
            assert!(secret(name, "value"), "{name}");
        }
        assert!(secret("ANTHROPIC_BASE_URL", "https://me:word@host"));
        for (name, value) in [("PATH", "x"), ("KEYBOARD", "x"), ("BASE_URL", "http://h"), ("API_KEY", "")] {
            assert!(!secret(name, value), "{name}");
        }
    }
}
