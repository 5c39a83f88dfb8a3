//! The JSON Schema of case files for editors, made of the same description that the decoder checks by.

use serde_json::{Map, Value, json};

use super::agent_spec::AgentSpecs;
use super::fields::{CASE, EVAL};
use super::fields_evaluator::{self, EVALUATOR, EVALUATORS};
use super::fields_hook::{self, DATABASE, POST_EVALUATION, PRE_EXECUTION, SCRIPT, WEBHOOK};
use super::format::Format;
use super::shape::{Field, Kind, Need, Object};

/// The schema of a case file, as pretty JSON that ends with a line break.
#[must_use]
pub fn schema(agents: &AgentSpecs) -> String {
    let mut maker = Maker { defs: Map::new(), agents };
    let root = maker.object(&CASE);
    maker.document("A case of youBencha", &root)
}

/// The schema of an eval file, as pretty JSON that ends with a line break.
#[must_use]
pub fn eval_schema(agents: &AgentSpecs) -> String {
    let mut maker = Maker { defs: Map::new(), agents };
    let root = maker.object(&EVAL);
    maker.document("What `yb eval` of youBencha reads", &root)
}

pub(crate) struct Maker<'a> {
    pub(crate) defs: Map<String, Value>,
    /// The agents that a file may name.
    pub(crate) agents: &'a AgentSpecs,
}

impl Maker<'_> {
    /// A whole schema, with all that it refers to.
    pub(crate) fn document(self, title: &str, root: &Value) -> String {
        let mut all = Map::new();
        all.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
        all.insert("title".into(), title.into());
        all.extend(root.as_object().cloned().unwrap_or_default());
        all.insert("$defs".into(), Value::Object(self.defs));
        format!("{:#}\n", Value::Object(all))
    }

    fn reference(&mut self, object: &'static Object) -> Value {
        if !self.defs.contains_key(object.name) {
            self.defs.insert(object.name.to_owned(), Value::Null);
            let made = self.object(object);
            self.defs.insert(object.name.to_owned(), made);
        }
        json!({ "$ref": format!("#/$defs/{}", object.name) })
    }

    pub(crate) fn object(&mut self, object: &'static Object) -> Value {
        let properties: Map<String, Value> =
            self.agents.fields_of(object).map(|field| (field.name.to_owned(), self.field(field))).collect();
        let required: Vec<&str> = object
            .fields
            .iter()
            .filter(|field| field.need == Need::Required)
            .map(|field| field.name)
            .collect();
        let mut made = json!({"type": "object", "properties": properties, "additionalProperties": false});
        if !required.is_empty() {
            made["required"] = json!(required);
        }
        if std::ptr::eq(object, &CASE) {
            made["oneOf"] = json!([{"required": ["repo"]}, {"required": ["directory"]}]);
        } else if std::ptr::eq(object, &EVALUATOR) {
            made["oneOf"] =
                json!([{"required": ["name"]}, {"required": ["file"], "properties": {"config": false}}]);
            let patterns: Vec<String> = EVALUATORS.iter().map(|name| format!("{name}([-:].*)?")).collect();
            let names: Vec<(&str, &str)> =
                EVALUATORS.iter().copied().zip(patterns.iter().map(String::as_str)).collect();
            made["allOf"] = self.by_name(&names, fields_evaluator::config_of);
        } else if std::ptr::eq(object, &PRE_EXECUTION) || std::ptr::eq(object, &POST_EVALUATION) {
            made["allOf"] = self.by_name(
                &[(SCRIPT, "script"), (WEBHOOK, "webhook"), (DATABASE, "database")],
                fields_hook::config_of,
            );
        }
        made
    }

    /// What `config` is follows from `name`.
    fn by_name(&mut self, names: &[(&str, &str)], config_of: fn(&str) -> Option<&'static Object>) -> Value {
        let cases = names.iter().filter_map(|(name, pattern)| {
            let config = self.reference(config_of(name)?);
            Some(json!({
                "if": {"properties": {"name": {"type": "string", "pattern": format!("^{pattern}$")}}, "required": ["name"]},
                "then": {"properties": {"config": config}},
            }))
        });
        cases.collect()
    }

    fn field(&mut self, field: &'static Field) -> Value {
        let mut made = self.kind(&field.kind);
        if let Some(made) = made.as_object_mut() {
            made.insert("description".into(), field.doc.into());
            if let Some(default) = field.default.and_then(|json| serde_json::from_str(json).ok()) {
                made.insert("default".into(), default);
            }
        }
        made
    }

    fn kind(&mut self, kind: &'static Kind) -> Value {
        match *kind {
            Kind::Text { min, max, format } => {
                let mut made = json!({"type": "string"});
                if min > 0 {
                    made["minLength"] = json!(min);
                }
                if max < usize::MAX {
                    made["maxLength"] = json!(max);
                }
                if let Some(pattern) = pattern(format) {
                    made["pattern"] = json!(pattern);
                }
                made
            }
            Kind::AgentType => json!({"type": "string", "enum": self.agents.names().collect::<Vec<_>>()}),
            Kind::Word(words) => json!({"type": "string", "enum": words}),
            Kind::Bool => json!({"type": "boolean"}),
            Kind::Whole { min, max } => {
                let mut made = json!({"type": "integer", "minimum": min});
                if max < i64::MAX {
                    made["maximum"] = json!(max);
                }
                made
            }
            Kind::Number { min, max, above } => {
                let mut made = json!({"type": "number"});
                if min > f64::MIN {
                    made[if above { "exclusiveMinimum" } else { "minimum" }] = json!(min);
                }
                if max < f64::MAX {
                    made["maximum"] = json!(max);
                }
                made
            }
            Kind::Duration { zero } => {
                let least = if zero { "minimum" } else { "exclusiveMinimum" };
                json!({"anyOf": [
                    {"type": "number", least: 0},
                    {"type": "string", "pattern": r"^[0-9.]+ *(ms|s|m|min|h)$|\$\{"},
                ]})
            }
            Kind::List { of, min } => {
                let mut made = json!({"type": "array", "items": self.kind(of)});
                if min > 0 {
                    made["minItems"] = json!(min);
                }
                made
            }
            Kind::Map { names, of } => {
                let mut made = json!({"type": "object", "additionalProperties": self.kind(of)});
                if let Some(pattern) = names.pattern() {
                    made["propertyNames"] = json!({"pattern": format!("^({pattern})$")});
                }
                made
            }
            Kind::Object(object) | Kind::Part(object) => self.reference(object),
            Kind::Either(kinds) => {
                let kinds: Vec<Value> = kinds.iter().map(|kind| self.kind(kind)).collect();
                json!({ "anyOf": kinds })
            }
            Kind::Any => json!({}),
        }
    }
}

/// A variable may stand for a text or a part of it, so that an editor can't judge it.
fn pattern(format: Format) -> Option<String> {
    format.pattern().map(|pattern| format!(r"^({pattern})$|\$\{{"))
}
