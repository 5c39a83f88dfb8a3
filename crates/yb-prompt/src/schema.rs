//! JSON Schema: whether one is valid, and whether a value satisfies it.

use serde_json::Value;

/// How many findings are told at once.
const MOST: usize = 10;

/// Why something is no JSON Schema. Nothing is fetched: a reference to elsewhere is one of the reasons.
pub(crate) fn check(schema: &Value) -> Result<(), String> {
    if !schema.is_object() && !schema.is_boolean() {
        return Err("expected a mapping".to_owned());
    }
    if let Err(error) = jsonschema::meta::validate(schema) {
        return Err(format!("{error}, at `{}`", error.instance_path()));
    }
    jsonschema::validator_for(schema).map(drop).map_err(|error| error.to_string())
}

/// Everything about a value that does not satisfy a schema.
pub(crate) fn findings(schema: &Value, value: &Value) -> Vec<String> {
    match jsonschema::validator_for(schema) {
        Ok(validator) => findings_of(&validator, value),
        Err(error) => vec![format!("not a valid JSON Schema: {error}")],
    }
}

pub(crate) fn findings_of(validator: &jsonschema::Validator, value: &Value) -> Vec<String> {
    let told = validator.iter_errors(value).take(MOST).map(|error| {
        let at = error.instance_path().to_string();
        if at.is_empty() { error.to_string() } else { format!("`{at}`: {error}") }
    });
    told.collect()
}
