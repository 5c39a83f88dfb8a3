//! Replaces placeholders in the arguments of a command, in one pass, so that no value is read as a template.

use std::path::Path;

use super::super::AdapterError;

/// The values of the placeholders.
pub(super) struct Values<'a> {
    pub(super) prompt: &'a str,
    pub(super) prompt_file: Option<&'a Path>,
    pub(super) workspace: &'a Path,
    pub(super) model: Option<&'a str>,
}

impl Values<'_> {
    /// Replaces the placeholders. Other braces are unchanged, because many programs take JSON.
    pub(super) fn fill(&self, argv: &[String]) -> Result<Vec<String>, AdapterError> {
        argv.iter().map(|argument| self.fill_one(argument)).collect()
    }

    fn fill_one(&self, argument: &str) -> Result<String, AdapterError> {
        let mut filled = String::with_capacity(argument.len());
        let mut rest = argument;
        while let Some(at) = rest.find('{') {
            filled.push_str(&rest[..at]);
            rest = &rest[at..];
            let name = rest.find('}').map(|end| &rest[..=end]).unwrap_or_default();
            match self.value(name)? {
                Some(value) => {
                    filled.push_str(&value);
                    rest = &rest[name.len()..];
                }
                None => {
                    filled.push('{');
                    rest = &rest[1..];
                }
            }
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn value(&self, placeholder: &str) -> Result<Option<String>, AdapterError> {
        Ok(Some(match placeholder {
            "{prompt}" => self.prompt.to_owned(),
            "{prompt_file}" => text(self.prompt_file.ok_or_else(|| {
                let message = "`command`: `{prompt_file}` is used, but the prompt comes another way";
                AdapterError::config(message, "say `prompt_via: file`, or leave it out")
            })?)?,
            "{workspace}" => text(self.workspace)?,
            "{model}" => self.model.map(str::to_owned).ok_or_else(|| {
                let message = "`command`: `{model}` is used, but the case names no model";
                AdapterError::config(message, "set `agent.model`, or leave `{model}` out")
            })?,
            _ => return Ok(None),
        }))
    }
}

fn text(path: &Path) -> Result<String, AdapterError> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        let message = format!("the path is not UTF-8: `{}`", path.display());
        AdapterError::config(message, "choose another directory")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(argument: &str, model: Option<&str>) -> Result<String, String> {
        let values =
            Values { prompt: "do {model} \"$x\"", prompt_file: None, workspace: Path::new("/w"), model };
        values.fill_one(argument).map_err(|error| error.to_string())
    }

    #[test]
    fn placeholders_are_filled_once() {
        assert_eq!(filled("--p={prompt}", Some("m")).unwrap(), "--p=do {model} \"$x\"");
        assert_eq!(filled("{workspace}/a:{model}", Some("m")).unwrap(), "/w/a:m");
        assert_eq!(filled(r#"{"a": {"b": 1}}{"#, None).unwrap(), r#"{"a": {"b": 1}}{"#);
        assert_eq!(filled("{{model}}", Some("m")).unwrap(), "{m}");
    }

    #[test]
    fn placeholder_without_a_value_is_an_error() {
        assert!(filled("{model}", None).unwrap_err().contains("names no model"));
        assert!(filled("{prompt_file}", None).unwrap_err().contains("another way"));
    }
}
