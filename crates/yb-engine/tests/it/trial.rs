//! Whole trials in this process: steps, artifacts, hooks, and errors before the trial starts.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use yb_case::config::Settings;
use yb_engine::Extensions;
use yb_engine::run::RunDir;
use yb_engine::trial::{
    AttemptContext, FinishedAttempt, Runner, SharedStartTree, StopCause, StopHandle, TrialError, TrialStep,
};
use yb_model::outcome::Outcome;
use yb_repo::HostPolicy;
use yb_testkit::git::Repo;

/// A repository with one file, a case for it, and a runner.
pub(crate) struct World {
    dir: TempDir,
    pub(crate) runner: Runner,
    steps: Vec<String>,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let repo = dir.path().join("repo");
        std::fs::create_dir(&repo).unwrap();
        Repo::init(&repo).write("greet.sh", "echo Hello!\n").commit("start");
        let (settings, _) = Settings::load(None, dir.path());
        let root = dir.path().join("runs-here").to_str().unwrap().to_owned();
        let settings = settings.with_argument("workspace_dir", root);
        let env = BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]);
        let mut runner = Runner::new(settings, env, Extensions::builtin());
        runner.shim = Some(yb_testkit::bin("yb-shim"));
        Self { dir, runner, steps: Vec::new() }
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.runner.env.insert(name.to_owned(), value.to_owned());
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs a case, which must be valid.
    pub(crate) async fn run(&mut self, text: &str) -> Result<FinishedRun, TrialError> {
        let file = self.path("case.yaml");
        std::fs::write(&file, text).unwrap();
        let loaded = yb_case::load(&file, &Extensions::builtin().load_options());
        let case = loaded.case.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics));
        let runner = &self.runner;
        runner.check(&case)?;
        runner.check_agent(&case).await?;
        let root = runner.settings.workspace_dir();
        let cache = root.join(yb_engine::run::CACHE);
        let start = runner.start_point(&case, &cache, None).await?;
        let run = RunDir::create(&root, "run", jiff::Timestamp::now()).unwrap();
        let store = runner.store(&run, &cache).await?;
        let steps = &mut self.steps;
        let mut on_step = |step: TrialStep| steps.push(format!("{step:?}"));
        let known = SharedStartTree::default();
        let attempt = AttemptContext {
            run: &run,
            store: &store,
            start: &start,
            known: &known,
            trial: "greeting",
            number: 1,
        };
        let finished = runner.attempt(&case, &cache, &attempt, &mut on_step).await?;
        let folder = run.artifacts("greeting", 1);
        Ok(FinishedRun { finished, run, folder })
    }

    /// Asserts that no file was created and no step was reported.
    fn assert_untouched(&self) {
        assert!(!self.path("runs-here").exists() && self.steps.is_empty(), "{:?}", self.steps);
    }
}

/// A finished trial with its directories.
#[derive(Debug)]
pub(crate) struct FinishedRun {
    finished: FinishedAttempt,
    pub(crate) run: RunDir,
    /// Its artifacts.
    folder: PathBuf,
}

impl std::ops::Deref for FinishedRun {
    type Target = FinishedAttempt;

    fn deref(&self) -> &FinishedAttempt {
        &self.finished
    }
}

/// A case whose agent is a shell command.
pub(crate) fn case(command: &str, rest: &str) -> String {
    let command = serde_json::to_string(command).unwrap();
    format!(
        "youbencha: 1
name: greeting
description: The script greets by name.
repo: repo
agent: {{ type: command, config: {{ prompt: Greet by name., command: {{ argv: [sh, -c, {command}] }} }} }}
evaluators: [{{ name: git-diff, config: {{ assertions: {{ max_files_changed: 1 }} }} }}]
{rest}"
    )
}

fn json(finished: &FinishedRun, file: &str) -> Value {
    serde_json::from_slice(&std::fs::read(finished.folder.join(file)).unwrap()).unwrap()
}

#[tokio::test]
async fn trial_reports_steps_in_order_and_writes_artifacts() {
    let mut world = World::new();
    let hook = "pre_execution: [{ name: script, config: { command: echo ready } }]";
    let finished = world.run(&case("echo 'echo Hello, $1' > greet.sh", hook)).await.unwrap();
    assert_eq!(finished.outcome, Outcome::Passed);
    let names: Vec<&str> =
        world.steps.iter().filter_map(|step| step.split([' ', '{']).find(|word| !word.is_empty())).collect();
    assert_eq!(names, ["Prepared", "Hook", "StartRecorded", "Acting", "Captured"]);
    for file in ["youbencha-log.json", "results.json", "git-diff.patch", "hooks.json"] {
        assert!(finished.folder.join(file).is_file(), "{file}");
    }
    assert_eq!(json(&finished, "hooks.json")[0]["output"], "ready");
    assert_eq!(json(&finished, "results.json")["summary"]["overall_status"], "passed");
    assert_eq!(finished.warnings, Vec::<String>::new());
    assert!(finished.run.objects().is_dir());
}

#[tokio::test]
async fn failed_evaluator_and_failed_agent_are_outcomes() {
    for (command, outcome) in [
        ("echo a > a; echo b > b", Outcome::Failed),
        ("exit 3", Outcome::AgentError),
        ("echo 'echo Hi' > greet.sh", Outcome::Passed),
    ] {
        let finished = World::new().run(&case(command, "")).await.unwrap();
        assert_eq!(finished.outcome, outcome, "{command}");
        assert_eq!(finished.results.outcome, outcome);
    }
}

#[tokio::test]
async fn start_can_be_a_branch_a_commit_or_plain_files() {
    let mut world = World::new();
    std::fs::create_dir(world.path("other")).unwrap();
    let commit = Repo::init(world.path("other")).write("a", "1\n").commit("first");
    let text =
        case("test -e a && echo x > x", "").replace("repo: repo", &format!("repo: other\ncommit: {commit}"));
    assert_eq!(world.run(&text).await.unwrap().outcome, Outcome::Passed);
    let text = case("test -e greet.sh && echo x > x", "").replace("repo: repo", "repo: repo\nbranch: main");
    let finished = world.run(&text).await.unwrap();
    assert_eq!((finished.outcome, finished.results.test_case.branch.as_str()), (Outcome::Passed, "main"));
    std::fs::create_dir(world.path("files")).unwrap();
    std::fs::write(world.path("files/plain"), "x").unwrap();
    let text = case("test -e plain && echo x > x", "").replace("repo: repo", "directory: files");
    assert_eq!(world.run(&text).await.unwrap().outcome, Outcome::Passed);
    let text = case("true", "").replace("repo: repo", "repo: repo\nbranch: nowhere");
    let error = world.run(&text).await.unwrap_err();
    assert!(error.is_configuration() && error.to_string().contains("nowhere"), "{error}");
}

#[tokio::test]
async fn variables_reach_the_agent_and_secrets_are_redacted() {
    let mut world = World::new().env("MY_TOKEN", "t0ken-of-the-user").env("NAME", "Ada");
    let command = "echo \"$MY_TOKEN $GREETING\" > greet.sh; echo \"$MY_TOKEN\"";
    let variables = "env: { MY_TOKEN: '${ENV:MY_TOKEN}', GREETING: 'Hello ${ENV:NAME}' }";
    let finished = world.run(&case(command, variables)).await.unwrap();
    let patch = std::fs::read_to_string(finished.folder.join("git-diff.patch")).unwrap();
    assert!(patch.contains("+[REDACTED:MY_TOKEN] Hello Ada"), "{patch}");
    assert!(!serde_json::to_string(&finished.log).unwrap().contains("t0ken-of-the-user"));
}

#[tokio::test]
async fn post_evaluation_hooks_do_not_change_the_outcome() {
    let mut world = World::new().env("WHERE", "out").env("USER", "ada");
    let history = world.path("out/history.jsonl");
    let short = "{ type: json-file, output_path: '${ENV:WHERE}/short.json', include_full_bundle: false, append: false }";
    let section = format!(
        "post_evaluation:
  - {{ name: script, config: {{ command: 'echo $USER', args: ['${{TEST_CASE_NAME}} is ${{OVERALL_STATUS}}', \"it's\"], env: {{ A: '${{ENV:WHERE}}' }}, working_dir: / }} }}
  - {{ name: script, config: {{ command: 'echo went wrong; exit 7' }} }}
  - {{ name: database, config: {{ type: json-file, output_path: '${{ENV:WHERE}}/history.jsonl' }} }}
  - {{ name: database, config: {short} }}
  - {{ name: database, config: {{ type: json-file, output_path: case.yaml/in-a-file }} }}
"
    );
    let text = case("echo x > x", &section);
    for _ in 0..2 {
        let finished = world.run(&text).await.unwrap();
        assert_eq!(finished.outcome, Outcome::Passed);
        let hooks = json(&finished, "hooks.json");
        assert_eq!(hooks[0]["output"], "ada greeting is passed it's");
        let succeeded: Vec<_> = hooks.as_array().unwrap().iter().map(|hook| &hook["succeeded"]).collect();
        assert_eq!(succeeded, [true, false, true, true, false], "{hooks}");
        assert_eq!(finished.warnings.len(), 2, "{:?}", finished.warnings);
    }
    let lines = std::fs::read_to_string(history).unwrap();
    assert_eq!(lines.lines().count(), 2, "one line for each run");
    let short: Value =
        serde_json::from_str(&std::fs::read_to_string(world.path("out/short.json")).unwrap()).unwrap();
    assert!(short["evaluators"][0].get("artifacts").is_none() && short["exported_at"].is_string(), "{short}");
}

#[tokio::test]
async fn failed_pre_execution_hook_ends_the_trial_with_its_output() {
    let mut world = World::new();
    let hook = "pre_execution: [{ name: script, config: { command: 'echo no tools here; exit 5' } }]";
    let error = world.run(&case("true", hook)).await.unwrap_err();
    assert!(matches!(error, TrialError::Hook { .. }) && !error.is_configuration(), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("exited with code 5") && text.contains("no tools here"), "{text}");
}

#[tokio::test]
async fn impossible_cases_are_rejected_before_files_are_created() {
    let missing = "env: [NOT_SET_ANYWHERE]";
    let judge = case("true", "").replace(
        "name: git-diff, config: { assertions: { max_files_changed: 1 } }",
        "name: agentic-judge, config: { type: copilot-cli, assertions: [It greets.] }",
    );
    let webhook =
        "post_evaluation: [{ name: webhook, config: { url: 'https://h.example/', headers: { Host: x } } }]";
    let no_program = case("true", "").replace("argv: [sh,", "argv: [no-such-program-anywhere,");
    let (before, after) = no_program.split_once("agent: ").unwrap();
    let after = after.split_once('\n').unwrap().1;
    let other_agent =
        format!("{before}agent: {{ type: copilot-cli, config: {{ prompt: Greet. }} }}\n{after}");
    for (text, message, configuration) in [
        (case("true", missing), "`NOT_SET_ANYWHERE`", true),
        (judge, "the judge is not available: Copilot is not installed", false),
        (case("true", webhook), "header can't be set: `Host`", true),
        (case("true", "").replace("argv: [sh,", "argv: [sh, '{model}',"), "names no model", true),
        (no_program, "is not found", false),
        (other_agent, "Copilot is not installed", false),
    ] {
        let mut world = World::new();
        let error = world.run(&text).await.unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!(error.is_configuration(), configuration, "{error}");
        assert!(!error.hints().is_empty(), "{error}");
        world.assert_untouched();
    }
}

#[tokio::test]
async fn unwritable_workspace_directory_is_reported() {
    let mut world = World::new();
    std::fs::write(world.path("runs-here"), "a file").unwrap();
    let error = world.run(&case("true", "")).await.unwrap_err();
    assert!(!error.is_configuration(), "{error:?}");
    assert!(error.to_string().contains("runs-here"), "{error}");
}

#[tokio::test]
async fn trial_cancelled_at_start_has_no_result() {
    let mut world = World::new();
    world.runner.stop.stop(StopCause::Interrupted);
    let error = world.run(&case("true", "")).await.unwrap_err();
    assert!(error.is_cancelled() && !error.is_configuration(), "{error:?}");
}

/// In a large repository, unchanged files are not read; an agent that sets the times of a file back does not hide its change.
#[tokio::test]
async fn changes_in_a_large_repository_are_captured_whatever_their_times() {
    let mut world = World::new();
    let repo = Repo::init(world.path("repo"));
    for number in 0..1000 {
        repo.write(format!("d{}/f{number}", number % 10), format!("file {number:04}\n"));
    }
    repo.commit("large");
    let command = "touch -r d1/f1 $TMPDIR/times && echo FILE 0001 > d1/f1 && touch -r $TMPDIR/times d1/f1 \
        && rm -r d2/f2 && mkdir new && mv d3/f3 new/f3 && chmod +x d4/f4 && rm -rf .git";
    for hook in ["", "pre_execution: [{ name: script, config: { command: echo hook > d5/f5 } }]"] {
        let finished = world.run(&case(command, hook)).await.unwrap();
        let patch = std::fs::read_to_string(finished.folder.join("git-diff.patch")).unwrap();
        let changed: Vec<&str> =
            patch.lines().filter_map(|line| line.strip_prefix("diff --git a/")?.split(' ').next()).collect();
        assert_eq!(changed, ["d1/f1", "d2/f2", "d4/f4", "d3/f3"], "{patch}");
        assert_eq!(finished.warnings, Vec::<String>::new());
    }
}

/// The same agent in an overlay and in a copy, which tries to make the host misread the overlay.
#[tokio::test]
async fn overlay_gives_the_same_result_as_a_copy() {
    let agent = "echo more >> d1/f1; rm d2/f2; mknod d5/f5 c 0 0; rm -r d3; mkdir d3; echo n > d3/n; chmod 755 d4/f4; \
        mv d6/f6 d6/moved; rm -rf .git; mkdir -p d7/.git; echo log > x.log; umount . ; true";
    let mut trees = Vec::new();
    for keep in [None, Some(true), Some(false)] {
        let mut world = World::new();
        let repo = Repo::init(world.path("repo"));
        for number in 0..1200 {
            repo.write(format!("d{}/f{number}", number % 20), format!("file {number}\n"));
        }
        repo.write(".gitignore", "*.log\n").commit("many files");
        if let Some(keep) = keep {
            world.runner.settings = world.runner.settings.clone().with_argument("keep_workspace", keep);
        }
        let text =
            case(agent, "isolation: bubblewrap\n").replace("max_files_changed: 1", "max_files_changed: 99");
        let finished = world.run(&text).await.unwrap();
        assert_eq!(finished.outcome, Outcome::Passed, "{:?}", finished.warnings);
        trees.push((finished.trees.clone(), finished.warnings.clone()));
        let attempt = finished.folder.parent().unwrap();
        let (workspace, layer) =
            (attempt.join("src-modified"), attempt.join(yb_engine::trial::WORKSPACE_LAYER));
        // A workspace that is not asked for is kept as its changed files.
        assert_eq!(workspace.exists(), keep == Some(true));
        assert_eq!(yb_repo::changed_files(&layer).is_some(), keep.is_none());
        assert!(!layer.join(yb_repo::WORK_DIR).exists());
        if keep.is_none() {
            yb_repo::materialize(&layer, &workspace).unwrap();
            assert!(workspace.join("d3/n").exists() && workspace.join("d8/f8").exists());
            assert!(!workspace.join("d2/f2").exists() && !workspace.join(".git").exists());
        }
    }
    assert_eq!(trees[0], trees[1]);
    assert_eq!(trees[0], trees[2]);
}

#[tokio::test]
async fn workspace_is_removed_unless_kept() {
    let mut world = World::new();
    world.runner.settings = world.runner.settings.clone().with_argument("keep_workspace", false);
    let finished = world.run(&case("echo x > x", "")).await.unwrap();
    let attempt = finished.folder.parent().unwrap();
    assert!(!attempt.join("src-modified").exists() && !attempt.join("private").exists());
}

/// Starts a server that accepts one request and never responds.
async fn silent() -> (std::net::SocketAddr, tokio::task::JoinHandle<String>, StopHandle) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, cancel) = (listener.local_addr().unwrap(), StopHandle::default());
    let came = cancel.clone();
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut bytes = vec![0; 1024];
        let count = stream.read(&mut bytes).await.unwrap();
        came.stop(StopCause::Interrupted);
        let mut rest = Vec::new();
        // Returns when the client closes the connection.
        drop(stream.read_to_end(&mut rest).await);
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    });
    (address, served, cancel)
}

#[tokio::test]
async fn cancelled_webhook_does_not_change_the_outcome() {
    let mut world = World::new();
    world.runner.hosts = HostPolicy::AllowPrivate;
    let (address, served, came) = silent().await;
    // Without cancellation the request would take this long.
    let hook = format!(
        "post_evaluation: [{{ name: webhook, config: {{ url: 'http://{address}/', include_artifacts: true, timeout_ms: 3600000 }} }}]"
    );
    world.runner.stop = came;
    let finished = world.run(&case("echo x > x", &hook)).await.unwrap();
    assert_eq!(finished.outcome, Outcome::Passed);
    let hooks = json(&finished, "hooks.json");
    assert_eq!((&hooks[0]["succeeded"], &hooks[0]["message"]), (&false.into(), &"cancelled".into()));
    assert!(finished.warnings[0].contains("cancelled"), "{:?}", finished.warnings);
    assert!(served.await.unwrap().starts_with("POST / HTTP/1.1\r\n"));
}

/// Uses a shell script in place of `claude`, because each call needs another response.
#[cfg(unix)]
#[tokio::test]
async fn claude_code_receives_its_variables_and_expanded_mcp_servers() {
    use std::os::unix::fs::PermissionsExt as _;
    let frame = r#"{"type":"result","subtype":"success","result":"ok","num_turns":1}"#;
    let script = format!(
        "#!/bin/sh
case \"$1\" in --version) echo '2.1.325 (Claude Code)'; exit;; auth) echo '{{\"loggedIn\": true}}'; exit;; esac
cat > prompt; echo \"${{UNRELATED:-unset}} $ANTHROPIC_BASE_URL\" > env; for a in \"$@\"; do echo \"$a\"; done > args
echo '{frame}'
"
    );
    let mut world = World::new()
        .env("ANTHROPIC_API_KEY", "key-0123456789")
        .env("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
        .env("UNRELATED", "x")
        .env("PORT", "4711");
    let program = world.path("claude");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    world.runner.env.insert("YB_CLAUDE".to_owned(), program.to_str().unwrap().to_owned());
    let text = "youbencha: 1
name: greeting
description: The script greets by name.
repo: repo
isolation: external
agent:
  type: claude-code
  model: claude-opus-5-5
  config:
    prompt: Greet by name.
    max_turns: 3
    mcp_servers: { mine: { type: http, url: 'http://127.0.0.1:${ENV:PORT}/mcp' } }
evaluators: [{ name: git-diff }]
";
    let finished = world.run(text).await.unwrap();
    assert_eq!(finished.outcome, Outcome::Passed, "{:?}", finished.log.errors);
    let left = |file: &str| {
        let workspace = finished.folder.parent().unwrap().join("src-modified");
        std::fs::read_to_string(workspace.join(file)).unwrap()
    };
    // The base URL is that of the proxy that observes the API.
    let env = left("env");
    assert!(env.starts_with("unset http://127.0.0.1:") && env != "unset http://127.0.0.1:9\n", "{env}");
    assert!(left("args").contains("--max-turns=3") && left("args").contains("--model=claude-opus-5-5"));
    assert!(left("prompt").contains("Greet by name."));
    let unset = text.replace("ENV:PORT", "ENV:NO_SUCH_PORT");
    assert!(
        matches!(world.run(&unset).await, Err(TrialError::NoVariable { name }) if name == "NO_SUCH_PORT")
    );
}

/// The second of two trials of a combination uses the start tree that the first one recorded.
#[tokio::test]
async fn trials_without_hooks_share_the_start_tree() {
    let world = World::new();
    let file = world.path("case.yaml");
    std::fs::write(&file, case("echo more >> greet.sh", "")).unwrap();
    let case = yb_case::load(&file, &Extensions::builtin().load_options()).case.unwrap();
    let (runner, root) = (&world.runner, world.runner.settings.workspace_dir());
    let cache = root.join(yb_engine::run::CACHE);
    let start = runner.start_point(&case, &cache, None).await.unwrap();
    let run = RunDir::create(&root, "run", jiff::Timestamp::now()).unwrap();
    let store = runner.store(&run, &cache).await.unwrap();
    let known = SharedStartTree::default();
    let mut trees = Vec::new();
    for trial in ["one", "two"] {
        let attempt =
            AttemptContext { run: &run, store: &store, start: &start, known: &known, trial, number: 1 };
        let finished = runner.attempt(&case, &cache, &attempt, &mut |_| {}).await.unwrap();
        assert_eq!(finished.results.evaluators[0].metrics["lines_added"], 1);
        let named = std::fs::read_to_string(run.objects().join(format!("refs/trials/{trial}/start")));
        trees.push((finished.trees.clone(), named.unwrap()));
    }
    assert_eq!(trees[0], trees[1]);
}
