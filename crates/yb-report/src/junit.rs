//! JUnit XML as read by Jenkins, GitLab, GitHub Actions, Azure and CircleCI: a test suite per variant, a test case per
//! trial.

use crate::csv::{failure_text, reason};
use crate::escape::markup;
use crate::model::{OutcomeClass, Report, Run, Trial};

/// Maximum number of lines about the failures of a trial.
const LINES: usize = 300;

/// Renders a report as JUnit XML. A failed trial is a `failure`, an inconclusive one an `error`, an excluded or pending one
/// `skipped`.
#[must_use]
pub fn junit(report: &Report) -> String {
    let mut xml = Xml { text: "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned() };
    let all: Vec<&Trial> = report.trials().map(|(_, trial)| trial).collect();
    let name = report.runs.iter().map(|run| run.name.as_str()).collect::<Vec<_>>().join(", ");
    xml.open("testsuites", &[("name", &name)], Some(&all));
    for run in &report.runs {
        let mut variants: Vec<&str> = Vec::new();
        for trial in &run.trials {
            if !variants.contains(&trial.variant.as_str()) {
                variants.push(&trial.variant);
            }
        }
        for variant in variants {
            suite(&mut xml, report, run, variant);
        }
    }
    xml.text.push_str("</testsuites>\n");
    xml.text
}

fn suite(xml: &mut Xml, report: &Report, run: &Run, variant: &str) {
    let trials: Vec<&Trial> = run.trials.iter().filter(|trial| trial.variant == variant).collect();
    let mut name = if variant == "default" { run.name.clone() } else { format!("{} / {variant}", run.name) };
    if report.has_several_runs() {
        name = format!("{name} ({})", run.id);
    }
    let mut attributes = vec![("name", name.as_str())];
    // The schema requires a time without a zone.
    let started = run.started_at.as_deref().and_then(|at| at.get(..19)).unwrap_or_default();
    if !started.is_empty() {
        attributes.push(("timestamp", started));
    }
    xml.open("testsuite", &attributes, Some(&trials));
    xml.text.push_str("    <properties>\n");
    let version = run.youbencha.as_deref().unwrap_or_default();
    for (name, value) in [("run", run.id.as_str()), ("variant", variant), ("youbencha", version)] {
        xml.property(name, value);
    }
    xml.text.push_str("    </properties>\n");
    for trial in trials {
        case(xml, run, trial);
    }
    xml.text.push_str("  </testsuite>\n");
}

fn case(xml: &mut Xml, run: &Run, trial: &Trial) {
    let name = run.label(trial);
    let seconds = seconds(trial.duration_ms.unwrap_or(0));
    xml.open("testcase", &[("name", &name), ("classname", &trial.case), ("time", &seconds)], None);
    let word = &trial.outcome.name;
    let message = match reason(trial) {
        Some(why) if word == "failed" => why,
        Some(why) => format!("{word}: {why}"),
        None => word.clone(),
    };
    match trial.outcome.class {
        OutcomeClass::Passed => {}
        OutcomeClass::Failed => xml.problem("failure", word, &message, &failure_text(trial, LINES)),
        OutcomeClass::Inconclusive => xml.problem("error", word, &message, &failure_text(trial, LINES)),
        OutcomeClass::Excluded | OutcomeClass::Pending => {
            xml.text.push_str("      <skipped");
            xml.attribute("message", &message);
            xml.text.push_str("/>\n");
        }
    }
    xml.text.push_str("      <system-out>");
    markup(&mut xml.text, &trial_facts(trial));
    xml.text.push_str("</system-out>\n");
    xml.text.push_str("    </testcase>\n");
}

/// Returns the facts about a trial as text: the schema that some CI systems check against has no properties of test cases.
fn trial_facts(trial: &Trial) -> String {
    let tokens = trial.tokens.map(|tokens| tokens.to_string());
    let cost = trial.money.total().map(|usd| usd.to_string());
    let artifacts = trial.artifacts.as_ref().map(|path| path.display().to_string());
    let facts = [
        ("trial", Some(&trial.name)),
        ("outcome", Some(&trial.outcome.name)),
        ("agent", Some(&trial.agent)),
        ("model", trial.model.as_ref()),
        ("cost_usd", cost.as_ref()),
        ("tokens", tokens.as_ref()),
        ("isolation", trial.isolation.as_ref()),
        ("artifacts", artifacts.as_ref()),
    ];
    let known = facts.iter().filter_map(|(name, value)| Some(format!("{name}: {}", value.as_ref()?)));
    known.collect::<Vec<_>>().join("\n")
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

struct Xml {
    text: String,
}

impl Xml {
    /// Writes a start tag on its own line, with the counts of a suite if trials are given.
    fn open(&mut self, tag: &str, attributes: &[(&str, &str)], trials: Option<&[&Trial]>) {
        let depth = match tag {
            "testsuites" => "",
            "testsuite" => "  ",
            _ => "    ",
        };
        self.text.push_str(depth);
        self.text.push('<');
        self.text.push_str(tag);
        for (name, value) in attributes {
            self.attribute(name, value);
        }
        if let Some(trials) = trials {
            let count = |classes: &[OutcomeClass]| {
                trials.iter().filter(|trial| classes.contains(&trial.outcome.class)).count().to_string()
            };
            self.attribute("tests", &trials.len().to_string());
            self.attribute("failures", &count(&[OutcomeClass::Failed]));
            self.attribute("errors", &count(&[OutcomeClass::Inconclusive]));
            // `testsuites` has no such count in the schema that Jenkins checks against.
            if tag == "testsuite" {
                self.attribute("skipped", &count(&[OutcomeClass::Excluded, OutcomeClass::Pending]));
            }
            let time: u64 = trials.iter().filter_map(|trial| trial.duration_ms).sum();
            self.attribute("time", &seconds(time));
        }
        self.text.push_str(">\n");
    }

    fn attribute(&mut self, name: &str, value: &str) {
        self.text.push(' ');
        self.text.push_str(name);
        self.text.push_str("=\"");
        markup(&mut self.text, value);
        self.text.push('"');
    }

    fn property(&mut self, name: &str, value: &str) {
        self.text.push_str("      <property");
        self.attribute("name", name);
        self.attribute("value", value);
        self.text.push_str("/>\n");
    }

    fn problem(&mut self, tag: &str, kind: &str, text: &str, details: &str) {
        self.text.push_str("      <");
        self.text.push_str(tag);
        self.attribute("message", &crate::text::shorten(text, 300));
        self.attribute("type", kind);
        self.text.push('>');
        markup(&mut self.text, text);
        if !details.is_empty() {
            self.text.push('\n');
            markup(&mut self.text, details);
        }
        self.text.push_str("</");
        self.text.push_str(tag);
        self.text.push_str(">\n");
    }
}
