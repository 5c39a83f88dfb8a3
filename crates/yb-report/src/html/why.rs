//! Why a trial did not pass, before anything else: the error, the failing tests with what their runner printed, the assertions.

use yb_figures::plural;

use super::markup::Markup;
use crate::evaluation::{Evaluation, Failure};
use crate::model::{OutcomeClass, Trial};
use crate::text::shorten;
use crate::value::readable_name;

/// The maximum number of failures and of assertions of an evaluator; all of them are further below.
const SHOWN: usize = 3;
/// The maximum number of lines of a failure.
const LINES: usize = 25;

/// Writes the reasons of a trial that did not pass.
pub(super) fn write(body: &mut Markup, trial: &Trial, evaluations: &[Evaluation]) {
    if matches!(trial.outcome.class, OutcomeClass::Passed | OutcomeClass::Pending) {
        return;
    }
    let bad: Vec<&Evaluation> = evaluations.iter().filter(|one| one.status != "passed").collect();
    if bad.is_empty() && trial.error.is_none() {
        return;
    }
    body.raw("<section class=\"card why-box\"><h2>")
        .raw(match trial.outcome.class {
            OutcomeClass::Failed => "Why it failed",
            _ => "Why it does not count",
        })
        .raw("</h2>");
    if let Some(error) = &trial.error {
        body.raw("<pre class=\"clip\">").text(&shorten(error, 8_000)).raw("</pre>");
    }
    for one in bad {
        body.raw("<h3>").text(&one.name).raw(" <span class=\"soft\">").text(&readable_name(&one.status));
        body.raw("</span></h3>");
        if !one.message.is_empty() {
            body.element("p", "", &shorten(&one.message, 2_000));
        }
        if let Some(error) = &one.error {
            body.raw("<pre class=\"clip\">").text(&shorten(error, 8_000)).raw("</pre>");
        }
        one.failures.iter().take(SHOWN).for_each(|failure| write_failure(body, failure));
        let failed: Vec<_> = one.assertions.iter().filter(|one| one.passed == Some(false)).collect();
        for assertion in failed.iter().take(SHOWN) {
            body.raw("<div class=\"failure\"><div class=\"label\"><span class=\"c-fail\">✗</span> ");
            body.text(&readable_name(&assertion.name)).raw("</div><dl class=\"facts\">");
            for (name, value) in [("expected", &assertion.threshold), ("actual", &assertion.score)] {
                if let Some(value) = value {
                    body.raw("<div><dt>").raw(name).raw("</dt><dd>").text(value).raw("</dd></div>");
                }
            }
            body.raw("</dl>");
            if !assertion.remark.is_empty() {
                body.element("p", "", &shorten(&assertion.remark, 2_000));
            }
            body.raw("</div>");
        }
        let more = one.failures.len().saturating_sub(SHOWN) + failed.len().saturating_sub(SHOWN);
        if more > 0 {
            body.element("p", "hint", &format!("{} more below", plural(more, "failure")));
        }
    }
    body.raw("</section>");
}

fn write_failure(body: &mut Markup, failure: &Failure) {
    body.raw("<div class=\"failure\"><div class=\"label\">");
    if failure.test.is_some() {
        body.raw("<span class=\"c-fail\">✗</span> ");
    }
    body.text(failure.title()).raw("</div>");
    if !failure.lines.is_empty() {
        let shown = failure.lines.iter().take(LINES).map(String::as_str).collect::<Vec<_>>().join("\n");
        body.raw("<pre class=\"clip\" tabindex=\"0\">").text(&shown);
        if let more @ 1.. = failure.lines.len().saturating_sub(LINES) {
            body.raw("<span class=\"cut\">").text(&format!("… {} more", plural(more, "line"))).raw("</span>");
        }
        body.raw("</pre>");
    }
    body.raw("</div>");
}
