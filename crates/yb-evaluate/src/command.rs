//! `command`: runs a build, a test suite or a linter in a fresh checkout within the sandbox.
//!
//! The command may run code that the agent wrote, so every failure that such code can cause is a failed check and never
//! an error of the evaluator.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use regex::Regex;
use serde_json::Value;

use super::failures;
use super::program::{ProgramExit, ProgramOutput, TreeProgram, inside, path_from_root};
use super::protect::ChangePolicy;
use super::test_report::{self, ReportFormat, TestResult, TestStatus};
use super::tree::{self, GradingTree, HiddenFile, TreeOptions, blocking, list_ids};
use super::{
    Artifact, Assertion, Evaluator, EvaluatorContext, EvaluatorStatus, FOLDER, GradeError, GradedCode,
    GraderEnv, PreflightError, Subject, Verdict, into_config,
};
use yb_case::config_reader::{number, one_or_more};
use yb_case::files::relative;
use yb_case::format::Format;
use yb_case::shape::{
    ENVIRONMENT, Field, GLOBS, Kind, MILLISECONDS, ONE_OR_MORE, Object, RELATIVE_PATH, TEXT,
};
use yb_case::{ConfigReader, EnvVar, EvaluatorConfig, EvaluatorInput, EvaluatorSpec, required_program};
use yb_repo::{read_inside, remove_tree};
use yb_yaml::diagnostic::quoted;
use yb_yaml::{Node, Value as Yaml};

/// The output of the command, in the artifacts of the evaluator.
const OUTPUT_FILE: &str = "output.log";
/// The largest report or metrics file.
const MAX_FILE_BYTES: u64 = 32 << 20;
/// How many ids a metric lists.
const MAX_LISTED: usize = 50;
/// Environment variables that list directories of modules.
const IMPORT_PATHS: [&str; 3] = ["PYTHONPATH", "RUBYLIB", "NODE_PATH"];
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
            "Globs of files to restore from the start tree before grading, in place of tests and settings of test runners.",
        ),
        Field::new(
            "may_change",
            GLOBS,
            "Globs of the files whose changes are graded; all others are as at the start. `default` stands for all but tests, settings of test runners, caches, environments and shadows of hidden files [default: `may_change` of the case].",
        ),
        Field::new(
            "graded_code",
            Kind::Word(&["in-process", "separate-process"]),
            "Where the code of the agent runs: in the process of the test runner, or only in processes that the tests start. Shown beside the verdict.",
        )
        .default("\"in-process\""),
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
    /// Globs of files that are restored from the start tree, in place of tests and settings of test runners.
    restore: Option<Vec<String>>,
    /// Globs of the files that the agent may change, instead of those of the case.
    may_change: Option<Vec<String>>,
    /// Where the code of the agent runs, as the author of the case declares.
    graded_code: GradedCode,
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
        may_change: reader.get("may_change").map(|_| reader.texts("may_change")),
        graded_code: match reader.text("graded_code").as_deref() {
            Some("separate-process") => GradedCode::SeparateProcess,
            _ => GradedCode::InProcess,
        },
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

    fn check(&self, env: &GraderEnv) -> Result<(), PreflightError> {
        let program = match &self.program {
            Program::Argv(argv) => argv.first().map(String::as_str),
            Program::Shell(line) => required_program(line),
        };
        program.map_or(Ok(()), |program| env.check_program(program, &self.env))
    }

    async fn evaluate(&self, subject: &Subject, context: &EvaluatorContext) -> Result<Verdict, GradeError> {
        if subject.grader_env.cancel.is_cancelled() {
            return Err(GradeError::other("cancelled"));
        }
        let scratch = &context.scratch;
        std::fs::create_dir_all(scratch).map_err(GradeError::io(scratch))?;
        let root = scratch.canonicalize().map_err(GradeError::io(scratch))?.join("tree");
        let import_roots = self.import_roots();
        let policy = ChangePolicy {
            may_change: self.may_change.as_deref().or(subject.may_change.as_deref()),
            restore: self.restore.as_deref(),
            import_roots: &import_roots,
        };
        let tree = tree::check_out(subject, &root, TreeOptions { hidden: &self.hidden, policy }).await?;
        self.remove_result_files(&root)?;
        let output = self.run(subject, context, &root, &tree.locked).await?;
        let check = self.clone();
        let mut verdict = blocking(move || check.grade(&output, &root, tree)).await?;
        if context.artifact_dir().join(OUTPUT_FILE).is_file() {
            let path = format!("{FOLDER}/{}/{OUTPUT_FILE}", context.name);
            verdict.artifacts.push(Artifact::new("log", path, "the output of the command"));
        }
        Ok(verdict)
    }
}

impl CommandCheck {
    /// Returns the directories of the tree in which the command looks for modules first.
    fn import_roots(&self) -> Vec<String> {
        let listed = self.env.iter().filter(|variable| IMPORT_PATHS.contains(&variable.name.as_str()));
        let listed =
            listed.filter_map(|variable| variable.value.as_deref()).flat_map(|value| value.split(':'));
        let here = self.working_dir.as_deref().and_then(Path::to_str);
        let roots = listed.chain(here).map(|root| root.trim_start_matches("./").trim_end_matches('/'));
        roots.filter(|root| !root.is_empty() && *root != ".").map(str::to_owned).collect()
    }

    /// Removes the report and metrics files, so that only the command can have written them.
    fn remove_result_files(&self, root: &Path) -> Result<(), GradeError> {
        let report = self.report.as_ref().and_then(|report| report.file.as_deref());
        let metrics = self.metrics.iter().filter_map(|(_, metric)| metric.file.as_deref());
        for file in report.into_iter().chain(metrics) {
            if let Some(path) = inside(root, &path_from_root(self.working_dir.as_deref(), file)) {
                remove_tree(&path).map_err(GradeError::io(&path))?;
            }
        }
        Ok(())
    }

    async fn run(
        &self,
        subject: &Subject,
        context: &EvaluatorContext,
        root: &Path,
        locked: &[PathBuf],
    ) -> Result<ProgramOutput, GradeError> {
        let argv = match &self.program {
            Program::Shell(line) => vec!["sh".to_owned(), "-c".to_owned(), line.clone()],
            Program::Argv(words) => words.clone(),
        };
        let program = TreeProgram {
            root,
            locked,
            argv,
            working_dir: self.working_dir.as_deref(),
            env: &self.env,
            timeout: context.timeout,
            network: self.network,
            log: context.artifact_dir().join(OUTPUT_FILE),
        };
        program.run(subject, |command| command).await
    }

    fn grade(&self, output: &ProgramOutput, root: &Path, tree: GradingTree) -> Result<Verdict, GradeError> {
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
            ProgramExit::Code(code) => format!("exited with code {code}"),
            ProgramExit::Other(text) => text.clone(),
        };
        let mut verdict = Verdict::from_checks(checks);
        verdict.graded_code = Some(self.graded_code);
        if let ProgramExit::Code(code) = output.exit {
            verdict = verdict.metric("exit_code", code);
        }
        if verdict.status == EvaluatorStatus::Failed {
            verdict.failures = failures::of_tests(tests.as_deref().unwrap_or_default(), root);
            // Without a report, or with names only, the output has to tell why.
            if verdict.failures.iter().all(|failure| failure.lines.is_empty()) {
                verdict.failures.extend(failures::of_output(None, &output.combined, root));
            }
        }
        if let Some(tests) = tests {
            let count = |status| tests.iter().filter(|test| test.status == status).count();
            let (passed, failed) = (count(TestStatus::Passed), count(TestStatus::Failed));
            let noun = if passed == 1 { "test" } else { "tests" };
            summary.push_str(&format!(", {passed} {noun} passed, {failed} failed"));
            let names = tests.iter().filter(|test| test.status == TestStatus::Failed).take(MAX_LISTED);
            let names: Vec<&str> = names.map(|test| test.id.as_str()).collect();
            // A list of expected tests is followed by those that did not pass.
            if failed > 0 && !matches!(self.tests, Some(ExpectedTests::Ids(_))) {
                summary.push_str(&format!(": {}", list_ids(&names)));
            }
            verdict = verdict
                .metric("tests_passed", passed)
                .metric("tests_failed", failed)
                .metric("tests_skipped", count(TestStatus::Skipped))
                .metric("failed_tests", names);
        }
        verdict = tree.describe(verdict, &mut summary);
        for (name, value) in numbers {
            verdict = verdict.metric(name, value.map_or(Value::Null, Value::from));
        }
        Ok(verdict.with_summary(&summary))
    }

    fn check_exit(&self, exit: &ProgramExit) -> Assertion {
        let wanted = match self.exit_codes.as_slice() {
            [one] => Value::from(*one),
            several => Value::from(several.to_vec()),
        };
        match exit {
            ProgramExit::Code(code) => {
                let check = Assertion::new("exit_code", self.exit_codes.contains(code))
                    .with_values(*code, wanted.clone());
                check.with_message(|| format!("expected exit code {wanted}"))
            }
            ProgramExit::Other(_) => Assertion::new("exit_code", false)
                .with_values(Value::Null, wanted.clone())
                .with_message(|| format!("expected exit code {wanted}")),
        }
    }

    /// Reads the test report and checks that the expected tests passed.
    fn check_tests(
        &self,
        output: &ProgramOutput,
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
        output: &ProgramOutput,
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
        let path = path_from_root(self.working_dir.as_deref(), file);
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
