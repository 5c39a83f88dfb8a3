//! Findings of many combinations as a person wants to read them: each mistake once, with what it takes to make it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::cases::Source;
use super::variant::Variant;
use yb_yaml::diagnostic::{Diagnostic, quoted};

/// How many names a message shows.
const SHOWN: usize = 3;

type Id = (PathBuf, usize, usize, String, String);

/// What was found so far.
#[derive(Default)]
pub(super) struct Tally {
    order: Vec<Id>,
    all: BTreeMap<Id, Seen>,
}

struct Seen {
    found: Diagnostic,
    /// Whether the file has it by itself.
    own: bool,
    /// The case and the variant that it arose with.
    with: BTreeSet<(usize, usize)>,
}

fn id(found: &Diagnostic) -> Id {
    (found.file.clone(), found.line, found.column, found.key.clone(), found.message.clone())
}

impl Tally {
    /// Adds what a file has by itself.
    pub(super) fn own(&mut self, found: Vec<Diagnostic>) {
        for found in found {
            self.seen(&found).own = true;
        }
    }

    /// Adds what arose with a variant; `alone` is what the case has without any.
    pub(super) fn combined(&mut self, found: Vec<Diagnostic>, alone: &BTreeSet<Id>, with: (usize, usize)) {
        for found in found {
            let own = alone.contains(&id(&found));
            let seen = self.seen(&found);
            seen.with.insert(with);
            seen.own |= own;
        }
    }

    fn seen(&mut self, found: &Diagnostic) -> &mut Seen {
        let id = id(found);
        if !self.all.contains_key(&id) {
            self.order.push(id.clone());
        }
        let seen = self.all.entry(id).or_insert_with(|| Seen {
            found: found.clone(),
            own: false,
            with: BTreeSet::new(),
        });
        seen.found.severity = seen.found.severity.max(found.severity);
        seen
    }

    /// All findings: the suite's own file first, in its order.
    pub(super) fn into_vec(
        mut self,
        path: &Path,
        cases: &[Source],
        variants: &[Variant],
        kept: &BTreeSet<(usize, usize)>,
    ) -> Vec<Diagnostic> {
        let ordered = self.order.iter().filter_map(|id| self.all.remove(id));
        let mut all: Vec<Diagnostic> = ordered
            .map(|mut seen| {
                seen.found.with = takes(&seen, cases, variants, kept, path);
                seen.found
            })
            .collect();
        all.sort_by_key(|found| {
            let inside = found.file == path;
            (!inside, if inside { (found.line, found.column) } else { (0, 0) })
        });
        all
    }
}

/// What the case says by itself.
pub(super) fn ids(found: &[Diagnostic]) -> BTreeSet<Id> {
    found.iter().map(id).collect()
}

/// What it takes for a finding to arise, unless it is there anyway.
fn takes(
    seen: &Seen,
    cases: &[Source],
    variants: &[Variant],
    kept: &BTreeSet<(usize, usize)>,
    path: &Path,
) -> Option<String> {
    let with_variants: BTreeSet<usize> = seen.with.iter().map(|(_, variant)| *variant).collect();
    let with_cases: BTreeSet<usize> = seen.with.iter().map(|(case, _)| *case).collect();
    if seen.with.is_empty() || with_variants.iter().all(|variant| variants[*variant].at.is_none()) {
        return None;
    }
    let cases_of = |variant: usize| kept.iter().filter(move |(_, other)| *other == variant).count();
    let in_variant = with_variants.iter().find(|variant| {
        let rest = seen.found.key.strip_prefix(variants[**variant].key.as_str());
        seen.found.file == path && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    });
    if let Some(variant) = in_variant {
        // With every case: then it is the variant's own.
        if seen.own || (cases_of(*variant) > 1 && seen.with.len() == cases_of(*variant)) {
            return None;
        }
        let names = with_cases.iter().map(|case| quoted(&cases[*case].name)).collect();
        return Some(format!("variant {} and {}", quoted(&variants[*variant].name), named("case", names)));
    }
    let everywhere = kept.iter().filter(|(case, _)| with_cases.contains(case)).count() == seen.with.len();
    if seen.own && everywhere {
        return None;
    }
    let places = with_variants.iter().filter_map(|variant| {
        let Variant { name, at, .. } = &variants[*variant];
        at.map(|at| format!("{} ({}:{}:{})", quoted(name), path.display(), at.line, at.column))
    });
    Some(named("variant", places.collect()))
}

fn named(what: &str, mut names: Vec<String>) -> String {
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    let plural = if names.len() + more > 1 { "s" } else { "" };
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{what}{plural} {}{more}", names.join(", "))
}
