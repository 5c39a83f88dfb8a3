//! The reason of a comparison in one sentence.

use yb_figures::{counted, level, p_value, percent, plural, points, points_range};

use super::Comparison;
use yb_stats::{
    AdditionalSamples, Answer, Decision, Difference, Estimand, ExcludedTrials, RegressionCriteria,
};

/// `5 pp`, `2.5 pp`
pub(super) fn tolerance(share: f64) -> String {
    format!("{} pp", (share * 1e6).round() / 1e4)
}

/// The names and pass rates of the compared sides.
pub(super) struct Sides<'a> {
    pub(super) a: &'a str,
    pub(super) b: &'a str,
    pub(super) rates: (Option<f64>, Option<f64>),
}

/// Writes which side is better. `alpha` is the error rate before a correction for several comparisons, which `criteria` has.
pub(super) fn answer_sentence(
    answer: Answer,
    sides: &Sides<'_>,
    found: Option<&Difference>,
    criteria: &RegressionCriteria,
    alpha: f64,
) -> String {
    let Sides { a, b, rates } = sides;
    let answer = match answer {
        Answer::Better => format!("better: `{b}` passes more often than `{a}`"),
        Answer::Worse => format!("worse: `{b}` passes less often than `{a}`"),
        Answer::NoDifference => {
            format!("no difference beyond {} between `{a}` and `{b}`", tolerance(criteria.tolerance))
        }
        Answer::CannotTell => format!("cannot tell whether `{b}` is better than `{a}`"),
    };
    let Some(found) = found else { return answer };
    let rate = |side: Option<f64>| side.map_or_else(|| "?".to_owned(), percent);
    let mut details = Vec::new();
    if let Some(ends) = found.interval {
        details.push(format!("{} bounds {}", level(1.0 - alpha), points_range(ends.lower, ends.upper)));
    }
    // Of several comparisons, each p-value is multiplied by their number (Bonferroni), as the error rate was divided by it.
    let comparisons = alpha / criteria.alpha;
    let corrected = if comparisons > 1.5 { "corrected " } else { "" };
    details.extend(found.p_value.map(|p| match p_value((p * comparisons).min(1.0)) {
        small if small.starts_with('<') => format!("{corrected}p {small}"),
        p => format!("{corrected}p = {p}"),
    }));
    let details = if details.is_empty() { String::new() } else { format!(" ({})", details.join(", ")) };
    format!("{answer}: {} → {}, {}{details}", rate(rates.0), rate(rates.1), points(found.estimate))
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
