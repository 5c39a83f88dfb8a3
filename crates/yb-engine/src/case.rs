//! Cases: a file that a person wrote becomes a [`Case`], or a list of everything that is wrong with it.
//!
//! ```
//! use yb_engine::case::{self, LoadOptions};
//!
//! let text = "
//! youbencha: 1
//! name: greeting
//! description: The script greets by name.
//! repo: https://github.com/example/greeter.git
//! agent: { type: claude-code, config: { prompt: Make greet.sh greet by name. } }
//! evaluators: [{ name: git-diff, config: { assertions: { max_files_changed: 1 } } }]
//! ";
//! let loaded = case::parse("case.yaml".as_ref(), text.as_bytes(), &LoadOptions::default());
//! assert!(loaded.diagnostics.is_empty());
//! assert_eq!(loaded.case.map(|case| case.name.clone()).as_deref(), Some("greeting"));
//! ```

mod agent;
pub(crate) mod check;
mod evaluator;
mod fields;
mod fields_agent;
pub(crate) mod fields_evaluator;
mod fields_hook;
pub(crate) mod files;
pub(crate) mod format;
mod hook;
mod prompt;
mod schema;
pub(crate) mod shape;
mod start;
pub(crate) mod time;
mod types;
mod variables;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::diagnostic::{Diagnostic, Findings, quoted};
use crate::yaml::{self, Format, Node, Span, Value};

use check::{Checker, Mode};
use fields::{CASE, VERSION};

pub use evaluator::{Check, Evaluator, GitDiff, Judge, is_judge};
pub use hook::{Database, PostHook, Script, Webhook};
pub use schema::schema;
pub use start::PrivateHosts;
pub use types::{Agent, AgentConfig, Case, EnvVar, Isolation, Prompt, Start, Timeouts};
pub use variables::{environment_names, with_environment};

/// The agents that a case may name, whether or not this version can run them.
#[must_use]
pub fn agent_names() -> &'static [&'static str] {
    fields_agent::AGENTS
}

/// What a case is read with.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct LoadOptions {
    /// What `${NAME}` is replaced by.
    pub variables: BTreeMap<String, String>,
    /// Whether hosts inside somebody's network may be named.
    pub private_hosts: PrivateHosts,
}

impl LoadOptions {
    /// The same with these variables.
    #[must_use]
    pub fn with_variables(mut self, variables: BTreeMap<String, String>) -> Self {
        self.variables = variables;
        self
    }

    /// The same with this rule for hosts.
    #[must_use]
    pub fn with_private_hosts(mut self, hosts: PrivateHosts) -> Self {
        self.private_hosts = hosts;
        self
    }
}

/// What came of a file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Loaded {
    /// The case, unless something is wrong with it.
    pub case: Option<Arc<Case>>,
    /// All that is wrong or doubtful, in the order of the file, and then of the files that it names.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a case file. Nothing is started, and nothing but files is looked at.
#[must_use]
pub fn load(path: &Path, options: &LoadOptions) -> Loaded {
    // One byte too many is enough to see that a file is too large.
    match files::read(path, yaml::MAX_BYTES) {
        Ok(bytes) => parse(path, &bytes, options),
        Err(error) => {
            let mut found = Findings::new(path, "");
            if let files::FileError::TooLarge = error {
                yaml::BadText::TooLarge.report(&mut found);
            } else {
                found.error(Span::WHOLE, "", format!("failed to read the case: {error}"));
            }
            Loaded { case: None, diagnostics: found.into_vec() }
        }
    }
}

/// Reads a case from bytes, as if they were the content of a file; its format follows from the file's extension.
#[must_use]
pub fn parse(path: &Path, bytes: &[u8], options: &LoadOptions) -> Loaded {
    let decoded = yaml::decode(bytes);
    let mut found = Findings::new(path, decoded.unwrap_or_default());
    let mut elsewhere = Vec::new();
    let case = match decoded {
        Err(bad) => {
            bad.report(&mut found);
            None
        }
        Ok(text) => yaml::parse(text, Format::of(path), &mut found)
            .and_then(|root| decode(path, root, options, &mut found, &mut elsewhere)),
    };
    let mut diagnostics = found.into_vec();
    diagnostics.append(&mut elsewhere);
    let sound = !diagnostics.iter().any(Diagnostic::is_error);
    Loaded { case: case.filter(|_| sound).map(Arc::new), diagnostics }
}

fn decode(
    path: &Path,
    mut root: Node,
    options: &LoadOptions,
    found: &mut Findings<'_>,
    elsewhere: &mut Vec<Diagnostic>,
) -> Option<Case> {
    if !matches!(root.value, Value::Map(_)) {
        let message = format!("wrong value: {}", root.describe());
        found
            .error(root.span, "", message)
            .expected("a mapping with `name`, `description`, `repo`, `agent` and `evaluators`");
        return None;
    }
    let mode = mode(&root, found)?;
    variables::substitute(&mut root, &options.variables, found);
    let mut checker = Checker { mode, found };
    checker.object(&root, &CASE, "");
    hook::check(root.get("pre_execution"), "pre_execution", &mut checker);
    hook::check(root.get("post_evaluation"), "post_evaluation", &mut checker);

    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let start = start::read(&root, dir, options.private_hosts, &mut checker);
    let agent = agent::read(&root, dir, start.as_ref(), &mut checker);
    check_expected(&root, &mut checker);
    let context = evaluator::Context {
        dir,
        variables: &options.variables,
        has_expected: root.get("expected").is_some(),
    };
    let (evaluators, mut in_files) = evaluator::read(root.get("evaluators"), &context, &mut checker);
    elsewhere.append(&mut in_files);

    let text = |key: &str| root.get(key).and_then(Node::text).map(str::to_owned);
    Some(Case {
        file: path.to_owned(),
        dir: dir.to_owned(),
        strict: mode == Mode::Strict,
        name: text("name").unwrap_or_else(|| stem(path)),
        description: text("description").unwrap_or_default(),
        start: start?,
        agent: agent?,
        expected: text("expected"),
        evaluators,
        pre_execution: hook::scripts(root.get("pre_execution")),
        post_evaluation: hook::post_hooks(root.get("post_evaluation")),
        workspace_dir: text("workspace_dir").map(PathBuf::from),
        workspace_name: text("workspace_name"),
        timeouts: timeouts(&root),
        max_budget_usd: root.get("max_budget_usd").and_then(evaluator::number),
        tags: hook::texts(root.get("tags")),
        env: environment(root.get("env")),
        capture_include: hook::texts(root.get("capture").and_then(|capture| capture.get("include"))),
        isolation: text("isolation").map(|word| Isolation::read(&word)).unwrap_or_default(),
    })
}

/// The version comes first: what a newer format may contain is not for this program to judge.
fn mode(root: &Node, found: &mut Findings<'_>) -> Option<Mode> {
    match root.entry("youbencha").map(|entry| &entry.node) {
        None => Some(Mode::Lenient),
        Some(Node { value: Value::Int(version), span }) if *version > VERSION => {
            found
                .error(*span, "youbencha", format!("unknown version of the format: `{version}`"))
                .expected(format!("`{VERSION}`"))
                .hint("the file is newer than this program; update youbencha");
            None
        }
        // Anything else that is not the version is reported with the other fields.
        Some(_) => Some(Mode::Strict),
    }
}

fn check_expected(root: &Node, checker: &mut Checker<'_, '_>) {
    if let (Some(source), None) = (root.entry("expected_source"), root.get("expected")) {
        checker
            .found
            .error(source.key.span, "expected", "missing key: `expected`")
            .expected("the branch with the expected result, because there is `expected_source`");
    }
    for key in ["branch", "commit", "expected"] {
        if let Some(node) = root.get(key)
            && node.text().is_some_and(|text| text.starts_with('-') || text.contains(char::is_whitespace))
        {
            let message = format!("not a name that git knows: {}", quoted(node.text().unwrap_or_default()));
            checker.found.error(node.span, key, message).expected("no spaces, and no dash in front");
        }
    }
}

fn timeouts(root: &Node) -> Timeouts {
    let time = |node: Option<&Node>| node.and_then(time::milliseconds).map(Duration::from_millis);
    let both = time(root.get("timeout"));
    let apart = |key: &str| time(root.get("timeouts").and_then(|timeouts| timeouts.get(key)));
    Timeouts {
        clone: apart("clone").or(both),
        agent: apart("agent").or(both),
        evaluators: apart("evaluators"),
    }
}

fn environment(node: Option<&Node>) -> Vec<EnvVar> {
    let passed = hook::texts(node).into_iter().map(|name| EnvVar { name, value: None });
    let set = node
        .map(Node::entries)
        .unwrap_or_default()
        .iter()
        .map(|entry| EnvVar { name: entry.key.name.clone(), value: entry.node.text().map(str::to_owned) });
    passed.chain(set).collect()
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}
