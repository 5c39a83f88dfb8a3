//! Charts of time and cost. Labels are page text, so that they stay readable on a phone; only marks are SVG.

use yb_figures::{duration_ms, money, plural};

use super::markup::Markup;
use crate::model::{Cell, Run, Trial};

/// The maximum number of rows; the rest is counted.
const ROWS: usize = 14;
/// The maximum number of marks of a row.
const MARKS: usize = 40;

/// The trials of one row.
struct Group<'a> {
    name: &'a str,
    trials: Vec<&'a Trial>,
    cell: Cell,
}

/// Groups trials by variant if there are several, or else by case.
fn groups(run: &Run) -> Vec<Group<'_>> {
    let by_variant = run.trials.iter().any(|trial| trial.variant != run.trials[0].variant);
    let mut groups: Vec<Group<'_>> = Vec::new();
    for trial in &run.trials {
        let name = if by_variant { trial.variant.as_str() } else { trial.case.as_str() };
        let at = groups.iter().position(|group| group.name == name).unwrap_or_else(|| {
            groups.push(Group { name, trials: Vec::new(), cell: Cell::default() });
            groups.len() - 1
        });
        groups[at].trials.push(trial);
        groups[at].cell.add(trial);
    }
    groups
}

pub(super) fn write(body: &mut Markup, run: &Run) {
    let groups = groups(run);
    body.raw("<div class=\"charts\">");
    times(body, &groups);
    costs(body, &groups);
    body.raw("</div>");
}

fn times(body: &mut Markup, groups: &[Group<'_>]) {
    let longest = groups.iter().flat_map(|group| &group.cell.times).max().copied().unwrap_or(0);
    if longest == 0 {
        return;
    }
    body.raw("<section class=\"card chart\"><h2>Time</h2><p class=\"hint\">");
    let sampled = groups.iter().any(|group| group.trials.len() > MARKS);
    body.raw(if sampled { "A sample of the trials" } else { "One line per trial" });
    body.raw("; the thick line is the median.</p>");
    for group in groups.iter().take(ROWS) {
        let median = group.cell.median_ms();
        let label = format!(
            "{}: median time {}, {}",
            group.name,
            median.map(duration_ms).unwrap_or_default(),
            plural(group.cell.times.len(), "trial")
        );
        begin(body, group.name, &label);
        let x = |ms: u64| format!("{:.1}", 4.0 + ms as f64 / longest as f64 * 992.0);
        // Evenly from the shortest to the longest, so that the spread stays visible.
        let mut trials = group.trials.clone();
        trials.sort_by_key(|trial| trial.duration_ms);
        for trial in trials.iter().step_by(trials.len().div_ceil(MARKS).max(1)) {
            let Some(ms) = trial.duration_ms else { continue };
            body.raw("<line class=\"s-").raw(trial.outcome.class.key()).raw("\" y1=\"6\" y2=\"22\"");
            body.attr("x1", &x(ms)).attr("x2", &x(ms)).raw("><title>");
            body.text(&format!("{}: {}, {}", trial.name, trial.outcome.name, duration_ms(ms)))
                .raw("</title></line>");
        }
        if let Some(ms) = median {
            body.raw("<line class=\"median\" y1=\"2\" y2=\"26\"")
                .attr("x1", &x(ms))
                .attr("x2", &x(ms))
                .raw("/>");
        }
        end(body, &median.map(duration_ms).unwrap_or_default());
    }
    axis(body, groups.len(), "0 ms", &duration_ms(longest));
    body.raw("</section>");
}

fn costs(body: &mut Markup, groups: &[Group<'_>]) {
    let most = groups.iter().filter_map(|group| group.cell.money.total()).fold(0.0, f64::max);
    if most <= 0.0 {
        return;
    }
    let judged = groups.iter().any(|group| group.cell.money.judge.is_some());
    let subagents = groups.iter().any(|group| group.cell.money.subagents.is_some());
    body.raw("<section class=\"card chart\"><h2>Cost</h2><p class=\"hint\">");
    body.raw("<i class=\"dot k-agent\"></i>agent");
    if subagents {
        body.raw(" <i class=\"dot k-subagents\"></i>subagents");
    }
    if judged {
        body.raw(" <i class=\"dot k-judge\"></i>judge");
    }
    body.raw("</p>");
    for group in groups.iter().take(ROWS) {
        let spend = group.cell.money;
        let shown = spend.total().map(money).unwrap_or_else(|| "unknown".to_owned());
        let each = match (spend.total(), group.cell.passed) {
            (Some(usd), passed) if passed > 0 => format!(", {} per pass", money(usd / passed as f64)),
            _ => String::new(),
        };
        let label = format!("{}: cost {shown}{each}", group.name);
        begin(body, group.name, &label);
        let mut at = 4.0;
        for (class, who, usd) in [
            ("k-agent", "agent", spend.agent),
            ("k-subagents", "subagents", spend.subagents),
            ("k-judge", "judge", spend.judge),
        ] {
            let Some(usd) = usd.filter(|usd| *usd > 0.0) else { continue };
            let width = usd / most * 992.0;
            body.raw("<rect class=\"")
                .raw(class)
                .raw("\" y=\"6\" height=\"16\"")
                .attr("x", &format!("{at:.1}"));
            body.attr("width", &format!("{width:.1}")).raw("><title>");
            body.text(&format!("{}: {who} {}", group.name, money(usd))).raw("</title></rect>");
            at += width;
        }
        end(body, &shown);
    }
    axis(body, groups.len(), "$0.00", &money(most));
    body.raw("</section>");
}

fn begin(body: &mut Markup, name: &str, label: &str) {
    body.raw("<div class=\"strip\"><span class=\"name\"")
        .attr("title", name)
        .raw(">")
        .text(name)
        .raw("</span>");
    body.raw("<svg viewBox=\"0 0 1000 28\" preserveAspectRatio=\"none\" role=\"img\"")
        .attr("aria-label", label);
    body.raw("><title>")
        .text(label)
        .raw("</title><rect class=\"ground\" x=\"0\" y=\"6\" width=\"1000\" height=\"16\"/>");
}

fn end(body: &mut Markup, shown: &str) {
    body.raw("</svg>").element("span", "num", shown).raw("</div>");
}

pub(super) fn axis(body: &mut Markup, groups: usize, from: &str, to: &str) {
    body.raw("<div class=\"strip axis\" aria-hidden=\"true\"><span></span><span class=\"ends\">");
    body.element("span", "", from).element("span", "", to).raw("</span><span></span></div>");
    if groups > ROWS {
        body.element("p", "hint", &format!("and {} more", groups - ROWS));
    }
}
