//! The header of a prompt file: YAML between two lines of `---`, every mistake with its place.

use serde_json::{Map, Value as Json};

use crate::config::{ModelSettings, ObjectSettings, PromptTool, TestSettings};
use crate::error::{PromptError, Source};
use crate::loader::Loader;
use crate::yaml::{self, Node, Value};
use crate::{references, schema};

/// What a header says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Header {
    pub(crate) name: Option<String>,
    pub(crate) kind: Kind,
    pub(crate) input_schema: Option<Json>,
    pub(crate) test_settings: TestSettings,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Text(ModelSettings),
    Object(ObjectSettings),
    Image(Map<String, Json>),
    Speech(Map<String, Json>),
}

impl Kind {
    pub(crate) fn key(&self) -> &'static str {
        match self {
            Self::Text(_) => "text_config",
            Self::Object(_) => "object_config",
            Self::Image(_) => "image_config",
            Self::Speech(_) => "speech_config",
        }
    }
}

const KINDS: [&str; 4] = ["text_config", "object_config", "image_config", "speech_config"];
const KEYS: [&str; 8] = [
    "name",
    "text_config",
    "object_config",
    "image_config",
    "speech_config",
    "input_schema",
    "test_settings",
    "agentmark_meta",
];

/// Where a header is in a text.
pub(crate) struct Split {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Where the words begin.
    pub(crate) end: usize,
}

const FENCE: &str = "---\n";

/// The header of a text, if it has one.
pub(crate) fn split(text: &str) -> Option<Split> {
    let rest = text.strip_prefix(FENCE)?;
    if let Some(after) = rest.strip_prefix(FENCE) {
        return Some(Split { from: FENCE.len(), to: FENCE.len(), end: text.len() - after.len() });
    }
    let (to, width) = match rest.find("\n---\n") {
        Some(at) => (at, "\n---\n".len()),
        None => (rest.strip_suffix("\n---")?.len(), "\n---".len()),
    };
    Some(Split { from: FENCE.len(), to: FENCE.len() + to, end: FENCE.len() + to + width })
}

/// Reads the header of a prompt file, which must have one.
pub(crate) fn read(source: &Source, loader: &dyn Loader) -> Result<(Header, usize), PromptError> {
    let Some(found) = split(&source.text) else {
        return Err(source.error_in_line(1, 1, "expected a header").with_hint(
            "begin the file with YAML between two lines of `---`, with `text_config` or `object_config`",
        ));
    };
    let root = yaml::parse(source.slice(found.from, found.to), 2, source)?;
    let reader = Reader { source, loader };
    reader.known(&root, "the header", &KEYS)?;
    let given: Vec<&str> = KINDS.into_iter().filter(|kind| root.get(kind).is_some()).collect();
    let [kind] = given[..] else {
        let message = match &given[..] {
            [] => "expected one of `text_config`, `object_config`, `image_config` and `speech_config`"
                .to_owned(),
            many => format!("more than one kind of prompt: `{}`", many.join("`, `")),
        };
        return Err(reader.wrong(&root, message));
    };
    let header = Header {
        name: reader.text(&root, "name")?,
        kind: reader.kind(&root, kind)?,
        input_schema: root.get("input_schema").map(|node| reader.schema(node, "input_schema")).transpose()?,
        test_settings: reader.tests(&root)?,
    };
    Ok((header, found.end))
}

struct Reader<'a> {
    source: &'a Source,
    loader: &'a dyn Loader,
}

impl Reader<'_> {
    fn wrong(&self, node: &Node, message: impl Into<String>) -> PromptError {
        self.source.error_in_line(node.line, node.column, message)
    }

    fn known(&self, node: &Node, what: &str, keys: &[&str]) -> Result<(), PromptError> {
        if !node.is_map() {
            return Err(self.wrong(node, format!("expected a mapping: {what}")));
        }
        match node.entries().iter().find(|(key, _)| !keys.contains(&key.as_str())) {
            None => Ok(()),
            Some((key, at)) => {
                let near = keys.iter().min_by_key(|known| strsim::levenshtein(known, key));
                let near = near.filter(|near| strsim::levenshtein(near, key) <= 3);
                let error = self.wrong(at, format!("unknown key in {what}: `{key}`"));
                Err(match near {
                    Some(near) => error.with_hint(format!("did you mean `{near}`?")),
                    None => error.with_hint(format!("there are `{}`", keys.join("`, `"))),
                })
            }
        }
    }

    fn text(&self, of: &Node, key: &str) -> Result<Option<String>, PromptError> {
        let Some(node) = of.get(key) else { return Ok(None) };
        match node.text().filter(|text| !text.trim().is_empty()) {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(self.wrong(node, format!("`{key}`: expected a text that is not empty"))),
        }
    }

    fn schema(&self, node: &Node, key: &str) -> Result<Json, PromptError> {
        let value = references::resolve(node.to_json(), &self.source.name, self.loader)
            .map_err(|reason| self.wrong(node, format!("`{key}`: {reason}")))?;
        schema::check(&value)
            .map_err(|reason| self.wrong(node, format!("`{key}`: not a valid JSON Schema: {reason}")))?;
        Ok(value)
    }

    fn kind(&self, root: &Node, key: &str) -> Result<Kind, PromptError> {
        let Some(node) = root.get(key).filter(|node| node.is_map()) else {
            let node = root.get(key).unwrap_or(root);
            return Err(self.wrong(node, format!("`{key}`: expected a mapping with `model_name`")));
        };
        Ok(match key {
            "text_config" => Kind::Text(self.model(node, &[])?),
            "object_config" => {
                let Some(schema) = node.get("schema") else {
                    return Err(self.wrong(node, "`schema` is missing: the JSON Schema of the object"));
                };
                Kind::Object(ObjectSettings {
                    model: self.model(node, &["schema", "schema_name", "schema_description"])?,
                    schema: self.schema(schema, "schema")?,
                    schema_name: self.text(node, "schema_name")?,
                    schema_description: self.text(node, "schema_description")?,
                })
            }
            _ => {
                self.text(node, "model_name")?;
                let Json::Object(map) = node.to_json() else { return Ok(Kind::Image(Map::new())) };
                if key == "image_config" { Kind::Image(map) } else { Kind::Speech(map) }
            }
        })
    }

    fn model(&self, node: &Node, own: &[&str]) -> Result<ModelSettings, PromptError> {
        let Some(model_name) = self.text(node, "model_name")? else {
            return Err(self.wrong(node, "`model_name` is missing"));
        };
        let max_calls = match node.get("max_calls") {
            None => None,
            Some(calls) => match calls.to_json().as_u64().and_then(|calls| u32::try_from(calls).ok()) {
                Some(number @ 1..) => Some(number),
                _ => return Err(self.wrong(calls, "`max_calls`: expected a whole number of at least 1")),
            },
        };
        let tools = node.get("tools").map(|tools| self.tools(tools)).transpose()?.unwrap_or_default();
        let known = ["model_name", "max_calls", "tools"];
        let other = node
            .entries()
            .iter()
            .filter(|(key, _)| !known.contains(&key.as_str()) && !own.contains(&key.as_str()));
        let other = other.map(|(key, node)| (key.clone(), node.to_json())).collect();
        Ok(ModelSettings { model_name, max_calls, tools, other })
    }

    /// By name with description and parameters, or a list of names of tools that exist elsewhere.
    fn tools(&self, node: &Node) -> Result<Vec<PromptTool>, PromptError> {
        match &node.value {
            Value::List(items) => items
                .iter()
                .map(|item| match item.text().filter(|text| !text.trim().is_empty()) {
                    Some(name) => Ok(PromptTool::Named(name.to_owned())),
                    None => Err(self.wrong(item, "`tools`: expected the name of a tool")),
                })
                .collect(),
            Value::Map(entries) => entries
                .iter()
                .map(|(name, tool)| {
                    self.known(tool, &format!("the tool `{name}`"), &["description", "parameters"])?;
                    let parameters = match tool.get("parameters") {
                        Some(parameters) => self.schema(parameters, &format!("tools.{name}.parameters"))?,
                        None => serde_json::json!({"type": "object"}),
                    };
                    let description = self.text(tool, "description")?.unwrap_or_default();
                    Ok(PromptTool::served(name, description, parameters))
                })
                .collect(),
            Value::Scalar(_) => Err(self.wrong(node, "`tools`: expected tools by name, or a list of names")),
        }
    }

    fn tests(&self, root: &Node) -> Result<TestSettings, PromptError> {
        let mut settings = TestSettings::default();
        let Some(node) = root.get("test_settings") else { return Ok(settings) };
        let keys =
            ["props", "dataset", "evals", "experiment_key", "regression_tolerance", "score_thresholds"];
        self.known(node, "`test_settings`", &keys)?;
        settings.props = match node.get("props") {
            Some(props) if !props.is_map() => return Err(self.wrong(props, "`props`: expected a mapping")),
            props => props.map(Node::to_json),
        };
        settings.dataset = self.text(node, "dataset")?;
        settings.experiment_key = self.text(node, "experiment_key")?;
        if let Some(evals) = node.get("evals") {
            let Value::List(items) = &evals.value else {
                return Err(self.wrong(evals, "`evals`: expected a list of names"));
            };
            for item in items {
                let name = item.text().ok_or_else(|| self.wrong(item, "`evals`: expected a name"))?;
                settings.evals.push(name.to_owned());
            }
        }
        settings.regression_tolerance = node
            .get("regression_tolerance")
            .map(|node| self.share(node, "regression_tolerance"))
            .transpose()?;
        if let Some(thresholds) = node.get("score_thresholds") {
            if !thresholds.is_map() {
                return Err(self.wrong(thresholds, "`score_thresholds`: expected numbers by eval"));
            }
            for (name, node) in thresholds.entries() {
                settings.score_thresholds.push((name.clone(), self.share(node, "score_thresholds")?));
            }
        }
        Ok(settings)
    }

    fn share(&self, node: &Node, key: &str) -> Result<f64, PromptError> {
        let number = node.to_json().as_f64().filter(|number| (0.0..=1.0).contains(number));
        number.ok_or_else(|| self.wrong(node, format!("`{key}`: expected a number from 0 to 1")))
    }
}
