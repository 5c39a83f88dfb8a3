//! Time and cost as small charts: labels are text of the page, so they stay readable on a phone; only marks are drawn.

use super::markup::Markup;
use crate::figures::{dollars, duration, plural};
use crate::model::{Cell, Run, Trial};

/// Rows of a chart; of more, the rest is counted.
const ROWS: usize = 14;

/// Trials that belong together in a chart.
struct Group<'a> {
    name: &'a str,
    trials: Vec<&'a Trial>,
    cell: Cell,
}

/// By variant if there are several, else by case.
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
    body.raw("<section class=\"card chart\"><h2>Time</h2><p class=\"hint\">A line for each trial, a thick one for the median.</p>");
    for group in groups.iter().take(ROWS) {
        let median = group.cell.median_ms();
        let said = format!(
            "{}: median time {}, {}",
            group.name,
            median.map(duration).unwrap_or_default(),
            plural(group.cell.times.len(), "trial")
        );
        begin(body, group.name, &said);
        let x = |ms: u64| format!("{:.1}", 4.0 + ms as f64 / longest as f64 * 992.0);
        for trial in &group.trials {
            let Some(ms) = trial.duration_ms else { continue };
            body.raw("<line class=\"s-").raw(trial.verdict.standing.class()).raw("\" y1=\"6\" y2=\"22\"");
            body.attr("x1", &x(ms)).attr("x2", &x(ms)).raw("><title>");
            body.text(&format!("{}: {}, {}", trial.name, trial.verdict.word, duration(ms)))
                .raw("</title></line>");
        }
        if let Some(ms) = median {
            body.raw("<line class=\"median\" y1=\"2\" y2=\"26\"")
                .attr("x1", &x(ms))
                .attr("x2", &x(ms))
                .raw("/>");
        }
        end(body, &median.map(duration).unwrap_or_default());
    }
    axis(body, groups.len(), "0 s", &duration(longest));
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
        let money = group.cell.money;
        let shown = money.total().map(dollars).unwrap_or_else(|| "unknown".to_owned());
        let each = match (money.total(), group.cell.passed) {
            (Some(usd), passed) if passed > 0 => format!(", {} for each pass", dollars(usd / passed as f64)),
            _ => String::new(),
        };
        let said = format!("{}: cost {shown}{each}", group.name);
        begin(body, group.name, &said);
        let mut at = 4.0;
        for (class, who, usd) in [
            ("k-agent", "agent", money.agent),
            ("k-subagents", "subagents", money.subagents),
            ("k-judge", "judge", money.judge),
        ] {
            let Some(usd) = usd.filter(|usd| *usd > 0.0) else { continue };
            let width = usd / most * 992.0;
            body.raw("<rect class=\"")
                .raw(class)
                .raw("\" y=\"6\" height=\"16\"")
                .attr("x", &format!("{at:.1}"));
            body.attr("width", &format!("{width:.1}")).raw("><title>");
            body.text(&format!("{}: {who} {}", group.name, dollars(usd))).raw("</title></rect>");
            at += width;
        }
        end(body, &shown);
    }
    axis(body, groups.len(), "$0", &dollars(most));
    body.raw("</section>");
}

fn begin(body: &mut Markup, name: &str, said: &str) {
    body.raw("<div class=\"strip\"><span class=\"name\"")
        .attr("title", name)
        .raw(">")
        .text(name)
        .raw("</span>");
    body.raw("<svg viewBox=\"0 0 1000 28\" preserveAspectRatio=\"none\" role=\"img\"")
        .attr("aria-label", said);
    body.raw("><title>")
        .text(said)
        .raw("</title><rect class=\"ground\" x=\"0\" y=\"6\" width=\"1000\" height=\"16\"/>");
}

fn end(body: &mut Markup, shown: &str) {
    body.raw("</svg>").element("span", "num", shown).raw("</div>");
}

fn axis(body: &mut Markup, groups: usize, from: &str, to: &str) {
    body.raw("<div class=\"strip axis\" aria-hidden=\"true\"><span></span><span class=\"ends\">");
    body.element("span", "", from).element("span", "", to).raw("</span><span></span></div>");
    if groups > ROWS {
        body.element("p", "hint", &format!("and {} more", groups - ROWS));
    }
}
