//! `probe`: starts the program of the tree with inputs and compares its outputs in this process.
//!
//! Nothing that decides the verdict is in the sandbox: neither a test runner nor the expected values. The program sees
//! its inputs only.

mod http;
mod outputs;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use yb_supervise::Stdin;

use self::http::Request;
use self::outputs::{ExpectedOutput, Mismatch};
use super::failures::{self, MAX_FAILURES};
use super::program::{ProgramExit, ProgramOutput, TreeProgram, inside, path_from_root};
use super::protect::ChangePolicy;
use super::tree::{self, TreeOptions, blocking};
use super::{
    Artifact, Assertion, Evaluator, EvaluatorContext, FOLDER, GradeError, GradedCode, GraderEnv,
    PreflightError, Subject, Verdict, into_config,
};
use yb_case::config_reader::one_or_more;
use yb_case::files::relative;
use yb_case::format::Format;
use yb_case::shape::{
    ENVIRONMENT, Field, GLOBS, Kind, MILLISECONDS, ONE_OR_MORE, Object, RELATIVE_PATH, TEXT, text,
};
use yb_case::{ConfigReader, EnvVar, EvaluatorConfig, EvaluatorInput, EvaluatorSpec};
use yb_repo::{read_inside, remove_tree, write_entry};
use yb_yaml::Node;
use yb_yaml::diagnostic::quoted;

/// The default timeout of one probe.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The largest input or expected file.
const MAX_FILE_BYTES: usize = 16 << 20;
/// How many files with output a verdict lists.
const MAX_LISTED: usize = 50;

pub(crate) static SPEC: EvaluatorSpec = EvaluatorSpec {
    name: "probe",
    summary: "the program itself: inputs by arguments, stdin, files or HTTP, and expected outputs",
    input: EvaluatorInput::Tree,
    config: &CONFIG,
    read,
};

const EXIT_CODE: Kind = Kind::Whole { min: 0, max: 255 };
const FILES: Kind = Kind::Map { names: Format::RelativePath, of: &RELATIVE_PATH };
const ANY_TEXT: Kind = text(0, usize::MAX);

static CONFIG: Object = Object {
    name: "probeEvaluator",
    fields: &[
        Field::new(
            "program",
            Kind::List { of: &TEXT, min: 1 },
            "Program and first arguments of all probes, without a shell.",
        ),
        Field::new("probes", Kind::List { of: &Kind::Object(&PROBE), min: 1 }, "Probes, in order.")
            .required(),
        Field::new("working_dir", RELATIVE_PATH, "Working directory, relative to the root of the tree."),
        Field::new(
            "env",
            ENVIRONMENT,
            "Environment variables: names to pass through, or names with values, in which `${ENV:NAME}` is expanded.",
        ),
        Field::new("timeout", MILLISECONDS, "Timeout of each probe.").default("\"1m\""),
        Field::new("network", Kind::Bool, "Whether network access is allowed; `requests` need it.")
            .default("false"),
        Field::new(
            "may_change",
            GLOBS,
            "Globs of the files whose changes are graded [default: `may_change` of the case].",
        ),
    ],
};

static PROBE: Object = Object {
    name: "probeCheck",
    fields: &[
        Field::new("name", TEXT, "Name of the check.").required(),
        Field::new(
            "argv",
            Kind::List { of: &ANY_TEXT, min: 0 },
            "Arguments after `program`, or program and arguments. `$PORT` is the port for `requests`.",
        ),
        Field::new("stdin", ANY_TEXT, "Text for stdin."),
        Field::new("stdin_file", RELATIVE_PATH, "File for stdin, relative to this file."),
        Field::new(
            "files",
            FILES,
            "Input files: destinations, relative to the working directory, with sources relative to this file.",
        ),
        Field::new("expect", Kind::Object(&EXPECT), "Expected output."),
        Field::new(
            "requests",
            Kind::List { of: &Kind::Object(&REQUEST), min: 1 },
            "HTTP requests, in order, to the program as a server on `$PORT` of 127.0.0.1, which is then stopped. Need `network: true`.",
        ),
    ],
};

static EXPECT: Object = Object {
    name: "probeOutput",
    fields: &[
        Field::new(
            "exit_code",
            Kind::Either(&[EXIT_CODE, Kind::List { of: &EXIT_CODE, min: 1 }]),
            "Expected exit code or codes.",
        )
        .default("0"),
        Field::new("stdout", ANY_TEXT, "Exact stdout."),
        Field::new("stdout_file", RELATIVE_PATH, "File with the exact stdout, relative to this file."),
        Field::new("stdout_matches", ONE_OR_MORE, "Regular expressions that must match stdout."),
        Field::new("stdout_json", Kind::Any, "Expected JSON value of stdout."),
        Field::new("stderr_matches", ONE_OR_MORE, "Regular expressions that must match stderr."),
        Field::new(
            "files",
            FILES,
            "Files that the program must write: paths, relative to the working directory, with files of the exact content relative to this file.",
        ),
    ],
};

static REQUEST: Object = Object {
    name: "probeRequest",
    fields: &[
        Field::new("path", TEXT, "Path and query.").required(),
        Field::new("method", Kind::Word(&http::METHODS), "Method.").default("\"GET\""),
        Field::new("headers", Kind::Map { names: Format::Any, of: &ANY_TEXT }, "Headers."),
        Field::new("body", ANY_TEXT, "Body."),
        Field::new("body_json", Kind::Any, "Body as JSON."),
        Field::new("expect", Kind::Object(&RESPONSE), "Expected response."),
    ],
};

static RESPONSE: Object = Object {
    name: "probeResponse",
    fields: &[
        Field::new("status", Kind::Whole { min: 100, max: 599 }, "Expected status.").default("200"),
        Field::new("body", ANY_TEXT, "Exact body."),
        Field::new("body_matches", ONE_OR_MORE, "Regular expressions that must match the body."),
        Field::new("body_json", Kind::Any, "Expected JSON value of the body."),
    ],
};

/// The probes of a program.
#[derive(Debug, Clone)]
struct ProbeCheck {
    probes: Vec<Probe>,
    working_dir: Option<PathBuf>,
    env: Vec<EnvVar>,
    /// The timeout of each probe.
    timeout: Duration,
    network: bool,
    may_change: Option<Vec<String>>,
}

/// One start of the program.
#[derive(Debug, Clone)]
struct Probe {
    name: String,
    argv: Vec<String>,
    stdin: Option<Vec<u8>>,
    /// Input files, by their path from the working directory.
    files: Vec<(String, Vec<u8>)>,
    expect: ExpectedOutput,
    /// Requests to the program as a server; its output is then not compared.
    requests: Vec<Request>,
}

fn read(reader: &mut ConfigReader<'_, '_>) -> Option<Arc<dyn EvaluatorConfig>> {
    let program = reader.texts("program");
    let network = reader.flag("network");
    let mut probes = Vec::new();
    for (at, node) in reader.get("probes").map(Node::items).unwrap_or_default().iter().enumerate() {
        let key = format!("probes[{at}]");
        let texts = |key: &str| node.get(key).map(one_or_more).unwrap_or_default();
        let argv: Vec<String> = program.iter().cloned().chain(texts("argv")).collect();
        if argv.is_empty() {
            let error = reader.error(node.span, &key, "no program");
            error.expected("`program`, for all probes, or `argv`");
        }
        let stdin = node.get("stdin").and_then(Node::text).map(|text| text.as_bytes().to_vec());
        let stdin_file = read_file(reader, node, "stdin_file", &key);
        let requests = http::read(reader, node, &key);
        if !requests.is_empty() && !network {
            reader
                .error(node.span, &key, "`requests` need `network: true`")
                .hint("the server is reached through the loopback interface of this machine, which a sandbox without network does not have");
        }
        probes.push(Probe {
            name: node.get("name").and_then(Node::text).unwrap_or_default().to_owned(),
            argv,
            stdin: stdin.or(stdin_file),
            files: read_files(reader, node, &key),
            expect: outputs::read(reader, node, &key),
            requests,
        });
    }
    Some(into_config(ProbeCheck {
        probes,
        working_dir: reader.text("working_dir").and_then(|text| relative(&text).ok()),
        env: reader.environment("env"),
        timeout: reader.duration("timeout").unwrap_or(TIMEOUT),
        network,
        may_change: reader.get("may_change").map(|_| reader.texts("may_change")),
    }))
}

/// Reads the file that a key names.
fn read_file(reader: &mut ConfigReader<'_, '_>, node: &Node, key: &str, path: &str) -> Option<Vec<u8>> {
    let value = node.get(key)?;
    read_named_file(reader, value, &format!("{path}.{key}"))
}

/// Reads the files that a mapping `files` names.
fn read_files(reader: &mut ConfigReader<'_, '_>, node: &Node, path: &str) -> Vec<(String, Vec<u8>)> {
    let entries = node.get("files").map(Node::entries).unwrap_or_default();
    let read = entries.iter().filter_map(|entry| {
        let key = format!("{path}.files.{}", entry.key.name);
        Some((entry.key.name.clone(), read_named_file(reader, &entry.node, &key)?))
    });
    read.collect()
}

fn read_named_file(reader: &mut ConfigReader<'_, '_>, value: &Node, key: &str) -> Option<Vec<u8>> {
    let name = value.text()?;
    match reader.read_file(name, MAX_FILE_BYTES) {
        Ok(content) => Some(content),
        Err(error) => {
            let message = format!("failed to read the file ({error}): {}", quoted(name));
            reader
                .error(value.span, key, message)
                .hint("use a path in or below the directory of the case file");
            None
        }
    }
}

#[async_trait]
impl Evaluator for ProbeCheck {
    fn variables(&self) -> &[EnvVar] {
        &self.env
    }

    fn timeout(&self, _default: Duration) -> Duration {
        self.timeout.saturating_mul(u32::try_from(self.probes.len()).unwrap_or(u32::MAX))
    }

    fn check(&self, env: &GraderEnv) -> Result<(), PreflightError> {
        let mut programs = self.probes.iter().filter_map(|probe| probe.argv.first());
        programs.try_for_each(|program| env.check_program(program, &self.env))
    }

    async fn evaluate(&self, subject: &Subject, context: &EvaluatorContext) -> Result<Verdict, GradeError> {
        let scratch = &context.scratch;
        std::fs::create_dir_all(scratch).map_err(GradeError::io(scratch))?;
        let root = scratch.canonicalize().map_err(GradeError::io(scratch))?.join("tree");
        let policy = ChangePolicy {
            may_change: self.may_change.as_deref().or(subject.may_change.as_deref()),
            ..ChangePolicy::default()
        };
        let tree = tree::check_out(subject, &root, TreeOptions { hidden: &[], policy }).await?;
        let (mut checks, mut failed) = (Vec::new(), Vec::new());
        for (at, probe) in self.probes.iter().enumerate() {
            if subject.grader_env.cancel.is_cancelled() {
                return Err(GradeError::other("cancelled"));
            }
            let (check, to) = (self.clone(), root.clone());
            // The program of an earlier probe may have made the tree unwritable.
            match blocking(move || check.place_files(at, &to)).await {
                Err(error) if at == 0 => return Err(error),
                Err(_) => {
                    let check = Assertion::new(&probe.name, false);
                    checks.push(
                        check.with_message(|| format!("{}: failed to write its input files", probe.name)),
                    );
                    continue;
                }
                Ok(()) => {}
            }
            let program = TreeProgram {
                root: &root,
                locked: &[],
                argv: probe.argv.clone(),
                working_dir: self.working_dir.as_deref(),
                env: &self.env,
                timeout: self.timeout,
                network: self.network,
                log: context.artifact_dir().join(log_name(at)),
            };
            checks.push(if probe.requests.is_empty() {
                let (check, output) = self.probe_output(subject, probe, &program).await?;
                if !check.passed && failed.len() < MAX_FAILURES {
                    failed.extend(failures::of_output(Some(&probe.name), &output.combined, &root));
                }
                check
            } else {
                let mismatches = http::probe(subject, &probe.requests, &program).await?;
                probe.check(&mismatches, Value::Null, Value::Null)
            });
        }
        let total = checks.len();
        let mut verdict = Verdict::from_checks(checks);
        verdict.graded_code = Some(GradedCode::Probe);
        verdict.failures = failed;
        let passed = total - verdict.failed_checks().count();
        let mut summary = format!("{passed} of {total} probes passed");
        verdict = tree.describe(verdict, &mut summary);
        for (at, probe) in self.probes.iter().enumerate().take(MAX_LISTED) {
            if context.artifact_dir().join(log_name(at)).is_file() {
                let path = format!("{FOLDER}/{}/{}", context.name, log_name(at));
                verdict.artifacts.push(Artifact::new(
                    "log",
                    path,
                    &format!("the output of `{}`", probe.name),
                ));
            }
        }
        Ok(verdict.metric("probes", total).metric("probes_passed", passed).with_summary(&summary))
    }
}

impl ProbeCheck {
    /// Writes the input files of a probe, and removes the files that it has to write.
    fn place_files(&self, at: usize, root: &Path) -> Result<(), GradeError> {
        let Some(probe) = self.probes.get(at) else { return Ok(()) };
        for (file, _) in &probe.expect.files {
            if let Some(path) = inside(root, &path_from_root(self.working_dir.as_deref(), file)) {
                remove_tree(&path).map_err(GradeError::io(&path))?;
            }
        }
        let mut known = HashSet::new();
        for (file, content) in &probe.files {
            let path = path_from_root(self.working_dir.as_deref(), file);
            write_entry(root, &path, 0o100_644, content, &mut known)
                .map_err(GradeError::io(root.join(&path)))?;
        }
        Ok(())
    }

    /// Runs the program and compares its output.
    async fn probe_output(
        &self,
        subject: &Subject,
        probe: &Probe,
        program: &TreeProgram<'_>,
    ) -> Result<(Assertion, ProgramOutput), GradeError> {
        let stdin = probe.stdin.clone();
        let output = program
            .run(subject, |command| match stdin {
                Some(bytes) => command.stdin(Stdin::Bytes(bytes.into())),
                None => command,
            })
            .await?;
        let (expect, check, root) = (probe.expect.clone(), self.clone(), program.root.to_owned());
        let compared = output.clone();
        let mismatches = blocking(move || {
            let read = |file: &str| {
                // A file that the program made unreadable counts as absent.
                read_inside(&root, &path_from_root(check.working_dir.as_deref(), file), MAX_FILE_BYTES as u64)
                    .unwrap_or_default()
            };
            expect.compare(&compared, read)
        })
        .await?;
        let exit = match &output.exit {
            ProgramExit::Code(code) => json!(code),
            ProgramExit::Other(text) => json!(text),
        };
        let actual = json!({ "exit": exit, "stdout": outputs::shown(&output.stdout) });
        Ok((probe.check(&mismatches, actual, probe.expect.describe()), output))
    }
}

/// Returns the name of the file with the output of a probe, in the artifacts of the evaluator.
fn log_name(at: usize) -> String {
    format!("probe-{}.log", at + 1)
}

impl Probe {
    fn check(&self, mismatches: &[Mismatch], actual: Value, expected: Value) -> Assertion {
        let check = Assertion::new(&self.name, mismatches.is_empty()).with_values(actual, expected);
        let why = || mismatches.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        check.with_message(|| format!("{}: {}", self.name, why()))
    }
}
