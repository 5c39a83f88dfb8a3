//! Runs the real agent in a temporary directory, recorded or replayed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;
use yb_tape::{
    MockServer, MockServerOptions, RecordingOptions, RecordingProxy, ReplayOptions, ReplayOutcome,
    ReplayServer, Script, Tape, Upstream, Vars,
};
use yb_testkit::RealClaude;

use super::TIMEOUT;

pub(super) const PROMPT: &str = "Make the greeting friendlier.";

/// Four turns with two tools.
pub(super) const SHORT: &str = "
tape: 1
lanes:
  main:
    - say: I look first.
      tools: [{ Bash: { command: 'cat greeting.txt', description: Look } }]
    - tools: [{ Write: { file_path: '{{workspace}}/made.txt', content: 'made here' } }]
    - tools: [{ Bash: { command: 'cat made.txt; date; echo pid: $$; pwd', description: Check } }]
    - say: Done.
";

/// More than twelve turns: tools, three subagents of which two are equal, an error, structured output.
pub(super) const LONG: &str = "
tape: 1
lanes:
  main:
    - say: I look first.
      tools: [{ Bash: { command: 'cat greeting.txt; date +%s.%N', description: Look } }]
    - tools: [{ Read: { file_path: '{{workspace}}/greeting.txt' } }]
    - tools: [{ Edit: { file_path: '{{workspace}}/greeting.txt', old_string: Hello., new_string: Hello and welcome! } }]
    - say: Three reviewers, please.
      tools:
        - Agent: { description: Review, prompt: 'Review the greeting for tone.', subagent_type: general-purpose, run_in_background: false }
        - Agent: { description: Count, prompt: 'Count the words.', subagent_type: general-purpose, run_in_background: false }
        - Agent: { description: Count, prompt: 'Count the words.', subagent_type: general-purpose, run_in_background: false }
    - tools: [{ Write: { file_path: '{{workspace}}/notes/a.txt', content: 'a' } }, { Write: { file_path: '{{workspace}}/notes/b.txt', content: 'b' } }]
    - tools: [{ Bash: { command: 'ls -la notes', description: List } }]
    - tools: [{ Bash: { command: 'cat missing.txt', description: Fail } }]
    - think: That file is missing.
      tools: [{ Bash: { command: 'pwd; echo pid $$', description: Where } }]
    - tools: [{ Bash: { command: 'git init -q . && git add -A && git -c user.name=n -c user.email=e@x commit -qm one && git log --format=%H%n%ad', description: Commit } }]
    - tools: [{ Bash: { command: 'mktemp -d', description: Temp } }]
    - tools: [{ Bash: { command: 'wc -w < greeting.txt', description: Count } }]
    - tools: [{ StructuredOutput: { friendly: true, words: 3 } }]
    - say: All done.
  reviewer:
    match: Review the greeting
    replies:
      - tools: [{ Bash: { command: 'cat greeting.txt', description: Read } }]
      - say: It is friendly.
  counter:
    match: Count the words
    replies:
      - tools: [{ Bash: { command: 'wc -w < greeting.txt', description: Count } }]
      - say: Three words.
";

/// The agent and its workspace.
pub(super) struct Agent {
    claude: RealClaude,
    directory: TempDir,
    pub(super) prompt: String,
    pub(super) args: Vec<String>,
    in_background: bool,
}

/// Result of a run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) exit: Option<i32>,
    pub(super) output: String,
    /// Assistant messages, without paths that differ between runs.
    pub(super) transcript: Vec<Value>,
    pub(super) tree: BTreeMap<String, String>,
    pub(super) tape: Option<Tape>,
    pub(super) outcome: Option<ReplayOutcome>,
    /// Keeps the tape file alive.
    _tape_dir: Option<TempDir>,
}

impl Agent {
    pub(super) fn new() -> Self {
        let directory = TempDir::with_prefix("yb-tape-ws-").unwrap();
        let agent = Self {
            claude: RealClaude::new(),
            directory,
            prompt: PROMPT.to_owned(),
            args: Vec::new(),
            in_background: false,
        };
        agent.write("greeting.txt", "Hello.\n");
        agent
    }

    /// Requests structured output, which the long script returns.
    pub(super) fn structured(mut self) -> Self {
        self.args.push(r#"--json-schema={"type":"object","properties":{"friendly":{"type":"boolean"},"words":{"type":"integer"}},"required":["friendly"]}"#.to_owned());
        self
    }

    /// Lets subagents run in the background.
    pub(super) fn in_background(mut self) -> Self {
        self.in_background = true;
        self
    }

    pub(super) fn retrying(mut self) -> Self {
        self.claude = RealClaude::new().max_retries(3);
        self
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.workspace().join(name), text).unwrap();
    }

    pub(super) fn remove(&self, name: &str) {
        std::fs::remove_file(self.workspace().join(name)).unwrap();
    }

    pub(super) fn workspace(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    /// Runs against a mock server, through a recording proxy.
    pub(super) fn record(&self, script: &str) -> Run {
        let vars = Vars::new().with("workspace", self.workspace().to_str().unwrap());
        let model =
            MockServer::start(Script::parse(script, &vars).unwrap(), &MockServerOptions::default()).unwrap();
        let tape_dir = tempfile::tempdir().unwrap();
        let path = tape_dir.path().join("run.tape");
        let options = RecordingOptions::new(Upstream::new(&model.base_url()).unwrap(), &path)
            .directory("workspace", self.workspace())
            .directory("private", self.claude.private());
        let proxy = RecordingProxy::start(options).unwrap();
        let run = self.run(&proxy.base_url());
        assert_eq!(proxy.failure(), None);
        let recorded = proxy.finish().unwrap();
        let unscripted = model.unscripted();
        let unscripted: Vec<_> = unscripted.iter().map(|logged| &logged.response).collect();
        assert!(unscripted.is_empty(), "{unscripted:#?}");
        assert!(recorded.observed.total().output > 0);
        let tape = Tape::open(&path).unwrap();
        Run { tape: Some(tape), _tape_dir: Some(tape_dir), ..run }
    }

    /// Runs against a replay server.
    pub(super) fn replay(&self, tape: &Tape, options: ReplayOptions) -> Run {
        let options =
            options.directory("workspace", self.workspace()).directory("private", self.claude.private());
        let server = ReplayServer::start(tape, options).unwrap();
        let run = self.run(&server.base_url());
        Run { outcome: Some(server.outcome()), ..run }
    }

    #[expect(clippy::disallowed_methods, reason = "this tests the tape, not process supervision")]
    fn run(&self, base_url: &str) -> Run {
        let stdin = self
            .directory
            .path()
            .join("..")
            .join(format!("{}.stdin", self.directory.path().file_name().unwrap().to_string_lossy()));
        std::fs::write(&stdin, &self.prompt).unwrap();
        let output = tempfile::NamedTempFile::new().unwrap();
        let mut child = Command::new(self.claude.program())
            .args(["-p", "--output-format=stream-json", "--verbose", "--permission-mode=bypassPermissions"])
            .args(&self.args)
            .current_dir(self.workspace())
            .env_clear()
            .envs(
                self.claude.env(base_url).into_iter().filter(|(name, _)| {
                    !self.in_background || name != "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"
                }),
            )
            .stdin(std::fs::File::open(&stdin).unwrap())
            .stdout(output.reopen().unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let start = Instant::now();
        let exit = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status.code();
            }
            let is_late = start.elapsed() > TIMEOUT;
            if is_late {
                let _ = child.kill();
                let _ = child.wait();
            }
            assert!(!is_late, "the agent timed out");
            std::thread::sleep(std::time::Duration::from_millis(20));
        };
        std::fs::remove_file(&stdin).unwrap();
        let output = std::fs::read_to_string(output.path()).unwrap();
        let transcript = self.transcript(&output);
        let tree = tree(&self.workspace());
        Run { exit, output, transcript, tree, tape: None, outcome: None, _tape_dir: None }
    }

    /// Assistant messages by conversation.
    fn transcript(&self, output: &str) -> Vec<Value> {
        let mut conversations: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        let frames = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        for frame in frames.filter(|frame| frame["type"] == "assistant") {
            let text = frame["message"]["content"].to_string();
            let text = text.replace(self.workspace().to_str().unwrap(), "WORKSPACE");
            let conversation = conversations.entry(frame["parent_tool_use_id"].to_string()).or_default();
            conversation.push(serde_json::from_str(&text).unwrap());
        }
        // The order of parallel conversations varies, so they are sorted.
        let mut said: Vec<Value> = conversations.into_values().map(Value::Array).collect();
        said.sort_by_key(Value::to_string);
        said
    }
}

fn tree(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().is_some_and(|name| name == ".git") {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                found.insert(name, String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned());
            }
        }
    }
    found
}
