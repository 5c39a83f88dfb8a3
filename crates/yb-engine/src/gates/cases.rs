//! Gates about single cases: none may die, none may drop by more than a limit.

use std::path::Path;

use yb_figures::{level, percent, plural};
use yb_stats::{
    CasePasses, CasesDecision, Decision, RegressionCriteria, find_dead_cases, find_dropped_cases,
};

use super::evaluate::{gate_result, missing, status};
use super::{CaseComparison, GateResult, PerCase};
use crate::baseline::RecordedRun;
use crate::compare::{self, PairedCase};
use crate::run::RunResults;

/// The maximum number of cases in a reason.
const NAMED: usize = 5;

pub(super) fn no_case_dies(
    gate: &CaseComparison,
    max_lost: f64,
    results: &RunResults,
    root: &Path,
) -> GateResult {
    let decide = |cases: &[CasePasses]| find_dead_cases(cases, gate.alpha);
    let words = Words {
        ok: "every case that passed before passed at least once".to_owned(),
        regressed: "no longer passes",
        inconclusive: "no longer passes, but that could be chance",
    };
    evaluate("no_case_dies", gate, max_lost, (results, root), decide, &words)
}

pub(super) fn per_case(gate: &PerCase, max_lost: f64, results: &RunResults, root: &Path) -> GateResult {
    let criteria = RegressionCriteria::new(gate.max_drop, gate.comparison.alpha);
    let decide = |cases: &[CasePasses]| find_dropped_cases(cases, &criteria);
    let words = Words {
        ok: format!("no case dropped by more than {}", percent(gate.max_drop)),
        regressed: "dropped by more than the limit",
        inconclusive: "may have dropped by more than the limit: more repeats are needed",
    };
    let found = evaluate("per_case", &gate.comparison, max_lost, (results, root), decide, &words);
    GateResult { limit: Some(gate.max_drop), ..found }
}

/// The sentences of a gate.
struct Words {
    ok: String,
    regressed: &'static str,
    inconclusive: &'static str,
}

fn evaluate(
    name: &str,
    gate: &CaseComparison,
    max_lost: f64,
    (results, root): (&RunResults, &Path),
    decide: impl Fn(&[CasePasses]) -> CasesDecision,
    words: &Words,
) -> GateResult {
    let before = match RecordedRun::before(root, &gate.against, Some(&results.run)) {
        Ok(before) => before,
        Err(error) => return missing(name, &error, gate.on_inconclusive, gate.if_missing),
    };
    let now = RecordedRun { baseline: None, results: results.clone() };
    let paired = match compare::paired_cases(&before, &now, max_lost) {
        Ok(paired) => paired,
        Err(error) => {
            let (status, note) = status(Decision::Inconclusive, gate.on_inconclusive);
            return gate_result(name.to_owned(), status, format!("inconclusive: {error}{note}"));
        }
    };
    // Trials without a known result count both ways; if that changes the decision, it is inconclusive.
    let all: Vec<CasesDecision> = paired.readings().iter().map(|cases| decide(cases)).collect();
    let mut found = all[0].clone();
    if all.iter().any(|other| other.decision != found.decision) {
        found = all.into_iter().find(|one| one.decision != Decision::Ok).unwrap_or(found);
        found.decision = Decision::Inconclusive;
    }
    let (status, note) = status(found.decision, gate.on_inconclusive);
    let named: Vec<&PairedCase> = found.cases.iter().map(|index| &paired.cases[*index]).collect();
    let reason = match found.decision {
        Decision::Ok => words.ok.clone(),
        Decision::Regressed => format!("{}: {}", list(&named), words.regressed),
        Decision::Inconclusive => format!("{}: {}", list(&named), words.inconclusive),
    };
    let p = found.p_value.map(|p| format!("p = {p:.3}, ")).unwrap_or_default();
    let rate = level(gate.alpha);
    let cases = plural(paired.cases.len(), "case");
    let of = format!(" ({p}error rate {rate} over {cases}, against {})", before.label());
    let gone = match paired.only_before.len() {
        0 => String::new(),
        gone => format!("; {} of the baseline not in this run", plural(gone, "case")),
    };
    GateResult {
        cases: named.iter().map(|case| case.label.clone()).collect(),
        ..gate_result(name.to_owned(), status, format!("{reason}{of}{gone}{note}"))
    }
}

/// `one 3/3 → 0/3, two 3/3 → 0/3`
fn list(cases: &[&PairedCase]) -> String {
    let one = |case: &&PairedCase| {
        let ratio = |counts: &yb_stats::OutcomeCounts| format!("{}/{}", counts.passed, counts.counted());
        format!("`{}` {} → {}", case.label, ratio(&case.a), ratio(&case.b))
    };
    let mut text = cases.iter().take(NAMED).map(one).collect::<Vec<_>>().join(", ");
    if cases.len() > NAMED {
        text += &format!(" and {} more", cases.len() - NAMED);
    }
    text
}
