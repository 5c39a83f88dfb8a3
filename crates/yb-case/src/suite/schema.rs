//! The JSON Schema of suite files.

use serde_json::{Map, Value};

use super::fields::SUITE;
use crate::schema::Maker;

/// Required keys that a case or a variant can omit, because the other one can have them.
const REQUIRED_AFTER_MERGE: &[(&str, &str)] = &[("case", "agent"), ("agent", "type"), ("command", "argv")];

/// Returns the schema of suite files, as pretty-printed JSON with a final newline.
#[must_use]
pub fn schema() -> String {
    let mut maker = Maker { defs: Map::new() };
    let root = maker.object(&SUITE);
    for (object, key) in REQUIRED_AFTER_MERGE {
        if let Some(Value::Array(required)) =
            maker.defs.get_mut(*object).and_then(|made| made.get_mut("required"))
        {
            required.retain(|name| name != key);
        }
    }
    if let Some(selector) = maker.defs.get_mut("selector") {
        selector["minProperties"] = 1.into();
    }
    maker.document("youBencha suite", &root)
}
