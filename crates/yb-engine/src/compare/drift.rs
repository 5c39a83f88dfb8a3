//! Finds what the variants of a run differed in although their suite does not declare it: what agents reported before their first
//! answer, and how they ran.

use std::collections::{BTreeMap, BTreeSet};

use crate::run::{AttemptRecord, RunResults};
use yb_model::AddOnKind;

/// Describes the undeclared differences between variants, a sentence each. Empty if the suite has no `vary`.
pub(crate) fn differences(results: &RunResults) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    if results.vary.is_empty() {
        return found;
    }
    let allows = |aspect: &str| results.vary.iter().any(|one| one == aspect);
    // The first trial with an agent of each case is compared with all others.
    let mut first: BTreeMap<&str, (&str, BTreeMap<&'static str, String>)> = BTreeMap::new();
    for trial in &results.trials {
        let Some(attempt) = trial.result().filter(|attempt| attempt.isolation.is_some()) else { continue };
        let now = facts(attempt);
        let Some((variant, before)) = first.get(trial.case.as_str()) else {
            first.insert(&trial.case, (&trial.variant, now));
            continue;
        };
        for (name, value) in &now {
            let Some(earlier) = before.get(name).filter(|earlier| *earlier != value) else { continue };
            let aspects =
                ASPECTS.iter().find(|(known, _)| known == name).map_or(&[][..], |(_, aspects)| aspects);
            if aspects.iter().any(|aspect| allows(aspect)) {
                continue;
            }
            let sentence = format!(
                "undeclared difference in {name}: `{variant}` has {}, `{}` has {}",
                only(earlier, value),
                trial.variant,
                only(value, earlier)
            );
            if !found.contains(&sentence) {
                found.push(sentence);
            }
        }
    }
    found
}

/// The facts, each with the aspects of `vary` that explain a difference.
const ASPECTS: [(&str, &[&str]); 8] = [
    ("model", &["model", "type", "agents", "agent_name", "settings"]),
    ("agent version", &["version", "type"]),
    ("permission mode", &["permission_mode", "type", "settings", "tools"]),
    ("tools", &["tools", "type", "version", "settings", "permission_mode"]),
    ("skills", &["skills", "type", "version", "settings", "files"]),
    ("agents", &["agents", "agent_name", "type", "version", "settings", "files"]),
    ("MCP servers", &["mcp_servers", "type", "settings", "files"]),
    ("sandbox", &["sandbox"]),
];

/// Returns what an attempt ran with, without what its add-ons bring along.
fn facts(attempt: &AttemptRecord) -> BTreeMap<&'static str, String> {
    let mut facts = BTreeMap::new();
    let filter = if attempt.syscall_filter == Some(false) { " without a system call filter" } else { "" };
    let isolation = attempt.isolation.map(|level| level.to_string()).unwrap_or_default();
    let network = attempt.network.map(|mode| format!(", network {mode:?}")).unwrap_or_default();
    facts.insert("sandbox", format!("{isolation}{filter}{}", network.to_lowercase()));
    if let Some(version) = &attempt.agent_version {
        facts.insert("agent version", version.clone());
    }
    let Some(session) = &attempt.session else {
        facts.extend(attempt.model.clone().map(|model| ("model", model)));
        return facts;
    };
    facts.extend(session.model.clone().map(|model| ("model", model)));
    facts.extend(session.permission_mode.clone().map(|mode| ("permission mode", mode)));
    let list = |names: &[String], of: fn(&str, &str, AddOnKind) -> bool| {
        let is_own =
            |name: &&String| attempt.add_ons.iter().any(|add_on| of(name, &add_on.name, add_on.kind));
        let left: BTreeSet<&str> = names.iter().filter(|name| !is_own(name)).map(String::as_str).collect();
        left.into_iter().collect::<Vec<_>>().join(", ")
    };
    facts.insert(
        "tools",
        list(&session.tools, |tool, name, kind| match kind {
            AddOnKind::McpServer => tool.starts_with(&format!("mcp__{name}__")),
            AddOnKind::Plugin => tool.starts_with(&format!("mcp__plugin_{name}_")),
            _ => false,
        }),
    );
    facts.insert(
        "skills",
        list(&session.skills, |skill, name, kind| {
            of_plugin(skill, name, kind) || (kind == AddOnKind::Skill && skill == name)
        }),
    );
    facts.insert(
        "agents",
        list(&session.agents, |agent, name, kind| {
            of_plugin(agent, name, kind) || (kind == AddOnKind::Agent && agent == name)
        }),
    );
    facts.insert(
        "MCP servers",
        list(&session.mcp_servers, |server, name, kind| match kind {
            AddOnKind::McpServer => server == name,
            AddOnKind::Plugin => server.starts_with(&format!("plugin:{name}:")),
            _ => false,
        }),
    );
    facts
}

fn of_plugin(part: &str, name: &str, kind: AddOnKind) -> bool {
    kind == AddOnKind::Plugin && part.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'))
}

/// Returns what one list has in addition to another, or the whole value if it is no list.
fn only(value: &str, other: &str) -> String {
    let other: BTreeSet<&str> = other.split(", ").collect();
    let own: Vec<&str> = value.split(", ").filter(|one| !one.is_empty() && !other.contains(one)).collect();
    if own.is_empty() { "none of these".to_owned() } else { format!("`{}`", own.join("`, `")) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn trial(variant: &str, session: &Value, add_ons: &Value, isolation: &str) -> Value {
        json!({ "id": variant, "trial": variant, "case": "c", "variant": variant, "repeat": 1, "outcome": "passed",
            "attempts": [{ "trial": "t", "attempt": 1, "outcome": "passed", "then": "done", "started_at": "",
                "duration_ms": 1, "isolation": isolation, "session": session, "add_ons": add_ons }] })
    }

    fn differences_of(vary: &[&str], trials: &[Value]) -> Vec<String> {
        let results = json!({ "version": "1.1.0", "run": "r", "name": "n", "started_at": null, "last_at": null,
            "finished": true, "planned": 2, "done": 2, "outcomes": {}, "spend": {}, "unpriced": 0, "vary": vary,
            "trials": trials });
        differences(&serde_json::from_value(results).unwrap())
    }

    #[test]
    fn only_what_add_ons_bring_along_may_differ() {
        let without =
            json!({ "model": "m", "tools": ["Bash", "Skill"], "skills": ["verify"], "agents": ["Plan"] });
        let with = json!({ "model": "m", "tools": ["Bash", "Skill", "mcp__plugin_greeter_db__look"],
            "skills": ["verify", "greeter:polite"], "agents": ["Plan", "greeter:reviewer"],
            "mcp_servers": ["plugin:greeter:db"], "plugins": ["greeter"] });
        let plugin = json!([{ "kind": "plugin", "name": "greeter", "status": "proven" }]);
        let pair = |session: &Value, isolation: &str| {
            [trial("without", &without, &json!([]), "bubblewrap"), trial("with", session, &plugin, isolation)]
        };
        assert_eq!(differences_of(&["plugins"], &pair(&with, "bubblewrap")), [""; 0]);
        let mut other = with;
        other["model"] = json!("n");
        other["tools"] = json!(["Bash"]);
        assert_eq!(differences_of(&[], &pair(&other, "landlock")), [""; 0], "nothing is declared");
        assert_eq!(
            differences_of(&["plugins"], &pair(&other, "landlock")),
            [
                "undeclared difference in model: `without` has `m`, `with` has `n`",
                "undeclared difference in sandbox: `without` has `bubblewrap`, `with` has `landlock`",
                "undeclared difference in tools: `without` has `Skill`, `with` has none of these",
            ]
        );
        assert_eq!(
            differences_of(&["plugins", "model", "tools", "sandbox"], &pair(&other, "landlock")),
            [""; 0]
        );
    }
}
