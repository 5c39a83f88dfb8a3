//! Replaces known secrets with `[REDACTED:NAME]`, in text, byte streams and JSON lines.
//!
//! A secret is found in these forms, in a text of any piece boundaries:
//!
//! | form | example for `sk-1/2` |
//! | --- | --- |
//! | literal | `sk-1/2` |
//! | with whitespace in between, also with the prefixes of a diff or a quotation | `sk-1⏎+/2` |
//! | with JSON escapes, also nested ones | `\u0073k-1\/2`, `sk-1\\n/2` |
//! | base64, standard and URL-safe, at any of the three offsets | `c2stMS8y` |
//! | hexadecimal, lower or upper case | `736b2d312f32` |
//! | percent-encoded | `sk-1%2F2` |
//!
//! At the end of a text, the beginning of a secret is replaced from [`MIN_LENGTH`] characters on. Nothing else is
//! found: not a reversed, encrypted, compressed or otherwise encoded secret.

mod automaton;
mod delta;
mod encodings;
mod json_lines;
mod scanner;
mod secrets;
mod stream;

pub use json_lines::JsonLinesRedactor;
pub use secrets::{FoundSecret, Secrets};
pub use stream::StreamRedactor;

/// The length from which a value is safe to search for: shorter ones occur in ordinary text.
pub const MIN_LENGTH: usize = 8;
