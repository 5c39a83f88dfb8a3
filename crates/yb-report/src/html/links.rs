//! Links from a figure to its trials: addresses for a server, attributes for the script of a page on disk.

use super::markup::Markup;

/// The addresses of trials.
pub trait Links {
    /// Returns the address of a list of trials: of a case, a variant or an outcome.
    fn trials(&self, case: Option<&str>, variant: Option<&str>, outcome: Option<&str>) -> String;
}

/// Links of a report on disk: its script filters the list.
pub(super) struct OnPage;

impl Links for OnPage {
    fn trials(&self, _: Option<&str>, _: Option<&str>, _: Option<&str>) -> String {
        "#trials".to_owned()
    }
}

/// Opens a link to the trials of a case and a variant of the run at a position.
pub(super) fn open(
    body: &mut Markup,
    links: &dyn Links,
    run: usize,
    case: Option<&str>,
    variant: Option<&str>,
    label: &str,
) {
    body.raw("<a class=\"filter\"").attr("href", &links.trials(case, variant, None));
    body.attr("data-run", &run.to_string());
    for (name, value) in [("data-case", case), ("data-variant", variant)] {
        if let Some(value) = value {
            body.attr(name, value);
        }
    }
    if !label.is_empty() {
        body.attr("aria-label", label);
    }
    body.raw(">");
}

/// Opens a link to the trials with an outcome.
pub(super) fn open_outcome(body: &mut Markup, links: &dyn Links, outcome: &str) {
    body.raw("<a class=\"filter\"").attr("href", &links.trials(None, None, Some(outcome)));
    body.attr("data-outcome", outcome).raw(">");
}
