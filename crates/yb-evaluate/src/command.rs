//! `command`: a build, a test run, a linter, in a fresh tree and in the sandbox. It may run what the agent wrote, so
//! whatever that can cause is a failure of the agent and never a reason not to know.

use std::ops::Deref;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use regex::Regex;
use serde_json::Value;
use yb_supervise::{End, Network, SpawnError};

use super::bench::Job;
use super::report::{self, TestResult, TestStatus};
use super::tree::{self, Extras, LaidOut, blocking};
use super::{Artifact, Assertion, Desk, Evaluator, GradeError, Need, Subject, Verdict};
use yb_case::{CommandCheck, Find, Metric, Run, Tests};
use yb_repo::{path_from_bytes, read_inside, remove_path};

/// All that the command printed, in the evaluator's folder.
const OUTPUT_FILE: &str = "output.log";
/// A larger report is none.
const LARGEST: u64 = 32 << 20;
/// How many ids a message or a metric lists.
const LISTED: usize = 50;

#[async_trait]
impl Evaluator for CommandCheck {
    fn need(&self) -> Need {
        Need::Tree
    }

    fn time(&self, usual: Duration) -> Duration {
        self.timeout.unwrap_or(usual)
    }

    async fn evaluate(&self, subject: &Subject, desk: &Desk) -> Result<Verdict, GradeError> {
        if subject.bench.cancel.is_cancelled() {
            return Err(GradeError::other("cancelled"));
        }
        let root = desk.scratch.join("tree");
        std::fs::create_dir_all(&desk.scratch).map_err(GradeError::io(&desk.scratch))?;
        let root = desk.scratch.canonicalize().map_err(GradeError::io(&root))?.join("tree");
        let extras = Extras { hidden: &self.hidden, restore: self.restore.as_deref() };
        let LaidOut { put_back, locked } = tree::lay_out(subject, &root, extras).await?;
        let grader = CommandGrader(self);
        grader.forget_answers(&root)?;
        let ended = grader.run(subject, desk, &root, &locked).await?;
        let check = self.clone();
        let mut verdict = blocking(move || CommandGrader(&check).judge(&ended, &root, put_back)).await?;
        if desk.folder().join(OUTPUT_FILE).is_file() {
            let path = format!("{}/{}/{OUTPUT_FILE}", super::FOLDER, desk.name);
            verdict.artifacts.push(Artifact::new("log", path, "all that the command printed"));
        }
        Ok(verdict)
    }
}

/// How a command went.
struct Ended {
    how: How,
    stdout: Vec<u8>,
    all: String,
}

enum How {
    Code(i32),
    /// In words, for what is no exit code.
    Otherwise(String),
}

/// Grades by one command of a case.
struct CommandGrader<'a>(&'a CommandCheck);

impl Deref for CommandGrader<'_> {
    type Target = CommandCheck;

    fn deref(&self) -> &CommandCheck {
        self.0
    }
}

impl CommandGrader<'_> {
    /// Files in which the command gives its answers are not there before it has run.
    fn forget_answers(&self, root: &Path) -> Result<(), GradeError> {
        let report = self.report.as_ref().and_then(|report| report.file.as_deref());
        let metrics = self.metrics.iter().filter_map(|(_, metric)| metric.file.as_deref());
        for file in report.into_iter().chain(metrics) {
            if let Some(path) = inside(root, &self.place(file)) {
                remove_path(&path).map_err(GradeError::io(&path))?;
            }
        }
        Ok(())
    }

    /// A path from the root of the tree.
    fn place(&self, file: &str) -> PathBuf {
        let file = file.trim_start_matches("./");
        self.working_dir.as_ref().map_or_else(|| PathBuf::from(file), |folder| folder.join(file))
    }

    async fn run(
        &self,
        subject: &Subject,
        desk: &Desk,
        root: &Path,
        locked: &[PathBuf],
    ) -> Result<Ended, GradeError> {
        let otherwise =
            |text: String| Ok(Ended { how: How::Otherwise(text), stdout: Vec::new(), all: String::new() });
        let folder = match &self.working_dir {
            None => root.to_owned(),
            Some(wanted) => match inside(root, wanted).filter(|path| path.is_dir()) {
                Some(path) => path,
                None => return otherwise(format!("no such directory: `{}`", wanted.display())),
            },
        };
        let (program, args): (PathBuf, Vec<String>) = match &self.run {
            Run::Shell(line) => ("sh".into(), vec!["-c".to_owned(), line.clone()]),
            Run::Argv(words) => {
                let (first, rest) = words.split_first().ok_or_else(|| GradeError::other("nothing to run"))?;
                (PathBuf::from(first), rest.to_vec())
            }
        };
        let ours = program.components().count() == 1 || program.is_absolute();
        let program = if ours {
            program
        } else {
            // A program of the tree: the agent's to change and to remove, but not to lead out of it by a link of its
            // own. What was prepared may: a virtual environment's interpreter is the system's.
            let below = folder.strip_prefix(root).unwrap_or(Path::new("")).join(plain(&program));
            let links = subject.files().await?.iter().filter(|file| file.is_link());
            let by_agent = links.map(|file| path_from_bytes(&file.path)).any(|link| below.starts_with(link));
            let path = root.join(&below);
            if !path.is_file() || (by_agent && inside(root, &below).is_none()) {
                return otherwise(format!("no such program in the tree: `{}`", program.display()));
            }
            path
        };
        let job = Job {
            tree: root,
            locked,
            private: &root.with_file_name("private"),
            env: subject.bench.variables(&self.env)?,
            timeout: desk.timeout,
            network: if self.network { Network::Shared } else { Network::None },
            secrets: &subject.secrets,
            log: desk.folder().join(OUTPUT_FILE),
        };
        subject.bench.try_out(&job).await?;
        let command = subject.bench.command(program.as_os_str(), &job)?.current_dir(&folder).args(args);
        let report = command.run().await;
        let captured = report.output.captured();
        let stdout = captured.map(|output| output.stdout()).unwrap_or_default();
        let all = captured.map(|output| output.text().text.to_string()).unwrap_or_default();
        let how = match report.end {
            End::Exited { code } => How::Code(code),
            // What the case names and is not installed is nobody's failure.
            End::SpawnFailed(error) if ours => return Err(GradeError::other(error.to_string())),
            End::SpawnFailed(
                error @ (SpawnError::NotFound { .. }
                | SpawnError::NotExecutable { .. }
                | SpawnError::BadFormat { .. }
                | SpawnError::CwdMissing { .. }),
            ) => How::Otherwise(without(&error.to_string(), root)),
            End::TimedOut { after } => How::Otherwise(format!("did not end within {after:?}")),
            End::OverQuota { .. } => How::Otherwise("wrote more than it may".to_owned()),
            End::OverLimit(over) => How::Otherwise(format!("used more {} than it may", over.resource)),
            end @ End::Signaled { .. } => How::Otherwise(end.to_string()),
            end => return Err(GradeError::other(end.to_string())),
        };
        Ok(Ended { how, stdout, all })
    }

    fn judge(&self, ended: &Ended, root: &Path, put_back: Vec<String>) -> Result<Verdict, GradeError> {
        let mut checks = vec![self.exit(&ended.how)];
        for (wanted, expressions) in [(true, &self.output), (false, &self.no_output)] {
            for expression in expressions {
                let regex = Regex::new(expression).map_err(|error| GradeError::other(error.to_string()))?;
                let name = if wanted { "output" } else { "no_output" };
                let check =
                    Assertion::of(format!("{name}: {expression}"), regex.is_match(&ended.all) == wanted);
                checks.push(check.because(|| {
                    let how = if wanted { "does not match" } else { "matches" };
                    format!("the output {how} `{expression}`")
                }));
            }
        }
        let tests = self.tests(ended, root, &mut checks)?;
        let numbers: Vec<(&String, Option<f64>)> = self
            .metrics
            .iter()
            .map(|(name, metric)| Ok((name, self.number(metric, ended, root)?)))
            .collect::<Result<_, GradeError>>()?;
        for ((name, metric), (_, value)) in self.metrics.iter().zip(&numbers) {
            checks.extend(limit(name, metric, *value));
        }
        let mut said = match &ended.how {
            How::Code(code) => format!("exited with code {code}"),
            How::Otherwise(text) => text.clone(),
        };
        let mut verdict = Verdict::of(checks);
        if let How::Code(code) = ended.how {
            verdict = verdict.metric("exit_code", code);
        }
        if let Some(tests) = tests {
            let count = |status| tests.iter().filter(|test| test.status == status).count();
            let (passed, failed) = (count(TestStatus::Passed), count(TestStatus::Failed));
            said.push_str(&format!(", {passed} tests passed, {failed} failed"));
            let names = tests.iter().filter(|test| test.status == TestStatus::Failed).take(LISTED);
            let names: Vec<Value> = names.map(|test| test.id.clone().into()).collect();
            verdict = verdict
                .metric("tests_passed", passed)
                .metric("tests_failed", failed)
                .metric("tests_skipped", count(TestStatus::Skipped))
                .metric("failed_tests", names);
        }
        if !put_back.is_empty() {
            let names: Vec<&str> = put_back.iter().map(String::as_str).collect();
            said.push_str(&format!(", as at the start: {}", listed(&names)));
            verdict = verdict.metric("put_back", put_back.into_iter().take(LISTED).collect::<Vec<_>>());
        }
        for (name, value) in numbers {
            verdict = verdict.metric(name, value.map_or(Value::Null, Value::from));
        }
        Ok(verdict.saying(&said))
    }

    fn exit(&self, how: &How) -> Assertion {
        let wanted = match self.exit_codes.as_slice() {
            [one] => Value::from(*one),
            several => Value::from(several.to_vec()),
        };
        match how {
            How::Code(code) => {
                let holds =
                    Assertion::of("exit_code", self.exit_codes.contains(code)).found(*code, wanted.clone());
                holds.because(|| format!("expected exit code {wanted}"))
            }
            How::Otherwise(_) => Assertion::of("exit_code", false)
                .found(Value::Null, wanted.clone())
                .because(|| format!("expected exit code {wanted}")),
        }
    }

    /// What the report says, and whether that is enough.
    fn tests(
        &self,
        ended: &Ended,
        root: &Path,
        checks: &mut Vec<Assertion>,
    ) -> Result<Option<Vec<TestResult>>, GradeError> {
        let Some(report) = &self.report else { return Ok(None) };
        let content = match &report.file {
            Some(file) => self.read(file, root)?.ok_or_else(|| format!("no report was written: `{file}`")),
            None => Ok(ended.stdout.clone()),
        };
        let parsed = content.and_then(|content| {
            report::parse(report.format, &content).map_err(|error| format!("no report can be read: {error}"))
        });
        let check = Assertion::of("report", parsed.is_ok());
        checks.push(check.because(|| parsed.as_ref().err().cloned().unwrap_or_default()));
        let found = parsed.unwrap_or_default();
        match &self.tests {
            None => {}
            Some(Tests::AtLeast(least)) => {
                let passed = found.iter().filter(|test| test.status == TestStatus::Passed).count() as u64;
                let check = Assertion::of("tests", passed >= *least).found(passed, *least);
                checks.push(check.because(|| format!("{passed} tests passed, expected at least {least}")));
            }
            Some(Tests::Ids(ids)) => {
                let passed = |id: &&String| {
                    let mut meant = found.iter().filter(|test| test.is(id)).peekable();
                    meant.peek().is_some() && meant.all(|test| test.status == TestStatus::Passed)
                };
                let missing: Vec<&str> = ids.iter().filter(|id| !passed(id)).map(String::as_str).collect();
                let mut check = Assertion::of("tests", missing.is_empty())
                    .found(ids.len() - missing.len(), ids.clone())
                    .because(|| format!("did not pass: {}", listed(&missing)));
                check.score = (ids.len() - missing.len()) as f64 / ids.len().max(1) as f64;
                checks.push(check);
            }
        }
        Ok(Some(found))
    }

    fn number(&self, metric: &Metric, ended: &Ended, root: &Path) -> Result<Option<f64>, GradeError> {
        let text = match &metric.file {
            None => Some(ended.all.clone()),
            Some(file) => self.read(file, root)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        };
        let Some(text) = text else { return Ok(None) };
        Ok(match &metric.find {
            Find::Regex(expression) => {
                let regex = Regex::new(expression).map_err(|error| GradeError::other(error.to_string()))?;
                let last = regex.captures_iter(&text).last();
                last.and_then(|found| found.get(1).or_else(|| found.get(0))?.as_str().trim().parse().ok())
            }
            Find::Pointer(pointer) => {
                let whole = serde_json::from_str::<Value>(&text).ok();
                whole.as_ref().and_then(|value| value.pointer(pointer)).and_then(Value::as_f64)
            }
        }
        .filter(|number: &f64| number.is_finite()))
    }

    /// A file that the command left, read through no link.
    fn read(&self, file: &str, root: &Path) -> Result<Option<Vec<u8>>, GradeError> {
        let path = self.place(file);
        // What the command made unreadable is not there.
        match read_inside(root, &path, LARGEST) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(None),
            read => read.map_err(GradeError::io(root.join(path))),
        }
    }
}

fn limit(name: &str, metric: &Metric, value: Option<f64>) -> Vec<Assertion> {
    let number = value.map_or(Value::Null, Value::from);
    let mut checks = Vec::new();
    let mut check = |limit: Option<f64>, word: &str, holds: fn(f64, f64) -> bool, how: &str| {
        let Some(limit) = limit else { return };
        let passed = value.is_some_and(|value| holds(value, limit));
        let check = Assertion::of(format!("{word}_{name}"), passed).found(number.clone(), limit);
        checks.push(check.because(|| match value {
            Some(value) => format!("{name} ({value}) {how} {limit}"),
            None => format!("{name} not found"),
        }));
    };
    check(metric.min, "min", |value, limit| value >= limit, "is below");
    check(metric.max, "max", |value, limit| value <= limit, "exceeds");
    checks
}

/// A path below a directory that no link leads to; `None` if one does.
fn inside(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut at = root.to_owned();
    for part in path.components() {
        let Component::Normal(name) = part else { return None };
        if std::fs::symlink_metadata(&at).is_ok_and(|found| found.is_symlink()) {
            return None;
        }
        at.push(name);
    }
    // The last part may be a link that stays in the tree.
    let leads_out = at.canonicalize().is_ok_and(|real| !real.starts_with(root));
    (!leads_out).then_some(at)
}

/// A relative path without its dots.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, Component::CurDir)).collect()
}

/// A message that does not depend on where the tree was.
fn without(text: &str, root: &Path) -> String {
    text.replace(&*root.to_string_lossy(), ".")
}

fn listed(ids: &[&str]) -> String {
    let some = ids.iter().take(5).map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ");
    match ids.len().saturating_sub(5) {
        0 => some,
        more => format!("{some} and {more} more"),
    }
}
