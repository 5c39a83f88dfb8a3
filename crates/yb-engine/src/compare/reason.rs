//! The reason of a comparison in one sentence.

use yb_figures::{counted, level, percent, plural, points, points_range};

use super::Comparison;
use yb_stats::{AdditionalSamples, Decision, Difference, Estimand, ExcludedTrials};

/// `5 pp`, `2.5 pp`
fn tolerance(share: f64) -> String {
    format!("{} pp", (share * 1e6).round() / 1e4)
}

/// Writes the reason; `unknown` counts the trials of either run on which the decision depends.
pub(super) fn reason(found: &Comparison, unknown: [u64; 2], lost: ExcludedTrials, max_lost: f64) -> String {
    let about = match found.estimand {
        Estimand::Suite => "",
        Estimand::NewCases => " of new cases",
    };
    let Some(shown) = &found.pass_rate else {
        return format!(
            "inconclusive: no case has results in both runs{}",
            undecided(found, unknown, lost, max_lost)
        );
    };
    let tolerated = tolerance(found.question.tolerance);
    let seen = seen(found, shown);
    match found.decision {
        Decision::Ok => format!("ok: pass rate{about} did not drop by more than {tolerated}: {seen}"),
        Decision::Regressed => {
            format!("regressed: pass rate{about} dropped by more than {tolerated}: {seen}")
        }
        Decision::Inconclusive if unknown != [0, 0] => {
            format!("inconclusive: {seen}{}", undecided(found, unknown, lost, max_lost))
        }
        Decision::Inconclusive => format!("inconclusive: {seen}; {}", more(shown)),
    }
}

fn seen(found: &Comparison, shown: &Difference) -> String {
    let rate = |side: Option<f64>| side.map_or_else(|| "?".to_owned(), percent);
    let bounds = match shown.interval {
        Some(interval) => {
            let confidence = level(1.0 - found.question.alpha);
            format!(" ({confidence} bounds {})", points_range(interval.lower, interval.upper))
        }
        None => String::new(),
    };
    format!("{} → {}, {}{bounds}", rate(found.a.pass_rate), rate(found.b.pass_rate), points(shown.estimate))
}

fn undecided(found: &Comparison, unknown: [u64; 2], lost: ExcludedTrials, max_lost: f64) -> String {
    let all = unknown[0] + unknown[1];
    if all == 0 {
        return String::new();
    }
    match lost {
        ExcludedTrials::TreatAsUnknown => {
            let excluded = found.a.lost + found.b.lost;
            format!(
                "; {excluded} of {} excluded by infrastructure failures (maximum {})",
                plural(found.a.trials + found.b.trials, "trial"),
                percent(max_lost)
            )
        }
        ExcludedTrials::Omit => {
            format!("; {} could not be graded, which could change the result", plural(all, "trial"))
        }
    }
}

fn more(shown: &Difference) -> String {
    match shown.more {
        Some(AdditionalSamples::Repeats(count)) => {
            let repeats = counted(count, "more repeat", "more repeats");
            format!("about {repeats} of each case in both runs needed (80% power)")
        }
        Some(AdditionalSamples::Cases(count)) if shown.p_value.is_none() => {
            format!("at least {} with a difference needed", counted(count, "more case", "more cases"))
        }
        Some(AdditionalSamples::Cases(count)) => {
            format!("about {} needed (80% power)", counted(count, "more case", "more cases"))
        }
        Some(AdditionalSamples::Never) | None => "more repeats of these results would not help".to_owned(),
    }
}
