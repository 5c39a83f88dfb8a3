//! Files of users of the original: every shape of its cases and eval files validates and, with fake agents, runs.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use yb_testkit::git::Repo;
use yb_testkit::{Outcome, TestContext};

use crate::YB;

/// A Copilot that changes the README, or answers as a judge.
const COPILOT: &str = r#"#!/bin/sh
case "$1" in --version) echo "GitHub Copilot CLI 1.0.102."; exit;; esac
n=$(sed -n 's/.*"answer_to": "\([0-9a-f]*\)".*/\1/p' | tail -1)
if [ -n "$n" ]; then
  said="{\\\"answer_to\\\":\\\"$n\\\",\\\"status\\\":\\\"passed\\\",\\\"metrics\\\":{\\\"good\\\":1},\\\"message\\\":\\\"seen\\\"}"
else
  echo changed >> README.md; said=Done.
fi
printf '{"type":"assistant.message","data":{"messageId":"m","content":"%s","model":"gpt-5"}}\n' "$said"
echo '{"type":"result","exitCode":0,"sessionId":"s"}'
"#;

/// A Claude Code that changes the README.
const CLAUDE: &str = r#"#!/bin/sh
case "$1" in --version) echo "2.1.325 (Claude Code)"; exit;; auth) echo '{"loggedIn":true}'; exit;; esac
cat > /dev/null; echo changed >> README.md
echo '{"type":"system","subtype":"init","session_id":"s","model":"claude-sonnet-4-5","claude_code_version":"2.1.325"}'
echo '{"type":"result","subtype":"success","result":"Done.","num_turns":1,"session_id":"s"}'
"#;

const HEAD: &str =
    "name: \"README comment\"\ndescription: \"Adds a comment to the README\"\nrepo: ${BASE}/project\n";
const COPILOT_AGENT: &str =
    "agent:\n  type: copilot-cli\n  config:\n    prompt: \"Add a comment to the README of the project\"\n";
const JUDGE: &str = "
  - name: agentic-judge
    config:
      type: copilot-cli
      agent_name: agentic-judge
      assertions:
        good: \"The README has a new line. Score 1 if true, 0 if false.\"
";
const DIFF: &str = "
  - name: git-diff
    config:
      assertions:
        max_files_changed: 5
";

fn world() -> TestContext {
    let context = TestContext::new();
    std::fs::create_dir(context.dir().join("project")).unwrap();
    let repo = Repo::init(context.dir().join("project"));
    repo.write("README.md", "start\n").commit("start");
    for (name, text) in [("copilot", COPILOT), ("claude", CLAUDE)] {
        context.write(format!("bin/{name}"), text);
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(context.dir().join("bin").join(name), mode).unwrap();
    }
    let base = context.dir().display().to_string();
    let config = format!(
        "workspace_dir: .youbencha-workspace\ntimeout_ms: 300000\nlog_level: info\nkeep_workspace: true\n\
        variables:\n  BASE: {base}\n  PROJECT: project\nagent:\n  timeout_ms: 600000\nevaluators:\n  max_concurrent: 4\n"
    );
    context.write(".youbencharc", config);
    assert_eq!(context.run(YB, ["install-agents"]).code, Some(0));
    let helper = "---\nname: helper\ndescription: Helps.\n---\n\nHelp.\n";
    context.write(".github/agents/helper.agent.md", helper);
    context.write(".claude/agents/helper.md", helper);
    context.write("prompts/task.md", "Add a comment to the README of the project\n");
    context.write("prompts/judge.md", "Judge with care.\n");
    context.write("prompts/template.txt", "Judge this:\n{{ASSERTIONS}}\n");
    context.write("scripts/setup.sh", "echo prepared > prepared.txt\n");
    context.write(
        "evaluators/focused.yaml",
        "name: git-diff\ndescription: few files\nconfig:\n  assertions:\n    max_files_changed: 3\n",
    );
    let judge = json!({ "name": "agentic-judge-grammar", "description": "grammar", "config": { "type": "copilot-cli",
        "agent_name": "agentic-judge", "assertions": { "good": "The grammar is right." } } });
    context.write("evaluators/grammar.json", judge.to_string());
    context
}

fn run(context: &TestContext, args: &[&str]) -> Outcome {
    let bin = context.dir().join("bin");
    let command = context
        .command(YB)
        .args(args)
        .env("GH_TOKEN", "gho_0123456789")
        .env("ANTHROPIC_API_KEY", "sk-0123456789");
    let copilot = bin.join("copilot").display().to_string();
    let claude = bin.join("claude").display().to_string();
    command.env("YB_COPILOT", &copilot).env("YB_CLAUDE", &claude).run()
}

/// The shapes, by name of the file.
fn cases() -> Vec<(&'static str, String)> {
    let copilot = |evaluators: &str| format!("{HEAD}{COPILOT_AGENT}evaluators:{evaluators}");
    let claude = |config: &str| {
        format!("{HEAD}agent:\n  type: claude-code\n{config}evaluators:{DIFF}timeout: 600000\n")
    };
    let expected = format!("{HEAD}expected_source: branch\nexpected: main\n");
    vec![
        ("basic.yaml", copilot(&format!("\n  - name: git-diff{JUDGE}"))),
        (
            "basic.json",
            json!({ "name": "README comment", "description": "d", "repo": "${BASE}/project", "branch": "main",
                "agent": { "type": "copilot-cli", "config": { "prompt": "Add a comment to the README" } },
                "evaluators": [{ "name": "git-diff" }] })
            .to_string(),
        ),
        (
            "agent-name.yaml",
            copilot(DIFF).replacen("type: copilot-cli\n", "type: copilot-cli\n  agent_name: helper\n", 1),
        ),
        ("named-agent.yaml", claude("  config:\n    agent: helper\n    prompt: Add a comment to the README\n")),
        ("claude-simple.yaml", claude("  config:\n    prompt: Add a comment to the README\n")),
        (
            "claude-advanced.yaml",
            claude(
                "  model: claude-sonnet-4-5-20250929\n  config:\n    prompt: Add a comment to the README\n    \
                 append_system_prompt: Be brief.\n    permission_mode: acceptEdits\n    allowed_tools:\n      - Read\n      \
                 - Write\n      - Bash\n    max_tokens: 8192\n    temperature: 0.7\n",
            ),
        ),
        (
            "custom-instructions.yaml",
            copilot("\n  - name: agentic-judge\n    config:\n      type: copilot-cli\n      instructions-file: ./prompts/template.txt\n      criteria:\n        good: It is good.\n"),
        ),
        ("evaluator-prompt-file.yaml", copilot(&JUDGE.replace("      assertions", "      prompt_file: ./prompts/judge.md\n      assertions"))),
        (
            "expected-ref.yaml",
            format!("{expected}{COPILOT_AGENT}evaluators:\n  - name: expected-diff\n    config:\n      threshold: 0.1\n"),
        ),
        (
            "git-diff-thresholds.yaml",
            copilot("\n  - name: git-diff\n    config:\n      base_commit: HEAD\n      assertions:\n        max_files_changed: 5\n        max_lines_added: 100\n        max_lines_removed: 50\n        max_total_changes: 150\n        min_change_entropy: 0\n        max_change_entropy: 2.0\n        max_lines_changed: 7\n        include_entropy: true\n"),
        ),
        (
            "multiple-judges.yaml",
            copilot(&format!("{}{}", JUDGE.replace("agentic-judge\n    config", "agentic-judge-style\n    config"), JUDGE.replace("- name: agentic-judge\n", "- name: agentic-judge:safety\n"))),
        ),
        (
            "pre-execution.yaml",
            copilot(DIFF).replace("evaluators:", "pre_execution:\n  - name: script\n    config:\n      command: echo\n      args: [\"${TEST_CASE_NAME}\", \"${WORKSPACE_DIR}\"]\n      env: { A: b }\n      timeout_ms: 10000\n  - name: script\n    config:\n      command: sh \"$YB_CASE_DIR\"/scripts/setup.sh\nevaluators:"),
        ),
        ("prompt-file.yaml", format!("{HEAD}agent:\n  type: copilot-cli\n  config:\n    prompt_file: ./prompts/task.md\nevaluators:{DIFF}")),
        ("reusable.yaml", copilot("\n  - file: ./evaluators/focused.yaml\n  - file: ./evaluators/grammar.json\n")),
        ("with-model.yaml", copilot(DIFF).replacen("type: copilot-cli\n", "type: copilot-cli\n  model: gpt-5.1-codex-mini\n", 1)),
        (
            "post-evaluation.yaml",
            format!("{}post_evaluation:\n  - name: database\n    config:\n      type: json-file\n      output_path: ./history.jsonl\n      include_full_bundle: true\n      append: true\n  - name: script\n    config:\n      command: echo\n      args: [\"${{RESULTS_PATH}}\", \"${{OVERALL_STATUS}}\"]\n      timeout_ms: 30000\n", copilot(DIFF)),
        ),
        (
            "with-variables.yaml",
            copilot(DIFF).replace("README comment", "${PROJECT} comment").replace("/project", "/${PROJECT}") + "workspace_name: my-run\nworkspace_dir: ./elsewhere\n",
        ),
    ]
}

#[test]
fn every_shape_of_the_originals_cases_validates_and_runs() {
    let context = world();
    for (file, text) in cases() {
        context.write(file, text);
        let outcome = run(&context, &["validate", "-c", file]);
        assert_eq!(outcome.code, Some(0), "{file}: {}{}", outcome.stdout, outcome.stderr);
        let outcome = run(&context, &["run", "-c", file, "--isolation", "external", "--no-check"]);
        assert_eq!(outcome.code, Some(0), "{file}: {}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stdout.contains(": passed\n"), "{file}: {}", outcome.stdout);
    }
    assert!(context.read("history.jsonl").contains("\"README comment\""));
    assert!(context.dir().join("elsewhere/runs").is_dir());
}

#[test]
fn every_shape_of_the_originals_eval_files_validates_and_grades() {
    let context = world();
    context.write("out/a.txt", "x\n");
    context.write("wanted/a.txt", "x\n");
    let judge = json!({ "type": "copilot-cli", "agent_name": "agentic-judge", "assertions": { "good": "It is good." } });
    for (file, eval) in [
        (
            "simple.yaml",
            json!({ "name": "E", "description": "d", "directory": "./out", "output_dir": ".youbencha-eval",
            "evaluators": [{ "name": "git-diff" }, { "name": "agentic-judge", "config": judge }] }),
        ),
        (
            "simple.json",
            json!({ "name": "E", "description": "d", "directory": ".", "evaluators": [{ "name": "git-diff" }] }),
        ),
        (
            "expected.yaml",
            json!({ "name": "E", "description": "d", "directory": "./out", "expected_directory": "./wanted",
            "evaluators": [{ "name": "expected-diff", "config": { "threshold": 0.85 } }],
            "post_evaluation": [{ "name": "database", "config": { "type": "json-file", "output_path": "./h.jsonl" } }] }),
        ),
    ] {
        context.write(file, eval.to_string());
        let outcome = run(&context, &["validate", "-c", file]);
        assert_eq!(outcome.code, Some(0), "{file}: {}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stdout.contains("an eval file, for `yb eval`"), "{file}: {}", outcome.stdout);
        let outcome = run(&context, &["eval", "-c", file, "--isolation", "external"]);
        assert_eq!(outcome.code, Some(0), "{file}: {}{}", outcome.stdout, outcome.stderr);
    }
    // A case without an agent is no eval file.
    context.write(
        "case.yaml",
        json!({ "name": "C", "description": "d", "repo": "project", "evaluators": ["git-diff"] }).to_string(),
    );
    let outcome = run(&context, &["validate", "-c", "case.yaml"]);
    assert!(outcome.stdout.contains("missing key: `agent`"), "{}", outcome.stdout);
}

/// The directory in an eval file started at the working directory. Where it exists beside the file too, a warning says so.
#[test]
fn ambiguous_directory_of_an_older_eval_file_is_a_warning() {
    let context = world();
    context.write(
        "evals/one.yaml",
        json!({ "name": "E", "description": "d", "directory": ".",
        "evaluators": [{ "name": "git-diff" }] })
        .to_string(),
    );
    let outcome = run(&context, &["eval", "-c", "evals/one.yaml", "--isolation", "external"]);
    let printed = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(printed.contains("the original youBencha used the working directory"), "{printed}");
}
