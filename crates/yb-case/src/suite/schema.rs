//! The JSON Schema of suite files, derived from the tables that the checker uses.

use serde_json::Value;

use super::fields::SUITE;
use crate::EvaluatorSpecs;
use crate::schema::Maker;

/// What a case or a variant may leave out, because the other may have it.
const ELSEWHERE: &[(&str, &str)] = &[("case", "agent"), ("agent", "type"), ("command", "argv")];

/// Returns the JSON Schema of suite files, as pretty JSON with a final line break.
#[must_use]
pub fn schema(evaluators: &EvaluatorSpecs) -> String {
    let mut maker = Maker::new(evaluators);
    let root = maker.object(&SUITE);
    for (object, key) in ELSEWHERE {
        if let Some(Value::Array(required)) =
            maker.defs.get_mut(*object).and_then(|made| made.get_mut("required"))
        {
            required.retain(|name| name != key);
        }
    }
    if let Some(selector) = maker.defs.get_mut("selector") {
        selector["minProperties"] = 1.into();
    }
    maker.document("A suite of youBencha", &root)
}
