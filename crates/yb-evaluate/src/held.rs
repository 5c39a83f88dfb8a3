//! What a result may not change while it is graded: the tests that were there, and the files that steer what runs them.

use std::collections::{HashMap, HashSet};

use super::GradeError;
use yb_repo::{PathGlobs, TreeFile};

/// Tests that were there at the start: as they were. What an agent adds beside them stays.
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

/// What a runner, or the tool that starts it, reads of its own accord and what can make it say anything: as it was, and
/// gone if it was not there. Manifests are not among them: whoever adds a package has to change those.
const STEERING: [&str; 25] = [
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

/// A result as it is graded.
pub(crate) struct Held {
    /// Its files.
    pub(crate) files: Vec<TreeFile>,
    /// The paths of those that are not as the agent left them, for a person.
    pub(crate) put_back: Vec<String>,
}

/// Puts back what an agent may not change: what the case names, or else tests and what steers them.
pub(crate) fn hold(
    restore: Option<&[String]>,
    start: &[TreeFile],
    end: &[TreeFile],
) -> Result<Held, GradeError> {
    let (whole, tests) = match restore {
        Some(globs) => (PathGlobs::new(globs)?, PathGlobs::none()),
        None => (PathGlobs::new(STEERING)?, PathGlobs::new(TESTS)?),
    };
    let before: HashMap<&[u8], &TreeFile> = start.iter().map(|file| (file.path.as_slice(), file)).collect();
    let after: HashSet<&[u8]> = end.iter().map(|file| file.path.as_slice()).collect();
    let holds = |path: &[u8]| whole.matches(path) || (before.contains_key(path) && tests.matches(path));
    let (held, mut files): (Vec<&TreeFile>, Vec<&TreeFile>) = end.iter().partition(|file| holds(&file.path));
    let changed = held.into_iter().filter(|file| before.get(file.path.as_slice()) != Some(file));
    let was: Vec<&TreeFile> = start.iter().filter(|file| holds(&file.path)).collect();
    let gone = was.iter().copied().filter(|file| !after.contains(file.path.as_slice()));
    let mut put_back: Vec<String> = changed.chain(gone).map(TreeFile::display_path).collect();
    put_back.sort();
    // Last, so that a link or a file of the agent in their way gives way.
    files.extend(was);
    Ok(Held { files: files.into_iter().cloned().collect(), put_back })
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

    fn held(restore: Option<&[String]>) -> (Vec<String>, Vec<String>) {
        let start =
            tree(&[("a.py", "1"), ("tests/test_a.py", "1"), ("tests/test_b.py", "1"), (".npmrc", "1")]);
        let end = tree(&[
            ("a.py", "2"),
            ("tests/test_a.py", "2"),
            ("tests/test_c.py", "2"),
            ("x/conftest.py", "2"),
        ]);
        let held = hold(restore, &start, &end).expect("globs");
        (
            held.files.iter().map(|file| format!("{} {}", file.display_path(), file.id)).collect(),
            held.put_back,
        )
    }

    #[test]
    fn tests_are_as_they_were_and_what_steers_them_is_not_the_agents() {
        let (files, put_back) = held(None);
        assert_eq!(
            files,
            ["a.py 2", "tests/test_c.py 2", "tests/test_a.py 1", "tests/test_b.py 1", ".npmrc 1"]
        );
        assert_eq!(put_back, [".npmrc", "tests/test_a.py", "tests/test_b.py", "x/conftest.py"]);
    }

    #[test]
    fn a_case_may_name_other_files_or_none() {
        let (files, put_back) = held(Some(&[]));
        assert_eq!(files, ["a.py 2", "tests/test_a.py 2", "tests/test_c.py 2", "x/conftest.py 2"]);
        assert_eq!(put_back, [""; 0]);
        let (files, put_back) = held(Some(&["tests".to_owned()]));
        assert_eq!(files, ["a.py 2", "x/conftest.py 2", "tests/test_a.py 1", "tests/test_b.py 1"]);
        assert_eq!(put_back, ["tests/test_a.py", "tests/test_b.py", "tests/test_c.py"]);
    }
}
