//! The header of a prompt file: YAML between two `---` lines. Errors have a location.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};
use yb_claude::McpServer;
use yb_yaml::diagnostic::nearest;
use yb_yaml::{Entry, Node, Span, Value};

use crate::config::{ModelSettings, ObjectSettings, PromptTool, TestSettings};
use crate::error::{PromptError, Source};
use crate::loader::Loader;
use crate::{references, schema, yaml};

/// A parsed header.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Header {
    pub(crate) name: Option<String>,
    pub(crate) kind: OutputKind,
    pub(crate) input_schema: Option<Json>,
    pub(crate) test_settings: TestSettings,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OutputKind {
    Text(ModelSettings),
    Object(ObjectSettings),
    Image(Map<String, Json>),
    Speech(Map<String, Json>),
}

impl OutputKind {
    pub(crate) fn key(&self) -> &'static str {
        match self {
            Self::Text(_) => "text_config",
            Self::Object(_) => "object_config",
            Self::Image(_) => "image_config",
            Self::Speech(_) => "speech_config",
        }
    }
}

const OUTPUT_KINDS: [&str; 4] = ["text_config", "object_config", "image_config", "speech_config"];
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

/// The byte offsets of a header in a file.
pub(crate) struct HeaderSpan {
    /// The start, after comments.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The start of the body.
    pub(crate) end: usize,
}

const FENCE: &str = "---\n";

/// Finds the header of a file. Comments may precede it.
pub(crate) fn find_header(text: &str) -> Option<HeaderSpan> {
    let from = text.len() - without_comments(text).len();
    let rest = text.get(from..)?.strip_prefix(FENCE)?;
    let start = from + FENCE.len();
    if let Some(after) = rest.strip_prefix(FENCE) {
        return Some(HeaderSpan { from, to: start, end: text.len() - after.len() });
    }
    let (to, width) = match rest.find("\n---\n") {
        Some(at) => (at, "\n---\n".len()),
        None => (rest.strip_suffix("\n---")?.len(), "\n---".len()),
    };
    Some(HeaderSpan { from, to: start + to, end: start + to + width })
}

/// Returns the text after comments and white space, or all of it if it does not begin with a comment.
fn without_comments(text: &str) -> &str {
    let mut rest = text;
    while let Some(comment) = rest.trim_start().strip_prefix("{/*") {
        let Some((_, after)) = comment.split_once("*/}") else { return text };
        rest = after.trim_start();
    }
    rest
}

/// Parses the header of a prompt file. Returns it with the offset of the body.
pub(crate) fn parse(source: &Source, loader: &dyn Loader) -> Result<(Header, usize), PromptError> {
    let Some(found) = find_header(&source.text) else {
        return Err(source.error_in_line(1, 1, "expected a header").with_hint(
            "start the file with YAML between two `---` lines, with `text_config` or `object_config`",
        ));
    };
    // Empty lines instead of comments keep the positions.
    let lines = source.slice(0, found.from).matches('\n').count();
    let text = format!("{}{}", "\n".repeat(lines), source.slice(found.from, found.to));
    let root = yaml::parse(&text, source)?;
    let parser = HeaderParser { source, loader };
    parser.check_keys(&root, "the header", &KEYS)?;
    let given: Vec<&str> = OUTPUT_KINDS.into_iter().filter(|kind| root.get(kind).is_some()).collect();
    let [kind] = given[..] else {
        let message = match &given[..] {
            [] => "expected one of `text_config`, `object_config`, `image_config` and `speech_config`"
                .to_owned(),
            many => format!("more than one kind of prompt: `{}`", many.join("`, `")),
        };
        return Err(parser.error(&root, message));
    };
    let header = Header {
        name: parser.text(&root, "name")?,
        kind: parser.kind(&root, kind)?,
        input_schema: root.get("input_schema").map(|node| parser.schema(node, "input_schema")).transpose()?,
        test_settings: parser.test_settings(&root)?,
    };
    Ok((header, found.end))
}

struct HeaderParser<'a> {
    source: &'a Source,
    loader: &'a dyn Loader,
}

impl HeaderParser<'_> {
    fn error(&self, node: &Node, message: impl Into<String>) -> PromptError {
        self.error_at(node.span, message)
    }

    fn error_at(&self, at: Span, message: impl Into<String>) -> PromptError {
        self.source.error_in_line(at.line, at.column, message)
    }

    fn check_keys(&self, node: &Node, what: &str, keys: &[&str]) -> Result<(), PromptError> {
        if !node.is_map() {
            return Err(self.error(node, format!("expected a mapping: {what}")));
        }
        match node.entries().iter().find(|entry| !keys.contains(&entry.key.name.as_str())) {
            None => Ok(()),
            Some(Entry { key, .. }) => {
                let error = self.error_at(key.span, format!("unknown key in {what}: `{}`", key.name));
                Err(match nearest(&key.name, keys.iter().copied()) {
                    Some(near) => error.with_hint(format!("did you mean `{near}`?")),
                    None => error.with_hint(format!("expected one of `{}`", keys.join("`, `"))),
                })
            }
        }
    }

    fn text(&self, of: &Node, key: &str) -> Result<Option<String>, PromptError> {
        let Some(node) = of.get(key) else { return Ok(None) };
        match node.text().filter(|text| !text.trim().is_empty()) {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(self.error(node, format!("`{key}`: expected a non-empty string"))),
        }
    }

    fn schema(&self, node: &Node, key: &str) -> Result<Json, PromptError> {
        let value = references::resolve(node.to_json(), &self.source.name, self.loader)
            .map_err(|reason| self.error(node, format!("`{key}`: {reason}")))?;
        schema::check(&value)
            .map_err(|reason| self.error(node, format!("`{key}`: not a valid JSON Schema: {reason}")))?;
        Ok(value)
    }

    fn kind(&self, root: &Node, key: &str) -> Result<OutputKind, PromptError> {
        let Some(node) = root.get(key).filter(|node| node.is_map()) else {
            let node = root.get(key).unwrap_or(root);
            return Err(self.error(node, format!("`{key}`: expected a mapping with `model_name`")));
        };
        Ok(match key {
            "text_config" => OutputKind::Text(self.model(node, &[])?),
            "object_config" => {
                let Some(schema) = node.get("schema") else {
                    return Err(self.error(node, "missing `schema`: the JSON Schema of the object"));
                };
                OutputKind::Object(ObjectSettings {
                    model: self.model(node, &["schema", "schema_name", "schema_description"])?,
                    schema: self.schema(schema, "schema")?,
                    schema_name: self.text(node, "schema_name")?,
                    schema_description: self.text(node, "schema_description")?,
                })
            }
            _ => {
                self.text(node, "model_name")?;
                let Json::Object(map) = node.to_json() else { return Ok(OutputKind::Image(Map::new())) };
                if key == "image_config" { OutputKind::Image(map) } else { OutputKind::Speech(map) }
            }
        })
    }

    fn model(&self, node: &Node, own: &[&str]) -> Result<ModelSettings, PromptError> {
        let Some(model_name) = self.text(node, "model_name")? else {
            return Err(self.error(node, "missing `model_name`"));
        };
        let max_calls = match node.get("max_calls") {
            None => None,
            Some(calls) => match calls.to_json().as_u64().and_then(|calls| u32::try_from(calls).ok()) {
                Some(number @ 1..) => Some(number),
                _ => return Err(self.error(calls, "`max_calls`: expected a whole number of at least 1")),
            },
        };
        let tools = node.get("tools").map(|tools| self.tools(tools)).transpose()?.unwrap_or_default();
        let servers = node.get("mcp_servers").map(|servers| self.mcp_servers(servers)).transpose()?;
        let known = ["model_name", "max_calls", "tools", "mcp_servers"];
        let other = node.entries().iter().filter(|Entry { key, .. }| {
            !known.contains(&key.name.as_str()) && !own.contains(&key.name.as_str())
        });
        let other = other.map(|Entry { key, node }| (key.name.clone(), node.to_json())).collect();
        Ok(ModelSettings { model_name, max_calls, tools, mcp_servers: servers.unwrap_or_default(), other })
    }

    /// Parses MCP servers by name: a program, or a URL.
    fn mcp_servers(&self, node: &Node) -> Result<BTreeMap<String, McpServer>, PromptError> {
        if !node.is_map() {
            return Err(self.error(node, "`mcp_servers`: expected servers by name"));
        }
        let mut servers = BTreeMap::new();
        for Entry { key, node } in node.entries() {
            let what = format!("the MCP server `{}`", key.name);
            let url = node.get("url").is_some();
            let keys: &[&str] = if url { &["url", "headers"] } else { &["command", "args", "env"] };
            self.check_keys(node, &what, keys)?;
            let (server, pairs) = match (self.text(node, "url")?, self.text(node, "command")?) {
                (Some(url), _) => (McpServer::http(url), "headers"),
                (None, Some(command)) => {
                    let args = node.get("args").map(|args| self.texts(args, "args")).transpose()?;
                    (McpServer::stdio(command, args.unwrap_or_default()), "env")
                }
                (None, None) => return Err(self.error(node, format!("{what} has no `command` and no `url`"))),
            };
            let mut server = server;
            for Entry { key, node } in node.get(pairs).map(Node::entries).unwrap_or_default() {
                let value =
                    node.text().ok_or_else(|| self.error(node, format!("`{pairs}`: expected a text")))?;
                server = server.with_env_or_header(&key.name, value);
            }
            servers.insert(key.name.clone(), server);
        }
        Ok(servers)
    }

    /// Parses a list of texts.
    fn texts(&self, node: &Node, key: &str) -> Result<Vec<String>, PromptError> {
        let Value::List(items) = &node.value else {
            return Err(self.error(node, format!("`{key}`: expected a list of texts")));
        };
        let text = |item: &Node| {
            let found = item.text().map(str::to_owned);
            found.ok_or_else(|| self.error(item, format!("`{key}`: expected a text")))
        };
        items.iter().map(text).collect()
    }

    /// Parses a mapping of function tools, or a list of names of external tools.
    fn tools(&self, node: &Node) -> Result<Vec<PromptTool>, PromptError> {
        match &node.value {
            Value::List(items) => items
                .iter()
                .map(|item| match item.text().filter(|text| !text.trim().is_empty()) {
                    Some(name) => Ok(PromptTool::External(name.to_owned())),
                    None => Err(self.error(item, "`tools`: expected the name of a tool")),
                })
                .collect(),
            Value::Map(entries) => entries
                .iter()
                .map(|Entry { key, node: tool }| {
                    let name = &key.name;
                    self.check_keys(
                        tool,
                        &format!("the tool `{name}`"),
                        &["description", "parameters", "command"],
                    )?;
                    let parameters = match tool.get("parameters") {
                        Some(parameters) => self.schema(parameters, &format!("tools.{name}.parameters"))?,
                        None => serde_json::json!({"type": "object"}),
                    };
                    let description = self.text(tool, "description")?.unwrap_or_default();
                    let command = tool.get("command").map(|argv| self.texts(argv, "command")).transpose()?;
                    if let (Some(argv), Some(node)) = (&command, tool.get("command"))
                        && argv.first().is_none_or(String::is_empty)
                    {
                        return Err(self.error(node, "`command`: expected a program and its arguments"));
                    }
                    let (name, command) = (name.clone(), command.unwrap_or_default());
                    Ok(PromptTool::Function { name, description, parameters, command })
                })
                .collect(),
            _ => Err(self.error(node, "`tools`: expected tools by name, or a list of names")),
        }
    }

    fn test_settings(&self, root: &Node) -> Result<TestSettings, PromptError> {
        let mut settings = TestSettings::default();
        let Some(node) = root.get("test_settings") else { return Ok(settings) };
        let keys = [
            "props",
            "dataset",
            "evals",
            "scores",
            "experiment_key",
            "regression_tolerance",
            "score_thresholds",
        ];
        self.check_keys(node, "`test_settings`", &keys)?;
        settings.props = match node.get("props") {
            Some(props) if !props.is_map() => return Err(self.error(props, "`props`: expected a mapping")),
            props => props.map(Node::to_json),
        };
        settings.dataset = self.text(node, "dataset")?;
        settings.experiment_key = self.text(node, "experiment_key")?;
        // `scores` is the newer name of `evals`.
        for evals in ["evals", "scores"].into_iter().filter_map(|key| node.get(key)) {
            let Value::List(items) = &evals.value else {
                return Err(self.error(evals, "`evals`: expected a list of names"));
            };
            for item in items {
                let name = item.text().ok_or_else(|| self.error(item, "`evals`: expected a name"))?;
                settings.evals.push(name.to_owned());
            }
        }
        settings.regression_tolerance = node
            .get("regression_tolerance")
            .map(|node| self.fraction(node, "regression_tolerance"))
            .transpose()?;
        if let Some(thresholds) = node.get("score_thresholds") {
            if !thresholds.is_map() {
                return Err(
                    self.error(thresholds, "`score_thresholds`: expected a mapping of evals to numbers")
                );
            }
            for Entry { key, node } in thresholds.entries() {
                let threshold = self.fraction(node, "score_thresholds")?;
                settings.score_thresholds.push((key.name.clone(), threshold));
            }
        }
        Ok(settings)
    }

    fn fraction(&self, node: &Node, key: &str) -> Result<f64, PromptError> {
        let number = node.to_json().as_f64().filter(|number| (0.0..=1.0).contains(number));
        number.ok_or_else(|| self.error(node, format!("`{key}`: expected a number from 0 to 1")))
    }
}
