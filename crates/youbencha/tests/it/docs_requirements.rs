//! Checks `docs/requirements.md` against the tests of the workspace, so that the page can't drift.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::docs_links::root;

/// All test functions of the workspace as `crate::module::function`; the module is the file.
fn tests() -> BTreeSet<String> {
    let mut tests = BTreeSet::new();
    for entry in std::fs::read_dir(root().join("crates")).unwrap().map(Result::unwrap) {
        for dir in ["src", "tests"] {
            collect(&entry.file_name().to_string_lossy(), &entry.path().join(dir), &mut tests);
        }
    }
    tests
}

fn collect(package: &str, dir: &Path, tests: &mut BTreeSet<String>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            collect(package, &path, tests);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
            let parent = path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
            let module = if stem == "tests" || stem == "mod" { parent } else { stem };
            let text = std::fs::read_to_string(&path).unwrap();
            tests.extend(functions(&text).map(|name| format!("{package}::{module}::{name}")));
        }
    }
}

/// The names of the functions with a test attribute.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    let mut is_test = false;
    text.lines().filter_map(move |line| {
        let line = line.trim_start();
        if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            return None;
        }
        let test = is_test && !line.starts_with("//");
        is_test &= line.starts_with("//") || line.is_empty();
        let signature = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
        test.then(|| signature.split(['(', '<']).next().unwrap())
    })
}

/// The requirement ids in the name of a test: `cr_2_6_and_2_7_…` has CR-2.6 and CR-2.7.
fn ids(test: &str) -> Vec<String> {
    let name = test.rsplit("::").next().unwrap();
    let words: Vec<&str> = name.split('_').collect();
    let number = |index: usize| words.get(index).filter(|word| word.parse::<u32>().is_ok()).copied();
    let scenario = |index: usize| {
        words
            .get(index)
            .filter(|word| word.strip_prefix("as").is_some_and(|rest| rest.parse::<u32>().is_ok()))
    };
    let mut ids = Vec::new();
    let mut index = 0;
    while index < words.len() {
        let word = words[index];
        index += 1;
        match word {
            "cr" => {
                while let (Some(group), Some(rule)) = (number(index), number(index + 1)) {
                    ids.push(format!("CR-{group}.{rule}"));
                    index += 2;
                    if words.get(index) != Some(&"and") || number(index + 1).is_none() {
                        break;
                    }
                    index += 1;
                }
            }
            "fr" | "sc" | "nfr" => {
                if let Some(number) = number(index) {
                    ids.push(format!("{}-{number}", word.to_uppercase()));
                    index += 1;
                }
            }
            _ => {
                let numbered = |prefix: &str| word.strip_prefix(prefix).filter(|n| n.parse::<u32>().is_ok());
                if numbered("us").is_some() {
                    while let Some(scenario_id) = scenario(index) {
                        ids.push(format!("{}-{}", word.to_uppercase(), scenario_id.to_uppercase()));
                        index += 1;
                        if words.get(index) != Some(&"and") || scenario(index + 1).is_none() {
                            break;
                        }
                        index += 1;
                    }
                } else if numbered("c").or(numbered("v")).is_some_and(|number| number.len() <= 2) {
                    ids.push(word.to_uppercase());
                }
            }
        }
    }
    ids
}

#[test]
fn ids_are_read_from_test_names() {
    let check = |name: &str, expect: &[&str]| assert_eq!(ids(name), expect, "{name}");
    check("a::cr_2_13_special_characters_survive", &["CR-2.13"]);
    check("a::real_claude_cr_2_6_and_2_7_agent_and_model", &["CR-2.6", "CR-2.7"]);
    check("a::us5_as1_and_as2_prompts_and_plan_mode", &["US5-AS1", "US5-AS2"]);
    check("a::real_claude_sc_009_and_sc_010_one_line", &["SC-009", "SC-010"]);
    check("a::model_names_and_c9_aliases", &["C9"]);
    check("a::temperature_0_to_1", &[]);
}

#[test]
fn page_and_the_tests_agree() {
    let path = root().join("docs/requirements.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let tests = tests();
    let mut by_id: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for test in &tests {
        for id in ids(test) {
            by_id.entry(id).or_default().push(test);
        }
    }
    let (mut problems, mut lines, mut listed, mut references) =
        (Vec::new(), Vec::new(), BTreeSet::new(), Vec::new());
    for line in page.lines() {
        let Some([id, text, cell]) = row(line) else {
            lines.push(line.to_owned());
            continue;
        };
        listed.insert(id.to_owned());
        let expected = by_id.get(id).cloned().unwrap_or_default();
        let parts: Vec<&str> = cell.split("; ").collect();
        let (named, notes): (Vec<&str>, Vec<&str>) = parts.iter().partition(|part| test_name(part).is_some());
        let named: Vec<&str> = named.into_iter().filter_map(test_name).collect();
        let (own, others): (Vec<&str>, Vec<&str>) =
            named.into_iter().partition(|test| ids(test).iter().any(|own| own == id));
        if let Some(test) = others.iter().find(|test| moved(&tests, test) != **test) {
            problems.push(format!("{id}: moved: `{test}`"));
        }
        let mut sorted = own.clone();
        sorted.sort_unstable();
        if sorted != expected {
            problems
                .push(format!("{id}: the page names {sorted:?}, the tests with this id are {expected:?}"));
        }
        let others: Vec<&str> = others.into_iter().map(|test| moved(&tests, test)).collect();
        for test in others.iter().filter(|test| !tests.contains(**test)) {
            problems.push(format!("{id}: no such test: `{test}`"));
        }
        if notes.iter().any(|note| note.is_empty()) || parts.is_empty() {
            problems.push(format!("{id}: no test, no reference and no reason"));
        }
        for note in notes.iter().filter_map(|note| note.strip_prefix("see ")) {
            references.extend(note.split(", ").map(|other| (id.to_owned(), other.to_owned())));
        }
        let cells = expected.iter().chain(&others).map(|test| format!("`{test}`"));
        let cells: Vec<String> = cells.chain(notes.iter().map(|note| (*note).to_owned())).collect();
        lines.push(format!("| {id} | {text} | {} |", cells.join("; ")));
    }
    problems
        .extend(by_id.keys().filter(|id| !listed.contains(*id)).map(|id| format!("{id}: not on the page")));
    let missing = references.into_iter().filter(|(_, other)| !listed.contains(other));
    problems.extend(missing.map(|(id, other)| format!("{id}: `see {other}`: not on the page")));
    if std::env::var_os("YB_UPDATE_DOCS").is_some() {
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        problems.retain(|problem| problem.contains("not on the page") || problem.contains("no such test"));
    }
    assert!(
        problems.is_empty(),
        "docs/requirements.md differs:\n{}\nhint: run this test with `YB_UPDATE_DOCS=1`",
        problems.join("\n")
    );
}

/// The test with the same function name in another module, if there is exactly one.
fn moved<'a>(tests: &'a BTreeSet<String>, test: &'a str) -> &'a str {
    let function = |test: &str| test.rsplit("::").next().map(str::to_owned);
    let mut same = tests.iter().filter(|other| function(other) == function(test));
    match (tests.contains(test), same.next(), same.next()) {
        (false, Some(other), None) => other,
        _ => test,
    }
}

/// The three cells of a row of the page's tables.
fn row(line: &str) -> Option<[&str; 3]> {
    let cells = line.strip_prefix("| ")?.strip_suffix(" |")?;
    let mut cells = cells.splitn(3, " | ");
    let row = [cells.next()?, cells.next()?, cells.next()?];
    (row[0] != "id" && !row[0].starts_with("---")).then_some(row)
}

/// The name of a test in backticks.
fn test_name(part: &str) -> Option<&str> {
    part.strip_prefix('`')?.strip_suffix('`').filter(|name| name.contains("::"))
}
