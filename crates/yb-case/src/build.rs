//! Builds a case from a tree: validates and reads every section, and reports all errors.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::check::{Checker, Mode};
use super::fields::CASE;
use super::overlay::OverlayLayer;
use super::prompt::Dirs;
use super::types::{Case, EnvVar, Isolation, Timeouts};
use super::{
    LoadOptions, agent, evaluator, expected, guard, hook, overlay, solution, start, stem, tape,
    task_environment, time,
};
use yb_yaml::diagnostic::{Diagnostic, Diagnostics, quoted};
use yb_yaml::{Node, Value};

/// The context for building a case.
pub struct CaseInput<'a> {
    /// The file of the case.
    pub(crate) path: &'a Path,
    pub(crate) mode: Mode,
    /// The base directory of paths from the overlay.
    pub(crate) over: &'a Path,
    /// Variables that override those of the case.
    pub(crate) env: &'a [EnvVar],
    /// The nodes with `files` and `remove` to apply after those of the case.
    pub(crate) overlay: &'a [Node],
}

impl<'a> CaseInput<'a> {
    /// Creates a context without an overlay.
    pub(crate) fn new(path: &'a Path, mode: Mode) -> Self {
        Self { path, mode, over: dir_of(path), env: &[], overlay: &[] }
    }
}

/// Returns the directory of a file; `.` for a plain file name.
#[must_use]
pub fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Validates and reads a prepared tree. Diagnostics of referenced files go to `elsewhere`.
pub fn build(
    draft: &CaseInput<'_>,
    root: &Node,
    options: &LoadOptions,
    found: &mut Diagnostics<'_>,
    elsewhere: &mut Vec<Diagnostic>,
) -> Option<Case> {
    let mut checker = Checker { mode: draft.mode, agents: &options.agents, found };
    checker.object(root, &CASE, "");
    guard::check(root.get("network"), &mut checker);
    hook::check(root.get("pre_execution"), "pre_execution", &mut checker);
    hook::check(root.get("post_evaluation"), "post_evaluation", &mut checker);

    let dir = dir_of(draft.path);
    let rules = start::SourceRules { hosts: options.private_hosts, local: &options.local_sources };
    let start = start::read(root, dir, rules, &mut checker);
    let task_environment = task_environment::read(root, dir, rules, &mut checker);
    let dirs = Dirs { own: dir, over: draft.over };
    let agent = agent::read(root, dirs, start.as_ref(), &mut checker);
    let mut overlay = overlay::read(root, draft.overlay, dirs, &mut checker);
    let instructions = agent.as_ref().and_then(|agent| agent.config.instructions.as_ref());
    overlay.layers.extend(
        instructions.map(|one| OverlayLayer { files: vec![one.file.clone()], ..OverlayLayer::default() }),
    );
    if let Some(agent) = &agent {
        let mut laid = [root].into_iter().chain(draft.overlay).filter_map(|node| node.entry("files"));
        let at = laid.next_back().map_or(root.span, |entry| entry.key.span);
        overlay::warn_if_untrusted(&overlay, agent, at, &mut checker);
    }
    check_expected(root, &mut checker);
    let expected = expected::read(root, dir, &mut checker);
    let solution = solution::read(root, dir, &mut checker);
    let context = evaluator::Context {
        specs: &options.evaluators,
        dir,
        variables: &options.variables,
        has_expected: root.get("expected").is_some(),
    };
    let (evaluators, mut in_files) = evaluator::read(root.get("evaluators"), &context, &mut checker);
    elsewhere.append(&mut in_files);

    let tape = tape::read(root, dir, &mut checker);
    let text = |key: &str| root.get(key).and_then(Node::text).map(str::to_owned);
    let mut env = environment(root.get("env"));
    env.retain(|own| draft.env.iter().all(|over| over.name != own.name));
    env.extend_from_slice(draft.env);
    Some(Case {
        file: draft.path.to_owned(),
        dir: dir.to_owned(),
        strict: draft.mode == Mode::Strict,
        name: text("name").unwrap_or_else(|| stem(draft.path)),
        description: text("description").unwrap_or_default(),
        start: start?,
        environment: task_environment,
        overlay,
        agent: agent?,
        expected,
        solution,
        evaluators,
        prepare: hook::prepare(root.get("prepare")),
        prepare_for_agent: hook::prepare_for_agent(root.get("prepare")),
        may_change: root.get("may_change").map(|globs| hook::texts(Some(globs))),
        pre_execution: hook::scripts(root.get("pre_execution")),
        post_evaluation: hook::post_hooks(root.get("post_evaluation")),
        workspace_dir: text("workspace_dir").map(PathBuf::from),
        workspace_name: text("workspace_name"),
        timeouts: timeouts(root),
        max_budget_usd: root.get("max_budget_usd").and_then(evaluator::number),
        tags: hook::texts(root.get("tags")),
        env,
        capture_include: hook::texts(root.get("capture").and_then(|capture| capture.get("include"))),
        capture_steps: matches!(
            root.get("capture").and_then(|capture| capture.get("steps")).map(|node| &node.value),
            Some(Value::Bool(true))
        ),
        isolation: text("isolation").map(|word| Isolation::read(&word)).unwrap_or_default(),
        network: root.get("network").and_then(guard::Network::from_node),
        limits: guard::TrialLimits::from_node(root.get("limits")),
        tape,
    })
}

fn check_expected(root: &Node, checker: &mut Checker<'_, '_>) {
    if let (Some(source), None) = (root.entry("expected_source"), root.get("expected")) {
        checker
            .found
            .error(source.key.span, "expected", "missing key: `expected`")
            .expected("the branch with the expected result, since `expected_source` is set");
    }
    for key in ["branch", "commit"] {
        if let Some(node) = root.get(key)
            && node.text().is_some_and(|text| text.starts_with('-') || text.contains(char::is_whitespace))
        {
            let message = format!("invalid git revision: {}", quoted(node.text().unwrap_or_default()));
            checker
                .found
                .error(node.span, key, message)
                .expected("a name without spaces that does not start with `-`");
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

/// Reads `env`: a list of names, or names with values.
#[must_use]
pub fn environment(node: Option<&Node>) -> Vec<EnvVar> {
    let passed = hook::texts(node).into_iter().map(|name| EnvVar { name, value: None });
    let set = node
        .map(Node::entries)
        .unwrap_or_default()
        .iter()
        .map(|entry| EnvVar { name: entry.key.name.clone(), value: entry.node.text().map(str::to_owned) });
    passed.chain(set).collect()
}
