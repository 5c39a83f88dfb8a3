//! The keys that a configuration may have, as `yb config` speaks of them.

use serde_json::Value;

use super::fields::{self, environment_name};
use super::layer;
use crate::format::Format;
use crate::shape::Kind;
use yb_yaml::diagnostic::{Diagnostic, nearest};

/// Below it every name is a key.
const VARIABLES: &str = "variables";

/// A key that holds one value.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownKey {
    /// Its dotted name, such as `agent.timeout_ms`.
    pub name: String,
    /// What it is for.
    pub doc: &'static str,
    /// What holds without it.
    pub default: Option<Value>,
    /// The variable of the environment that sets it.
    pub variable: String,
}

/// Every key but those below `variables`, in the order in which they are described.
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
    /// No such key.
    #[error("unknown key: `{key}`")]
    Unknown {
        /// As it was given.
        key: String,
        /// The key that was probably meant.
        nearest: Option<String>,
    },
    /// Keys are below it.
    #[error("not one value but several: `{key}`")]
    Group {
        /// As it was given.
        key: String,
        /// What is below it.
        below: Vec<String>,
    },
    /// The name of a variable that could never be used.
    #[error("not the name of a variable: `{name}`")]
    BadVariable {
        /// As it was given.
        name: String,
    },
}

impl KeyError {
    /// The way out.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Unknown { nearest: Some(near), .. } => format!("did you mean `{near}`?"),
            Self::Unknown { nearest: None, .. } => "`yb config list` shows every key".to_owned(),
            Self::Group { below, .. } if below.is_empty() => "name one of them: `variables.NAME`".to_owned(),
            Self::Group { below, .. } => format!("name one of them: `{}`", below.join("`, `")),
            Self::BadVariable { .. } => format!("it needs {}", Format::EnvName.expected()),
        }
    }
}

/// Whether a dotted key holds one value.
///
/// # Errors
/// When it does not; the error says what was probably meant.
pub fn check_key(key: &str) -> Result<(), KeyError> {
    kind_of(key).map(drop)
}

/// The value that a text stands for under a key: `true` is a truth value only where one belongs.
///
/// # Errors
/// What is wrong with it.
pub fn value_from_text(key: &str, text: &str) -> Result<Value, ValueError> {
    let kind = kind_of(key)?;
    layer::from_text(text, &kind, key).map_err(ValueError::Value)
}

/// Why a text is no value of a key.
#[derive(Debug, thiserror::Error)]
pub enum ValueError {
    /// The key itself can't be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The value is not what belongs there.
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
    // A key without its group is a common slip: `model` means `agent.model`.
    let names = || leaves.iter().map(|(known, _)| known.as_str());
    let inside = names().find(|known| known.rsplit('.').next() == Some(key));
    let nearest = inside.or_else(|| nearest(key, names())).map(str::to_owned);
    Err(KeyError::Unknown { key: key.to_owned(), nearest })
}
