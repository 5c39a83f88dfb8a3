//! `yb list` and `yb doctor`.

use std::path::Path;

use insta::assert_snapshot;
use serde_json::Value;
use yb_testkit::{Invocation, RealClaude, TestContext};

use crate::YB;

/// Creates a program in `bin`, which is first in PATH.
fn program(context: &TestContext, name: &str, script: &str) {
    let path = context.write(Path::new("bin").join(name), format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

/// Prepares `yb` with this Claude Code.
fn yb(context: &TestContext, args: &[&str], claude: &str) -> Invocation {
    let path = format!("{}:{}", context.dir().join("bin").display(), std::env::var("PATH").unwrap());
    context.command(YB).args(args).env("PATH", path).env("YB_CLAUDE", claude)
}

fn with_claude(context: &TestContext, logged_in: bool) -> String {
    let script = format!(
        "case $1 in --version) echo '2.1.325 (Claude Code)';; auth) echo '{{\"loggedIn\": {logged_in}, \
         \"authMethod\": \"oauth_token\", \"apiProvider\": \"firstParty\"}}';; esac"
    );
    program(context, "claude", &script);
    context.dir().join("bin/claude").to_string_lossy().into_owned()
}

fn checks(outcome: &yb_testkit::Outcome) -> Vec<Value> {
    let answer: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(answer["exit_code"], outcome.code.unwrap());
    answer["checks"].as_array().unwrap().clone()
}

fn check<'a>(checks: &'a [Value], name: &str) -> &'a Value {
    checks.iter().find(|check| check["check"] == name).unwrap_or_else(|| panic!("no check `{name}`"))
}

#[test]
fn list_prints_agents_and_evaluators() {
    let context = TestContext::new();
    let claude = with_claude(&context, true);
    assert_snapshot!(yb(&context, &["list"], &claude).run().snapshot(), @r"
    exit code: 0
    ----- stdout -----
    Agents
      claude-code     Claude Code 2.1.325 is ready (oauth_token, firstParty): [TEMP]/work/bin/claude
      copilot-cli     not found; run `yb doctor` for details
      codex           not found; run `yb doctor` for details
      gemini          not found; run `yb doctor` for details
      opencode        not found; run `yb doctor` for details
      acp             runs any program named in the case
      command         runs any program named in the case

    Evaluators
      git-diff        how much changed, against limits: files, lines, and their distribution
      expected-diff   how similar the result and the expected one are, from 0 to 1
      command         a build, a test run, a linter: exit code, output, and passed tests
      probe           the program itself: inputs by arguments, stdin, files or HTTP, and expected outputs
      reward-file     a script in the root of the case, as the agent left it, that writes a reward
      files           which files exist, what they contain, and which are unchanged
      trajectory      which tools the agent called, how often, in which order, and which calls failed
      activation      whether the agent used its plugins, skills, MCP servers and agents
      budget          tokens, cost, duration and turns, against limits
      answer          the final message of the agent, as text or as JSON
      agentic-judge   scores that another agent gives to each assertion
      weighted-score  the weighted share of graders that pass: regular expressions, tools, files, judges
    ----- stderr -----
    ");
    let outcome = yb(&context, &["list", "agents"], "/nowhere/claude").run();
    assert_eq!(outcome.code, Some(0));
    assert!(
        outcome.stdout.contains("  claude-code     not found; run `yb doctor` for details\n"),
        "{}",
        outcome.stdout
    );
    let settings = outcome.stdout.split_once("\n\n").unwrap().1;
    assert_snapshot!(settings, @r"
    Settings               claude-code  copilot-cli  codex  gemini  opencode  acp  command
      agent_name           yes          yes          -      yes     yes       -    -
      agents               yes          yes          -      yes     yes       -    -
      append_system_prompt yes          -            yes    yes     yes       -    -
      system_prompt        yes          -            yes    yes     yes       -    -
      permission_mode      yes          yes          yes    yes     yes       yes  -
      tools                yes          yes          -      yes     yes       -    -
      allowed_tools        yes          yes          -      yes     yes       -    -
      disallowed_tools     yes          yes          -      yes     yes       -    -
      max_tokens           yes          -            -      -       -         -    -
      temperature          yes          -            -      -       -         -    -
      max_turns            yes          -            -      yes     -         -    -
      mcp_servers          yes          yes          yes    yes     yes       yes  -
      mcp                  yes          yes          yes    yes     yes       -    -
      plugins              yes          -            -      -       -         -    -
      skills               yes          -            -      -       -         -    -
      instructions         yes          yes          yes    yes     yes       -    -
      effort               yes          yes          yes    -       yes       -    -
      settings             yes          -            -      yes     yes       -    -
      add_dirs             yes          yes          yes    yes     -         -    -
      extra_args           yes          yes          yes    yes     yes       -    -
    ");
    let claude = with_claude(&context, false);
    let outcome = yb(&context, &["list", "agents", "--json"], &claude).run();
    let list: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let claude = &list["agents"][0];
    assert_eq!(claude["name"], "claude-code");
    assert_eq!((&claude["status"], &claude["version"]), (&"not_authenticated".into(), &"2.1.325".into()));
    assert_eq!(claude["hints"][0], "log in: `claude auth login`");
    let codex = &list["agents"][2];
    assert_eq!((&codex["name"], &codex["status"]), (&"codex".into(), &"missing".into()));
    assert!(codex["settings"].as_array().unwrap().contains(&"effort".into()), "{codex}");
    let command = &list["agents"][6];
    assert_eq!((&command["status"], &command["version"]), (&"any_program".into(), &Value::Null));
}

#[test]
fn missing_agent_is_absent_and_unauthenticated_agent_is_a_warning() {
    let context = TestContext::new();
    let claude = with_claude(&context, true);
    program(&context, "codex", "echo codex-cli 0.166.0");
    let checks = checks(&yb(&context, &["doctor", "--json"], &claude).run());
    assert_eq!(check(&checks, "copilot-cli")["level"], "absent");
    let codex = check(&checks, "codex");
    assert_eq!(codex["level"], "warning");
    assert!(codex["message"].as_str().unwrap().contains("Codex 0.166.0 requires authentication"), "{codex}");
    assert!(codex["fix"].as_str().unwrap().contains("codex login"), "{codex}");
}

/// `yb list` and `yb run` agree.
#[test]
fn listed_evaluators_are_accepted() {
    let context = TestContext::new();
    context.run(YB, ["init"]);
    let list = context.run(YB, ["list", "evaluators", "--json"]);
    let list: Value = serde_json::from_str(&list.stdout).unwrap();
    let case = context.read("testcase.yaml");
    let head = case.split_once("evaluators:").unwrap().0;
    for known in list["evaluators"].as_array().unwrap() {
        let name = known["name"].as_str().unwrap();
        let config = match name {
            "agentic-judge" => "{ type: claude-code, assertions: [it greets] }",
            _ => "{}",
        };
        context.write("testcase.yaml", format!("{head}evaluators: [{{ name: {name}, config: {config} }}]\n"));
        let outcome = yb(&context, &["run", "-c", "testcase.yaml"], "/nowhere/claude").run();
        let refused = outcome.stderr.contains("not supported yet");
        assert_eq!(!refused, known["runs"].as_bool().unwrap(), "{name}: {}", outcome.stderr);
    }
}

#[test]
fn doctor_is_ready_with_an_agent() {
    let context = TestContext::new();
    let claude = with_claude(&context, true);
    let outcome = yb(&context, &["doctor", "--json"], &claude).run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stdout);
    let checks = checks(&outcome);
    let agent = check(&checks, "claude-code");
    assert_eq!(agent["level"], "ok");
    assert!(agent["message"].as_str().unwrap().contains("oauth_token, firstParty"), "{agent}");
    for name in
        ["git", "containment", "bubblewrap", "workspace", "disk", "memory", "open files", "configuration"]
    {
        check(&checks, name);
    }
    assert!(!context.dir().join(".youbencha-workspace").exists(), "it only looks");
    let words = yb(&context, &["doctor"], &claude).run();
    assert!(
        words.stdout.contains("\nok       containment ") && words.stdout.contains("\nready"),
        "{}",
        words.stdout
    );
}

#[test]
fn doctor_names_credentials_without_values() {
    let context = TestContext::new();
    let claude = with_claude(&context, false);
    for args in [&["doctor"][..], &["doctor", "--json"], &["list"], &["list", "--json"]] {
        let outcome = yb(&context, args, &claude).env("ANTHROPIC_API_KEY", "do-not-print-me").run();
        assert_eq!(outcome.code, Some(0), "{}", outcome.stdout);
        assert!(outcome.stdout.contains("`ANTHROPIC_API_KEY` is set"), "{}", outcome.stdout);
        assert!(!format!("{}{}", outcome.stdout, outcome.stderr).contains("do-not-print-me"));
    }
}

#[test]
fn doctor_without_an_agent_is_exit_code_3() {
    let context = TestContext::new();
    let outcome = yb(&context, &["doctor", "--json"], "/nowhere/claude").run();
    assert_eq!(outcome.code, Some(3));
    let none = checks(&outcome);
    assert_eq!(
        (&check(&none, "codex")["level"], &check(&none, "agents")["level"]),
        (&"absent".into(), &"problem".into())
    );
    assert!(check(&none, "agents")["fix"].as_str().unwrap().contains("`yb demo`"));
    let words = yb(&context, &["doctor"], "/nowhere/claude").run().stdout;
    assert!(words.ends_with("\nnot ready: 1 problem\n"), "{words}");
    let claude = with_claude(&context, false);
    let outcome = yb(&context, &["doctor", "--json"], &claude).run();
    assert_eq!(outcome.code, Some(3));
    let checks = checks(&outcome);
    assert_eq!(check(&checks, "claude-code")["level"], "problem");
    assert!(check(&checks, "claude-code")["fix"].as_str().unwrap().contains("claude auth login"));
}

#[test]
fn doctor_reports_an_old_git_with_exit_code_4() {
    let context = TestContext::new();
    let claude = with_claude(&context, true);
    program(&context, "git", "echo git version 2.38.5");
    let outcome = yb(&context, &["doctor", "--json"], &claude).run();
    assert_eq!(outcome.code, Some(4), "{}", outcome.stdout);
    let checks = checks(&outcome);
    let git = check(&checks, "git");
    assert!(git["message"].as_str().unwrap().starts_with("too old or broken, 2.38.5: "), "{git}");
    assert!(git["fix"].as_str().unwrap().contains("first in PATH"), "{git}");

    let path = context.dir().join("bin");
    std::fs::remove_file(path.join("git")).unwrap();
    let outcome = yb(&context, &["doctor"], &claude).env("PATH", path).run();
    assert_eq!(outcome.code, Some(4));
    assert!(outcome.stdout.starts_with("problem  git            not found on PATH\n"), "{}", outcome.stdout);
}

#[test]
fn doctor_reports_an_unwritable_workspace() {
    let context = TestContext::new();
    let claude = with_claude(&context, true);
    // Not even root can create a file there.
    let doctor = yb(&context, &["doctor", "--json"], &claude).env("YB_WORKSPACE_DIR", "/proc/self");
    let outcome = doctor.run();
    assert_eq!(outcome.code, Some(4), "{}", outcome.stdout);
    let checks = checks(&outcome);
    assert!(check(&checks, "workspace")["fix"].as_str().unwrap().contains("yb config set workspace_dir"));
    let outcome = yb(&context, &["doctor", "--json"], &claude).env("YB_TIMEOUT_MS", "soon").run();
    assert_eq!(check(&self::checks(&outcome), "configuration")["level"], "warning");
}

#[test]
fn real_claude_is_found_with_its_version() {
    let (context, claude) = (TestContext::new(), RealClaude::new());
    let program = claude.program().to_string_lossy().into_owned();
    let list = |context: &TestContext| {
        let outcome = yb(context, &["list", "agents", "--json"], &program).run();
        let list: Value = serde_json::from_str(&outcome.stdout).unwrap();
        list["agents"][0].clone()
    };
    let agent = list(&context);
    assert_eq!(agent["version"], RealClaude::pinned_version().as_str());
    assert_eq!(agent["status"], "not_authenticated");
}
