//! Evaluators: bare names, `{name, config}`, and files that define one.

mod answer;
mod budget;
mod command;
mod files;
mod judge;
mod trajectory;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};

use super::check::{Checker, join};
use super::fields_evaluator::{
    AGENTIC_JUDGE, ANSWER, BUDGET, COMMAND, EVALUATOR_FILE, EVALUATORS, EXPECTED_DIFF, FILES, GIT_DIFF,
    TRAJECTORY, config_of, known,
};
use super::files as case_files;
use super::hook::texts;
use super::shape::Kind;
use super::types::EnvVar;
use super::variables;
use yb_yaml::diagnostic::{Diagnostic, Findings, quoted};
use yb_yaml::{Format, Node, Value};

pub use answer::Answer;
pub use budget::Budget;
pub use command::{CommandCheck, Find, HiddenFile, Metric, Report, ReportFormat, Run, Tests};
pub use files::Files;
pub use judge::{Judge, JudgeAssertion, Panelist};
pub use trajectory::{CallCount, Trajectory};

/// What grades one aspect of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluator {
    /// Its name, as written.
    pub name: String,
    /// The file that defines it, where there is one.
    pub file: Option<PathBuf>,
    /// What its file says about it.
    pub description: Option<String>,
    /// What it looks at.
    pub check: Check,
    /// Its configuration as it was written.
    pub config: Map<String, Json>,
    /// The digests of the files that its configuration names, sorted.
    pub inputs: Vec<String>,
    /// Whether it asserts nothing, so that its passing means nothing.
    pub vacuous: bool,
}

impl Evaluator {
    /// Variables that it wants from the environment.
    pub fn variables(&self) -> &[EnvVar] {
        if let Check::Command(command) = &self.check { &command.env } else { &[] }
    }
}

/// What an evaluator looks at.
#[derive(Debug, Clone, PartialEq)]
pub enum Check {
    /// How much changed.
    GitDiff(GitDiff),
    /// How near the result is to the expected one.
    ExpectedDiff(ExpectedDiff),
    /// What a command says: a build, a test run, a linter.
    Command(Box<CommandCheck>),
    /// Which files there are, and what is in them.
    Files(Files),
    /// What the agent did on its way.
    Trajectory(Trajectory),
    /// What the agent used.
    Budget(Budget),
    /// What the agent says at its end.
    Answer(Answer),
    /// What another agent thinks of it.
    AgenticJudge(Box<Judge>),
    /// Nothing that is known here.
    Unknown,
}

/// Limits for what may change.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GitDiff {
    /// The most files that may change.
    pub max_files_changed: Option<u64>,
    /// The most lines that may be added.
    pub max_lines_added: Option<u64>,
    /// The most lines that may be removed.
    pub max_lines_removed: Option<u64>,
    /// The most lines that may be added and removed.
    pub max_total_changes: Option<u64>,
    /// The least spread of changes over files, in bits.
    pub min_change_entropy: Option<f64>,
    /// The most spread of changes over files, in bits.
    pub max_change_entropy: Option<f64>,
    /// Globs of the files that count; all of them if there are none.
    pub include: Vec<String>,
    /// Globs of files that do not count.
    pub exclude: Vec<String>,
}

impl GitDiff {
    /// Whether it asserts nothing.
    fn is_vacuous(&self) -> bool {
        *self == Self { include: self.include.clone(), exclude: self.exclude.clone(), ..Self::default() }
    }
}

/// How near a result must be to the expected one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExpectedDiff {
    /// How alike they must be, from 0 to 1.
    pub threshold: f64,
}

/// What evaluators are read with.
pub(crate) struct Context<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) variables: &'a BTreeMap<String, String>,
    pub(crate) has_expected: bool,
}

/// Reads the evaluators of a case; the findings in their own files come apart.
pub(crate) fn read(
    node: Option<&Node>,
    context: &Context<'_>,
    checker: &mut Checker<'_, '_>,
) -> (Vec<Evaluator>, Vec<Diagnostic>) {
    let mut evaluators: Vec<Evaluator> = Vec::new();
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
                    let error = checker.found.error(node.span, &path, "an evaluator without a name");
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
                .hint("tell them apart in reports: more may follow a name after `-`, as in `command-lint`");
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
) -> Option<Evaluator> {
    if let Some(config) = node.entry("config") {
        checker
            .found
            .error(config.key.span, join(path, "config"), "a configuration beside a `file`")
            .hint("it belongs into the file");
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
    let mut found = Findings::new(&shown, decoded.unwrap_or_default());
    let evaluator = match decoded {
        Err(bad) => {
            bad.report(&mut found);
            None
        }
        Ok(content) => yb_yaml::parse(content, Format::of(&shown), &mut found).and_then(|mut tree| {
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

/// Reads an evaluator, and keeps what the files said that its configuration names.
fn one(
    name: &str,
    node: &Node,
    config: Option<&Node>,
    path: &str,
    context: &Context<'_>,
    checker: &mut Checker<'_, '_>,
) -> Option<Evaluator> {
    let (evaluator, files) = case_files::recorded(|| define(name, node, config, path, context, checker));
    let mut inputs: Vec<String> = files.into_iter().map(|(_, digest)| digest).collect();
    inputs.sort();
    evaluator.map(|evaluator| Evaluator { inputs, ..evaluator })
}

fn define(
    name: &str,
    node: &Node,
    config: Option<&Node>,
    path: &str,
    context: &Context<'_>,
    checker: &mut Checker<'_, '_>,
) -> Option<Evaluator> {
    let at = node.entry("name").map_or(node.span, |entry| entry.node.span);
    let config_path = join(path, "config");
    let none = Node { value: Value::Map(Vec::new()), span: at };
    let config = config.unwrap_or(&none);
    let check = match known(name) {
        None => {
            let severity = checker.mode.severity();
            let message = format!("unknown evaluator: {}", quoted(name));
            let key = if node.text().is_some() { path.to_owned() } else { join(path, "name") };
            let found = checker.found.add(severity, at, key, message);
            found.did_you_mean(name, EVALUATORS.iter().copied());
            if found.hint.is_none() {
                found.hint(format!(
                    "known are {}; it would be skipped",
                    super::shape::list_of(EVALUATORS.iter().copied())
                ));
            }
            Check::Unknown
        }
        Some(known) => {
            if let Some(object) = config_of(name).filter(|_| matches!(config.value, Value::Map(_))) {
                checker.object(config, object, &config_path);
            }
            match known {
                GIT_DIFF => Check::GitDiff(git_diff(config, config.get("assertions").unwrap_or(&none))),
                EXPECTED_DIFF => {
                    if !context.has_expected {
                        let severity = checker.mode.severity();
                        checker
                            .found
                            .add(severity, at, path.to_owned(), "nothing is expected: `expected-diff` can't look".to_owned())
                            .hint("name what is expected: `expected_source: branch` (or `commit`, `directory`, `patch`) and `expected: …`");
                    }
                    let threshold = config.get("threshold").and_then(number).unwrap_or(0.8);
                    Check::ExpectedDiff(ExpectedDiff { threshold })
                }
                COMMAND => Check::Command(Box::new(command::read(config, &config_path, context, checker)?)),
                FILES => Check::Files(files::read(config, &config_path, context, checker)),
                TRAJECTORY => Check::Trajectory(trajectory::read(config.get("assertions").unwrap_or(&none))),
                BUDGET => Check::Budget(budget::read(config.get("assertions").unwrap_or(&none))),
                ANSWER => Check::Answer(answer::read(config, &config_path, context, checker)),
                _ => Check::AgenticJudge(Box::new(judge::read(config, &config_path, context, checker)?)),
            }
        }
    };
    let vacuous = match &check {
        Check::GitDiff(limits) => limits.is_vacuous(),
        Check::AgenticJudge(judge) => judge.assertions.is_empty(),
        Check::Files(files) => *files == Files { tampering: files.tampering, ..Files::default() },
        Check::Trajectory(trajectory) => *trajectory == Trajectory::default(),
        Check::Budget(budget) => *budget == Budget::default(),
        Check::Answer(answer) => *answer == Answer::default(),
        Check::ExpectedDiff(_) | Check::Command(_) | Check::Unknown => false,
    };
    if vacuous {
        checker
            .found
            .warning(
                at,
                path,
                format!("vacuous: nothing is asserted, so its passing means nothing: {}", quoted(name)),
            )
            .hint("say under `config.assertions` what must hold");
    }
    let config = match config.to_json() {
        Json::Object(config) => config,
        _ => Map::new(),
    };
    let name = name.to_owned();
    Some(Evaluator { name, file: None, description: None, check, config, inputs: Vec::new(), vacuous })
}

fn git_diff(config: &Node, node: &Node) -> GitDiff {
    let count = |key: &str| count(node, key);
    GitDiff {
        max_files_changed: count("max_files_changed"),
        max_lines_added: count("max_lines_added"),
        max_lines_removed: count("max_lines_removed"),
        max_total_changes: count("max_total_changes"),
        min_change_entropy: node.get("min_change_entropy").and_then(number),
        max_change_entropy: node.get("max_change_entropy").and_then(number),
        include: texts(config.get("include")),
        exclude: texts(config.get("exclude")),
    }
}

/// A count of a mapping.
fn count(node: &Node, key: &str) -> Option<u64> {
    match node.get(key).map(|node| &node.value) {
        Some(Value::Int(number)) => u64::try_from(*number).ok(),
        _ => None,
    }
}

pub(crate) fn number(node: &Node) -> Option<f64> {
    match node.value {
        Value::Int(number) => Some(number as f64),
        Value::Float(number) => Some(number),
        _ => None,
    }
}

/// The name under which reports know all judges.
#[must_use]
pub fn is_judge(name: &str) -> bool {
    known(name) == Some(AGENTIC_JUDGE)
}
