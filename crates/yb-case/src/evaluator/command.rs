//! What `command` runs and asserts: how it must end, what it must print, and which tests must have passed.

use std::path::PathBuf;
use std::time::Duration;

use super::files::check_regex;
use super::{Context, number, texts};
use crate::check::{Checker, join};
use crate::files;
use crate::time::milliseconds;
use crate::types::EnvVar;
use yb_yaml::diagnostic::quoted;
use yb_yaml::{Node, Value};

/// A command that looks at the result.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandCheck {
    /// What is run.
    pub run: Run,
    /// Where, from the root of the tree.
    pub working_dir: Option<PathBuf>,
    /// Variables for it.
    pub env: Vec<EnvVar>,
    /// Its time, where it is another than every evaluator's.
    pub timeout: Option<Duration>,
    /// Whether it may use the network.
    pub network: bool,
    /// Files that are put into the tree for it alone: where they go, and where they come from.
    pub hidden: Vec<HiddenFile>,
    /// Globs of files that are as they were at the start, whatever the agent made of them; if the case does not say, the
    /// tests that were there and what steers them.
    pub restore: Option<Vec<String>>,
    /// The exit codes that are right.
    pub exit_codes: Vec<i32>,
    /// Regular expressions that must match in its output.
    pub output: Vec<String>,
    /// Regular expressions that must not.
    pub no_output: Vec<String>,
    /// Which tests must have passed.
    pub tests: Option<Tests>,
    /// Where it tells about its tests.
    pub report: Option<Report>,
    /// Numbers that are read from what it leaves.
    pub metrics: Vec<(String, Metric)>,
}

/// What is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Run {
    /// A program with its arguments.
    Argv(Vec<String>),
    /// A line for `sh -c`.
    Shell(String),
}

/// A file or directory that only grading sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenFile {
    /// Its path in the tree.
    pub to: String,
    /// Where it is, with all links followed.
    pub from: PathBuf,
}

/// Which tests must have passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tests {
    /// At least so many.
    AtLeast(u64),
    /// These.
    Ids(Vec<String>),
}

/// Where a command tells about its tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// How.
    pub format: ReportFormat,
    /// The file that it writes; without one, its stdout.
    pub file: Option<String>,
}

/// How a command tells about its tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportFormat {
    /// JUnit's XML.
    Junit,
    /// JSON, or a line of JSON for each test.
    Json,
    /// The Test Anything Protocol.
    Tap,
}

/// A number that is read from what a command leaves.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// How it is found.
    pub find: Find,
    /// The file that it is in; without one, the output.
    pub file: Option<String>,
    /// The least that it may be.
    pub min: Option<f64>,
    /// The most that it may be.
    pub max: Option<f64>,
}

/// How a number is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Find {
    /// The first group of a regular expression, at its last match.
    Regex(String),
    /// A JSON pointer, such as `/totals/percent`.
    Pointer(String),
}

/// The most that hidden files may hold together; they are read to know when they change.
const HIDDEN_BYTES: usize = 64 << 20;

pub(super) fn read(
    config: &Node,
    path: &str,
    context: &Context<'_>,
    checker: &mut Checker<'_, '_>,
) -> Option<CommandCheck> {
    let text = |key: &str| config.get(key).and_then(Node::text).map(str::to_owned);
    let run = match (config.entry("argv"), config.entry("shell")) {
        (Some(_), None) => Some(Run::Argv(texts(config.get("argv")))),
        (None, Some(_)) => text("shell").map(Run::Shell),
        (Some(_), Some(shell)) => {
            let message = "two commands: `argv` and `shell`";
            checker.found.error(shell.key.span, join(path, "shell"), message).hint("use only one of them");
            None
        }
        (None, None) => {
            let error = checker.found.error(config.span, path, "nothing to run");
            error.expected("`argv`, a list, or `shell`, a line for `sh`");
            None
        }
    };
    let none = Node { value: Value::Map(Vec::new()), span: config.span };
    let expect = config.get("expect").unwrap_or(&none);
    let expect_path = join(path, "expect");
    let mut expressions = |key: &str| {
        let given = expect.get(key);
        let all =
            given.map(|node| node.text().map_or_else(|| texts(Some(node)), |text| vec![text.to_owned()]));
        for expression in all.iter().flatten() {
            check_regex(expression, given.unwrap_or(expect), &join(&expect_path, key), checker);
        }
        all.unwrap_or_default()
    };
    let (output, no_output) = (expressions("output"), expressions("no_output"));
    let report = config.get("report").and_then(report);
    let tests = expect.get("tests").and_then(|node| match &node.value {
        Value::Int(number) => u64::try_from(*number).ok().map(Tests::AtLeast),
        _ => Some(Tests::Ids(texts(Some(node)))),
    });
    if let (Some(entry), None) = (expect.entry("tests"), &report) {
        let message = "no report to find the tests in: `tests`";
        checker
            .found
            .error(entry.key.span, join(&expect_path, "tests"), message)
            .hint("say what the command writes: `report: { format: junit, file: report.xml }`");
    }
    let codes = expect.get("exit_code").map(|node| match &node.value {
        Value::List(items) => items.iter().filter_map(code).collect(),
        _ => code(node).into_iter().collect(),
    });
    let metrics = metrics(config.get("metrics"), &join(path, "metrics"), checker);
    let hidden = hidden(config.get("hidden"), &join(path, "hidden"), context, checker);
    Some(CommandCheck {
        run: run?,
        working_dir: text("working_dir").and_then(|text| files::relative(&text).ok()),
        env: crate::build::environment(config.get("env")),
        timeout: config.get("timeout").and_then(milliseconds).map(Duration::from_millis),
        network: matches!(config.get("network").map(|node| &node.value), Some(Value::Bool(true))),
        hidden,
        restore: config.get("restore").map(|globs| texts(Some(globs))),
        exit_codes: codes.unwrap_or_else(|| vec![0]),
        output,
        no_output,
        tests,
        report,
        metrics,
    })
}

fn code(node: &Node) -> Option<i32> {
    if let Value::Int(number) = node.value { i32::try_from(number).ok() } else { None }
}

fn report(node: &Node) -> Option<Report> {
    let format = match node.get("format")?.text()? {
        "junit" => ReportFormat::Junit,
        "json" => ReportFormat::Json,
        "tap" => ReportFormat::Tap,
        _ => return None,
    };
    Some(Report { format, file: node.get("file").and_then(Node::text).map(str::to_owned) })
}

fn metrics(node: Option<&Node>, path: &str, checker: &mut Checker<'_, '_>) -> Vec<(String, Metric)> {
    let mut found = Vec::new();
    for entry in node.map(Node::entries).unwrap_or_default() {
        let path = join(path, &entry.key.name);
        let text = |key: &str| entry.node.get(key).and_then(Node::text).map(str::to_owned);
        let find = match (text("regex"), text("json")) {
            (Some(regex), None) => {
                check_regex(&regex, &entry.node, &join(&path, "regex"), checker);
                Find::Regex(regex)
            }
            (None, Some(pointer)) => Find::Pointer(pointer),
            _ => {
                let error =
                    checker.found.error(entry.key.span, &path, "one way to find the number is needed");
                error.expected("`regex`, or `json` with a pointer such as `/totals/percent`");
                continue;
            }
        };
        let limit = |key: &str| entry.node.get(key).and_then(number);
        let metric = Metric { find, file: text("file"), min: limit("min"), max: limit("max") };
        found.push((entry.key.name.clone(), metric));
    }
    found
}

fn hidden(
    node: Option<&Node>,
    path: &str,
    context: &Context<'_>,
    checker: &mut Checker<'_, '_>,
) -> Vec<HiddenFile> {
    let mut found = Vec::new();
    for entry in node.map(Node::entries).unwrap_or_default() {
        let Some(text) = entry.node.text() else { continue };
        let read = files::find(context.dir, text)
            .and_then(|place| files::read_all(&place, HIDDEN_BYTES).map(|_| place));
        match read {
            Ok(from) => found.push(HiddenFile { to: entry.key.name.clone(), from }),
            Err(error) => {
                let message = format!("failed to read the hidden file ({error}): {}", quoted(text));
                checker
                    .found
                    .error(entry.node.span, join(path, &entry.key.name), message)
                    .hint("the path starts at the directory of the case file, and stays below it");
            }
        }
    }
    found
}
