//! The answer in one sentence.

use super::Comparison;
use yb_stats::{Decision, Difference, Estimand, Lost, More};

/// `93.3 %`
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// `-3.3`; never `-0.0`
fn points(share: f64) -> String {
    let rounded = (share * 1000.0).round() / 10.0;
    format!("{:+.1}", if rounded == 0.0 { 0.0 } else { rounded })
}

/// `5`, `2.5`
fn tolerance(share: f64) -> String {
    format!("{}", (share * 1e6).round() / 1e4)
}

/// `unknown` are the trials of either run on which the answer depends.
pub(super) fn reason(found: &Comparison, unknown: [u64; 2], lost: Lost, max_lost: f64) -> String {
    let about = match found.estimand {
        Estimand::Suite => "",
        Estimand::NewCases => " of new cases",
    };
    let Some(shown) = &found.pass_rate else {
        return format!(
            "cannot tell: no case has results in both runs{}",
            many(found, unknown, lost, max_lost)
        );
    };
    let tolerated = tolerance(found.question.tolerance);
    let seen = seen(found, shown);
    match found.decision {
        Decision::Ok => {
            format!("ok: the pass rate{about} is not lower by more than {tolerated} points: {seen}")
        }
        Decision::Regressed => {
            format!("regressed: the pass rate{about} is lower by more than {tolerated} points: {seen}")
        }
        Decision::CannotTell if unknown != [0, 0] => {
            format!("cannot tell: {seen}{}", many(found, unknown, lost, max_lost))
        }
        Decision::CannotTell => format!("cannot tell: {seen}; {}", more(shown)),
    }
}

fn seen(found: &Comparison, shown: &Difference) -> String {
    let rate = |side: Option<f64>| side.map_or_else(|| "?".to_owned(), percent);
    let bounds = match shown.interval {
        Some(interval) => {
            let sure = percent(1.0 - found.question.alpha).replace(".0", "");
            format!(" ({sure} bounds {} and {})", points(interval.lower), points(interval.upper))
        }
        None => String::new(),
    };
    format!(
        "{} → {}, {} points{bounds}",
        rate(found.a.pass_rate),
        rate(found.b.pass_rate),
        points(shown.estimate)
    )
}

fn many(found: &Comparison, unknown: [u64; 2], lost: Lost, max_lost: f64) -> String {
    let all = unknown[0] + unknown[1];
    if all == 0 {
        return String::new();
    }
    let noun = if all == 1 { "trial" } else { "trials" };
    match lost {
        Lost::Either => {
            let gone = found.a.lost + found.b.lost;
            format!(
                "; {gone} of {} trials were lost, more than {}",
                found.a.trials + found.b.trials,
                percent(max_lost)
            )
        }
        Lost::LeftOut => format!("; {all} {noun} could not be graded, and the answer depends on them"),
    }
}

fn more(shown: &Difference) -> String {
    let s = |count: u64| if count == 1 { "" } else { "s" };
    match shown.more {
        Some(More::Repeats(count)) => {
            format!("about {count} more repeat{} of each case in both runs would tell (80 % power)", s(count))
        }
        Some(More::Cases(count)) if shown.p_value.is_none() => {
            format!("at least {count} more case{} with a difference are needed", s(count))
        }
        Some(More::Cases(count)) => format!("about {count} more case{} would tell (80 % power)", s(count)),
        Some(More::Never) | None => "more repeats of what was seen would not tell".to_owned(),
    }
}
