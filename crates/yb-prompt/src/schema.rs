//! JSON Schema validation.

use serde_json::Value;

/// The maximum number of validation errors reported.
const MAX_FINDINGS: usize = 10;

/// Checks that a value is a valid JSON Schema. Remote references are not fetched and make it invalid.
pub(crate) fn check(schema: &Value) -> Result<(), String> {
    if !schema.is_object() && !schema.is_boolean() {
        return Err("expected a mapping".to_owned());
    }
    if let Err(error) = jsonschema::meta::validate(schema) {
        return Err(format!("{error}, at `{}`", error.instance_path()));
    }
    jsonschema::validator_for(schema).map(drop).map_err(|error| error.to_string())
}

/// Validates a value and returns all errors.
pub(crate) fn findings(schema: &Value, value: &Value) -> Vec<String> {
    match jsonschema::validator_for(schema) {
        Ok(validator) => findings_of(&validator, value),
        Err(error) => vec![format!("not a valid JSON Schema: {error}")],
    }
}

pub(crate) fn findings_of(validator: &jsonschema::Validator, value: &Value) -> Vec<String> {
    let findings = validator.iter_errors(value).take(MAX_FINDINGS).map(|error| {
        let at = error.instance_path().to_string();
        if at.is_empty() { error.to_string() } else { format!("`{at}`: {error}") }
    });
    findings.collect()
}
