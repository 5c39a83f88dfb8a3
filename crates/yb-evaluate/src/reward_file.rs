//! `reward-file`: runs a script in the root of the case as the agent left it, and reads the reward that it wrote.
//!
//! The script gets a root of its own above the layer with the agent's changes, after all processes of the agent are dead. The
//! tests and the directory of the reward are created afterwards, so nothing that the agent left there or still runs can write
//! a reward.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use yb_supervise::{Command, End, Launch, Network, OutputMode, Sandbox, SpawnError};

use super::tree::blocking;
use super::{
    Assertion, Evaluator, EvaluatorContext, GradeError, GraderEnv, GraderRoot, PreflightError, Subject,
    Verdict, into_config,
};
use yb_agents::{ProcessRole, limit};
use yb_case::shape::{ENVIRONMENT, Field, Kind, MILLISECONDS, Object, RELATIVE_PATH, TEXT};
use yb_case::{ConfigReader, EnvVar, EvaluatorConfig, EvaluatorInput, EvaluatorSpec};
use yb_repo::{copy_tree, read_inside};
use yb_yaml::diagnostic::quoted;

/// The limit for all tests together. They are read to include them in the digest of the case.
const MAX_TEST_BYTES: usize = 256 << 20;
/// The largest reward file.
const MAX_REWARD_BYTES: u64 = 1 << 20;
/// The limit for output in memory and in the log.
const MAX_OUTPUT: usize = 10 << 20;
/// The directories in the root.
const TESTS: &str = "/tests";
const LOGS: &str = "/logs/verifier";
/// The output of the script, in the artifacts of the evaluator.
const OUTPUT_FILE: &str = "test-stdout.txt";
/// The key of the reward that a text file has.
const MAIN_REWARD: &str = "reward";

pub(crate) static SPEC: EvaluatorSpec = EvaluatorSpec {
    name: "reward-file",
    summary: "a script in the root of the case, as the agent left it, that writes a reward",
    input: EvaluatorInput::Objects,
    config: &CONFIG,
    read,
};

static CONFIG: Object = Object {
    name: "rewardFile",
    fields: &[
        Field::new(
            "tests",
            RELATIVE_PATH,
            "Directory, relative to this file, that is copied to `/tests` after the agent.",
        )
        .required(),
        Field::new(
            "script",
            TEXT,
            "Script in the root that writes `/logs/verifier/reward.json` or `reward.txt`.",
        )
        .default("\"/tests/test.sh\""),
        Field::new(
            "env",
            ENVIRONMENT,
            "Environment variables: names to pass through, or names with values, in which `${ENV:NAME}` is expanded.",
        ),
        Field::new(
            "user",
            TEXT,
            "User that runs the script: a name or an id [default: that of the environment].",
        ),
        Field::new("timeout", MILLISECONDS, "Timeout [default: `timeouts.evaluators`]."),
        Field::new("network", Kind::Bool, "Whether network access is allowed.").default("false"),
        Field::new(
            "collect",
            Kind::List { of: &TEXT, min: 0 },
            "Shell commands that run before the script, such as one that saves a log.",
        ),
    ],
};

/// A script that writes a reward.
#[derive(Debug)]
struct RewardFile {
    tests: PathBuf,
    script: String,
    env: Vec<EnvVar>,
    user: Option<String>,
    timeout: Option<Duration>,
    network: bool,
    collect: Vec<String>,
}

fn read(reader: &mut ConfigReader<'_, '_>) -> Option<Arc<dyn EvaluatorConfig>> {
    let written = reader.text("tests")?;
    let tests = match reader.find_files(&written, MAX_TEST_BYTES) {
        Ok(tests) => tests,
        Err(error) => {
            let message = format!("failed to read the tests ({error}): {}", quoted(&written));
            reader
                .error(reader.span_of("tests"), "tests", message)
                .hint("use a directory in or below that of the case file");
            return None;
        }
    };
    Some(into_config(RewardFile {
        tests,
        script: reader.text("script").unwrap_or_else(|| format!("{TESTS}/test.sh")),
        env: reader.environment("env"),
        user: reader.text("user"),
        timeout: reader.duration("timeout"),
        network: reader.flag("network"),
        collect: reader.texts("collect"),
    }))
}

#[async_trait]
impl Evaluator for RewardFile {
    fn variables(&self) -> &[EnvVar] {
        &self.env
    }

    fn timeout(&self, default: Duration) -> Duration {
        self.timeout.unwrap_or(default)
    }

    fn check(&self, env: &GraderEnv) -> Result<(), PreflightError> {
        if env.other_root {
            return Ok(());
        }
        let reason = format!("`{}` needs a case with an `environment`", SPEC.name);
        Err(PreflightError::Grading { reason })
    }

    async fn evaluate(&self, subject: &Subject, context: &EvaluatorContext) -> Result<Verdict, GradeError> {
        let env = &subject.grader_env;
        let Some(root) = &env.root else {
            return Err(GradeError::other("the root of the case is not there"));
        };
        let scratch = &context.scratch;
        std::fs::create_dir_all(scratch).map_err(GradeError::io(scratch))?;
        let scratch = scratch.canonicalize().map_err(GradeError::io(scratch))?;
        let (tests, logs) = (scratch.join("tests"), scratch.join("logs"));
        std::fs::create_dir_all(&logs).map_err(GradeError::io(&logs))?;
        let (from, to) = (self.tests.clone(), tests.clone());
        blocking(move || {
            copy_tree(&from, &to).map_err(GradeError::io(&to))?;
            make_executable(&to)
        })
        .await?;
        let mut root = root.clone();
        if let Some(user) = &self.user {
            let found = yb_image::find_user(&root.rootfs, user);
            let user = found.map_err(|error| GradeError::other(error.to_string()))?;
            (root.uid, root.gid) = (user.uid, user.gid);
            root.env.insert("HOME".to_owned(), user.home);
        }
        let mut ended = Ok(());
        let line = format!("({}) > {LOGS}/{OUTPUT_FILE} 2>&1", self.script);
        for line in self.collect.iter().chain([&line]) {
            let command = self.command(line, &root, &scratch, subject, context)?;
            ended = match command.run().await.end {
                // As in Harbor, only the reward counts.
                End::Exited { .. } => Ok(()),
                End::TimedOut { after } => Err(format!("the script timed out after {after:?}")),
                end @ (End::OverQuota { .. } | End::OverLimit(_) | End::Signaled { .. }) => {
                    Err(end.to_string())
                }
                // The agent can replace the shell, the working directory and mount points.
                End::SpawnFailed(
                    error @ (SpawnError::SandboxPath { .. }
                    | SpawnError::CwdMissing { .. }
                    | SpawnError::NotFound { .. }
                    | SpawnError::NotExecutable { .. }
                    | SpawnError::BadFormat { .. }),
                ) if root.upper.is_some() => Err(format!("the script can't be started: {error}")),
                End::SpawnFailed(SpawnError::SandboxFailed { reason })
                    if root.upper.is_some() && reason.starts_with("bwrap: execvp ") =>
                {
                    Err(format!("the script can't be started: {reason}"))
                }
                end => return Err(GradeError::other(end.to_string())),
            };
        }
        let mut artifacts = Vec::new();
        for (file, description) in
            [(OUTPUT_FILE, "the output of the script"), ("ctrf.json", "the results of the tests")]
        {
            if let Ok(Some(bytes)) = read_inside(&logs, Path::new(file), MAX_OUTPUT as u64) {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                artifacts.push(context.write_artifact("log", file, description, &text)?);
            }
        }
        let rewards = ended.and_then(|()| rewards(&logs));
        let mut verdict = verdict(rewards);
        verdict.artifacts = artifacts;
        Ok(verdict)
    }
}

impl RewardFile {
    /// Builds a command line of the shell in the root.
    fn command(
        &self,
        line: &str,
        root: &GraderRoot,
        scratch: &Path,
        subject: &Subject,
        context: &EvaluatorContext,
    ) -> Result<Command, GradeError> {
        let env = &subject.grader_env;
        let mount = root.mount(&scratch.join("root-layer"), true).map_err(GradeError::io(scratch))?;
        let changes = mount.overlay.upper.clone();
        let (tests, logs) = (scratch.join("tests"), scratch.join("logs"));
        let network = if self.network { Network::Shared } else { Network::None };
        let view =
            Sandbox::new().root(mount).writable_as(&tests, TESTS).writable_as(&logs, LOGS).network(network);
        let mut command = Command::new("sh")
            .args(["-c", line])
            .current_dir(&root.workdir)
            .launch(Launch::Contained)
            .output(OutputMode::Capture { limit: MAX_OUTPUT })
            .deadline(context.timeout)
            .cancel_on(env.cancel.clone())
            .pause_on(env.pause.clone())
            .envs(&root.env)
            .envs(env.variables(&self.env)?)
            .sandbox(view);
        command = limit(command, &env.limits, [&changes, &logs], None);
        for (name, value) in subject.secrets.iter() {
            command = command.secret(name, value.clone());
        }
        if let Some(shim) = &env.shim {
            command = command.shim(shim);
        }
        Ok(match &env.start_recorder {
            Some(recorder) => recorder.attach(ProcessRole::Evaluator, command),
            None => command,
        })
    }
}

/// Reads the rewards: `reward.json`, else `reward.txt`.
fn rewards(logs: &Path) -> Result<Map<String, Value>, String> {
    let content = |name: &str| match read_inside(logs, Path::new(name), MAX_REWARD_BYTES) {
        Ok(Some(bytes)) => Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned())),
        Ok(None) => Ok(None),
        Err(error) => Err(format!("{name}: {error}")),
    };
    if let Some(text) = content("reward.json")? {
        let invalid = |what: &str| format!("reward.json: {what}");
        let value: Value = serde_json::from_str(&text).map_err(|error| invalid(&error.to_string()))?;
        let Value::Object(found) = value else { return Err(invalid("not an object")) };
        if found.is_empty() {
            return Err(invalid("no rewards"));
        }
        let number = |value: &Value| match value {
            Value::Bool(true) => Some(1.0),
            Value::Bool(false) => Some(0.0),
            value => value.as_f64().filter(|number| number.is_finite()),
        };
        let numbers = found.iter().map(|(name, value)| {
            let number = number(value).ok_or_else(|| invalid(&format!("not a number: `{name}`")))?;
            Ok((name.clone(), json!(number)))
        });
        return numbers.collect();
    }
    let text = content("reward.txt")?.ok_or("the script wrote no reward")?;
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    let number = number.ok_or_else(|| format!("reward.txt: not a number: {}", quoted(&text)))?;
    Ok([(MAIN_REWARD.to_owned(), json!(number))].into_iter().collect())
}

/// Returns the verdict: the score is the reward, or the mean of several; a trial passes if all rewards are 1.
fn verdict(rewards: Result<Map<String, Value>, String>) -> Verdict {
    let (rewards, error) = match rewards {
        Ok(rewards) => (rewards, None),
        Err(error) => (Map::new(), Some(error)),
    };
    let numbers: Vec<f64> = rewards.values().filter_map(Value::as_f64).collect();
    let main = rewards.get(MAIN_REWARD).and_then(Value::as_f64);
    let mean = if numbers.is_empty() { 0.0 } else { numbers.iter().sum::<f64>() / numbers.len() as f64 };
    let score = main.unwrap_or(mean);
    let checks = match &error {
        Some(error) => vec![Assertion::new(MAIN_REWARD, false).with_message(|| error.clone())],
        None => rewards
            .iter()
            .map(|(name, value)| {
                let number = value.as_f64().unwrap_or(0.0);
                let mut check = Assertion::new(name, (number - 1.0).abs() < 1e-9).with_values(number, 1.0);
                check.score = number.clamp(0.0, 1.0);
                check.with_message(|| format!("`{name}` is {number}"))
            })
            .collect(),
    };
    // With a main reward, the others are measurements.
    let checks = match main {
        Some(_) => checks.into_iter().filter(|check| check.name == MAIN_REWARD).collect(),
        None => checks,
    };
    Verdict::from_checks(checks)
        .metric("score", score)
        .metric("rewards", rewards)
        .with_summary(&format!("reward {score}"))
}

/// Makes the scripts of a directory executable.
fn make_executable(directory: &Path) -> Result<(), GradeError> {
    #[cfg(unix)]
    for entry in std::fs::read_dir(directory).map_err(GradeError::io(directory))?.flatten() {
        use std::os::unix::fs::PermissionsExt as _;
        let path = entry.path();
        let is_script = path.extension().is_some_and(|extension| extension == "sh");
        if is_script && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))
                .map_err(GradeError::io(&path))?;
        }
    }
    #[cfg(not(unix))]
    let _ = directory;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use yb_model::verdict::EvaluatorStatus;

    fn graded(files: &[(&str, &str)]) -> (EvaluatorStatus, Value, String) {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            std::fs::write(dir.path().join(name), content).unwrap();
        }
        let verdict = verdict(rewards(dir.path()));
        (verdict.status, verdict.metrics["score"].clone(), verdict.message)
    }

    #[test]
    fn reward_is_read_from_json_before_text() {
        use EvaluatorStatus::{Failed, Passed};
        for (files, status, score) in [
            (&[("reward.txt", "1\n")][..], Passed, 1.0),
            (&[("reward.txt", "0.5")], Failed, 0.5),
            (&[("reward.txt", "1"), ("reward.json", "{\"reward\": 0}")], Failed, 0.0),
            (&[("reward.json", "{\"reward\": true, \"speed\": 0.2}")], Passed, 1.0),
            (&[("reward.json", "{\"a\": 1, \"b\": 0}")], Failed, 0.5),
            (&[("reward.json", "{\"a\": 1, \"b\": 1.0}")], Passed, 1.0),
        ] {
            let (found, value, message) = graded(files);
            assert_eq!((found, value), (status, json!(score)), "{files:?}: {message}");
        }
    }

    #[test]
    fn missing_and_malformed_rewards_fail() {
        for (files, said) in [
            (&[][..], "wrote no reward"),
            (&[("reward.txt", "")], "not a number"),
            (&[("reward.txt", "NaN")], "not a number"),
            (&[("reward.json", "{}")], "no rewards"),
            (&[("reward.json", "[1]")], "not an object"),
            (&[("reward.json", "{\"a\": \"1\"}")], "not a number: `a`"),
            (&[("reward.json", "{"), ("reward.txt", "1")], "reward.json"),
        ] {
            let (status, score, message) = graded(files);
            assert_eq!((status, score), (EvaluatorStatus::Failed, json!(0.0)), "{message}");
            assert!(message.contains(said), "{message}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn linked_reward_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("elsewhere"), "1").unwrap();
        std::fs::create_dir(dir.path().join("logs")).unwrap();
        std::os::unix::fs::symlink("../elsewhere", dir.path().join("logs/reward.txt")).unwrap();
        assert!(rewards(&dir.path().join("logs")).is_err());
    }
}
