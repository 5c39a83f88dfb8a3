//! Eval files: evaluators for an existing directory or a recorded run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::check::Checker;
use super::fields::{EVAL, ISOLATION_DEFAULT};
use super::guard::TrialLimits;
use super::types::{Agent, AgentConfig, Case, Isolation, Prompt, Start, Timeouts};
use super::{
    ConfiguredEvaluator, Expected, LoadOptions, PostHook, Script, dir_of, evaluator, expected, hook, stem,
    time,
};
use crate::suite::SourceFile;
use yb_yaml::diagnostic::{Diagnostic, Diagnostics, quoted};
use yb_yaml::{Node, Value};

/// The agent name of eval files: the changes were made by hand.
pub const MANUAL: &str = "manual";

/// An eval file: evaluators for an existing tree.
#[derive(Debug, Clone, PartialEq)]
pub struct EvalFile {
    /// The eval file.
    pub file: PathBuf,
    /// All files that were read.
    pub files: Vec<SourceFile>,
    /// Whether the file has `youbencha: 1`.
    pub strict: bool,
    /// The name; by default the file name without extension.
    pub name: String,
    /// The description; may be empty.
    pub description: String,
    /// The directory to grade; absent in a file for recorded runs.
    pub directory: Option<PathBuf>,
    /// The branch or commit to compare with.
    pub base: Option<String>,
    /// The expected result.
    pub expected: Option<Expected>,
    /// What grades it, in order.
    pub evaluators: Vec<ConfiguredEvaluator>,
    /// What readies a tree before it is graded.
    pub prepare: Vec<Script>,
    /// Globs of the files whose changes are graded, if set.
    pub may_change: Option<Vec<String>>,
    /// Hooks to run after grading.
    pub post_evaluation: Vec<PostHook>,
    /// The directory for results, if set.
    pub output_dir: Option<PathBuf>,
    /// The sandbox for commands that run for grading.
    pub isolation: Isolation,
    /// The timeout of each evaluator.
    pub timeout: Option<Duration>,
}

/// The result of loading an eval file.
#[derive(Debug, Clone)]
pub struct LoadedEval {
    /// The eval file, unless it has errors.
    pub eval: Option<EvalFile>,
    /// All errors and warnings.
    pub diagnostics: Vec<Diagnostic>,
}

/// Returns whether a file is an eval file: it has neither an agent nor cases nor variants.
#[must_use]
pub fn is_eval_file(path: &Path) -> bool {
    has_keys(path, &[], &["agent", "cases", "variants"])
}

/// Returns whether a file names a directory to grade and has nothing of a case or suite. A case that lacks its agent is none.
#[must_use]
pub fn is_eval_of_directory(path: &Path) -> bool {
    has_keys(
        path,
        &["directory", "evaluators"],
        &["agent", "cases", "variants", "factors", "repo", "solution"],
    )
}

/// Returns whether a file has all of these keys and none of the others.
fn has_keys(path: &Path, all: &[&str], none: &[&str]) -> bool {
    let Ok(bytes) = super::read(path) else { return false };
    let Ok(text) = yb_yaml::decode(&bytes) else { return false };
    let mut found = Diagnostics::new(path, text);
    let root = super::parse_tree(text, path, &mut found);
    root.is_some_and(|root| {
        let has = |key: &str| root.entry(key).is_some();
        all.iter().all(|key| has(key)) && !none.iter().any(|key| has(key))
    })
}

/// Loads an eval file. Only files are read; no process is started.
#[must_use]
pub fn load_eval(path: &Path, options: &LoadOptions) -> LoadedEval {
    let bytes = match super::read(path) {
        Ok(bytes) => bytes,
        Err(diagnostics) => return LoadedEval { eval: None, diagnostics },
    };
    let decoded = yb_yaml::decode(&bytes);
    let mut found = Diagnostics::new(path, decoded.unwrap_or_default());
    let mut elsewhere = Vec::new();
    let (eval, recording) = super::files::recorded(|| match decoded {
        Err(bad) => {
            super::report_decode_error(bad, &mut found);
            None
        }
        Ok(text) => super::parse_tree(text, path, &mut found).and_then(|mut root| {
            if !matches!(root.value, Value::Map(_)) {
                let message = format!("wrong value: {}", root.describe());
                found
                    .error(root.span, "", message)
                    .expected("a mapping with `name`, `directory` and `evaluators`");
                return None;
            }
            let mode = super::mode(&root, &mut found)?;
            super::variables::substitute(&mut root, &options.variables, &mut found);
            let mut checker = Checker { mode, agents: &options.agents, found: &mut found };
            Some(build(path, &root, options, &mut checker, &mut elsewhere))
        }),
    });
    let mut diagnostics = found.into_vec();
    diagnostics.append(&mut elsewhere);
    let sound = !diagnostics.iter().any(Diagnostic::is_error);
    let own = (path.to_owned(), blake3::hash(&bytes).to_hex().to_string());
    let mut files: Vec<SourceFile> = std::iter::once(own)
        .chain(recording)
        .map(|(path, digest)| SourceFile { path: path.canonicalize().unwrap_or(path), digest })
        .collect();
    files.sort();
    files.dedup();
    LoadedEval { eval: eval.filter(|_| sound).map(|eval| EvalFile { files, ..eval }), diagnostics }
}

fn build(
    path: &Path,
    root: &Node,
    options: &LoadOptions,
    checker: &mut Checker<'_, '_>,
    elsewhere: &mut Vec<Diagnostic>,
) -> EvalFile {
    checker.object(root, &EVAL, "");
    hook::check(root.get("post_evaluation"), "post_evaluation", checker);
    let dir = dir_of(path);
    let text = |key: &str| root.get(key).and_then(Node::text).map(str::to_owned);
    let directory = directory(root, "directory", dir, checker);
    let expected = directory_of_files(root, dir, checker);
    let context = evaluator::Context {
        specs: &options.evaluators,
        dir,
        variables: &options.variables,
        has_expected: expected.is_some(),
    };
    let (evaluators, mut in_files) = evaluator::read(root.get("evaluators"), &context, checker);
    elsewhere.append(&mut in_files);
    let timeouts = root.get("timeouts").and_then(|timeouts| timeouts.get("evaluators"));
    EvalFile {
        file: path.to_owned(),
        files: Vec::new(),
        strict: checker.mode == super::check::Mode::Strict,
        name: text("name").unwrap_or_else(|| stem(path)),
        description: text("description").unwrap_or_default(),
        directory,
        base: text("base").or_else(|| base_of(&evaluators)),
        expected,
        evaluators,
        prepare: hook::prepare(root.get("prepare")),
        may_change: root.get("may_change").map(|globs| hook::texts(Some(globs))),
        post_evaluation: hook::post_hooks(root.get("post_evaluation")),
        output_dir: text("output_dir").map(PathBuf::from),
        isolation: text("isolation").map_or(ISOLATION_DEFAULT, |word| Isolation::read(&word)),
        timeout: timeouts.and_then(time::milliseconds).map(Duration::from_millis),
    }
}

/// The commit that the original's `git-diff` compares with.
fn base_of(evaluators: &[ConfiguredEvaluator]) -> Option<String> {
    let base = evaluators.iter().find_map(|one| one.config.get("base_commit")?.as_str());
    base.filter(|base| *base != "HEAD").map(str::to_owned)
}

/// Finds a directory relative to the file or, for compatibility, to the working directory.
fn directory(root: &Node, key: &str, dir: &Path, checker: &mut Checker<'_, '_>) -> Option<PathBuf> {
    let node = root.get(key)?;
    let text = node.text()?;
    let here = std::env::current_dir().unwrap_or_default();
    let existing = |path: PathBuf| path.canonicalize().ok().filter(|path| path.is_dir());
    let (beside, by_caller) = (existing(dir.join(text)), existing(here.join(text)));
    if let (Some(used), Some(other), false) =
        (&beside, &by_caller, beside == by_caller || checker.mode == super::check::Mode::Strict)
    {
        let message = format!("{} is relative to this file: `{}`", quoted(text), used.display());
        let hint = format!(
            "the original youBencha used the working directory (`{}`); write the path that you mean, and `youbencha: 1`",
            other.display()
        );
        checker.found.warning(node.span, key, message).hint(hint);
    }
    let found = beside.or(by_caller);
    if found.is_none() {
        checker
            .found
            .error(node.span, key, format!("no such directory: {}", quoted(text)))
            .hint("relative paths start at the directory of this file or at the working directory");
    }
    found
}

fn directory_of_files(root: &Node, dir: &Path, checker: &mut Checker<'_, '_>) -> Option<Expected> {
    let path = directory(root, "expected_directory", dir, checker)?;
    match expected::of_files(path) {
        Ok(files) => Some(Expected::Directory(files)),
        Err(error) => {
            let at = root.get("expected_directory").map_or(root.span, |node| node.span);
            let message = format!("failed to read the expected result: {error}");
            checker.found.error(at, "expected_directory", message);
            None
        }
    }
}

impl EvalFile {
    /// Returns a case with these evaluators, which is not meant to be run.
    #[must_use]
    pub fn case(&self) -> Case {
        Case {
            file: self.file.clone(),
            dir: dir_of(&self.file).to_owned(),
            strict: self.strict,
            name: self.name.clone(),
            description: self.description.clone(),
            start: Start::Directory(self.directory.clone().unwrap_or_default()),
            environment: None,
            overlay: crate::Overlay::default(),
            agent: Agent {
                kind: MANUAL.to_owned(),
                agent_name: None,
                model: None,
                version: None,
                prompt: Prompt::Text(String::new()),
                config: AgentConfig::default(),
            },
            expected: self.expected.clone(),
            solution: None,
            evaluators: self.evaluators.clone(),
            prepare: self.prepare.clone(),
            prepare_for_agent: Vec::new(),
            may_change: self.may_change.clone(),
            pre_execution: Vec::new(),
            post_evaluation: self.post_evaluation.clone(),
            workspace_dir: None,
            workspace_name: None,
            timeouts: Timeouts { clone: None, agent: None, evaluators: self.timeout },
            max_budget_usd: None,
            tags: Vec::new(),
            env: Vec::new(),
            capture_include: Vec::new(),
            capture_steps: false,
            isolation: self.isolation,
            network: None,
            limits: TrialLimits::default(),
            tape: None,
        }
    }
}
