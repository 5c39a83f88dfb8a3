//! `command`: runs a build, a test suite or a linter in a fresh checkout within the sandbox.
//!
//! The command may run code that the agent wrote, so every failure that such code can cause is a failed check and never
//! an error of the evaluator.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use regex::Regex;
use serde_json::Value;
use yb_supervise::{End, Network, SpawnError};

use super::env::CommandOptions;
use super::test_report::{self, ReportFormat, TestResult, TestStatus};
use super::tree::{self, GradingTree, HiddenFile, TreeOptions, blocking};
use super::{
    Artifact, Assertion, Evaluator, EvaluatorContext, FOLDER, GradeError, Subject, Verdict, into_config,
};
use yb_case::config_reader::{number, one_or_more};
use yb_case::files::relative;
use yb_case::format::Format;
use yb_case::shape::{
    ENVIRONMENT, Field, GLOBS, Kind, MILLISECONDS, ONE_OR_MORE, Object, RELATIVE_PATH, TEXT,
};
use yb_case::{ConfigReader, EnvVar, EvaluatorConfig, EvaluatorInput, EvaluatorSpec};
use yb_repo::{path_from_bytes, read_inside, remove_tree};
use yb_yaml::diagnostic::quoted;
use yb_yaml::{Node, Value as Yaml};

/// The output of the command, in the artifacts of the evaluator.
const OUTPUT_FILE: &str = "output.log";
/// The largest report or metrics file.
const MAX_FILE_BYTES: u64 = 32 << 20;
/// How many ids a metric lists.
const MAX_LISTED: usize = 50;
/// The limit for all hidden files together. They are read to include them in the digest of the case.
const MAX_HIDDEN_BYTES: usize = 64 << 20;

pub(crate) static SPEC: EvaluatorSpec = EvaluatorSpec {
    name: "command",
    summary: "a build, a test run, a linter: exit code, output, and passed tests",
    input: EvaluatorInput::Tree,
    config: &CONFIG,
    read,
};

const NUMBER: Kind = Kind::Number { min: f64::MIN, max: f64::MAX, above: false };
const EXIT_CODE: Kind = Kind::Whole { min: 0, max: 255 };

static CONFIG: Object = Object {
    name: "commandEvaluator",
    fields: &[
        Field::new("argv", Kind::List { of: &TEXT, min: 1 }, "Program and arguments, without a shell."),
        Field::new("shell", TEXT, "Command line for `sh -c`, instead of `argv`."),
        Field::new("working_dir", RELATIVE_PATH, "Working directory, relative to the root of the tree."),
        Field::new(
            "env",
            ENVIRONMENT,
            "Environment variables: names to pass through, or names with values, in which `${ENV:NAME}` is expanded.",
        ),
        Field::new("timeout", MILLISECONDS, "Timeout [default: `timeouts.evaluators`]."),
        Field::new("network", Kind::Bool, "Whether network access is allowed.").default("false"),
        Field::new(
            "hidden",
            Kind::Map { names: Format::RelativePath, of: &RELATIVE_PATH },
            "Files hidden from the agent: destinations in the tree, with sources relative to this file.",
        ),
        Field::new(
            "restore",
            GLOBS,
            "Globs of files to restore from the start tree before grading [default: tests and their configuration].",
        ),
        Field::new("expect", Kind::Object(&EXPECT), "Expectations."),
        Field::new("report", Kind::Object(&REPORT), "Test report to read."),
        Field::new(
            "metrics",
            Kind::Map { names: Format::Any, of: &Kind::Object(&METRIC) },
            "Numbers to read from the output or files.",
        ),
    ],
};

static EXPECT: Object = Object {
    name: "expect",
    fields: &[
        Field::new(
            "exit_code",
            Kind::Either(&[EXIT_CODE, Kind::List { of: &EXIT_CODE, min: 1 }]),
            "Expected exit code or codes.",
        )
        .default("0"),
        Field::new("output", ONE_OR_MORE, "Regular expressions that must match the output."),
        Field::new("no_output", ONE_OR_MORE, "Regular expressions that must not match the output."),
        Field::new(
            "tests",
            Kind::Either(&[Kind::Whole { min: 1, max: i64::MAX }, Kind::List { of: &TEXT, min: 1 }]),
            "Tests that must pass: a minimum number, or ids. Guards against code that ends the test runner with exit code 0.",
        ),
    ],
};

static REPORT: Object = Object {
    name: "testReport",
    fields: &[
        Field::new("format", Kind::Word(&["junit", "json", "tap"]), "Format of the report.").required(),
        Field::new(
            "file",
            RELATIVE_PATH,
            "Report file, relative to the working directory [default: stdout].",
        ),
    ],
};

static METRIC: Object = Object {
    name: "metric",
    fields: &[
        Field::new("regex", TEXT, "Regular expression; the first group of its last match is the number."),
        Field::new("json", TEXT, "JSON pointer, such as `/totals/percent`."),
        Field::new(
            "file",
            RELATIVE_PATH,
            "File with the number, relative to the working directory [default: output].",
        ),
        Field::new("min", NUMBER, "Minimum value."),
        Field::new("max", NUMBER, "Maximum value."),
    ],
};

/// A command and the assertions about its result.
#[derive(Debug, Clone, PartialEq)]
struct CommandCheck {
    program: Program,
    /// The working directory, relative to the root of the tree.
    working_dir: Option<PathBuf>,
    env: Vec<EnvVar>,
    /// Its own timeout, instead of that for all evaluators.
    timeout: Option<Duration>,
    /// Whether it may use the network.
    network: bool,
    /// Files that exist only in the grading tree.
    hidden: Vec<HiddenFile>,
    /// Globs of files that are restored from the start tree; by default existing tests and the configuration of test
    /// runners.
    restore: Option<Vec<String>>,
    /// The accepted exit codes.
    exit_codes: Vec<i32>,
    /// Regular expressions that must match in the output.
    output: Vec<String>,
    /// Regular expressions that must not match in the output.
    no_output: Vec<String>,
    tests: Option<ExpectedTests>,
    report: Option<ReportLocation>,
    metrics: Vec<(String, MetricCheck)>,
}

/// The program to run.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Program {
    /// A program with its arguments.
    Argv(Vec<String>),
    /// A line for `sh -c`.
    Shell(String),
}

/// The tests that must pass.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ExpectedTests {
    AtLeast(u64),
    Ids(Vec<String>),
}

/// Where the command writes its test report.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ReportLocation {
    format: ReportFormat,
    /// The file, relative to the working directory; stdout if `None`.
    file: Option<String>,
}

/// A number in the output or in a file, with its limits.
#[derive(Debug, Clone, PartialEq)]
struct MetricCheck {
    source: MetricSource,
    /// The file, relative to the working directory; the output if `None`.
    file: Option<String>,
    min: Option<f64>,
    max: Option<f64>,
}

/// How a number is located.
#[derive(Debug, Clone, PartialEq, Eq)]
enum MetricSource {
    /// The first group of a regular expression, at its last match.
    Regex(String),
    /// A JSON pointer, such as `/totals/percent`.
    Pointer(String),
}

fn read(reader: &mut ConfigReader<'_, '_>) -> Option<Arc<dyn EvaluatorConfig>> {
    let config = reader.config();
    let program = match (config.entry("argv"), config.entry("shell")) {
        (Some(_), None) => Some(Program::Argv(reader.texts("argv"))),
        (None, Some(_)) => reader.text("shell").map(Program::Shell),
        (Some(_), Some(shell)) => {
            let message = "two commands: `argv` and `shell`";
            reader.error(shell.key.span, "shell", message).hint("use only one of them");
            None
        }
        (None, None) => {
            let error = reader.error(config.span, "", "no command");
            error.expected("`argv`, a list, or `shell`, a line for `sh`");
            None
        }
    };
    for key in ["expect.output", "expect.no_output"] {
        if let Some(node) = reader.get(key) {
            one_or_more(node).iter().for_each(|regex| reader.check_regex(regex, node.span, key));
        }
    }
    let report = read_report(reader);
    if config.get("expect").is_some_and(|expect| expect.entry("tests").is_some()) && report.is_none() {
        reader
            .error(reader.span_of("expect.tests"), "expect.tests", "`tests` needs a `report`")
            .hint("name the report that the command writes: `report: { format: junit, file: report.xml }`");
    }
    let tests = reader.get("expect.tests").and_then(|node| match &node.value {
        Yaml::Int(number) => u64::try_from(*number).ok().map(ExpectedTests::AtLeast),
        _ => Some(ExpectedTests::Ids(reader.texts("expect.tests"))),
    });
    let codes = reader.get("expect.exit_code").map(|node| match &node.value {
        Yaml::List(items) => items.iter().filter_map(exit_code).collect(),
        _ => exit_code(node).into_iter().collect(),
    });
    let metrics = read_metrics(reader);
    let hidden = read_hidden(reader);
    Some(into_config(CommandCheck {
        program: program?,
        working_dir: reader.text("working_dir").and_then(|text| relative(&text).ok()),
        env: reader.environment("env"),
        timeout: reader.duration("timeout"),
        network: reader.flag("network"),
        hidden,
        restore: reader.get("restore").map(|_| reader.texts("restore")),
        exit_codes: codes.unwrap_or_else(|| vec![0]),
        output: reader.one_or_more("expect.output"),
        no_output: reader.one_or_more("expect.no_output"),
        tests,
        report,
        metrics,
    }))
}

fn exit_code(node: &Node) -> Option<i32> {
    if let Yaml::Int(number) = node.value { i32::try_from(number).ok() } else { None }
}

fn read_report(reader: &ConfigReader<'_, '_>) -> Option<ReportLocation> {
    let format = match reader.text("report.format")?.as_str() {
        "junit" => ReportFormat::Junit,
        "json" => ReportFormat::Json,
        "tap" => ReportFormat::Tap,
        _ => return None,
    };
    Some(ReportLocation { format, file: reader.text("report.file") })
}

fn read_metrics(reader: &mut ConfigReader<'_, '_>) -> Vec<(String, MetricCheck)> {
    let mut metrics = Vec::new();
    for entry in reader.entries("metrics") {
        let key = format!("metrics.{}", entry.key.name);
        let text = |key: &str| entry.node.get(key).and_then(Node::text).map(str::to_owned);
        let source = match (text("regex"), text("json")) {
            (Some(regex), None) => {
                reader.check_regex(&regex, entry.node.span, &format!("{key}.regex"));
                MetricSource::Regex(regex)
            }
            (None, Some(pointer)) => MetricSource::Pointer(pointer),
            _ => {
                let error = reader.error(entry.key.span, &key, "needs exactly one of `regex` and `json`");
                error.expected("`regex`, or `json` with a pointer such as `/totals/percent`");
                continue;
            }
        };
        let limit = |key: &str| entry.node.get(key).and_then(number);
        let metric = MetricCheck { source, file: text("file"), min: limit("min"), max: limit("max") };
        metrics.push((entry.key.name.clone(), metric));
    }
    metrics
}

fn read_hidden(reader: &mut ConfigReader<'_, '_>) -> Vec<HiddenFile> {
    let mut hidden = Vec::new();
    for entry in reader.entries("hidden") {
        let Some(path) = entry.node.text() else { continue };
        match reader.find_files(path, MAX_HIDDEN_BYTES) {
            Ok(from) => hidden.push(HiddenFile { to: entry.key.name.clone(), from }),
            Err(error) => {
                let message = format!("failed to read the hidden file ({error}): {}", quoted(path));
                reader
                    .error(entry.node.span, &format!("hidden.{}", entry.key.name), message)
                    .hint("use a path in or below the directory of the case file");
            }
        }
    }
    hidden
}

#[async_trait]
impl Evaluator for CommandCheck {
    fn variables(&self) -> &[EnvVar] {
        &self.env
    }

    fn timeout(&self, default: Duration) -> Duration {
        self.timeout.unwrap_or(default)
    }

    async fn evaluate(&self, subject: &Subject, context: &EvaluatorContext) -> Result<Verdict, GradeError> {
        if subject.grader_env.cancel.is_cancelled() {
            return Err(GradeError::other("cancelled"));
        }
        let scratch = &context.scratch;
        std::fs::create_dir_all(scratch).map_err(GradeError::io(scratch))?;
        let root = scratch.canonicalize().map_err(GradeError::io(scratch))?.join("tree");
        let options = TreeOptions { hidden: &self.hidden, restore: self.restore.as_deref() };
        let GradingTree { restored, locked } = tree::check_out(subject, &root, options).await?;
        self.remove_result_files(&root)?;
        let output = self.run(subject, context, &root, &locked).await?;
        let check = self.clone();
        let mut verdict = blocking(move || check.grade(&output, &root, restored)).await?;
        if context.artifact_dir().join(OUTPUT_FILE).is_file() {
            let path = format!("{FOLDER}/{}/{OUTPUT_FILE}", context.name);
            verdict.artifacts.push(Artifact::new("log", path, "the output of the command"));
        }
        Ok(verdict)
    }
}

/// How a command ended, and its output.
struct CommandOutput {
    exit: CommandExit,
    stdout: Vec<u8>,
    /// Stdout and stderr, interleaved.
    combined: String,
}

enum CommandExit {
    Code(i32),
    /// A message, where there is no exit code.
    Other(String),
}

impl CommandCheck {
    /// Removes the report and metrics files, so that only the command can have written them.
    fn remove_result_files(&self, root: &Path) -> Result<(), GradeError> {
        let report = self.report.as_ref().and_then(|report| report.file.as_deref());
        let metrics = self.metrics.iter().filter_map(|(_, metric)| metric.file.as_deref());
        for file in report.into_iter().chain(metrics) {
            if let Some(path) = inside(root, &self.path_from_root(file)) {
                remove_tree(&path).map_err(GradeError::io(&path))?;
            }
        }
        Ok(())
    }

    /// Returns the path of a file from the root of the tree.
    fn path_from_root(&self, file: &str) -> PathBuf {
        let file = file.trim_start_matches("./");
        self.working_dir.as_ref().map_or_else(|| PathBuf::from(file), |folder| folder.join(file))
    }

    async fn run(
        &self,
        subject: &Subject,
        context: &EvaluatorContext,
        root: &Path,
        locked: &[PathBuf],
    ) -> Result<CommandOutput, GradeError> {
        let not_started = |text: String| {
            let exit = CommandExit::Other(text);
            Ok(CommandOutput { exit, stdout: Vec::new(), combined: String::new() })
        };
        let folder = match &self.working_dir {
            None => root.to_owned(),
            Some(wanted) => match inside(root, wanted).filter(|path| path.is_dir()) {
                Some(path) => path,
                None => return not_started(format!("no such directory: `{}`", wanted.display())),
            },
        };
        let (program, args): (PathBuf, Vec<String>) = match &self.program {
            Program::Shell(line) => ("sh".into(), vec!["-c".to_owned(), line.clone()]),
            Program::Argv(words) => {
                let (first, rest) = words.split_first().ok_or_else(|| GradeError::other("no command"))?;
                (PathBuf::from(first), rest.to_vec())
            }
        };
        let on_host = program.components().count() == 1 || program.is_absolute();
        let program = if on_host {
            program
        } else {
            // A program in the tree. The agent may change or remove it, but a link of the agent must not lead out of
            // the tree. Links that `prepare` made may: a virtual environment's interpreter is the system's.
            let below = folder.strip_prefix(root).unwrap_or(Path::new("")).join(without_dots(&program));
            let links = subject.files().await?.iter().filter(|file| file.is_link());
            let by_agent = links.map(|file| path_from_bytes(&file.path)).any(|link| below.starts_with(link));
            let path = root.join(&below);
            if !path.is_file() || (by_agent && inside(root, &below).is_none()) {
                return not_started(format!("no such program in the tree: `{}`", program.display()));
            }
            path
        };
        let options = CommandOptions {
            tree: root,
            locked,
            private: &root.with_file_name("private"),
            env: subject.grader_env.variables(&self.env)?,
            timeout: context.timeout,
            network: if self.network { Network::Shared } else { Network::None },
            secrets: &subject.secrets,
            log: context.artifact_dir().join(OUTPUT_FILE),
        };
        subject.grader_env.probe_sandbox(&options).await?;
        let command =
            subject.grader_env.command(program.as_os_str(), &options)?.current_dir(&folder).args(args);
        let report = command.run().await;
        let captured = report.output.captured();
        let stdout = captured.map(|output| output.stdout()).unwrap_or_default();
        let combined = captured.map(|output| output.text().text.to_string()).unwrap_or_default();
        let exit = match report.end {
            End::Exited { code } => CommandExit::Code(code),
            // A program that is not installed on the host is not the agent's failure.
            End::SpawnFailed(error) if on_host => return Err(GradeError::other(error.to_string())),
            End::SpawnFailed(
                error @ (SpawnError::NotFound { .. }
                | SpawnError::NotExecutable { .. }
                | SpawnError::BadFormat { .. }
                | SpawnError::CwdMissing { .. }),
            ) => CommandExit::Other(without_root(&error.to_string(), root)),
            End::TimedOut { after } => CommandExit::Other(format!("timed out after {after:?}")),
            End::OverQuota { .. } => CommandExit::Other("exceeded its disk limit".to_owned()),
            End::OverLimit(over) => CommandExit::Other(format!("exceeded its {} limit", over.resource)),
            end @ (End::Signaled { .. } | End::SupervisorLost) => CommandExit::Other(end.to_string()),
            end => return Err(GradeError::other(end.to_string())),
        };
        Ok(CommandOutput { exit, stdout, combined })
    }

    fn grade(
        &self,
        output: &CommandOutput,
        root: &Path,
        restored: Vec<String>,
    ) -> Result<Verdict, GradeError> {
        let mut checks = vec![self.check_exit(&output.exit)];
        for (wanted, expressions) in [(true, &self.output), (false, &self.no_output)] {
            for expression in expressions {
                let regex = Regex::new(expression).map_err(|error| GradeError::other(error.to_string()))?;
                let name = if wanted { "output" } else { "no_output" };
                let check = Assertion::new(
                    format!("{name}: {expression}"),
                    regex.is_match(&output.combined) == wanted,
                );
                checks.push(check.with_message(|| {
                    let how = if wanted { "does not match" } else { "matches" };
                    format!("the output {how} `{expression}`")
                }));
            }
        }
        let tests = self.check_tests(output, root, &mut checks)?;
        let numbers: Vec<(&String, Option<f64>)> = self
            .metrics
            .iter()
            .map(|(name, metric)| Ok((name, self.metric_value(metric, output, root)?)))
            .collect::<Result<_, GradeError>>()?;
        for ((name, metric), (_, value)) in self.metrics.iter().zip(&numbers) {
            checks.extend(check_limits(name, metric, *value));
        }
        let mut summary = match &output.exit {
            CommandExit::Code(code) => format!("exited with code {code}"),
            CommandExit::Other(text) => text.clone(),
        };
        let mut verdict = Verdict::from_checks(checks);
        if let CommandExit::Code(code) = output.exit {
            verdict = verdict.metric("exit_code", code);
        }
        if let Some(tests) = tests {
            let count = |status| tests.iter().filter(|test| test.status == status).count();
            let (passed, failed) = (count(TestStatus::Passed), count(TestStatus::Failed));
            let noun = if passed == 1 { "test" } else { "tests" };
            summary.push_str(&format!(", {passed} {noun} passed, {failed} failed"));
            let names = tests.iter().filter(|test| test.status == TestStatus::Failed).take(MAX_LISTED);
            let names: Vec<Value> = names.map(|test| test.id.clone().into()).collect();
            verdict = verdict
                .metric("tests_passed", passed)
                .metric("tests_failed", failed)
                .metric("tests_skipped", count(TestStatus::Skipped))
                .metric("failed_tests", names);
        }
        if !restored.is_empty() {
            let names: Vec<&str> = restored.iter().map(String::as_str).collect();
            summary.push_str(&format!(", restored: {}", list_ids(&names)));
            verdict = verdict.metric("put_back", restored.into_iter().take(MAX_LISTED).collect::<Vec<_>>());
        }
        for (name, value) in numbers {
            verdict = verdict.metric(name, value.map_or(Value::Null, Value::from));
        }
        Ok(verdict.with_summary(&summary))
    }

    fn check_exit(&self, exit: &CommandExit) -> Assertion {
        let wanted = match self.exit_codes.as_slice() {
            [one] => Value::from(*one),
            several => Value::from(several.to_vec()),
        };
        match exit {
            CommandExit::Code(code) => {
                let check = Assertion::new("exit_code", self.exit_codes.contains(code))
                    .with_values(*code, wanted.clone());
                check.with_message(|| format!("expected exit code {wanted}"))
            }
            CommandExit::Other(_) => Assertion::new("exit_code", false)
                .with_values(Value::Null, wanted.clone())
                .with_message(|| format!("expected exit code {wanted}")),
        }
    }

    /// Reads the test report and checks that the expected tests passed.
    fn check_tests(
        &self,
        output: &CommandOutput,
        root: &Path,
        checks: &mut Vec<Assertion>,
    ) -> Result<Option<Vec<TestResult>>, GradeError> {
        let Some(report) = &self.report else { return Ok(None) };
        let content = match &report.file {
            Some(file) => self.read_file(file, root)?.ok_or_else(|| format!("report not written: `{file}`")),
            None => Ok(output.stdout.clone()),
        };
        let parsed = content.and_then(|content| {
            test_report::parse(report.format, &content).map_err(|error| format!("invalid report: {error}"))
        });
        let check = Assertion::new("report", parsed.is_ok());
        checks.push(check.with_message(|| parsed.as_ref().err().cloned().unwrap_or_default()));
        let found = parsed.unwrap_or_default();
        match &self.tests {
            None => {}
            Some(ExpectedTests::AtLeast(least)) => {
                let passed = found.iter().filter(|test| test.status == TestStatus::Passed).count() as u64;
                let check = Assertion::new("tests", passed >= *least).with_values(passed, *least);
                checks.push(
                    check.with_message(|| format!("{passed} of at least {least} expected tests passed")),
                );
            }
            Some(ExpectedTests::Ids(ids)) => {
                let passed = |id: &&String| {
                    let mut matching = found.iter().filter(|test| test.matches(id)).peekable();
                    matching.peek().is_some() && matching.all(|test| test.status == TestStatus::Passed)
                };
                let missing: Vec<&str> = ids.iter().filter(|id| !passed(id)).map(String::as_str).collect();
                let mut check = Assertion::new("tests", missing.is_empty())
                    .with_values(ids.len() - missing.len(), ids.clone())
                    .with_message(|| format!("did not pass: {}", list_ids(&missing)));
                check.score = (ids.len() - missing.len()) as f64 / ids.len().max(1) as f64;
                checks.push(check);
            }
        }
        Ok(Some(found))
    }

    fn metric_value(
        &self,
        metric: &MetricCheck,
        output: &CommandOutput,
        root: &Path,
    ) -> Result<Option<f64>, GradeError> {
        let text = match &metric.file {
            None => Some(output.combined.clone()),
            Some(file) => {
                self.read_file(file, root)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            }
        };
        let Some(text) = text else { return Ok(None) };
        Ok(match &metric.source {
            MetricSource::Regex(expression) => {
                let regex = Regex::new(expression).map_err(|error| GradeError::other(error.to_string()))?;
                let last = regex.captures_iter(&text).last();
                last.and_then(|found| found.get(1).or_else(|| found.get(0))?.as_str().trim().parse().ok())
            }
            MetricSource::Pointer(pointer) => {
                let whole = serde_json::from_str::<Value>(&text).ok();
                whole.as_ref().and_then(|value| value.pointer(pointer)).and_then(Value::as_f64)
            }
        }
        .filter(|number: &f64| number.is_finite()))
    }

    /// Reads a file that the command wrote, without following links.
    fn read_file(&self, file: &str, root: &Path) -> Result<Option<Vec<u8>>, GradeError> {
        let path = self.path_from_root(file);
        // A file that the command made unreadable counts as absent.
        match read_inside(root, &path, MAX_FILE_BYTES) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(None),
            read => read.map_err(GradeError::io(root.join(path))),
        }
    }
}

fn check_limits(name: &str, metric: &MetricCheck, value: Option<f64>) -> Vec<Assertion> {
    let number = value.map_or(Value::Null, Value::from);
    let mut checks = Vec::new();
    let mut check = |limit: Option<f64>, word: &str, within: fn(f64, f64) -> bool, how: &str| {
        let Some(limit) = limit else { return };
        let passed = value.is_some_and(|value| within(value, limit));
        let check = Assertion::new(format!("{word}_{name}"), passed).with_values(number.clone(), limit);
        checks.push(check.with_message(|| match value {
            Some(value) => format!("{name} ({value}) {how} {limit}"),
            None => format!("{name} not found"),
        }));
    };
    check(metric.min, "min", |value, limit| value >= limit, "is below");
    check(metric.max, "max", |value, limit| value <= limit, "exceeds");
    checks
}

/// Joins a path to a directory; `None` if a link in it leads out of the directory.
fn inside(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut at = root.to_owned();
    for part in path.components() {
        let Component::Normal(name) = part else { return None };
        if std::fs::symlink_metadata(&at).is_ok_and(|found| found.is_symlink()) {
            return None;
        }
        at.push(name);
    }
    // The last component may be a link that stays within the directory.
    let leads_out = at.canonicalize().is_ok_and(|real| !real.starts_with(root));
    (!leads_out).then_some(at)
}

/// Removes the `.` components of a path.
fn without_dots(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, Component::CurDir)).collect()
}

/// Replaces the path of the tree in a message, so that verdicts do not depend on it.
fn without_root(text: &str, root: &Path) -> String {
    text.replace(&*root.to_string_lossy(), ".")
}

fn list_ids(ids: &[&str]) -> String {
    let some = ids.iter().take(5).map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ");
    match ids.len().saturating_sub(5) {
        0 => some,
        more => format!("{some} and {more} more"),
    }
}
