//! What a check of a case showed, and where it is kept for the runs that follow.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FOLDER, VERSION, digest};
use crate::trial::{Runner, StartPoint};
use yb_case::Case;

/// What a check of a case shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Proof {
    /// The case was not checked.
    Unchecked,
    /// The start tree fails and the reference solution passes.
    Proven,
    /// The start tree passes: an agent that does nothing would.
    PassesUntouched,
    /// The reference solution fails.
    SolutionFails,
    /// Gradings of the same tree differ.
    Flaky,
    /// The case has no reference solution.
    NoSolution,
    /// Only evaluators that were left out, or that could not grade, can decide.
    #[serde(other)]
    Undecided,
}

impl Proof {
    /// Returns the result in words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unchecked => "unchecked",
            Self::Proven => "proven",
            Self::PassesUntouched => "passes untouched",
            Self::SolutionFails => "solution fails",
            Self::Flaky => "flaky",
            Self::NoSolution => "no solution",
            Self::Undecided => "undecided",
        }
    }
}

/// The most cases that are named as not proven.
const LISTED: usize = 3;

/// Describes how many cases of a run were proven when it started, and which were not. `None` if an older version recorded the run.
pub fn proven_cases<'a>(trials: impl IntoIterator<Item = (&'a str, Option<Proof>)>) -> Option<String> {
    let mut cases: Vec<(&str, Proof)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (case, proof) in trials {
        let proof = proof?;
        let place = *places.entry(case).or_insert(cases.len());
        match cases.get_mut(place) {
            // Variants may differ; a case is proven if it is with all of them.
            Some((_, known)) if *known == Proof::Proven => *known = proof,
            Some(_) => {}
            None => cases.push((case, proof)),
        }
    }
    let others: Vec<String> = cases
        .iter()
        .filter(|(_, proof)| *proof != Proof::Proven)
        .map(|(case, proof)| format!("`{case}` ({})", proof.as_str()))
        .collect();
    let word = if cases.len() == 1 { "case" } else { "cases" };
    let proven = format!("{} of {} {word} proven", cases.len() - others.len(), cases.len());
    let more = match others.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(match others.get(..others.len().min(LISTED)) {
        Some(shown) if !shown.is_empty() => format!("{proven}; not: {}{more}", shown.join(", ")),
        _ => proven,
    })
}

/// What a check showed, by the digest of its start tree and graders.
#[derive(Serialize, Deserialize)]
struct CachedProof {
    version: u32,
    proof: Proof,
}

fn proof_path(cache: &Path, nop_digest: &str) -> PathBuf {
    cache.join(FOLDER).join(format!("{nop_digest}.proof.json"))
}

/// Stores what a check showed. As with results, a failure to write it is not an error.
pub(super) fn store_proof(cache: &Path, nop_digest: &str, proof: Proof) {
    let path = proof_path(cache, nop_digest);
    if let Ok(bytes) = serde_json::to_vec(&CachedProof { version: VERSION, proof }) {
        let _ = std::fs::create_dir_all(cache.join(FOLDER));
        let _ =
            yb_model::atomic_file::write_atomic(&path, &bytes, yb_model::atomic_file::Durability::Unsynced);
    }
}

/// Returns what the last check of a case showed, with judges or without.
pub(crate) fn known_proof(cache: &Path, case: &Case, runner: &Runner, start: &StartPoint) -> Proof {
    for judges in [true, false] {
        let Ok(digest) = digest(case, runner, start, judges, None) else { return Proof::Unchecked };
        let found = std::fs::read(proof_path(cache, &digest)).ok();
        let found = found.and_then(|bytes| serde_json::from_slice::<CachedProof>(&bytes).ok());
        if let Some(found) = found.filter(|found| found.version == VERSION) {
            return found.proof;
        }
    }
    Proof::Unchecked
}
