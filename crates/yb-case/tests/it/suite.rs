//! Suite files: what is read, combined, merged and chosen, and what is said about mistakes.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use yb_case::suite::{self, Loaded, Suite};

use crate::case::{examples, options};

pub(crate) const HEAD: &str = "youbencha: 1\nname: nightly\n";
const EVALUATORS: &str = "evaluators: [{ name: git-diff, config: { assertions: { max_files_changed: 1 } } }]";

/// A directory with a suite and what it names.
pub(crate) struct Files {
    dir: TempDir,
}

impl Files {
    pub(crate) fn new() -> Self {
        let files = Self { dir: tempfile::tempdir().unwrap() };
        files.write("app/greet.sh", "echo Hello\n");
        files
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// A whole case beside the suite, with more keys.
    pub(crate) fn case(&self, file: &str, name: &str, more: &str) {
        let up = if file.contains('/') { "../" } else { "" };
        let agent =
            "agent: { type: claude-code, model: claude-opus-5-5, config: { prompt: Make greet.sh greet. } }";
        let agent = if more.contains("agent:") { "" } else { agent };
        self.write(
            file,
            &format!("youbencha: 1\nname: {name}\ndescription: x\ndirectory: {up}app\n{EVALUATORS}\n{agent}\n{more}\n"),
        );
    }

    pub(crate) fn load(&self, text: &str) -> Loaded {
        let path = self.write("suite.yaml", &format!("{HEAD}{text}"));
        suite::load(&path, &options())
    }

    /// Everything found, a line each, without the directory.
    pub(crate) fn said(&self, loaded: &Loaded) -> String {
        let lines = loaded.diagnostics.iter().map(|found| {
            let hint = found.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
            format!("{found} [{}]{hint}", found.key)
        });
        let dir = format!("{}/", self.dir.path().display());
        lines.collect::<Vec<_>>().join("\n").replace(&dir, "")
    }

    #[track_caller]
    pub(crate) fn good(&self, text: &str) -> Suite {
        let loaded = self.load(text);
        assert_eq!(self.said(&loaded), "");
        loaded.suite.unwrap()
    }
}

fn pairs(suite: &Suite) -> Vec<String> {
    suite.combinations.iter().map(|one| format!("{} × {}", one.case_name, one.variant)).collect()
}

pub(crate) fn inline(name: &str, more: &str) -> String {
    format!("{{ name: {name}, description: x, directory: app, {EVALUATORS}{more} }}")
}

#[test]
fn a_plain_case_file_is_a_suite_of_one() {
    let mut seen = 0;
    for entry in fs::read_dir(examples()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        seen += 1;
        let (alone, loaded) = (yb_case::load(&path, &options()), suite::load(&path, &options()));
        assert_eq!(alone.diagnostics, loaded.diagnostics, "{}", path.display());
        let suite = loaded.suite.unwrap();
        let [one] = &suite.combinations[..] else { panic!("{suite:?}") };
        assert_eq!(Some(&one.case), alone.case.as_ref());
        assert_eq!((one.variant.as_str(), suite.repeats, &suite.name), ("default", 1, &None));
        assert_eq!((&one.case_name, &one.tags), (&one.case.name, &one.case.tags));
    }
    assert!(seen > 5);
    for bad in ["name: [", "5", "", "name: x", "a\0b", "youbencha: 2\n"] {
        let files = Files::new();
        let path = files.write("case.yaml", bad);
        assert_eq!(
            yb_case::load(&path, &options()).diagnostics,
            suite::load(&path, &options()).diagnostics,
            "{bad}"
        );
        let none = files.path().join("none.yaml");
        assert_eq!(yb_case::load(&none, &options()).diagnostics, suite::load(&none, &options()).diagnostics);
    }
}

#[test]
fn cases_come_from_files_globs_and_the_suite_itself() {
    let files = Files::new();
    files.case("one.yaml", "one", "tags: [quick]");
    files.case("more/b.yaml", "b", "");
    files.case("more/a.yaml", "a", "");
    files.case("more/.hidden.yaml", "hidden", "");
    files.case("more/deep/c.yaml", "c", "");
    let agent = ", agent: { type: claude-code, config: { prompt: Make greet.sh greet. } }";
    let inline = inline("inline", agent);
    let suite =
        files.good(&format!("cases:\n  - one.yaml\n  - more/*.yaml\n  - {inline}\n  - '*one.yaml'\n"));
    assert_eq!(pairs(&suite), ["one × default", "a × default", "b × default", "inline × default"]);
    assert_eq!(suite.combinations[0].tags, ["quick"]);
    assert_eq!(suite.trials(), 4);
    assert_eq!((suite.repeats, suite.retries, suite.max_cost_usd), (1, 2, None));
    let read: Vec<_> = suite
        .files
        .iter()
        .map(|file| file.path.strip_prefix(files.path().canonicalize().unwrap()).unwrap())
        .collect();
    assert_eq!(read, ["more/a.yaml", "more/b.yaml", "one.yaml", "suite.yaml"].map(Path::new));
    assert!(suite.files.iter().all(|file| file.digest.len() == 64));
    // What is merged is what the file says.
    let alone = yb_case::load(&files.path().join("one.yaml"), &options()).case.unwrap();
    assert_eq!(suite.combinations[0].case, alone);
}
