//! The JSON Schemas of case and eval files, derived from the tables that the checker uses.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::agent_spec::AgentSpecs;
use super::evaluator::EvaluatorSpecs;
use super::fields::{CASE, EVAL};
use super::fields_evaluator::EVALUATOR;
use super::fields_hook::{self, DATABASE, POST_EVALUATION, PRE_EXECUTION, SCRIPT, WEBHOOK};
use super::format::Format;
use super::shape::{Field, Kind, Object, Presence};

/// Returns the JSON Schema of case files, as pretty JSON with a final line break.
#[must_use]
pub fn schema(agents: &AgentSpecs, evaluators: &EvaluatorSpecs) -> String {
    let mut maker = Maker::new(agents, evaluators);
    let root = maker.object(&CASE);
    maker.document("youBencha case", &root)
}

/// Returns the JSON Schema of eval files, as pretty JSON with a final line break.
#[must_use]
pub fn eval_schema(agents: &AgentSpecs, evaluators: &EvaluatorSpecs) -> String {
    let mut maker = Maker::new(agents, evaluators);
    let root = maker.object(&EVAL);
    maker.document("youBencha eval file", &root)
}

/// Builds a schema and the definitions that it refers to.
pub(crate) struct Maker<'a> {
    pub(crate) defs: Map<String, Value>,
    /// The name of each definition that was begun.
    names: HashMap<*const Object, String>,
    /// The agents that a file may name.
    pub(crate) agents: &'a AgentSpecs,
    evaluators: &'a EvaluatorSpecs,
}

impl<'a> Maker<'a> {
    pub(crate) fn new(agents: &'a AgentSpecs, evaluators: &'a EvaluatorSpecs) -> Self {
        Self { defs: Map::new(), names: HashMap::new(), agents, evaluators }
    }

    /// Returns the whole document: the root schema with its definitions.
    pub(crate) fn document(self, title: &str, root: &Value) -> String {
        let mut all = Map::new();
        all.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
        all.insert("title".into(), title.into());
        all.extend(root.as_object().cloned().unwrap_or_default());
        all.insert("$defs".into(), Value::Object(self.defs));
        format!("{:#}\n", Value::Object(all))
    }

    fn reference(&mut self, object: &'static Object) -> Value {
        if let Some(name) = self.names.get(&std::ptr::from_ref(object)) {
            return json!({ "$ref": format!("#/$defs/{name}") });
        }
        // Tables of different evaluators may have the same name.
        let mut name = object.name.to_owned();
        let mut number = 1;
        while self.defs.contains_key(&name) {
            number += 1;
            name = format!("{}{number}", object.name);
        }
        self.names.insert(object, name.clone());
        self.defs.insert(name.clone(), Value::Null);
        let made = self.object(object);
        self.defs.insert(name.clone(), made);
        json!({ "$ref": format!("#/$defs/{name}") })
    }

    pub(crate) fn object(&mut self, object: &'static Object) -> Value {
        let properties: Map<String, Value> =
            self.agents.fields_of(object).map(|field| (field.name.to_owned(), self.field(field))).collect();
        let required: Vec<&str> = object
            .fields
            .iter()
            .filter(|field| field.presence == Presence::Required)
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
            let evaluators = self.evaluators;
            let configs = evaluators.iter().map(|spec| (format!("{}([-:].*)?", spec.name), spec.config));
            made["allOf"] = self.config_by_name(configs);
        } else if std::ptr::eq(object, &PRE_EXECUTION) || std::ptr::eq(object, &POST_EVALUATION) {
            let hooks = [SCRIPT, WEBHOOK, DATABASE].into_iter();
            let configs = hooks.filter_map(|name| Some((name.to_owned(), fields_hook::config_of(name)?)));
            made["allOf"] = self.config_by_name(configs);
        }
        made
    }

    /// Selects the schema of `config` by the pattern that `name` matches.
    fn config_by_name(&mut self, configs: impl Iterator<Item = (String, &'static Object)>) -> Value {
        let cases = configs.map(|(pattern, config)| {
            let config = self.reference(config);
            json!({
                "if": {"properties": {"name": {"type": "string", "pattern": format!("^{pattern}$")}}, "required": ["name"]},
                "then": {"properties": {"config": config}},
            })
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

/// Returns the pattern of a format, which also accepts any text with a variable.
fn pattern(format: Format) -> Option<String> {
    format.pattern().map(|pattern| format!(r"^({pattern})$|\$\{{"))
}
