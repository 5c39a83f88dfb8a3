//! Runs the console blocks of the documentation and compares their output with the page.
//!
//! A block with the comment `<!-- run -->` above it is run: each line that begins with `$ ` is a command, and the lines
//! below it are its stdout, or the stderr of a command that fails without any. The blocks of a page run in order in one
//! temporary directory, with `yb` first in PATH. `<!-- file: PATH -->` above a block writes that block to a file;
//! a comment that begins with a line `<!-- setup` is a shell script. Times,
//! run ids, temporary paths and the width of columns are not compared, and a line `[…]` matches any number of lines.
//!
//! `YB_UPDATE_DOCS=1 cargo nextest run -p youbencha docs_console` puts the real output into the pages.

use std::path::Path;

use yb_testkit::{Outcome, TestContext};

use crate::YB;
use crate::docs_links::{pages_below, root};

/// Declares a test for each page.
macro_rules! pages {
    ($($test:ident: $page:literal,)*) => {
        const PAGES: &[&str] = &[$($page),*];
        $(
            #[test]
            fn $test() {
                check($page, stringify!($test).contains("real_claude"));
            }
        )*
    };
}

pages! {
    readme: "README.md",
    concept_records: "docs/concepts/records.md",
    first_case: "docs/getting-started/first-case.md",
    first_suite: "docs/getting-started/first-suite.md",
    guide_add_ons_with_real_claude: "docs/guides/add-ons.md",
    guide_claude_md: "docs/guides/claude-md.md",
    guide_compare: "docs/guides/compare.md",
    guide_evaluators: "docs/guides/evaluators.md",
    guide_export: "docs/guides/export.md",
    guide_gates: "docs/guides/gates.md",
    guide_graders_with_real_claude: "docs/guides/graders.md",
    guide_import: "docs/guides/import.md",
    guide_harbor: "docs/guides/harbor.md",
    guide_record_replay: "docs/guides/record-replay.md",
    guide_regrade: "docs/guides/regrade.md",
    guide_view: "docs/guides/view.md",
    reference_commands: "docs/reference/commands.md",
    reference_reports: "docs/reference/reports.md",
}

/// The file with the path of Claude Code, for pages that run it.
const CLAUDE: &str = "claude";

const RUN: &str = "<!-- run -->";
const SETUP: &str = "<!-- setup";
const ELLIPSIS: &str = "[…]";

#[derive(Debug)]
enum Step {
    /// Runs a script that the page does not show.
    Setup { script: String },
    /// Writes a file.
    File { path: String, content: String },
    /// Runs commands; `lines` are the lines of the page between the fences.
    Console { lines: std::ops::Range<usize> },
}

fn steps(page: &str) -> Vec<Step> {
    let lines: Vec<&str> = page.lines().collect();
    let mut steps = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if *line == SETUP {
            let script = lines[index + 1..].iter().take_while(|line| **line != "-->");
            steps.push(Step::Setup { script: script.map(|line| format!("{line}\n")).collect() });
        }
        let file = line.strip_prefix("<!-- file: ").and_then(|rest| rest.strip_suffix(" -->"));
        if file.is_none() && *line != RUN {
            continue;
        }
        let start = index + 2;
        assert!(lines[index + 1].starts_with("```"), "line {}: no block below the comment", index + 1);
        let end = start + lines[start..].iter().position(|line| *line == "```").unwrap();
        steps.push(match file {
            Some(path) => {
                let content: String = lines[start..end].iter().map(|line| format!("{line}\n")).collect();
                Step::File { path: path.to_owned(), content }
            }
            None => Step::Console { lines: start..end },
        });
    }
    steps
}

/// The commands of a block with the output that the page shows.
fn commands<'a>(block: &[&'a str]) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut commands: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in block {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command, Vec::new())),
            (None, Some((_, output))) => output.push(line),
            (None, None) => panic!("the block does not begin with a command: {line}"),
        }
    }
    commands
}

/// Runs a command; returns its stdout, or its stderr if it fails without any.
fn run(context: &TestContext, command: &str) -> String {
    let outcome = shell(context, command);
    if outcome.stdout.is_empty() && !outcome.success() { outcome.stderr } else { outcome.stdout }
}

/// Runs a shell in the directory in which the one before ended.
fn shell(context: &TestContext, command: &str) -> Outcome {
    let bin = Path::new(YB).parent().unwrap().display().to_string();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
    let directory = context.root().join("directory");
    let current = std::fs::read_to_string(&directory).map_or_else(|_| context.dir(), |dir| dir.trim().into());
    let script = format!("trap 'pwd > \"$DIRECTORY\"' EXIT\n{command}\n");
    let mut shell = context.command("/bin/sh").args(["-c", &script]).current_dir(current);
    if let Ok(claude) = std::fs::read_to_string(context.root().join(CLAUDE)) {
        shell = shell.env("YB_CLAUDE", claude);
    }
    shell.env("PATH", path).env("DIRECTORY", directory).run()
}

/// What is compared of a line.
fn comparable(context: &TestContext, line: &str) -> String {
    context.filtered(line).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether the output matches the expected one, in which `[…]` matches any number of lines.
fn matches(expected: &[String], output: &[String]) -> bool {
    match expected.split_first() {
        None => output.is_empty(),
        Some((first, rest)) if first == ELLIPSIS => {
            (0..=output.len()).any(|skipped| matches(rest, &output[skipped..]))
        }
        Some((first, rest)) => output.first() == Some(first) && matches(rest, &output[1..]),
    }
}

fn check(name: &str, with_claude: bool) {
    let path = root().join(name);
    let page = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = page.lines().collect();
    let mut context = TestContext::new();
    context
        .filter(r"\brun-\d{4}-\d\d-\d\d-(?:\d+|\[HEX\])", "[RUN]")
        .filter(r"\beval-\d{4}-[\dTZ-]+", "[EVAL]")
        .filter(r"\b\d+-[0-9a-f]{8}\b", "[GRADING]");
    std::fs::write(
        context.home().join(".gitconfig"),
        "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n",
    )
    .unwrap();
    if with_claude {
        let claude = yb_testkit::RealClaude::new();
        std::fs::write(context.root().join(CLAUDE), claude.program().to_str().unwrap()).unwrap();
    }
    let mut updates: Vec<(std::ops::Range<usize>, Vec<String>)> = Vec::new();
    for step in steps(&page) {
        let range = match step {
            Step::File { path, content } => {
                context.write(path, content);
                continue;
            }
            Step::Setup { script } => {
                let outcome = shell(&context, &format!("set -e\n{script}"));
                assert!(outcome.success(), "{name}: the setup failed: {}{}", outcome.stdout, outcome.stderr);
                continue;
            }
            Step::Console { lines } => lines,
        };
        let mut shown = Vec::new();
        let mut differs = Vec::new();
        for (command, expected) in commands(&lines[range.clone()]) {
            let output = run(&context, command);
            let wanted: Vec<String> = expected.iter().map(|line| comparable(&context, line)).collect();
            let printed: Vec<String> = output.lines().map(|line| comparable(&context, line)).collect();
            shown.push(format!("$ {command}"));
            if matches(&wanted, &printed) {
                shown.extend(expected.iter().map(|line| (*line).to_owned()));
            } else {
                assert!(
                    !wanted.iter().any(|line| line == ELLIPSIS)
                        || std::env::var_os("YB_UPDATE_DOCS").is_none(),
                    "{name}:{}: `{command}` differs, and `{ELLIPSIS}` is not updated by itself; it prints:\n{output}",
                    range.start + 1
                );
                shown.extend(output.lines().map(str::trim_end).map(str::to_owned));
                differs.push(format!("$ {command}\n{output}"));
            }
        }
        if !differs.is_empty() {
            assert!(
                std::env::var_os("YB_UPDATE_DOCS").is_some(),
                "{name}:{}: the output differs, it is now:\n{}\nhint: run this test with `YB_UPDATE_DOCS=1`",
                range.start + 1,
                differs.join("\n")
            );
            updates.push((range, shown));
        }
    }
    if !updates.is_empty() {
        let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        for (range, shown) in updates.into_iter().rev() {
            lines.splice(range, shown);
        }
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    }
}

#[test]
fn every_page_with_a_marked_block_is_checked() {
    let root = root();
    let mut marked: Vec<String> = Vec::new();
    for page in pages_below(&root.join("docs")).into_iter().chain([root.join("README.md")]) {
        if std::fs::read_to_string(&page).unwrap().lines().any(|line| line == RUN) {
            marked.push(page.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/"));
        }
    }
    marked.sort();
    let mut checked: Vec<&str> = PAGES.to_vec();
    checked.sort_unstable();
    assert_eq!(marked, checked);
}

#[test]
fn ellipsis_matches_any_number_of_lines() {
    let check = |expected: &str, output: &str, expect: bool| {
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(matches(&lines(expected), &lines(output)), expect, "{expected}: {output}");
    };
    check("a b", "a b", true);
    check("a b", "a", false);
    check("a […]", "a b c", true);
    check("[…] c", "a b c", true);
    check("a […] b c", "a b c", true);
    check("a […] d", "a b c", false);
}
