//! The configuration keys, for `yb config`.

use serde_json::Value;

use super::fields::{self, environment_name};
use super::layer;
use crate::format::Format;
use crate::shape::Kind;
use yb_yaml::diagnostic::{Diagnostic, nearest};

/// The group with arbitrary keys.
const VARIABLES: &str = "variables";

/// A key with a single value.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownKey {
    /// The dotted name, such as `agent.timeout_ms`.
    pub name: String,
    /// The description.
    pub doc: &'static str,
    /// The default value.
    pub default: Option<Value>,
    /// The environment variable that sets it.
    pub variable: String,
}

/// Returns all keys except those below `variables`.
#[must_use]
pub fn known_keys() -> Vec<KnownKey> {
    let leaves = fields::leaves().into_iter();
    leaves
        .map(|(name, field)| KnownKey {
            variable: environment_name(&name),
            doc: field.doc,
            default: field.default.and_then(|json| serde_json::from_str(json).ok()),
            name,
        })
        .collect()
}

/// Why a key can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The key does not exist.
    #[error("unknown key: `{key}`")]
    Unknown {
        /// The given name.
        key: String,
        /// The most similar key.
        nearest: Option<String>,
    },
    /// The key is a section.
    #[error("is a section, not a value: `{key}`")]
    Group {
        /// The given name.
        key: String,
        /// The keys in the section.
        below: Vec<String>,
    },
    /// The variable name is invalid.
    #[error("invalid variable name: `{name}`")]
    BadVariable {
        /// The given name.
        name: String,
    },
}

impl KeyError {
    /// Returns a hint for solving the problem.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Unknown { nearest: Some(near), .. } => format!("did you mean `{near}`?"),
            Self::Unknown { nearest: None, .. } => "`yb config list` shows all keys".to_owned(),
            Self::Group { below, .. } if below.is_empty() => {
                "use a key of the section: `variables.NAME`".to_owned()
            }
            Self::Group { below, .. } => format!("use a key of the section: `{}`", below.join("`, `")),
            Self::BadVariable { .. } => format!("expected {}", Format::EnvName.expected()),
        }
    }
}

/// Checks that a dotted key has a single value.
///
/// # Errors
/// When the key is unknown or a section.
pub fn check_key(key: &str) -> Result<(), KeyError> {
    kind_of(key).map(drop)
}

/// Parses the value of a key: `true` is a boolean only if the key expects one.
///
/// # Errors
/// When the key or the value is invalid.
pub fn value_from_text(key: &str, text: &str) -> Result<Value, ValueError> {
    let kind = kind_of(key)?;
    layer::from_text(text, &kind, key).map_err(ValueError::Value)
}

/// Why a value is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ValueError {
    /// The key is invalid.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The value is invalid for the key.
    #[error("{}", .0.first().map(ToString::to_string).unwrap_or_default())]
    Value(Vec<Diagnostic>),
}

fn kind_of(key: &str) -> Result<Kind, KeyError> {
    let leaves = fields::leaves();
    if let Some((_, field)) = leaves.iter().find(|(known, _)| known == key) {
        return Ok(field.kind);
    }
    if let Some(name) = key.strip_prefix(VARIABLES).and_then(|rest| rest.strip_prefix('.')) {
        let good = Format::EnvName.accepts(name);
        return if good {
            Ok(fields::VARIABLE)
        } else {
            Err(KeyError::BadVariable { name: name.to_owned() })
        };
    }
    let start = format!("{key}.");
    let below: Vec<String> = leaves
        .iter()
        .filter(|(known, _)| known.starts_with(&start))
        .map(|(known, _)| known.clone())
        .collect();
    if !below.is_empty() || key == VARIABLES {
        return Err(KeyError::Group { key: key.to_owned(), below });
    }
    // A key without its section is a common mistake: `model` instead of `agent.model`.
    let names = || leaves.iter().map(|(known, _)| known.as_str());
    let inside = names().find(|known| known.rsplit('.').next() == Some(key));
    let nearest = inside.or_else(|| nearest(key, names())).map(str::to_owned);
    Err(KeyError::Unknown { key: key.to_owned(), nearest })
}
