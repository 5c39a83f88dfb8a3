//! Builds the combinations of a suite: merges and validates every selected case with every variant.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::cases::{self, CaseSource, CaseSources};
use super::select::{Candidates, Selection};
use super::tally::{self, CombinedDiagnostics};
use super::variant::{self, Variant};
use super::{Combination, Loaded, Suite, factors, gates, guard, merge, names, read, vary};
use crate::{Case, CaseInput, LoadOptions, build, dir_of};
use yb_yaml::diagnostic::{Diagnostic, Diagnostics};
use yb_yaml::{Entry, Node, Value};

/// The maximum number of combinations.
const MAX_COMBINATIONS: usize = 10_000;
/// The maximum size of all combinations together; a case counts once per variant.
const MAX_COMBINED_BYTES: usize = 256 * 1024 * 1024;

/// Loads a suite from its tree.
pub(super) fn load(
    path: &Path,
    text: &str,
    mut root: Node,
    options: &LoadOptions,
    mut found: Diagnostics<'_>,
) -> Loaded {
    let Some(plain) = read::read(&mut root, options, &mut found) else {
        return Loaded { suite: None, diagnostics: found.into_vec(), files: Vec::new() };
    };
    let (variants, design) = match factors::read(&root, &mut found) {
        Some((variants, design)) => (variants, Some(design)),
        None => (variant::read(root.get("variants"), &mut found), None),
    };
    names::check_variants(&variants, path, &mut found);
    gates::check_variants(&root, &variants, &mut found);
    let CaseSources { cases, complete, diagnostics } = cases::read(path, text, &root, options, &mut found);
    gates::check_tags(&root, &cases, complete, &mut found);
    let mut tally = CombinedDiagnostics::default();
    let mut in_cases = diagnostics;
    in_cases.append(&mut names::check_cases(&cases));

    let mut kept = BTreeSet::new();
    let mut made = Vec::new();
    if cases.len().saturating_mul(variants.len()) > MAX_COMBINATIONS {
        let error = found.error(root.span, "", "too many combinations of cases and variants");
        error.expected(format!("at most {MAX_COMBINATIONS}"));
    } else {
        let candidates = Candidates { cases: &cases, variants: &variants, complete };
        let selection = Selection::read(&root, &candidates, &mut found);
        kept = pairs(cases.len(), variants.len())
            .filter(|(case, variant)| selection.keeps(*case, *variant))
            .collect();
        if kept.is_empty() && complete && !cases.is_empty() && !variants.is_empty() {
            let key = if root.get("exclude").is_some() { "exclude" } else { "include" };
            let at = root.entry(key).map_or(root.span, |entry| entry.key.span);
            found.error(at, key, "no combination selected").hint(
                "a combination is selected if it matches a selector of `include` and none of `exclude`",
            );
        }
        let names =
            kept.iter().map(|(case, variant)| (cases[*case].name.as_str(), variants[*variant].name.as_str()));
        names::check_both(names, &root, &mut found);
    }
    tally.own(found.into_vec());
    tally.own(in_cases);
    let mut builder =
        CombinationBuilder { path, text, options, tally, room: MAX_COMBINED_BYTES, guard: guard::of(&root) };
    for (at, case) in cases.iter().enumerate() {
        let own = kept.range((at, 0)..(at + 1, 0)).map(|(_, variant)| (*variant, &variants[*variant]));
        made.append(&mut builder.combine((at, case), own.collect()));
    }
    if complete && made.len() == kept.len() {
        let mut found = Diagnostics::new(path, text);
        gates::check_evaluators(&root, &made, &mut found);
        vary::check(&root, &variants, &made, &mut found);
        builder.tally.own(found.into_vec());
    }
    let diagnostics = builder.tally.into_vec(path, &cases, &variants, &kept);
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
        design,
        vary: plain.vary,
    });
    Loaded { suite, diagnostics, files: Vec::new() }
}

fn pairs(cases: usize, variants: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..cases).flat_map(move |case| (0..variants).map(move |variant| (case, variant)))
}

struct CombinationBuilder<'a> {
    path: &'a Path,
    text: &'a str,
    options: &'a LoadOptions,
    tally: CombinedDiagnostics,
    room: usize,
    /// The entries for isolation, network and limits of the suite.
    guard: Vec<Entry>,
}

impl CombinationBuilder<'_> {
    fn combine(&mut self, case: (usize, &CaseSource), variants: Vec<(usize, &Variant)>) -> Vec<Combination> {
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
            guard::apply(&mut tree, &variant.guard);
            guard::apply(&mut tree, &self.guard);
            self.room = self.room.saturating_sub(size(&tree));
            if self.room == 0 {
                let mut found = Diagnostics::new(self.path, self.text);
                let error =
                    found.error(source.at, "cases", "the combinations of cases and variants are too large");
                error.expected(format!("at most {MAX_COMBINED_BYTES} bytes of text"));
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

    fn build(&self, source: &CaseSource, variant: &Variant, tree: &Node) -> (Option<Case>, Vec<Diagnostic>) {
        let draft = CaseInput {
            path: &source.file,
            mode: source.mode,
            over: dir_of(self.path),
            env: &variant.env,
            overlay: &variant.overlay,
        };
        let mut found = Diagnostics::new(&source.file, &source.text)
            .with_key_prefix(&source.key)
            .with_overlay(self.path, self.text, &variant.key);
        let mut elsewhere = Vec::new();
        let case = build(&draft, tree, self.options, &mut found, &mut elsewhere);
        let mut diagnostics = found.into_vec();
        diagnostics.append(&mut elsewhere);
        (case, diagnostics)
    }
}

/// Returns the size of all strings below a node.
fn size(node: &Node) -> usize {
    match &node.value {
        Value::Text(text) => text.len(),
        Value::List(items) => items.iter().map(size).sum(),
        Value::Map(entries) => entries.iter().map(|entry| entry.key.name.len() + size(&entry.node)).sum(),
        _ => 8,
    }
}
