//! Selectors: `include` and `exclude` of a suite.

use globset::GlobMatcher;

use super::cases::CaseSource;
use super::variant::Variant;
use crate::check::join;
use yb_repo::{PathSeparator, compile_glob};
use yb_yaml::Node;
use yb_yaml::diagnostic::{Diagnostics, quoted};

/// The cases and the variants that a selector matches. It matches all their combinations.
struct Selector {
    cases: Vec<bool>,
    variants: Vec<bool>,
}

/// `include` and `exclude` of a suite.
pub(super) struct Selection {
    include: Option<Vec<Selector>>,
    exclude: Vec<Selector>,
}

/// The candidates of a selection.
pub(super) struct Candidates<'a> {
    pub(super) cases: &'a [CaseSource],
    pub(super) variants: &'a [Variant],
    /// Whether all cases could be read. Otherwise, a selector without a match is not reported.
    pub(super) complete: bool,
}

impl Selection {
    /// Reads the validated lists.
    pub(super) fn read(root: &Node, candidates: &Candidates<'_>, found: &mut Diagnostics<'_>) -> Self {
        let include = root.get("include").map(|node| list(node, "include", candidates, found));
        let exclude = root.get("exclude").map(|node| list(node, "exclude", candidates, found));
        Self { include, exclude: exclude.unwrap_or_default() }
    }

    /// Returns whether a combination is selected.
    pub(super) fn keeps(&self, case: usize, variant: usize) -> bool {
        let matches = |selector: &Selector| selector.cases[case] && selector.variants[variant];
        let included = self.include.as_ref().is_none_or(|include| include.iter().any(matches));
        included && !self.exclude.iter().any(matches)
    }
}

fn list(node: &Node, key: &str, candidates: &Candidates<'_>, found: &mut Diagnostics<'_>) -> Vec<Selector> {
    let items = node.items().iter().enumerate();
    items.filter_map(|(at, item)| one(item, &format!("{key}[{at}]"), candidates, found)).collect()
}

fn one(node: &Node, key: &str, candidates: &Candidates<'_>, found: &mut Diagnostics<'_>) -> Option<Selector> {
    const KEYS: [&str; 3] = ["case", "variant", "tag"];
    if KEYS.iter().all(|key| node.entry(key).is_none()) {
        // An unknown key has been reported by the validation.
        if node.entries().is_empty() {
            let error = found.error(node.span, key, "empty selector");
            error.expected("one or more of `case`, `variant`, `tag`");
        }
        return None;
    }
    let mut selector = Selector {
        cases: vec![true; candidates.cases.len()],
        variants: vec![true; candidates.variants.len()],
    };
    let before = found.has_errors();
    for part in KEYS {
        let Some(value) = node.get(part) else { continue };
        let text = value.text()?;
        let key = join(key, part);
        let names: Vec<&str> = match part {
            "case" => candidates.cases.iter().map(|case| case.name.as_str()).collect(),
            "variant" => candidates.variants.iter().map(|variant| variant.name.as_str()).collect(),
            _ => candidates.cases.iter().flat_map(|case| case.tags.iter().map(String::as_str)).collect(),
        };
        let any = if part == "tag" {
            for (keep, case) in selector.cases.iter_mut().zip(candidates.cases) {
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
        if !any && (candidates.complete || part == "variant") {
            let warning = found.warning(value.span, &key, format!("no {part} matches: {}", quoted(text)));
            if warning.did_you_mean(text, names.iter().copied()).hint.is_none() {
                warning.hint("the selector has no effect; remove or correct it");
            }
        }
    }
    let some = |kept: &[bool]| kept.iter().any(|keep| *keep);
    let each = |part: &str| node.get(part).is_some();
    // Each key alone may match, but not all of them together.
    if candidates.complete
        && each("case")
        && each("tag")
        && !some(&selector.cases)
        && before == found.has_errors()
    {
        let text = node.get("tag").and_then(Node::text).unwrap_or_default();
        let known = candidates.cases.iter().any(|case| case.tags.iter().any(|tag| tag == text));
        if known {
            found
                .warning(node.span, key, "no case matches both `case` and `tag`")
                .hint("the selector has no effect; remove or correct it");
        }
    }
    Some(selector)
}

fn matcher(text: &str, node: &Node, key: &str, found: &mut Diagnostics<'_>) -> Option<GlobMatcher> {
    match compile_glob(text, PathSeparator::Matched) {
        Ok(glob) => Some(glob.compile_matcher()),
        Err(reason) => {
            found
                .error(node.span, key, format!("invalid pattern ({reason}): {}", quoted(text)))
                .expected("a name with the wildcards `*` and `?`");
            None
        }
    }
}
