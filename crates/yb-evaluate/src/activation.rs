//! `activation`: asserts that the agent used the plugins, skills, MCP servers and agents that its case gives to it. An add-on that is
//! never used can't help.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;

use super::{Assertion, Evaluator, EvaluatorContext, GradeError, Subject, Trust, Verdict, into_config};
use yb_case::format::Format;
use yb_case::shape::{COUNT, Field, Kind, Object, TEXT};
use yb_case::{ConfigReader, EvaluatorConfig, EvaluatorInput, EvaluatorSpec};
use yb_model::log::YouBenchaLog;
use yb_model::{AddOnKind, AddOnRecord};

pub(crate) static SPEC: EvaluatorSpec = EvaluatorSpec {
    name: "activation",
    summary: "whether the agent used its plugins, skills, MCP servers and agents",
    input: EvaluatorInput::Log,
    config: &CONFIG,
    read,
};

const NAMES: Kind = Kind::List { of: &TEXT, min: 0 };

static CONFIG: Object = Object {
    name: "activation",
    fields: &[
        Field::new(
            "plugins",
            NAMES,
            "Plugins that must be used: a skill, command, agent or MCP tool of each.",
        ),
        Field::new("skills", NAMES, "Skills that must be used."),
        Field::new("mcp_servers", NAMES, "MCP servers of which a tool must be called."),
        Field::new("agents", NAMES, "Agents that must be used as subagents."),
        Field::new("instructions", Kind::Bool, "Whether a model request must contain the instructions."),
        Field::new("min_uses", COUNT, "Minimum number of uses of each.").default("1"),
        Field::new(
            "unused",
            Kind::List { of: &Kind::Text { min: 1, max: 200, format: Format::Any }, min: 0 },
            "Names of plugins, skills, MCP servers and agents that must not be used.",
        ),
    ],
};

/// Assertions about the use of add-ons. Without any, all add-ons of the case must be used. A variant without add-ons passes, because a
/// case with this evaluator is usually run with and without them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct ActivationCheck {
    wanted: Vec<(AddOnKind, String)>,
    instructions: bool,
    unused: Vec<String>,
    min_uses: Option<u64>,
}

fn read(reader: &mut ConfigReader<'_, '_>) -> Option<Arc<dyn EvaluatorConfig>> {
    let mut wanted = Vec::new();
    for (key, kind) in [
        ("plugins", AddOnKind::Plugin),
        ("skills", AddOnKind::Skill),
        ("mcp_servers", AddOnKind::McpServer),
        ("agents", AddOnKind::Agent),
    ] {
        wanted.extend(reader.texts(key).into_iter().map(|name| (kind, name)));
    }
    Some(into_config(ActivationCheck {
        wanted,
        instructions: reader.flag("instructions"),
        unused: reader.texts("unused"),
        min_uses: reader.count("min_uses"),
    }))
}

#[async_trait]
impl Evaluator for ActivationCheck {
    async fn evaluate(&self, subject: &Subject, _context: &EvaluatorContext) -> Result<Verdict, GradeError> {
        Ok(grade(self, &subject.log))
    }
}

fn grade(wanted: &ActivationCheck, log: &YouBenchaLog) -> Verdict {
    let least = wanted.min_uses.unwrap_or(1);
    let is_named = |add_on: &AddOnRecord| {
        wanted.wanted.contains(&(add_on.kind, add_on.name.clone()))
            || (wanted.instructions && add_on.kind == AddOnKind::Instructions)
    };
    let all = wanted.wanted.is_empty() && !wanted.instructions && wanted.unused.is_empty();
    let mut checks = Vec::new();
    for add_on in log.add_ons.iter().filter(|add_on| all || is_named(add_on)) {
        // The text of instructions is in each request, so they have no number of uses.
        let least = if add_on.kind == AddOnKind::Instructions { 1 } else { least };
        let check = Assertion::new(format!("used: {}", add_on.label()), add_on.uses.unwrap_or(0) >= least);
        let check = check.with_values(add_on.uses, least);
        checks.push(check.with_message(|| match add_on.uses {
            Some(0) => format!("{} was never used", add_on.label()),
            Some(uses) => format!("{} was used {uses} times (minimum {least})", add_on.label()),
            None => format!("unknown whether {} was used", add_on.label()),
        }));
    }
    for (kind, name) in &wanted.wanted {
        if !log.add_ons.is_empty()
            && log.add_ons.iter().all(|add_on| (add_on.kind, &add_on.name) != (*kind, name))
        {
            let check = Assertion::new(format!("declared: {kind} `{name}`"), false);
            checks.push(check.with_message(|| format!("the case declares no {kind} `{name}`")));
        }
    }
    for name in &wanted.unused {
        let uses: u64 =
            log.add_ons.iter().filter(|add_on| add_on.name == *name).filter_map(|add_on| add_on.uses).sum();
        let check = Assertion::new(format!("unused: {name}"), uses == 0).with_values(uses, 0);
        checks.push(check.with_message(|| format!("`{name}` was used {uses} times")));
    }
    let used = log.add_ons.iter().filter(|add_on| add_on.uses.unwrap_or(0) > 0).count();
    let uses: serde_json::Map<String, serde_json::Value> =
        log.add_ons.iter().map(|add_on| (add_on.name.clone(), json!(add_on.uses))).collect();
    let mut verdict = Verdict::from_checks(checks).metric("uses", uses);
    verdict.trust = Some(Trust::SelfReported);
    verdict.with_summary(&format!("{used} of {} add-ons used", log.add_ons.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EvaluatorStatus;
    use crate::fixtures::log;

    fn log_with(add_ons: &[(AddOnKind, &str, Option<u64>)]) -> YouBenchaLog {
        let add_on = |(kind, name, uses): &(AddOnKind, &str, Option<u64>)| AddOnRecord {
            uses: *uses,
            ..AddOnRecord::declared(*kind, *name)
        };
        YouBenchaLog { add_ons: add_ons.iter().map(add_on).collect(), ..log() }
    }

    #[test]
    fn every_add_on_must_be_used_unless_some_are_named() {
        let seen = log_with(&[(AddOnKind::Skill, "polite", Some(2)), (AddOnKind::McpServer, "db", Some(0))]);
        let all = grade(&ActivationCheck::default(), &seen);
        assert_eq!(all.message, "✗ 1 of 2 add-ons used | MCP server `db` was never used");
        let skill = vec![(AddOnKind::Skill, "polite".to_owned())];
        let one = ActivationCheck { wanted: skill.clone(), ..ActivationCheck::default() };
        assert_eq!(grade(&one, &seen).status, EvaluatorStatus::Passed);
        let often = ActivationCheck { wanted: skill, min_uses: Some(3), ..ActivationCheck::default() };
        assert_eq!(grade(&often, &seen).status, EvaluatorStatus::Failed);
        let unused = ActivationCheck { unused: vec!["polite".to_owned()], ..ActivationCheck::default() };
        assert_eq!(grade(&unused, &seen).message, "✗ 1 of 2 add-ons used | `polite` was used 2 times");
    }

    #[test]
    fn undeclared_or_unknown_use_never_passes() {
        let wanted = ActivationCheck {
            wanted: vec![(AddOnKind::Skill, "polite".to_owned())],
            ..ActivationCheck::default()
        };
        let other = grade(&wanted, &log_with(&[(AddOnKind::Skill, "rude", Some(1))]));
        assert_eq!(other.message, "✗ 1 of 1 add-ons used | the case declares no skill `polite`");
        let unknown = grade(&wanted, &log_with(&[(AddOnKind::Skill, "polite", None)]));
        assert_eq!(unknown.status, EvaluatorStatus::Failed);
    }

    #[test]
    fn case_without_add_ons_passes() {
        assert_eq!(grade(&ActivationCheck::default(), &log()).status, EvaluatorStatus::Passed);
    }
}
