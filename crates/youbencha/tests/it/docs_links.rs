//! Checks that every relative link in the documentation points at an existing file and heading.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Pages of `docs/reference` that are generated from the types; they come and go together.
const GENERATED: [&str; 9] = [
    "agents.md",
    "case.md",
    "cli.md",
    "config.md",
    "environment-variables.md",
    "evaluators.md",
    "exit-codes.md",
    "files.md",
    "suite.md",
];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// All Markdown files below `dir`, except installed packages and build output.
pub(crate) fn pages_below(dir: &Path) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() && name != "node_modules" && name != "target" {
            pages.extend(pages_below(&path));
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    pages.sort();
    pages
}

fn documentation() -> Vec<PathBuf> {
    let root = root();
    let mut pages: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
        .iter()
        .map(|name| root.join(name))
        .filter(|path| path.exists())
        .collect();
    for dir in ["docs", "conformance", "examples"] {
        pages.extend(pages_below(&root.join(dir)));
    }
    let crates = std::fs::read_dir(root.join("crates")).unwrap();
    pages.extend(crates.map(|entry| entry.unwrap().path().join("README.md")).filter(|path| path.exists()));
    pages
}

/// The lines of a page that are not in a fenced block, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((index + 1, line))
    })
}

/// A line without the text between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

fn targets(line: &str) -> Vec<String> {
    let line = without_code(line);
    let ends = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    ends.map(str::to_owned).collect()
}

/// The anchors that GitHub makes from the headings of a page.
fn anchors(page: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(page).unwrap();
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(&text).filter(|(_, line)| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let repeated = (1..).map(|n| format!("{anchor}-{n}"));
        let free = std::iter::once(anchor.clone()).chain(repeated).find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    anchors
}

/// What is wrong with a link on a page, if anything.
fn problem(page: &Path, target: &str) -> Option<String> {
    if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = if path.is_empty() { page.to_owned() } else { page.parent().unwrap().join(path) };
    let generated = file.parent().is_some_and(|dir| dir.ends_with("reference"))
        && file.file_name().is_some_and(|name| GENERATED.iter().any(|page| name == *page));
    if generated && !root().join("docs/reference/cli.md").exists() {
        return None;
    }
    if !file.exists() {
        return Some("no such file".to_owned());
    }
    let is_page = file.extension().is_some_and(|extension| extension == "md");
    let missing = !anchor.is_empty() && is_page && !anchors(&file).contains(anchor);
    missing.then(|| format!("no such heading: `#{anchor}`"))
}

#[test]
fn every_relative_link_points_at_a_file_and_heading() {
    let mut problems = Vec::new();
    let mut links = 0;
    for page in documentation() {
        let text = std::fs::read_to_string(&page).unwrap();
        for (number, line) in prose(&text) {
            for target in targets(line) {
                links += 1;
                if let Some(problem) = problem(&page, &target) {
                    let page = page.strip_prefix(root()).unwrap().display();
                    problems.push(format!("{page}:{number}: `{target}`: {problem}"));
                }
            }
        }
    }
    assert!(links > 100, "only {links} links were found");
    assert!(problems.is_empty(), "broken links:\n{}", problems.join("\n"));
}

/// `docs/README.md` is the table of contents: a page that it does not list is not found.
#[test]
fn index_lists_every_page() {
    let docs = root().join("docs");
    let index = std::fs::read_to_string(docs.join("README.md")).unwrap();
    for page in pages_below(&docs) {
        let name = page.strip_prefix(&docs).unwrap().to_string_lossy().replace('\\', "/");
        assert!(
            name == "README.md" || index.contains(&format!("]({name})")),
            "docs/README.md lacks `{name}`"
        );
    }
}

/// The last column of the table of cheats names the module that tests each of them.
#[test]
fn table_of_cheats_names_existing_modules() {
    let page = std::fs::read_to_string(root().join("docs/concepts/cheats.md")).unwrap();
    let tests = root().join("crates/youbencha/tests/it");
    let rows = page.lines().filter_map(|line| line.strip_suffix("` |")?.rsplit_once("| `"));
    let modules: BTreeSet<&str> = rows.map(|(_, module)| module).collect();
    assert!(modules.len() > 5, "{modules:?}");
    for module in modules {
        let file = format!("{module}.rs");
        let exists = tests.join("cheats").join(&file).exists() || tests.join(&file).exists();
        assert!(exists, "no module `{module}`");
    }
}

/// Paths of the repository in backticks, such as `crates/yb-tape/src/lib.rs`.
#[test]
fn every_path_in_the_documentation_exists() {
    let root = root();
    let pages = pages_below(&root.join("docs")).into_iter();
    for page in pages.chain(["README.md", "CONTRIBUTING.md"].map(|name| root.join(name))) {
        let text = std::fs::read_to_string(&page).unwrap();
        for (number, line) in prose(&text) {
            let spans = line.split('`').skip(1).step_by(2);
            let paths = spans.filter(|span| {
                let dirs = ["crates/", "docs/", "schemas/", "scripts/", "conformance/", "examples/"];
                dirs.iter().any(|dir| span.starts_with(dir)) && !span.contains([' ', '*', '<'])
            });
            for path in paths.filter(|path| !path.contains("NAME")) {
                assert!(root.join(path).exists(), "{}:{number}: no such path: `{path}`", page.display());
            }
        }
    }
}
