//! Evaluators of a case: bare names, `{name, config}`, and files that define one.

pub mod reader;
mod spec;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::check::{Checker, join};
use super::fields_evaluator::EVALUATOR_FILE;
use super::files as case_files;
use super::shape::{Kind, list_of};
use super::types::EnvVar;
use super::variables;
use reader::ConfigReader;
use yb_yaml::diagnostic::{Diagnostic, Diagnostics, quoted};
use yb_yaml::{Node, Syntax, Value};

pub(crate) use reader::number;
pub use spec::{EvaluatorConfig, EvaluatorInput, EvaluatorSpec, EvaluatorSpecs};

/// An evaluator with its configuration, as a case names it.
#[derive(Debug, Clone)]
pub struct ConfiguredEvaluator {
    /// The name, as written.
    pub name: String,
    /// The file that defines it, if any.
    pub file: Option<PathBuf>,
    /// The description in its file.
    pub description: Option<String>,
    /// The spec that the name refers to; `None` if the evaluator is unknown.
    pub spec: Option<&'static EvaluatorSpec>,
    /// The configuration as the spec parsed it; `None` if the evaluator is unknown.
    pub parsed: Option<Arc<dyn EvaluatorConfig>>,
    /// The configuration as written.
    pub config: Map<String, Json>,
    /// The digests of the files that the configuration names, sorted.
    pub inputs: Vec<String>,
    /// Whether it asserts nothing, so that it always passes.
    pub vacuous: bool,
}

impl ConfiguredEvaluator {
    /// Returns the environment variables that it reads.
    #[must_use]
    pub fn variables(&self) -> &[EnvVar] {
        self.parsed.as_ref().map(|parsed| parsed.variables()).unwrap_or_default()
    }
}

/// Compares what the files say. The parsed configuration follows from it.
impl PartialEq for ConfiguredEvaluator {
    fn eq(&self, other: &Self) -> bool {
        let key = |one: &Self| (one.spec.map(|spec| spec.name), one.vacuous);
        (&self.name, &self.file, &self.description) == (&other.name, &other.file, &other.description)
            && (&self.config, &self.inputs) == (&other.config, &other.inputs)
            && key(self) == key(other)
    }
}

/// The parts of a case that its evaluators depend on.
pub(crate) struct Context<'a> {
    pub(crate) specs: &'a EvaluatorSpecs,
    pub(crate) dir: &'a Path,
    pub(crate) variables: &'a BTreeMap<String, String>,
    pub(crate) has_expected: bool,
}

/// Reads the evaluators of a case. Diagnostics about evaluator files are returned separately.
pub(crate) fn read(
    node: Option<&Node>,
    context: &Context<'_>,
    checker: &mut Checker<'_, '_>,
) -> (Vec<ConfiguredEvaluator>, Vec<Diagnostic>) {
    let mut evaluators: Vec<ConfiguredEvaluator> = Vec::new();
    let mut elsewhere = Vec::new();
    for (at, node) in node.map(Node::items).unwrap_or_default().iter().enumerate() {
        let path = format!("evaluators[{at}]");
        let read = match (node.text(), node.get("name").and_then(Node::text), node.get("file")) {
            (Some(name), _, _) | (None, Some(name), None) => {
                one(name, node, node.get("config"), &path, context, checker)
            }
            (None, None, Some(file)) => from_file(node, file, &path, context, checker, &mut elsewhere),
            (None, Some(_), Some(file)) => {
                let error =
                    checker.found.error(file.span, join(&path, "file"), "two definitions: `name` and `file`");
                error.hint("use only one of them");
                None
            }
            (None, None, None) => {
                if matches!(node.value, Value::Map(_)) && node.entry("name").is_none() {
                    let error = checker.found.error(node.span, &path, "evaluator without a name");
                    error.expected("`name`, or `file`");
                }
                None
            }
        };
        let Some(evaluator) = read else { continue };
        if evaluators.iter().any(|earlier| earlier.name == evaluator.name) {
            checker
                .found
                .warning(node.span, &path, format!("evaluator named twice: {}", quoted(&evaluator.name)))
                .hint("distinguish them in reports by a label after `-`, as in `command-lint`");
        }
        evaluators.push(evaluator);
    }
    (evaluators, elsewhere)
}

fn from_file(
    node: &Node,
    file: &Node,
    path: &str,
    context: &Context<'_>,
    checker: &mut Checker<'_, '_>,
    elsewhere: &mut Vec<Diagnostic>,
) -> Option<ConfiguredEvaluator> {
    if let Some(config) = node.entry("config") {
        checker
            .found
            .error(config.key.span, join(path, "config"), "both `file` and `config`")
            .hint("move the configuration into the file");
    }
    let text = file.text()?;
    let loaded = case_files::find(context.dir, text)
        .and_then(|found| case_files::read(&found, yb_yaml::MAX_BYTES).map(|bytes| (found, bytes)));
    let (found_at, bytes) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => {
            checker
                .found
                .error(
                    file.span,
                    join(path, "file"),
                    format!("failed to read the evaluator's file ({error}): {}", quoted(text)),
                )
                .hint("the path starts at the directory of the case file, and stays below it");
            return None;
        }
    };
    let shown = context.dir.join(case_files::relative(text).ok()?);
    let decoded = yb_yaml::decode(&bytes);
    let mut found = Diagnostics::new(&shown, decoded.unwrap_or_default());
    let evaluator = match decoded {
        Err(bad) => {
            bad.report(&mut found);
            None
        }
        Ok(content) => yb_yaml::parse(content, Syntax::from_path(&shown), &mut found).and_then(|mut tree| {
            variables::substitute(&mut tree, context.variables, &mut found);
            let mut inner = Checker { mode: checker.mode, agents: checker.agents, found: &mut found };
            inner.check(&tree, &Kind::Object(&EVALUATOR_FILE), "");
            let name = tree.get("name").and_then(Node::text)?;
            let mut evaluator = one(name, &tree, tree.get("config"), "", context, &mut inner)?;
            evaluator.file = Some(found_at);
            evaluator.description = tree.get("description").and_then(Node::text).map(str::to_owned);
            Some(evaluator)
        }),
    };
    elsewhere.append(&mut found.into_vec());
    evaluator
}

/// Reads an evaluator together with the digests of the files that its configuration names.
fn one(
    name: &str,
    node: &Node,
    config: Option<&Node>,
    path: &str,
    context: &Context<'_>,
    checker: &mut Checker<'_, '_>,
) -> Option<ConfiguredEvaluator> {
    let (evaluator, files) = case_files::recorded(|| define(name, node, config, path, context, checker));
    let mut inputs: Vec<String> = files.into_iter().map(|(_, digest)| digest).collect();
    inputs.sort();
    evaluator.map(|evaluator| ConfiguredEvaluator { inputs, ..evaluator })
}

fn define(
    name: &str,
    node: &Node,
    config: Option<&Node>,
    path: &str,
    context: &Context<'_>,
    checker: &mut Checker<'_, '_>,
) -> Option<ConfiguredEvaluator> {
    let at = node.entry("name").map_or(node.span, |entry| entry.node.span);
    let none = Node { value: Value::Map(Vec::new()), span: at };
    let config = config.unwrap_or(&none);
    let spec = context.specs.get(name);
    let parsed = match spec {
        Some(spec) => {
            if matches!(config.value, Value::Map(_)) {
                checker.object(config, spec.config, &join(path, "config"));
            }
            let mut reader = ConfigReader {
                config,
                path,
                at,
                dir: context.dir,
                has_expected: context.has_expected,
                mode: checker.mode,
                agents: checker.agents,
                found: &mut *checker.found,
            };
            Some((spec.read)(&mut reader)?)
        }
        None => {
            let severity = checker.mode.severity();
            let message = format!("unknown evaluator: {}", quoted(name));
            let key = if node.text().is_some() { path.to_owned() } else { join(path, "name") };
            let found = checker.found.add(severity, at, key, message);
            if found.did_you_mean(name, context.specs.names()).hint.is_none() {
                found.hint(format!(
                    "it would be skipped; known evaluators are {}",
                    list_of(context.specs.names())
                ));
            }
            None
        }
    };
    let vacuous = parsed.as_ref().is_some_and(|parsed| parsed.is_vacuous());
    if vacuous {
        checker
            .found
            .warning(at, path, format!("vacuous: it asserts nothing, so it always passes: {}", quoted(name)))
            .hint("add assertions under `config.assertions`");
    }
    let config = match config.to_json() {
        Json::Object(config) => config,
        _ => Map::new(),
    };
    Some(ConfiguredEvaluator {
        name: name.to_owned(),
        file: None,
        description: None,
        spec,
        parsed,
        config,
        inputs: Vec::new(),
        vacuous,
    })
}
