//! Attributes of the known tags, and joining of `<If>`, `<ElseIf>` and `<Else>`.

use super::{PropValue, TemplateNode};
use crate::error::{PromptError, Source};
use crate::expression::Expression;

/// All tags with a meaning.
pub(super) const KNOWN: [&str; 12] = [
    "System",
    "User",
    "Assistant",
    "ImageAttachment",
    "FileAttachment",
    "ImagePrompt",
    "SpeechPrompt",
    "If",
    "ElseIf",
    "Else",
    "ForEach",
    "Raw",
];

/// The attributes of a tag.
pub(super) struct Attributes<'a> {
    name: String,
    all: Vec<(String, PropValue)>,
    at: usize,
    source: &'a Source,
}

impl<'a> Attributes<'a> {
    pub(super) fn new(
        name: Option<&str>,
        all: Vec<(String, PropValue)>,
        at: usize,
        source: &'a Source,
    ) -> Self {
        Self { name: name.unwrap_or_default().to_owned(), all, at, source }
    }

    fn error(&self, message: String) -> PromptError {
        self.source.error(self.at, message)
    }

    pub(super) fn only(&self, known: &[&str]) -> Result<(), PromptError> {
        match self.all.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some((name, _)) => {
                let error = self.error(format!("`<{}>` has no attribute `{name}`", self.name));
                Err(match known {
                    [] => error,
                    known => error.with_hint(format!("supported: `{}`", known.join("`, `"))),
                })
            }
        }
    }

    pub(super) fn none(&self) -> Result<(), PromptError> {
        self.only(&[])
    }

    pub(super) fn get(&self, name: &str) -> Option<PropValue> {
        self.all.iter().find(|(found, _)| found == name).map(|(_, setting)| setting.clone())
    }

    pub(super) fn need(&self, name: &str) -> Result<PropValue, PromptError> {
        self.get(name)
            .filter(|setting| *setting != PropValue::Flag)
            .ok_or_else(|| self.error(format!("`<{}>` requires `{name}`", self.name)))
    }

    pub(super) fn expression(&self, name: &str) -> Result<Expression, PromptError> {
        match self.get(name) {
            Some(PropValue::Expression(expression)) => Ok(expression),
            _ => {
                let error = self.error(format!("`<{}>` requires an expression: `{name}`", self.name));
                Err(error.with_hint(format!("for example `<{} {name}={{props.x}}>`", self.name)))
            }
        }
    }

    pub(super) fn condition(&self) -> Result<Expression, PromptError> {
        self.only(&["condition"])?;
        self.expression("condition")
    }

    pub(super) fn into_all(self) -> Vec<(String, PropValue)> {
        self.all
    }
}

/// Attaches each `<ElseIf>` and `<Else>` to the preceding `<If>`. Only whitespace may be between them.
pub(super) fn join_branches(
    nodes: Vec<TemplateNode>,
    source: &Source,
) -> Result<Vec<TemplateNode>, PromptError> {
    let mut joined: Vec<TemplateNode> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let TemplateNode::ElseBranch { at, condition, children } = node else {
            joined.push(node);
            continue;
        };
        if matches!(joined.last(), Some(TemplateNode::Text(text, _)) if text.trim().is_empty()) {
            joined.pop();
        }
        match joined.last_mut() {
            Some(TemplateNode::Branch { arms, .. })
                if arms.last().is_some_and(|(last, _)| last.is_some()) =>
            {
                arms.push((condition, children));
            }
            _ => {
                let name = if condition.is_some() { "ElseIf" } else { "Else" };
                return Err(source.error(at, format!("`<{name}>` without an `<If>` before it")));
            }
        }
    }
    Ok(joined)
}
