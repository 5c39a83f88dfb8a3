//! Selectors: which combinations of a case and a variant are kept.

use globset::{GlobBuilder, GlobMatcher};

use super::cases::Source;
use super::variant::Variant;
use crate::check::join;
use yb_yaml::Node;
use yb_yaml::diagnostic::{Findings, quoted};

/// Which cases and which variants one selector matches; together they are its combinations.
struct Selector {
    cases: Vec<bool>,
    variants: Vec<bool>,
}

/// What `include` and `exclude` say.
pub(super) struct Selection {
    include: Option<Vec<Selector>>,
    exclude: Vec<Selector>,
}

/// What is selected from.
pub(super) struct Choice<'a> {
    pub(super) cases: &'a [Source],
    pub(super) variants: &'a [Variant],
    /// Whether all cases could be read, so that it means something when none matches.
    pub(super) complete: bool,
}

impl Selection {
    /// Reads both lists, which have been checked.
    pub(super) fn read(root: &Node, choice: &Choice<'_>, found: &mut Findings<'_>) -> Self {
        let include = root.get("include").map(|node| list(node, "include", choice, found));
        let exclude = root.get("exclude").map(|node| list(node, "exclude", choice, found));
        Self { include, exclude: exclude.unwrap_or_default() }
    }

    /// Whether a combination is kept.
    pub(super) fn keeps(&self, case: usize, variant: usize) -> bool {
        let matches = |selector: &Selector| selector.cases[case] && selector.variants[variant];
        let included = self.include.as_ref().is_none_or(|include| include.iter().any(matches));
        included && !self.exclude.iter().any(matches)
    }
}

fn list(node: &Node, key: &str, choice: &Choice<'_>, found: &mut Findings<'_>) -> Vec<Selector> {
    let items = node.items().iter().enumerate();
    items.filter_map(|(at, item)| one(item, &format!("{key}[{at}]"), choice, found)).collect()
}

fn one(node: &Node, key: &str, choice: &Choice<'_>, found: &mut Findings<'_>) -> Option<Selector> {
    const KEYS: [&str; 3] = ["case", "variant", "tag"];
    if KEYS.iter().all(|key| node.entry(key).is_none()) {
        // An unknown key has been reported by itself.
        if node.entries().is_empty() {
            let error = found.error(node.span, key, "a selector that says nothing");
            error.expected("one or more of `case`, `variant`, `tag`");
        }
        return None;
    }
    let mut selector =
        Selector { cases: vec![true; choice.cases.len()], variants: vec![true; choice.variants.len()] };
    let before = found.has_errors();
    for part in KEYS {
        let Some(value) = node.get(part) else { continue };
        let text = value.text()?;
        let key = join(key, part);
        let names: Vec<&str> = match part {
            "case" => choice.cases.iter().map(|case| case.name.as_str()).collect(),
            "variant" => choice.variants.iter().map(|variant| variant.name.as_str()).collect(),
            _ => choice.cases.iter().flat_map(|case| case.tags.iter().map(String::as_str)).collect(),
        };
        let any = if part == "tag" {
            for (keep, case) in selector.cases.iter_mut().zip(choice.cases) {
                *keep &= case.tags.iter().any(|tag| tag == text);
            }
            names.contains(&text)
        } else {
            let Some(glob) = matcher(text, value, &key, found) else { continue };
            let matches = |name: &&str| *name == text || glob.is_match(name);
            let kept = if part == "case" { &mut selector.cases } else { &mut selector.variants };
            for (keep, name) in kept.iter_mut().zip(&names) {
                *keep &= matches(name);
            }
            names.iter().any(matches)
        };
        if !any && (choice.complete || part == "variant") {
            let warning = found.warning(value.span, &key, format!("no {part} matches: {}", quoted(text)));
            if warning.did_you_mean(text, names.iter().copied()).hint.is_none() {
                warning.hint("the selector has no effect of its own; remove it, or correct it");
            }
        }
    }
    let some = |kept: &[bool]| kept.iter().any(|keep| *keep);
    let each = |part: &str| node.get(part).is_some();
    // Each part alone may match something, and all of them together nothing.
    if choice.complete
        && each("case")
        && each("tag")
        && !some(&selector.cases)
        && before == found.has_errors()
    {
        let text = node.get("tag").and_then(Node::text).unwrap_or_default();
        let known = choice.cases.iter().any(|case| case.tags.iter().any(|tag| tag == text));
        if known {
            found
                .warning(node.span, key, "no case matches both `case` and `tag`")
                .hint("the selector has no effect; remove it, or correct it");
        }
    }
    Some(selector)
}

fn matcher(text: &str, node: &Node, key: &str, found: &mut Findings<'_>) -> Option<GlobMatcher> {
    match GlobBuilder::new(text).literal_separator(false).build() {
        Ok(glob) => Some(glob.compile_matcher()),
        Err(error) => {
            found
                .error(node.span, key, format!("not a pattern ({}): {}", error.kind(), quoted(text)))
                .expected("a name, in which `*` and `?` stand for anything and for one character");
            None
        }
    }
}
