//! A simulated GitHub Actions runner: reads workflows and composite actions, evaluates the expressions that they use, and runs
//! each `run` step with the files and variables of a runner. Steps with GitHub's own actions are simulated with directories.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use yb_testkit::{Outcome, TestContext};

/// The repository, which is the directory of the action.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub(crate) fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

/// Values of contexts by path, such as `inputs.config`.
type Contexts = BTreeMap<String, String>;

/// An event that starts a workflow.
pub(crate) struct Event {
    pub(crate) name: &'static str,
    pub(crate) ref_name: &'static str,
    pub(crate) sha: String,
    pub(crate) pull_request: Option<u64>,
}

/// The end of a job.
#[derive(Debug)]
pub(crate) struct Job {
    /// The steps that ran, with their output; `None` for those of GitHub's own actions.
    pub(crate) steps: Vec<(String, Option<Outcome>)>,
    pub(crate) failed: Option<String>,
    pub(crate) summary: String,
}

impl Job {
    pub(crate) fn ran(&self, name: &str) -> bool {
        self.steps.iter().any(|(step, _)| step == name)
    }

    /// Returns everything that was printed, for failures of tests.
    pub(crate) fn log(&self) -> String {
        let step = |(name, outcome): &(String, Option<Outcome>)| match outcome {
            Some(outcome) => format!("== {name}: {:?}\n{}{}", outcome.code, outcome.stdout, outcome.stderr),
            None => format!("== {name}\n"),
        };
        self.steps.iter().map(step).collect()
    }
}

/// A runner with a cache and artifacts that outlive its jobs, and a loopback API.
pub(crate) struct Runner {
    pub(crate) context: TestContext,
    /// The repository that `actions/checkout` clones.
    pub(crate) remote: PathBuf,
    /// Directories that come before PATH.
    pub(crate) path: Vec<PathBuf>,
    /// Further variables of every step.
    pub(crate) env: Vec<(String, String)>,
    pub(crate) api: Api,
    cache: Vec<(String, PathBuf)>,
    jobs: usize,
}

impl Runner {
    pub(crate) fn new(context: TestContext, remote: PathBuf) -> Self {
        Self {
            context,
            remote,
            path: Vec::new(),
            env: Vec::new(),
            api: Api::start(),
            cache: Vec::new(),
            jobs: 0,
        }
    }

    /// The directory of the checkout of the last job.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.context.root().join(format!("job-{}/workspace", self.jobs))
    }

    /// Runs the only job of a workflow; `inputs` replaces inputs of actions.
    pub(crate) fn job(&mut self, workflow: &Value, event: &Event, inputs: &[(&str, &str)]) -> Job {
        self.jobs += 1;
        for name in ["workspace", "temp", "home"] {
            std::fs::create_dir_all(self.job_dir().join(name)).unwrap();
        }
        let jobs = workflow["jobs"].as_object().unwrap();
        assert_eq!(jobs.len(), 1, "one job");
        let steps = jobs.values().next().unwrap()["steps"].as_array().unwrap().clone();
        let mut contexts: Contexts = [
            ("github.ref_name", event.ref_name.to_owned()),
            ("github.event_name", event.name.to_owned()),
            ("github.sha", event.sha.clone()),
            ("github.token", "the-token".to_owned()),
            (
                "github.event.pull_request.number",
                event.pull_request.map(|n| n.to_string()).unwrap_or_default(),
            ),
            ("runner.os", "Linux".to_owned()),
            ("runner.arch", "X64".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let mut job = Job { steps: Vec::new(), failed: None, summary: String::new() };
        for step in &steps {
            self.step(step, &mut contexts, event, inputs, &mut job);
        }
        job.summary = std::fs::read_to_string(self.job_dir().join("temp/summary")).unwrap_or_default();
        job
    }

    fn job_dir(&self) -> PathBuf {
        self.context.root().join(format!("job-{}", self.jobs))
    }

    fn step(
        &mut self,
        step: &Value,
        contexts: &mut Contexts,
        event: &Event,
        inputs: &[(&str, &str)],
        job: &mut Job,
    ) {
        let wanted = step["if"].as_str().map(|condition| evaluate(condition, contexts));
        let always = step["if"].as_str().is_some_and(|condition| condition.contains("always()"));
        if wanted.is_some_and(|value| value != "true") || (job.failed.is_some() && !always) {
            return;
        }
        let uses = step["uses"].as_str();
        let name = step["name"].as_str().or(uses).unwrap().to_owned();
        let with =
            |key: &str, contexts: &Contexts| expand(step["with"][key].as_str().unwrap_or_default(), contexts);
        match uses {
            None => {
                let outcome = self.run_step(step, contexts);
                if outcome.code != Some(0) {
                    job.failed = Some(name.clone());
                }
                job.steps.push((name, Some(outcome)));
            }
            Some("actions/checkout@v4") => {
                self.git(&["clone", "--quiet", &self.remote.display().to_string(), "."]);
                self.git(&["checkout", "--quiet", &event.sha]);
                job.steps.push((name, None));
            }
            Some(cache @ ("actions/cache@v4" | "actions/cache/restore@v4")) => {
                self.restore(
                    &with("path", contexts),
                    &with("key", contexts),
                    &with("restore-keys", contexts),
                );
                assert!(cache.ends_with("@v4"));
                job.steps.push((name, None));
            }
            Some("actions/cache/save@v4") => {
                self.save(&with("path", contexts), &with("key", contexts));
                job.steps.push((name, None));
            }
            Some("actions/upload-artifact@v4") => {
                let path = self.workspace().join(with("path", contexts));
                assert!(path.exists(), "nothing to upload: {}", path.display());
                copy(&path, &self.context.root().join(format!("artifacts-{}", self.jobs)));
                job.steps.push((name, None));
            }
            Some(action) if action.starts_with("youbencha/youbencha@") => {
                self.composite(&step["with"], contexts, event, inputs, job);
            }
            Some(other) => panic!("unknown action: {other}"),
        }
    }

    /// Runs the steps of the action of this repository.
    fn composite(
        &mut self,
        with: &Value,
        outer: &Contexts,
        event: &Event,
        inputs: &[(&str, &str)],
        job: &mut Job,
    ) {
        let action = yaml(&std::fs::read_to_string(repository().join("action.yml")).unwrap());
        assert_eq!(action["runs"]["using"], "composite");
        let known = action["inputs"].as_object().unwrap();
        let mut contexts = outer.clone();
        for (name, input) in known {
            let given = with[name.as_str()].as_str().or(input["default"].as_str());
            let value = expand(given.unwrap_or_default(), outer);
            contexts.insert(format!("inputs.{name}"), value);
        }
        for name in with.as_object().into_iter().flat_map(|with| with.keys()) {
            assert!(known.contains_key(name), "unknown input: {name}");
        }
        for (name, value) in inputs {
            assert!(contexts.insert(format!("inputs.{name}"), (*value).to_owned()).is_some(), "{name}");
        }
        for step in action["runs"]["steps"].as_array().unwrap() {
            self.step(step, &mut contexts, event, &[], job);
        }
    }

    fn run_step(&mut self, step: &Value, contexts: &mut Contexts) -> Outcome {
        let script = step["run"].as_str().unwrap();
        // A value of a pull request in a script would be run as code.
        assert!(!script.contains("${{"), "expression in a script: {script}");
        let temp = self.job_dir().join("temp");
        let (output, path) = (temp.join("output"), temp.join("path"));
        std::fs::write(&output, "").unwrap();
        std::fs::write(&path, "").unwrap();
        let file = temp.join("step.sh");
        std::fs::write(&file, script).unwrap();
        let mut paths = self.path.clone();
        paths.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
        let mut command = self
            .context
            .command("/bin/bash")
            .args(["--noprofile", "--norc", "-eo", "pipefail"])
            .arg(&file)
            .current_dir(self.workspace())
            .env("HOME", self.job_dir().join("home"))
            .env("PATH", std::env::join_paths(paths).unwrap())
            .env("GITHUB_OUTPUT", &output)
            .env("GITHUB_PATH", &path)
            .env("GITHUB_STEP_SUMMARY", temp.join("summary"))
            .env("GITHUB_ACTION_PATH", repository())
            .env("GITHUB_API_URL", &self.api.url)
            .env("GITHUB_SERVER_URL", &self.api.url)
            .env("GITHUB_REPOSITORY", "owner/project")
            .env("RUNNER_TEMP", &temp)
            .env("RUNNER_OS", "Linux")
            .env("RUNNER_ARCH", "X64")
            .timeout(std::time::Duration::from_secs(150));
        for (name, value) in &self.env {
            command = command.env(name, value);
        }
        for (name, value) in step["env"].as_object().into_iter().flatten() {
            command = command.env(name, expand(value.as_str().unwrap(), contexts));
        }
        let outcome = command.run();
        if let Some(id) = step["id"].as_str() {
            for line in std::fs::read_to_string(&output).unwrap().lines() {
                let (name, value) = line.split_once('=').unwrap();
                contexts.insert(format!("steps.{id}.outputs.{name}"), value.to_owned());
            }
        }
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            self.path.push(PathBuf::from(line));
        }
        outcome
    }

    fn git(&self, args: &[&str]) {
        let outcome = self.context.command("git").args(args).current_dir(self.workspace()).run();
        assert_eq!(outcome.code, Some(0), "{args:?} {}", outcome.stderr);
    }

    fn cached(&self, path: &str) -> PathBuf {
        match path.strip_prefix("~/") {
            Some(rest) => self.job_dir().join("home").join(rest),
            None => self.workspace().join(path),
        }
    }

    fn restore(&self, path: &str, key: &str, prefix: &str) {
        let exact = self.cache.iter().find(|(known, _)| known == key);
        let newest =
            || self.cache.iter().rev().find(|(known, _)| !prefix.is_empty() && known.starts_with(prefix));
        if let Some((_, stored)) = exact.or_else(newest) {
            copy(stored, &self.cached(path));
        }
    }

    fn save(&mut self, path: &str, key: &str) {
        let stored = self.context.root().join(format!("cache-{}", self.cache.len()));
        copy(&self.cached(path), &stored);
        self.cache.push((key.to_owned(), stored));
    }
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(from, to).unwrap();
    }
}

/// Replaces the expressions in a text.
fn expand(text: &str, contexts: &Contexts) -> String {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("${{") {
        let end = start + rest[start..].find("}}").unwrap();
        expanded += &rest[..start];
        expanded += &evaluate(&rest[start + 3..end], contexts);
        rest = &rest[end + 2..];
    }
    expanded + rest
}

/// Evaluates `||`, `&&`, `==`, `!=`, strings, `always()` and values of contexts.
fn evaluate(expression: &str, contexts: &Contexts) -> String {
    let truth = |value: bool| value.to_string();
    if let Some((one, two)) = expression.split_once("||") {
        return truth(evaluate(one, contexts) == "true" || evaluate(two, contexts) == "true");
    }
    if let Some((one, two)) = expression.split_once("&&") {
        return truth(evaluate(one, contexts) == "true" && evaluate(two, contexts) == "true");
    }
    if let Some((one, two)) = expression.split_once("==") {
        return truth(evaluate(one, contexts) == evaluate(two, contexts));
    }
    if let Some((one, two)) = expression.split_once("!=") {
        return truth(evaluate(one, contexts) != evaluate(two, contexts));
    }
    let operand = expression.trim();
    if let Some(text) = operand.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return text.to_owned();
    }
    match contexts.get(operand) {
        Some(value) => value.clone(),
        None if operand == "always()" => truth(true),
        // A step that did not run has no outputs.
        None if operand.starts_with("steps.") => String::new(),
        None => panic!("unknown value: `{operand}`"),
    }
}

/// A loopback API with the comments of pull requests, and files to download.
pub(crate) struct Api {
    pub(crate) url: String,
    state: Arc<Mutex<ApiState>>,
}

#[derive(Default)]
struct ApiState {
    requests: Vec<String>,
    comments: Vec<(u64, String)>,
    files: BTreeMap<String, Vec<u8>>,
}

impl Api {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(ApiState::default()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                answer(stream.unwrap(), &shared);
            }
        });
        Self { url, state }
    }

    pub(crate) fn serve(&self, path: &str, content: Vec<u8>) {
        self.state.lock().unwrap().files.insert(path.to_owned(), content);
    }

    pub(crate) fn comments(&self) -> Vec<String> {
        self.state.lock().unwrap().comments.iter().map(|(_, body)| body.clone()).collect()
    }

    /// Returns the requests so far: method and path.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.lock().unwrap().requests.clone()
    }
}

fn answer(stream: TcpStream, state: &Mutex<ApiState>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = Vec::new();
    for line in reader.by_ref().lines() {
        let line = line.unwrap();
        if line.is_empty() {
            break;
        }
        head.push(line);
    }
    let Some(first) = head.first() else { return };
    let request = first.rsplit_once(' ').unwrap().0.to_owned();
    let header = |name: &str| {
        head.iter().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    };
    let length = header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let mut state = state.lock().unwrap();
    state.requests.push(request.clone());
    let text = || serde_json::from_slice::<Value>(&body).unwrap()["body"].as_str().unwrap().to_owned();
    let (method, path) = request.split_once(' ').unwrap();
    let file = state.files.get(path).cloned();
    let authorized = header("authorization").as_deref() == Some("Bearer the-token");
    let (status, content) = if let Some(content) = file {
        ("200 OK", content)
    } else if !authorized {
        ("404 Not Found", Vec::new())
    } else if method == "GET" && path.starts_with("/repos/owner/project/issues/7/comments?") {
        let all: Vec<Value> =
            state.comments.iter().map(|(id, body)| json!({ "id": id, "body": body })).collect();
        ("200 OK", json!(all).to_string().into_bytes())
    } else if request == "POST /repos/owner/project/issues/7/comments" {
        let id = state.comments.len() as u64 + 1;
        state.comments.push((id, text()));
        ("201 Created", b"{}".to_vec())
    } else if let Some(id) = request.strip_prefix("PATCH /repos/owner/project/issues/comments/") {
        let id: u64 = id.parse().unwrap();
        state.comments.iter_mut().find(|(known, _)| *known == id).unwrap().1 = text();
        ("200 OK", b"{}".to_vec())
    } else {
        ("404 Not Found", Vec::new())
    };
    let mut stream = stream;
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", content.len());
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&content));
}
