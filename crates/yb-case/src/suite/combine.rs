//! From a suite's file to its combinations: each merged case is built and checked before anything starts.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::cases::{self, Source, Sources};
use super::select::{Choice, Selection};
use super::tally::{self, Tally};
use super::variant::{self, Variant};
use super::{Combination, Loaded, Suite, gates, guard, merge, names, read};
use crate::{Case, Draft, LoadOptions, build, dir_of};
use yb_yaml::diagnostic::{Diagnostic, Findings};
use yb_yaml::{Entry, Node, Value};

/// More combinations than this are refused.
const MAX_COMBINATIONS: usize = 10_000;
/// All combinations together, in bytes of text: a case is there once for each of its variants.
const MAX_TEXT: usize = 256 * 1024 * 1024;

/// Reads a suite from its tree.
pub(super) fn load(
    path: &Path,
    text: &str,
    mut root: Node,
    options: &LoadOptions,
    mut found: Findings<'_>,
) -> Loaded {
    let Some(plain) = read::read(&mut root, options, &mut found) else {
        return Loaded { suite: None, diagnostics: found.into_vec() };
    };
    let variants = variant::read(root.get("variants"), &mut found);
    names::check_variants(&variants, path, &mut found);
    let Sources { cases, complete, diagnostics } = cases::read(path, text, &root, options, &mut found);
    gates::check_tags(&root, &cases, complete, &mut found);
    let mut tally = Tally::default();
    let mut in_cases = diagnostics;
    in_cases.append(&mut names::check_cases(&cases));

    let mut kept = BTreeSet::new();
    let mut made = Vec::new();
    if cases.len().saturating_mul(variants.len()) > MAX_COMBINATIONS {
        let error = found.error(root.span, "", "too many combinations of cases and variants");
        error.expected(format!("at most {MAX_COMBINATIONS}"));
    } else {
        let choice = Choice { cases: &cases, variants: &variants, complete };
        let selection = Selection::read(&root, &choice, &mut found);
        kept = pairs(cases.len(), variants.len())
            .filter(|(case, variant)| selection.keeps(*case, *variant))
            .collect();
        if kept.is_empty() && complete && !cases.is_empty() && !variants.is_empty() {
            let key = if root.get("exclude").is_some() { "exclude" } else { "include" };
            let at = root.entry(key).map_or(root.span, |entry| entry.key.span);
            found
                .error(at, key, "nothing is left to run: every combination is excluded")
                .hint("`include` keeps what matches one of its selectors, `exclude` drops what matches one of its own");
        }
        let names =
            kept.iter().map(|(case, variant)| (cases[*case].name.as_str(), variants[*variant].name.as_str()));
        names::check_both(names, &root, &mut found);
    }
    tally.own(found.into_vec());
    tally.own(in_cases);
    let mut work = Work { path, text, options, tally, room: MAX_TEXT, guard: guard::of(&root) };
    for (at, case) in cases.iter().enumerate() {
        let own = kept.range((at, 0)..(at + 1, 0)).map(|(_, variant)| (*variant, &variants[*variant]));
        made.append(&mut work.combine((at, case), own.collect()));
    }
    let diagnostics = work.tally.into_vec(path, &cases, &variants, &kept);
    let sound = complete && !diagnostics.iter().any(Diagnostic::is_error);
    let suite = sound.then(|| Suite {
        name: plain.name,
        file: path.to_owned(),
        files: Vec::new(),
        combinations: made,
        repeats: plain.repeats,
        concurrency: plain.concurrency,
        retries: plain.retries,
        max_cost_usd: plain.max_cost_usd,
        gates: plain.gates,
    });
    Loaded { suite, diagnostics }
}

fn pairs(cases: usize, variants: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..cases).flat_map(move |case| (0..variants).map(move |variant| (case, variant)))
}

struct Work<'a> {
    path: &'a Path,
    text: &'a str,
    options: &'a LoadOptions,
    tally: Tally,
    room: usize,
    /// What the suite says for all its cases.
    guard: Vec<Entry>,
}

impl Work<'_> {
    fn combine(&mut self, case: (usize, &Source), variants: Vec<(usize, &Variant)>) -> Vec<Combination> {
        let (at, source) = case;
        let plain = variants.iter().all(|(_, variant)| variant.at.is_none());
        let alone = if plain {
            BTreeSet::new()
        } else {
            tally::ids(&self.build(source, &Variant::default(), &source.root).1)
        };
        let mut made = Vec::new();
        for (which, variant) in variants {
            let mut tree = merge::merged(&source.root, variant, &self.options.agents);
            guard::lay(&mut tree, &variant.guard);
            guard::lay(&mut tree, &self.guard);
            self.room = self.room.saturating_sub(size(&tree));
            if self.room == 0 {
                let mut found = Findings::new(self.path, self.text);
                let error = found.error(
                    source.at,
                    "cases",
                    "the suite is too large once cases and variants are combined",
                );
                error.expected(format!("at most {MAX_TEXT} bytes of text"));
                self.tally.own(found.into_vec());
                break;
            }
            let (case, diagnostics) = self.build(source, variant, &tree);
            self.tally.combined(diagnostics, &alone, (at, which));
            if let Some(case) = case {
                self.room = self.room.saturating_sub(case.agent.prompt.text().map_or(0, str::len));
                made.push(Combination {
                    agent_version: case.agent.version.clone(),
                    case_name: case.name.clone(),
                    variant: variant.name.clone(),
                    tags: case.tags.clone(),
                    case: Arc::new(case),
                });
            }
        }
        made
    }

    fn build(&self, source: &Source, variant: &Variant, tree: &Node) -> (Option<Case>, Vec<Diagnostic>) {
        let draft =
            Draft { path: &source.file, mode: source.mode, over: dir_of(self.path), env: &variant.env };
        let mut found = Findings::new(&source.file, &source.text).below(&source.key).under(
            self.path,
            self.text,
            &variant.key,
        );
        let mut elsewhere = Vec::new();
        let case = build(&draft, tree, self.options, &mut found, &mut elsewhere);
        let mut diagnostics = found.into_vec();
        diagnostics.append(&mut elsewhere);
        (case, diagnostics)
    }
}

/// The bytes of all texts below a node.
fn size(node: &Node) -> usize {
    match &node.value {
        Value::Text(text) => text.len(),
        Value::List(items) => items.iter().map(size).sum(),
        Value::Map(entries) => entries.iter().map(|entry| entry.key.name.len() + size(&entry.node)).sum(),
        _ => 8,
    }
}
