//! Markdown: the complete report, for a wiki, a pull request or a terminal.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use yb_engine::compare::Comparison;
use yb_figures::{count, duration_ms, money, percent, timestamp};

use crate::comparison;
use crate::csv::reason;
use crate::escape::{cell as code_cell, code, escape_text, fence};
use crate::evaluation::{Assertion, Evaluation, evaluations};
use crate::model::{Cell, Matrix, OutcomeClass, Report, Run, Trial};
use crate::value::{ROWS, ValueLayout, field_layout, layout, readable_name};

/// Renders a report as GitHub-flavored Markdown.
#[must_use]
pub fn markdown(report: &Report) -> String {
    let mut text = "# youBencha Evaluation Report\n".to_owned();
    if let Some(found) = &report.comparison {
        write_comparison(&mut text, found);
    }
    for run in &report.runs {
        if report.has_several_runs() {
            let _ = writeln!(text, "\n# {}\n", escape_text(&run.id));
        }
        write_run(&mut text, run);
    }
    text
}

fn write_comparison(text: &mut String, found: &Comparison) {
    let _ = writeln!(text, "\n## Comparison\n\n**{}**\n", escape_text(&found.reason));
    let runs = [("Before", comparison::before(found)), ("Now", found.b.run.clone())];
    facts(text, &runs.map(|(name, run)| (name, code_cell(&run))));
    text.push_str(
        "\n| all cases | before | now | difference | bounds |\n| --- | ---: | ---: | ---: | --- |\n",
    );
    for row in comparison::totals(found) {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text.push_str("\n| case | variant | before | now | change | time | cost |\n");
    text.push_str("| --- | --- | ---: | ---: | ---: | --- | --- |\n");
    for row in comparison::cases(found) {
        let (case, variant) = (escape_text(row.case), escape_text(&row.variant));
        let _ = writeln!(
            text,
            "| {case} | {variant} | {} | {} | {} | {} | {} |",
            row.before, row.now, row.change, row.time, row.cost
        );
    }
    for note in comparison::notes(found) {
        let _ = writeln!(text, "\n{}", escape_text(&note));
    }
}

fn write_run(text: &mut String, run: &Run) {
    let whole = run.totals();
    text.push_str("\n## Summary\n\n");
    let _ = writeln!(text, "**{}: {}**\n", escape_text(&run.name), passed(&whole));
    let outcomes: Vec<String> = run
        .outcomes()
        .iter()
        .map(|(outcome, count)| format!("{count} {}", escape_text(&outcome.name)))
        .collect();
    let mut rows = vec![
        ("Run", code_cell(&run.id)),
        ("State", escape_text(&run.condition)),
        ("Trials", format!("{} ({})", run.trials.len(), outcomes.join(", "))),
    ];
    rows.extend(run.proven_cases().map(|proven| ("Checks", escape_text(&proven))));
    if let Some(usd) = whole.money.total() {
        rows.push(("Cost", cost(&whole, usd)));
    }
    if let Some(ms) = whole.median_ms() {
        rows.push(("Median trial time", duration_ms(ms)));
    }
    for (name, value) in [("Started", &run.started_at), ("Last event", &run.last_at)] {
        rows.extend(value.as_ref().map(|at| (name, timestamp(at))));
    }
    rows.extend(run.config.as_ref().map(|config| ("Configuration", code_cell(config))));
    rows.extend(run.youbencha.as_ref().map(|version| ("youBencha", escape_text(version))));
    facts(text, &rows);
    for (name, value) in &run.extra {
        let _ = writeln!(text, "\n### {}\n", escape_text(&capitalize(&readable_name(name))));
        match value {
            Value::Object(parts) => fields(text, parts),
            value => show(text, value),
        }
    }
    matrix(text, run);
    variants(text, run);
    if run.trials.len() > 1 {
        trials(text, run);
    }
    for trial in &run.trials {
        write_trial(text, run, trial);
    }
}

fn passed(cell: &Cell) -> String {
    match cell.rate() {
        Some(rate) => format!("{} of {} passed ({})", cell.passed, cell.counted, percent(rate)),
        None => "no trial counted".to_owned(),
    }
}

fn cost(cell: &Cell, usd: f64) -> String {
    let parts =
        [("agent", cell.money.agent), ("subagents", cell.money.subagents), ("judge", cell.money.judge)];
    let known: Vec<String> =
        parts.into_iter().filter_map(|(who, usd)| Some(format!("{who} {}", money(usd?)))).collect();
    let apart = if known.len() > 1 { format!(" ({})", known.join(", ")) } else { String::new() };
    format!("{}{apart}", money(usd))
}

/// Writes a table of two columns without a header.
fn facts(text: &mut String, rows: &[(&str, String)]) {
    text.push_str("| | |\n| --- | --- |\n");
    for (name, value) in rows {
        let _ = writeln!(text, "| {name} | {value} |");
    }
}

fn matrix(text: &mut String, run: &Run) {
    let matrix = Matrix::of(run);
    if run.trials.len() < 2 {
        return;
    }
    text.push_str("\n## Cases and variants\n\n| case |");
    for variant in &matrix.variants {
        let _ = write!(text, " {} |", escape_text(variant));
    }
    text.push_str("\n| --- |");
    text.push_str(&" ---: |".repeat(matrix.variants.len()));
    text.push('\n');
    for case in &matrix.cases {
        let _ = write!(text, "| {} |", escape_text(case));
        for variant in &matrix.variants {
            match matrix.cell(case, variant) {
                Some(cell) => {
                    let _ = write!(text, " {}/{}", cell.passed, cell.counted);
                    if cell.excluded + cell.pending > 0 {
                        let _ = write!(text, " (+{} not counted)", cell.excluded + cell.pending);
                    }
                    text.push_str(" |");
                }
                None => text.push_str(" |"),
            }
        }
        text.push('\n');
    }
    if matrix.cells().any(|(_, _, cell)| cell.excluded + cell.pending > 0) {
        text.push_str(
            "\nPassed of counted trials; *not counted* are excluded, inconclusive and pending trials.\n",
        );
    }
}

/// Writes the totals of the variants, the effects of factors, and which is better.
fn variants(text: &mut String, run: &Run) {
    let Some(summary) = &run.variants else { return };
    for table in summary.tables() {
        let cells = |cells: &[String]| {
            cells.iter().map(|cell| format!(" {} |", escape_text(cell))).collect::<String>()
        };
        let _ = writeln!(text, "\n## {}\n\n|{}", table.title, cells(&table.header));
        let _ = writeln!(text, "|{}", " --- |".repeat(table.header.len()));
        for row in &table.rows {
            let _ = writeln!(text, "|{}", cells(row));
        }
    }
    text.push('\n');
    for answer in &summary.answers {
        let _ = writeln!(text, "- {}", escape_text(answer));
    }
}

fn trials(text: &mut String, run: &Run) {
    text.push_str("\n## Trials\n\n| | trial | outcome | time | cost | tokens | turns | reason |\n");
    text.push_str("| --- | --- | --- | ---: | ---: | ---: | ---: | --- |\n");
    for trial in &run.trials {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            trial.outcome.class.mark(),
            escape_text(&run.label(trial)),
            escape_text(&trial.outcome.name),
            trial.duration_ms.map(duration_ms).unwrap_or_default(),
            trial.money.total().map(money).unwrap_or_default(),
            trial.tokens.map(count).unwrap_or_default(),
            trial.turns.map(count).unwrap_or_default(),
            reason(trial).map(|why| code_cell(&crate::text::shorten(&why, 200))).unwrap_or_default(),
        );
    }
}

fn write_trial(text: &mut String, run: &Run, trial: &Trial) {
    let _ = writeln!(text, "\n## {} {}\n", trial.outcome.class.mark(), escape_text(&run.label(trial)));
    let results = trial.results();
    let log = trial.log().unwrap_or_default();
    let mut rows = vec![("Outcome", escape_text(&trial.outcome.name))];
    let field = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    for (name, value) in [
        ("Description", field(&results["test_case"]["description"]).map(|text| escape_text(&text))),
        ("Repository", field(&results["test_case"]["repo"]).map(|text| code_cell(&text))),
        ("Branch", field(&results["test_case"]["branch"]).map(|text| code_cell(&text))),
        ("Expected branch", field(&results["test_case"]["expected_branch"]).map(|text| code_cell(&text))),
        ("Commit", trial.commit.as_deref().map(code_cell)),
        ("Agent", Some(agent(trial, &log))),
        ("Exit code", results["agent"]["exit_code"].as_i64().map(|code| code.to_string())),
        ("Isolation", trial.isolation.as_deref().map(escape_text)),
        ("Started", trial.started_at.as_deref().map(timestamp)),
        ("Time", trial.duration_ms.map(duration_ms)),
        ("Turns", trial.turns.map(count)),
        ("Cost", trial.money.total().map(|usd| cost(&Cell { money: trial.money, ..Cell::default() }, usd))),
        ("Tokens", tokens(trial, &log)),
        ("Artifacts", trial.artifacts.as_ref().map(|path| code_cell(&path.display().to_string()))),
    ] {
        rows.extend(value.map(|value| (name, value)));
    }
    facts(text, &rows);
    if trial.attempts.len() > 1 {
        text.push('\n');
        for attempt in &trial.attempts {
            let why = attempt.error.as_deref().map(|why| format!(": {}", code(why))).unwrap_or_default();
            let _ = writeln!(
                text,
                "- attempt {}: {} in {}{why}",
                attempt.number,
                escape_text(&attempt.outcome.name),
                duration_ms(attempt.duration_ms)
            );
        }
    }
    if let Some(error) = &trial.error {
        let _ = writeln!(text, "\n**Error**\n\n{}", fence(error, "text").trim_end());
    }
    for warning in &trial.warnings {
        let _ = writeln!(text, "\n> warning: {}", escape_text(warning));
    }
    for error in log["errors"].as_array().into_iter().flatten() {
        if let Some(message) = error["message"].as_str() {
            let _ = writeln!(text, "\n> agent error: {}", escape_text(message));
        }
    }
    for one in evaluations(&results) {
        evaluation(text, &one);
    }
}

fn agent(trial: &Trial, log: &Value) -> String {
    let mut agent = escape_text(&trial.agent);
    if let Some(version) = log["agent"]["version"].as_str().filter(|version| *version != "unknown") {
        let _ = write!(agent, " {}", escape_text(version));
    }
    if let Some(model) = &trial.model {
        let _ = write!(agent, ", {}", escape_text(model));
    }
    agent
}

/// Formats all token counts; `None` if unreported.
fn tokens(trial: &Trial, log: &Value) -> Option<String> {
    let usage = &log["usage"];
    let total = trial.tokens.or_else(|| usage["total_tokens"].as_u64().filter(|total| *total > 0))?;
    let number = |names: [&str; 2]| names.iter().find_map(|name| usage[name].as_u64());
    let parts: Vec<String> = [
        ("input", number(["input_tokens", "prompt_tokens"])),
        ("output", number(["output_tokens", "completion_tokens"])),
        ("cache read", number(["cache_read_input_tokens", ""])),
        ("cache write", number(["cache_creation_input_tokens", ""])),
    ]
    .into_iter()
    .filter_map(|(name, tokens)| Some(format!("{} {name}", count(tokens.filter(|tokens| *tokens > 0)?))))
    .collect();
    let apart = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    Some(format!("{}{apart}", count(total)))
}

fn evaluation(text: &mut String, one: &Evaluation) {
    let mark = match one.status.as_str() {
        "passed" => OutcomeClass::Passed.mark(),
        "failed" => OutcomeClass::Failed.mark(),
        _ => OutcomeClass::Excluded.mark(),
    };
    let place =
        one.graded_code.as_ref().map(|place| format!(" ({})", escape_text(place))).unwrap_or_default();
    let _ = writeln!(text, "\n### {mark} {}: {}{place}\n", escape_text(&one.name), escape_text(&one.status));
    if !one.message.is_empty() {
        let _ = writeln!(text, "{}\n", escape_text(&one.message));
    }
    if let Some(error) = &one.error {
        let _ = writeln!(text, "{}", fence(error, "text"));
    }
    for failure in &one.failures {
        let _ = writeln!(text, "**{}**\n", escape_text(failure.title()));
        if !failure.lines.is_empty() {
            let _ = writeln!(text, "{}", fence(&failure.lines.join("\n"), "text"));
        }
    }
    let mut asides = Vec::new();
    asides.extend(one.duration_ms.map(|ms| format!("took {}", duration_ms(ms))));
    asides.extend(one.cost_usd.map(|usd| format!("cost {}", money(usd))));
    if !asides.is_empty() {
        let _ = writeln!(text, "*{}*\n", asides.join(", "));
    }
    assertions(text, &one.assertions);
    fields(text, &one.metrics);
    fields(text, &one.rest);
    for (path, description) in &one.artifacts {
        let _ = writeln!(text, "- {} {}", code(path), escape_text(description));
    }
}

fn assertions(text: &mut String, assertions: &[Assertion]) {
    if assertions.is_empty() {
        return;
    }
    text.push_str("| assertion | passed | score | threshold | remark |\n| --- | --- | ---: | ---: | --- |\n");
    for one in assertions {
        let passed = match one.passed {
            Some(true) => "✓",
            Some(false) => "✗",
            None => "",
        };
        let cell = |text: &Option<String>| text.as_deref().map(escape_text).unwrap_or_default();
        let _ = writeln!(
            text,
            "| {} | {passed} | {} | {} | {} |",
            escape_text(&one.name),
            cell(&one.score),
            cell(&one.threshold),
            escape_text(&one.remark)
        );
    }
    text.push('\n');
}

/// Writes scalar values as a table and the others after it, each in its own layout.
fn fields(text: &mut String, fields: &Map<String, Value>) {
    let mut nested = Vec::new();
    let mut rows = String::new();
    for (name, value) in fields {
        match field_layout(name, value) {
            ValueLayout::Line(line) => {
                let _ = writeln!(rows, "| {} | {} |", escape_text(&readable_name(name)), escape_text(&line));
            }
            _ => nested.push((name, value)),
        }
    }
    if !rows.is_empty() {
        let _ = writeln!(text, "| metric | value |\n| --- | --- |\n{rows}");
    }
    for (name, value) in nested {
        let _ = writeln!(text, "**{}**\n", escape_text(&readable_name(name)));
        show(text, value);
        text.push('\n');
    }
}

fn show(text: &mut String, value: &Value) {
    match layout(value) {
        ValueLayout::Line(line) => {
            let _ = writeln!(text, "{}", escape_text(&line));
        }
        ValueLayout::List(lines) => {
            for line in lines.iter().take(ROWS) {
                let _ = writeln!(text, "- {}", escape_text(line));
            }
            more(text, lines.len());
        }
        ValueLayout::Table(columns, rows) => {
            let names: Vec<String> = columns.iter().map(|name| escape_text(&readable_name(name))).collect();
            let _ = writeln!(text, "| {} |\n|{}", names.join(" | "), " --- |".repeat(columns.len()));
            for row in rows.iter().take(ROWS) {
                let cells: Vec<String> = row.iter().map(|cell| escape_text(cell)).collect();
                let _ = writeln!(text, "| {} |", cells.join(" | "));
            }
            more(text, rows.len());
        }
        ValueLayout::Json(json) => text.push_str(&fence(&json, "json")),
    }
}

fn more(text: &mut String, all: usize) {
    if all > ROWS {
        let _ = writeln!(text, "\nand {}", count(all - ROWS) + " more");
    }
}

fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
