//! Protected files: existing tests and the configuration of test runners are restored from the start tree before grading.

use std::collections::{HashMap, HashSet};

use super::GradeError;
use yb_repo::{PathGlobs, TreeFile};

/// Tests. Those in the start tree are restored; tests that the agent added stay.
const TESTS: [&str; 11] = [
    "**/tests",
    "**/test",
    "**/__tests__",
    "**/test_*.py",
    "**/*_test.py",
    "**/*_test.go",
    "**/*_test.rb",
    "**/*_spec.rb",
    "**/*.test.*",
    "**/*.spec.*",
    "**/test.sh",
];

/// Files that test runners and build tools load implicitly and that can change the result of a test run. They are restored,
/// and removed if the start tree does not have them. Manifests are not among them: adding a package changes those.
const RUNNER_CONFIG: [&str; 25] = [
    "**/conftest.py",
    "**/pytest.ini",
    "**/.pytest.ini",
    "**/sitecustomize.py",
    "**/usercustomize.py",
    "unittest.py",
    "unittest/__init__.py",
    "pytest.py",
    "pytest/__init__.py",
    "_pytest/__init__.py",
    "**/.cargo",
    "**/rust-toolchain",
    "**/rust-toolchain.toml",
    "**/.npmrc",
    "**/.yarnrc",
    "**/.yarnrc.yml",
    "**/.mocharc.*",
    "**/jest.config.*",
    "**/vitest.config.*",
    "**/gradlew",
    "**/gradle/wrapper",
    "**/mvnw",
    "**/.mvn",
    "**/.rspec",
    "**/phpunit.xml",
];

/// An end tree with protected files restored.
pub(crate) struct ProtectedTree {
    /// The files of the tree.
    pub(crate) files: Vec<TreeFile>,
    /// The paths of files that differ from the end tree, for display.
    pub(crate) restored: Vec<String>,
}

/// Restores protected files: those that the case names, or else tests and runner configuration.
pub(crate) fn restore_protected(
    globs: Option<&[String]>,
    start: &[TreeFile],
    end: &[TreeFile],
) -> Result<ProtectedTree, GradeError> {
    let (whole, tests) = match globs {
        Some(globs) => (PathGlobs::new(globs)?, PathGlobs::none()),
        None => (PathGlobs::new(RUNNER_CONFIG)?, PathGlobs::new(TESTS)?),
    };
    let before: HashMap<&[u8], &TreeFile> = start.iter().map(|file| (file.path.as_slice(), file)).collect();
    let after: HashSet<&[u8]> = end.iter().map(|file| file.path.as_slice()).collect();
    let is_protected =
        |path: &[u8]| whole.matches(path) || (before.contains_key(path) && tests.matches(path));
    let (protected, mut files): (Vec<&TreeFile>, Vec<&TreeFile>) =
        end.iter().partition(|file| is_protected(&file.path));
    let changed = protected.into_iter().filter(|file| before.get(file.path.as_slice()) != Some(file));
    let originals: Vec<&TreeFile> = start.iter().filter(|file| is_protected(&file.path)).collect();
    let deleted = originals.iter().copied().filter(|file| !after.contains(file.path.as_slice()));
    let mut restored: Vec<String> = changed.chain(deleted).map(TreeFile::display_path).collect();
    restored.sort();
    // Originals come last, so that they replace links and files of the agent.
    files.extend(originals);
    Ok(ProtectedTree { files: files.into_iter().cloned().collect(), restored })
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

    fn protect(globs: Option<&[String]>) -> (Vec<String>, Vec<String>) {
        let start =
            tree(&[("a.py", "1"), ("tests/test_a.py", "1"), ("tests/test_b.py", "1"), (".npmrc", "1")]);
        let end = tree(&[
            ("a.py", "2"),
            ("tests/test_a.py", "2"),
            ("tests/test_c.py", "2"),
            ("x/conftest.py", "2"),
        ]);
        let tree = restore_protected(globs, &start, &end).expect("globs");
        (
            tree.files.iter().map(|file| format!("{} {}", file.display_path(), file.id)).collect(),
            tree.restored,
        )
    }

    #[test]
    fn tests_and_runner_configuration_are_restored() {
        let (files, restored) = protect(None);
        assert_eq!(
            files,
            ["a.py 2", "tests/test_c.py 2", "tests/test_a.py 1", "tests/test_b.py 1", ".npmrc 1"]
        );
        assert_eq!(restored, [".npmrc", "tests/test_a.py", "tests/test_b.py", "x/conftest.py"]);
    }

    #[test]
    fn case_overrides_protected_files() {
        let (files, restored) = protect(Some(&[]));
        assert_eq!(files, ["a.py 2", "tests/test_a.py 2", "tests/test_c.py 2", "x/conftest.py 2"]);
        assert_eq!(restored, [""; 0]);
        let (files, restored) = protect(Some(&["tests".to_owned()]));
        assert_eq!(files, ["a.py 2", "x/conftest.py 2", "tests/test_a.py 1", "tests/test_b.py 1"]);
        assert_eq!(restored, ["tests/test_a.py", "tests/test_b.py", "tests/test_c.py"]);
    }
}
