//! Composes the tree that a command grades: the start tree, with those files of the end tree that the agent may change.
//!
//! By default these are all files except tests, settings of test runners, caches, environments and shadows of hidden or
//! restored files. A case decides with `may_change` and `restore`.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::GradeError;
use super::manifest;
use super::runner_rules::{ADDED_TESTS_KEPT, ManifestRule, RULES, Rule, RuleKind};
use super::shadow::Anchors;
use yb_repo::{PathGlobs, TreeFile};

/// The word in `may_change` that stands for what it would be if it were absent.
const DEFAULT: &str = "default";

/// Extensions of restored files that commands must not change: code and settings. Data of tests may be rewritten by them.
const LOCKED_EXTENSIONS: [&str; 22] = [
    "cfg", "cjs", "cts", "go", "groovy", "ini", "java", "js", "jsx", "kt", "mjs", "mts", "php", "py", "rb",
    "rs", "rspec", "sh", "toml", "ts", "tsx", "xml",
];

/// What the case says about the files that the agent may change.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ChangePolicy<'a> {
    /// Globs of the files that the agent may change; the default ones if `None`.
    pub(crate) may_change: Option<&'a [String]>,
    /// Globs of files that are restored from the start tree, in place of tests and settings.
    pub(crate) restore: Option<&'a [String]>,
    /// The directories in which the runner looks for modules.
    pub(crate) import_roots: &'a [String],
}

/// A composed tree.
#[derive(Debug)]
pub(crate) struct ComposedTree {
    /// The files of the tree, without those in `manifests`.
    pub(crate) files: Vec<TreeFile>,
    /// Manifests that the agent changed and that are to be merged.
    pub(crate) manifests: Vec<ChangedManifest>,
    /// Files of the start tree that the agent changed or removed and that were put back, for display.
    pub(crate) put_back: Vec<String>,
    /// Files of the agent that are not in the tree.
    pub(crate) left_out: Vec<LeftOut>,
    /// Tests and settings of the start tree that commands must not change.
    pub(crate) locked: Vec<Vec<u8>>,
}

/// A manifest that the agent added, changed or removed.
#[derive(Debug)]
pub(crate) struct ChangedManifest {
    pub(crate) rule: &'static ManifestRule,
    pub(crate) start: Option<TreeFile>,
    pub(crate) end: Option<TreeFile>,
}

/// A file or directory of the agent that is not graded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LeftOut {
    /// Its path, for display.
    pub(crate) path: String,
    /// Why it was left out.
    pub(crate) reason: &'static str,
}

/// Which version of a file is graded.
enum Version {
    /// The agent's, or none if the agent removed it.
    Agents,
    /// The start tree's, or none.
    Starts(Protection),
    /// The agent's, with the keys of test runners as at the start.
    Merged(&'static ManifestRule),
}

#[derive(Clone, Copy)]
struct Protection {
    reason: &'static str,
    rule: Option<&'static CompiledRule>,
}

/// A rule with its compiled glob.
struct CompiledRule {
    rule: &'static Rule,
    globs: PathGlobs,
}

struct CompiledRules {
    /// All globs, to skip most paths quickly.
    all: PathGlobs,
    rules: Vec<CompiledRule>,
    added_tests_kept: PathGlobs,
}

/// The globs are constants, and a test compiles each of them.
static COMPILED: LazyLock<CompiledRules> = LazyLock::new(|| {
    let rules = || RULES.into_iter().flatten();
    let compile =
        |rule: &'static Rule| CompiledRule { rule, globs: PathGlobs::new([rule.glob]).unwrap_or_default() };
    CompiledRules {
        all: PathGlobs::new(rules().map(|rule| rule.glob)).unwrap_or_default(),
        rules: rules().map(compile).collect(),
        added_tests_kept: PathGlobs::new(ADDED_TESTS_KEPT).unwrap_or_default(),
    }
});

/// Returns the first rule of one of these kinds that matches a path.
fn rule_for(path: &[u8], kinds: &[RuleKind]) -> Option<&'static CompiledRule> {
    let rules = &*COMPILED;
    if !rules.all.matches(path) {
        return None;
    }
    rules.rules.iter().find(|one| kinds.contains(&one.rule.kind) && one.globs.matches(path))
}

/// The compiled policy of one tree.
struct Composer<'a> {
    /// Globs that the agent may change, and the same without the content of directories.
    named: PathGlobs,
    named_files: PathGlobs,
    /// Whether files that `may_change` does not name follow the default.
    by_default: bool,
    restore: Option<PathGlobs>,
    anchors: Anchors,
    before: HashMap<&'a [u8], &'a TreeFile>,
    /// Directories with virtual environments that the agent made.
    environments: Vec<Vec<u8>>,
}

/// Composes a tree. `hidden` are the paths of hidden files.
pub(crate) fn compose(
    policy: ChangePolicy<'_>,
    hidden: &[Vec<u8>],
    start: &[TreeFile],
    end: &[TreeFile],
) -> Result<ComposedTree, GradeError> {
    let composer = Composer::new(policy, hidden, start, end)?;
    let after: HashSet<&[u8]> = end.iter().map(|file| file.path.as_slice()).collect();
    let mut composed = ComposedTree {
        files: Vec::new(),
        manifests: Vec::new(),
        put_back: Vec::new(),
        left_out: Vec::new(),
        locked: Vec::new(),
    };
    // Files of the start tree come last, so that they replace links and files of the agent.
    let mut originals = Vec::new();
    for file in end {
        let original = composer.before.get(file.path.as_slice()).copied();
        if original == Some(file) {
            composed.lock(&composer, file);
            originals.push(file.clone());
            continue;
        }
        match (composer.version(file), original) {
            (Version::Agents, _) => composed.files.push(file.clone()),
            (Version::Merged(rule), start) => {
                let (start, end) = (start.cloned(), Some(file.clone()));
                composed.manifests.push(ChangedManifest { rule, start, end });
            }
            (Version::Starts(_), Some(original)) => {
                composed.put_back.push(file.display_path());
                composed.lock(&composer, original);
                originals.push(original.clone());
            }
            (Version::Starts(protection), None) => composed
                .left_out
                .push(LeftOut { path: protection.shown_path(file), reason: protection.reason }),
        }
    }
    for file in start.iter().filter(|file| !after.contains(file.path.as_slice())) {
        match composer.version(file) {
            Version::Agents => {}
            Version::Merged(rule) => {
                composed.manifests.push(ChangedManifest { rule, start: Some(file.clone()), end: None });
            }
            Version::Starts(_) => {
                composed.put_back.push(file.display_path());
                composed.lock(&composer, file);
                originals.push(file.clone());
            }
        }
    }
    composed.files.extend(originals);
    composed.put_back.sort();
    composed.left_out.sort();
    composed.left_out.dedup();
    Ok(composed)
}

impl ComposedTree {
    fn lock(&mut self, composer: &Composer<'_>, file: &TreeFile) {
        let name = String::from_utf8_lossy(&file.path);
        let extension = name.rsplit('.').next().unwrap_or_default();
        if !file.is_link() && LOCKED_EXTENSIONS.contains(&extension) && composer.is_anchor(&file.path) {
            self.locked.push(file.path.clone());
        }
    }
}

impl Protection {
    /// Returns the path for display: of a cache or an environment the whole directory.
    fn shown_path(&self, file: &TreeFile) -> String {
        let whole = match self.rule {
            Some(one) if matches!(one.rule.kind, RuleKind::Cache | RuleKind::Environment) => {
                dirs_above(&file.path).find(|above| one.globs.matches(above))
            }
            _ => None,
        };
        whole.map_or_else(|| file.display_path(), |dir| format!("{}/", String::from_utf8_lossy(dir)))
    }
}

impl<'a> Composer<'a> {
    fn new(
        policy: ChangePolicy<'_>,
        hidden: &[Vec<u8>],
        start: &'a [TreeFile],
        end: &[TreeFile],
    ) -> Result<Self, GradeError> {
        let named: Vec<&String> =
            policy.may_change.into_iter().flatten().filter(|glob| *glob != DEFAULT).collect();
        let by_default = policy.may_change.is_none_or(|globs| globs.iter().any(|glob| glob == DEFAULT));
        let before: HashMap<&[u8], &TreeFile> =
            start.iter().map(|file| (file.path.as_slice(), file)).collect();
        let made = end.iter().filter(|file| !before.contains_key(file.path.as_slice()));
        let environments =
            made.filter_map(|file| Some(file.path.strip_suffix(b"/pyvenv.cfg")?.to_vec())).collect();
        let mut composer = Self {
            named: PathGlobs::new(&named)?,
            named_files: PathGlobs::of_files(&named)?,
            by_default,
            restore: policy.restore.map(PathGlobs::new).transpose()?,
            anchors: Anchors::default(),
            before,
            environments,
        };
        let restored = start.iter().map(|file| file.path.as_slice()).filter(|path| composer.is_anchor(path));
        composer.anchors =
            Anchors::new(hidden.iter().map(Vec::as_slice).chain(restored), policy.import_roots);
        Ok(composer)
    }

    /// Returns whether a file of the start tree is a test or a setting that the agent may not change.
    fn is_anchor(&self, path: &[u8]) -> bool {
        match &self.restore {
            Some(restore) => restore.matches(path),
            None => {
                !self.named.matches(path) && rule_for(path, &[RuleKind::Test, RuleKind::Setting]).is_some()
            }
        }
    }

    /// Decides which version of a file that the agent changed is graded.
    fn version(&self, file: &TreeFile) -> Version {
        let path = file.path.as_slice();
        let starts = |reason| Version::Starts(Protection { reason, rule: None });
        let by_rule = |rule: &'static CompiledRule| {
            Version::Starts(Protection { reason: rule.rule.reason, rule: Some(rule) })
        };
        if self.restore.as_ref().is_some_and(|restore| restore.matches(path)) {
            return starts("in `restore`");
        }
        // A directory in `may_change` does not mean what is in no repository: a file has to be named.
        if self.named_files.matches(path) {
            return Version::Agents;
        }
        if let Some(rule) = rule_for(path, &[RuleKind::Cache]) {
            return by_rule(rule);
        }
        // Before shadows, because an environment may have very many files.
        if !self.named.matches(path) {
            if let Some(rule) = rule_for(path, &[RuleKind::Environment]) {
                return by_rule(rule);
            }
            if self.environments.iter().any(|dir| is_below(path, dir)) {
                return starts("a virtual environment");
            }
        }
        if !self.before.contains_key(path) || file.is_link() {
            let in_start = |path: &str| self.before.contains_key(path.as_bytes());
            if let Some(reason) = self.anchors.shadowed_by(file, &in_start) {
                return starts(reason);
            }
        }
        if self.named.matches(path) {
            return Version::Agents;
        }
        if !self.by_default {
            return starts("not in `may_change`");
        }
        if self.restore.is_some() {
            return Version::Agents;
        }
        if let Some(rule) = rule_for(path, &[RuleKind::Setting]) {
            return by_rule(rule);
        }
        let added = !self.before.contains_key(path);
        if let Some(rule) = rule_for(path, &[RuleKind::Test])
            && !(added && COMPILED.added_tests_kept.matches(path))
        {
            return by_rule(rule);
        }
        manifest::rule_for(path).map_or(Version::Agents, Version::Merged)
    }
}

fn is_below(path: &[u8], dir: &[u8]) -> bool {
    path.strip_prefix(dir).is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// Iterates over the directories above a path, from the root of the tree.
fn dirs_above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Vec<TreeFile> {
        let file = |(path, id): &(&str, &str)| TreeFile {
            mode: 0o100_644,
            id: (*id).to_owned(),
            size: 1,
            path: path.as_bytes().to_vec(),
        };
        files.iter().map(file).collect()
    }

    /// Returns the files with their ids, those that were put back, and those that were left out.
    fn composed(
        may_change: Option<&[&str]>,
        restore: Option<&[&str]>,
        end: &[(&str, &str)],
    ) -> (Vec<String>, Vec<String>, Vec<String>) {
        let owned = |globs: Option<&[&str]>| -> Option<Vec<String>> {
            globs.map(|globs| globs.iter().map(|glob| (*glob).to_owned()).collect())
        };
        let (may_change, restore) = (owned(may_change), owned(restore));
        let policy = ChangePolicy {
            may_change: may_change.as_deref(),
            restore: restore.as_deref(),
            import_roots: &[],
        };
        let start =
            tree(&[("a.py", "1"), ("tests/test_a.py", "1"), ("tests/test_b.py", "1"), (".npmrc", "1")]);
        let tree = compose(policy, &[b"hidden/test_h.py".to_vec()], &start, &tree(end)).expect("globs");
        let mut files: Vec<String> =
            tree.files.iter().map(|file| format!("{} {}", file.display_path(), file.id)).collect();
        files.extend(tree.manifests.iter().map(|one| {
            format!("{} merged", one.end.as_ref().or(one.start.as_ref()).expect("a file").display_path())
        }));
        files.sort();
        (files, tree.put_back, tree.left_out.into_iter().map(|one| one.path).collect())
    }

    const END: &[(&str, &str)] = &[
        ("a.py", "2"),
        ("tests/test_a.py", "2"),
        ("tests/test_c.py", "2"),
        ("x/conftest.py", "2"),
        ("hidden/test_h/__init__.py", "2"),
        ("package.json", "2"),
        ("node_modules/jest/a.js", "2"),
        ("node_modules/jest/b.js", "2"),
        ("env/pyvenv.cfg", "2"),
        ("env/bin/python", "2"),
        ("src/tests/mod.rs", "2"),
        ("__pycache__/a.cpython-311.pyc", "2"),
    ];

    #[test]
    fn tests_settings_caches_environments_and_shadows_are_not_the_agents() {
        let (files, put_back, left_out) = composed(None, None, END);
        assert_eq!(
            files,
            [
                ".npmrc 1",
                "a.py 2",
                "package.json merged",
                "src/tests/mod.rs 2",
                "tests/test_a.py 1",
                "tests/test_b.py 1"
            ]
        );
        assert_eq!(put_back, [".npmrc", "tests/test_a.py", "tests/test_b.py"]);
        assert_eq!(
            left_out,
            [
                "__pycache__/",
                "env/bin/python",
                "env/pyvenv.cfg",
                "hidden/test_h/__init__.py",
                "node_modules/",
                "tests/test_c.py",
                "x/conftest.py"
            ]
        );
    }

    #[test]
    fn restore_replaces_tests_and_settings() {
        let (files, put_back, left_out) = composed(None, Some(&[]), END);
        assert_eq!(
            files,
            [
                "a.py 2",
                "package.json 2",
                "src/tests/mod.rs 2",
                "tests/test_a.py 2",
                "tests/test_c.py 2",
                "x/conftest.py 2"
            ]
        );
        assert_eq!(put_back, [""; 0]);
        assert_eq!(left_out.len(), 5, "{left_out:?}");
        let (files, put_back, left_out) = composed(None, Some(&["tests"]), &END[..4]);
        assert_eq!(files, ["a.py 2", "tests/test_a.py 1", "tests/test_b.py 1", "x/conftest.py 2"]);
        assert_eq!(put_back, ["tests/test_a.py", "tests/test_b.py"]);
        assert_eq!(left_out, ["tests/test_c.py"]);
    }

    #[test]
    fn may_change_limits_the_changes_or_extends_the_default() {
        let (files, put_back, left_out) = composed(Some(&["a.py"]), None, END);
        assert_eq!(files, [".npmrc 1", "a.py 2", "tests/test_a.py 1", "tests/test_b.py 1"]);
        assert_eq!(put_back, [".npmrc", "tests/test_a.py", "tests/test_b.py"]);
        assert_eq!(left_out.len(), 9, "{left_out:?}");

        let globs = ["default", "tests", "package.json", "x", "hidden", "node_modules"];
        let (files, put_back, left_out) = composed(Some(&globs), None, END);
        assert_eq!(
            files,
            [
                ".npmrc 1",
                "a.py 2",
                "node_modules/jest/a.js 2",
                "node_modules/jest/b.js 2",
                "package.json 2",
                "src/tests/mod.rs 2",
                "tests/test_a.py 2",
                "tests/test_c.py 2",
                "x/conftest.py 2"
            ]
        );
        assert_eq!(put_back, [".npmrc"]);
        assert_eq!(
            left_out,
            ["__pycache__/", "env/bin/python", "env/pyvenv.cfg", "hidden/test_h/__init__.py"],
            "a directory does not stand for caches and shadows"
        );
        let (_, _, left_out) = composed(Some(&["default", "hidden/**", "__pycache__/*"]), None, END);
        assert!(
            !left_out.iter().any(|path| path.contains("hidden") || path.contains("pycache")),
            "{left_out:?}"
        );
    }
}
