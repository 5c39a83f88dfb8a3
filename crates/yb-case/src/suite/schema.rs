//! The JSON Schema of suite files for editors, made of the same description that the decoder checks by.

use serde_json::{Map, Value};

use super::fields::SUITE;
use crate::schema::Maker;

/// What a case or a variant may leave out, because the other may have it.
const ELSEWHERE: &[(&str, &str)] = &[("case", "agent"), ("agent", "type"), ("command", "argv")];

/// The schema of a suite file, as pretty JSON that ends with a line break.
#[must_use]
pub fn schema() -> String {
    let mut maker = Maker { defs: Map::new() };
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
