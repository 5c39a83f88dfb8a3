//! Checks that the names of cases and variants are unique, also as directory names.

use std::collections::BTreeMap;
use std::path::Path;

use super::cases::CaseSource;
use super::variant::Variant;
use yb_model::safe_name as safe;
use yb_yaml::diagnostic::{Diagnostic, Diagnostics, quoted};
use yb_yaml::{Node, Span};

/// Returns the position of the name of a case.
fn position(case: &CaseSource) -> Span {
    case.root
        .get("name")
        .map_or_else(|| if case.key.is_empty() { Span::WHOLE } else { case.at }, |name| name.span)
}

/// Reports cases with the same directory name, in the file of the later one.
pub(super) fn check_cases(cases: &[CaseSource]) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    let mut names: BTreeMap<String, &CaseSource> = BTreeMap::new();
    for case in cases {
        let Some(first) = names.get(&directory(&case.name)) else {
            names.insert(directory(&case.name), case);
            continue;
        };
        let mut found = Diagnostics::new(&case.file, &case.text).with_key_prefix(&case.key);
        let at = position(first);
        let other = if at.line == 0 {
            first.file.display().to_string()
        } else {
            format!("{}:{}:{}", first.file.display(), at.line, at.column)
        };
        report(&mut found, position(case), "name", ("case", &case.name, &first.name), &other);
        diagnostics.append(&mut found.into_vec());
    }
    diagnostics
}

/// Reports variants with the same directory name.
pub(super) fn check_variants(variants: &[Variant], path: &Path, found: &mut Diagnostics<'_>) {
    let mut names: BTreeMap<String, &Variant> = BTreeMap::new();
    for variant in variants {
        let Some(first) = names.get(&directory(&variant.name)) else {
            names.insert(directory(&variant.name), variant);
            continue;
        };
        let (Some(at), Some(other)) = (variant.at, first.at) else { continue };
        let other = format!("{}:{}:{}", path.display(), other.line, other.column);
        report(found, at, &format!("{}.name", variant.key), ("variant", &variant.name, &first.name), &other);
    }
}

/// Reports combinations with the same directory name, such as `a--b` with `c` and `a` with `b--c`.
pub(super) fn check_both<'n>(
    combinations: impl Iterator<Item = (&'n str, &'n str)>,
    root: &Node,
    found: &mut Diagnostics<'_>,
) {
    let mut names: BTreeMap<String, (&str, &str)> = BTreeMap::new();
    for (case, variant) in combinations {
        let key = format!("{}--{}", directory(case), directory(variant));
        match names.get(&key) {
            // Cases with the same directory name have been reported.
            Some((first, other)) if directory(first) != directory(case) => {
                let message = format!(
                    "combinations with the same directory name: {} with {}, and {} with {}",
                    quoted(first),
                    quoted(other),
                    quoted(case),
                    quoted(variant)
                );
                let at = root.entry("cases").map_or(root.span, |entry| entry.key.span);
                found.error(at, "cases", message).hint("rename one of them");
            }
            _ => {
                names.insert(key, (case, variant));
            }
        }
    }
}

/// Returns the directory name, as on a case-insensitive file system.
fn directory(name: &str) -> String {
    safe(name).to_ascii_lowercase()
}

fn report(found: &mut Diagnostics<'_>, at: Span, key: &str, names: (&str, &str, &str), other: &str) {
    let (what, name, first) = names;
    if name == first {
        let error = found.error(at, key, format!("duplicate {what} name: {}", quoted(name)));
        error.hint(format!("the other one is at {other}; rename one of them"));
    } else {
        let message = format!("{what}s with the same directory name: {} and {}", quoted(first), quoted(name));
        let error = found.error(at, key, message);
        error.expected("names that differ in letters, digits, `-` or `_`, ignoring case");
        error.hint(format!("the other one is at {other}; rename one of them"));
    }
}
