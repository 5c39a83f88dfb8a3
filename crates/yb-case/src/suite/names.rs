//! Names that must be told apart: of cases, of variants, and of the directories that both become.

use std::collections::BTreeMap;
use std::path::Path;

use super::cases::Source;
use super::variant::Variant;
use yb_model::safe_name as safe;
use yb_yaml::diagnostic::{Diagnostic, Findings, quoted};
use yb_yaml::{Node, Span};

/// Where a case says its name; a file without one is named by the suite.
fn place(case: &Source) -> Span {
    case.root
        .get("name")
        .map_or_else(|| if case.key.is_empty() { Span::WHOLE } else { case.at }, |name| name.span)
}

/// Looks for cases whose names can't be told apart; what is found is in the later one's file.
pub(super) fn check_cases(cases: &[Source]) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    let mut names: BTreeMap<String, &Source> = BTreeMap::new();
    for case in cases {
        let Some(first) = names.get(&directory(&case.name)) else {
            names.insert(directory(&case.name), case);
            continue;
        };
        let mut found = Findings::new(&case.file, &case.text).below(&case.key);
        let at = place(first);
        let other = if at.line == 0 {
            first.file.display().to_string()
        } else {
            format!("{}:{}:{}", first.file.display(), at.line, at.column)
        };
        report(&mut found, place(case), "name", ("case", &case.name, &first.name), &other);
        diagnostics.append(&mut found.into_vec());
    }
    diagnostics
}

/// Looks for variants whose names can't be told apart.
pub(super) fn check_variants(variants: &[Variant], path: &Path, found: &mut Findings<'_>) {
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

/// Looks for combinations that would share a directory, such as `a--b` with `c` and `a` with `b--c`.
pub(super) fn check_both<'n>(
    combinations: impl Iterator<Item = (&'n str, &'n str)>,
    root: &Node,
    found: &mut Findings<'_>,
) {
    let mut names: BTreeMap<String, (&str, &str)> = BTreeMap::new();
    for (case, variant) in combinations {
        let key = format!("{}--{}", directory(case), directory(variant));
        match names.get(&key) {
            // Names that are equal by themselves have been reported.
            Some((first, other)) if directory(first) != directory(case) => {
                let message = format!(
                    "two combinations that can't be told apart as directories: {} with {}, and {} with {}",
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

/// The directory that a name becomes, as a file system sees it that knows no upper and lower case.
fn directory(name: &str) -> String {
    safe(name).to_ascii_lowercase()
}

fn report(found: &mut Findings<'_>, at: Span, key: &str, names: (&str, &str, &str), other: &str) {
    let (what, name, first) = names;
    if name == first {
        let error = found.error(at, key, format!("{what} named twice: {}", quoted(name)));
        error.hint(format!("it is also at {other}; rename one of them"));
    } else {
        let message = format!(
            "two {what}s that can't be told apart as directories: {} and {}",
            quoted(first),
            quoted(name)
        );
        let error = found.error(at, key, message);
        error.expected("names that differ in letters, digits, `-` and `_`, not only in upper and lower case");
        error.hint(format!("the other is at {other}; rename one of them"));
    }
}
