//! Script variables: `{{name}}` in any text.

use std::collections::BTreeMap;

/// The variables of a script, by name.
///
/// Values that differ between uses of a script, such as the path of a workspace, are set when it is loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vars(BTreeMap<String, String>);

impl Vars {
    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a variable, replacing an earlier one of the same name.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }

    /// Returns whether a variable can have this name: a letter or `_`, then letters, digits, `_` or `-`.
    #[must_use]
    pub fn is_valid_name(name: &str) -> bool {
        let mut chars = name.chars();
        chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Vars {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// Error while expanding variables.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ExpandError {
    /// The name is valid, but has no value.
    Undefined { name: String, known: Vec<String> },
    /// `{{` that is not followed by a name and `}}`.
    Malformed { text: String },
}

/// Replaces each `{{name}}`; `{{{{` is a literal `{{`. Values are not expanded again.
pub(crate) fn expand(text: &str, vars: &Vars) -> Result<String, ExpandError> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("{{") {
        out.push_str(&rest[..at]);
        rest = &rest[at + 2..];
        if let Some(after) = rest.strip_prefix("{{") {
            out.push_str("{{");
            rest = after;
            continue;
        }
        let malformed = || ExpandError::Malformed { text: rest.chars().take(20).collect() };
        let end = rest.find("}}").ok_or_else(malformed)?;
        let name = rest[..end].trim();
        if !Vars::is_valid_name(name) {
            return Err(malformed());
        }
        let value = vars.0.get(name).ok_or_else(|| ExpandError::Undefined {
            name: name.to_owned(),
            known: vars.0.keys().cloned().collect(),
        })?;
        out.push_str(value);
        rest = &rest[end + 2..];
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::{ExpandError, Vars, expand};

    fn check(text: &str, expected: &str) {
        let vars = Vars::new().with("dir", "/w").with("odd", "{{dir}}");
        assert_eq!(expand(text, &vars).as_deref(), Ok(expected));
    }

    #[test]
    fn expand_replaces_names_once_and_keeps_escapes_literal() {
        check("no braces } { at all", "no braces } { at all");
        check("{{dir}}/a {{ dir }}/b", "/w/a /w/b");
        check("{{odd}}", "{{dir}}");
        check("{{{{dir}}", "{{dir}}");
        check("${{{{ secrets.X }}", "${{ secrets.X }}");
        check("}}", "}}");
    }

    #[test]
    fn expand_rejects_unknown_names_and_stray_braces() {
        let vars = Vars::new().with("dir", "/w");
        assert_eq!(
            expand("{{dri}}", &vars),
            Err(ExpandError::Undefined { name: "dri".into(), known: vec!["dir".into()] })
        );
        for text in ["{{", "{{ .Name }}", "a {{1}}", "{{}}"] {
            assert!(matches!(expand(text, &vars), Err(ExpandError::Malformed { .. })), "{text}");
        }
    }
}
