//! The JSON Schema of suite files, derived from the tables that the checker uses.

use serde_json::Value;

use super::fields::SUITE;
use crate::EvaluatorSpecs;
use crate::agent_spec::AgentSpecs;
use crate::schema::Maker;
use crate::shape::Kind;

/// What a case or a variant may leave out, because the other may have it.
const ELSEWHERE: [(&str, &str); 2] = [("case", "agent"), ("agent", "type")];

/// Returns the JSON Schema of suite files, as pretty JSON with a final line break.
#[must_use]
pub fn schema(agents: &AgentSpecs, evaluators: &EvaluatorSpecs) -> String {
    let mut maker = Maker::new(agents, evaluators);
    let root = maker.object(&SUITE);
    let sections = agents.iter().filter_map(|spec| match spec.section.kind {
        Kind::Object(section) => Some(section),
        _ => None,
    });
    let in_sections = sections.flat_map(|section| section.names().map(|key| (section.name, key)));
    for (object, key) in ELSEWHERE.into_iter().chain(in_sections) {
        if let Some(Value::Array(required)) =
            maker.defs.get_mut(object).and_then(|made| made.get_mut("required"))
        {
            required.retain(|name| name != key);
        }
    }
    if let Some(selector) = maker.defs.get_mut("selector") {
        selector["minProperties"] = 1.into();
    }
    maker.document("youBencha suite", &root)
}
