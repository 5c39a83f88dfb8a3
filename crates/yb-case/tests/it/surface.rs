//! The tables of the original's surface, row by row: accepted and refused values.

use yb_case::PrivateHosts;

use crate::case::{builtin, messages};
use crate::rules::{BASE, accepts, long, parse, rejects, warns, with};

#[test]
fn surface_name_1_to_200_and_required() {
    accepts(&["name: x", &long("name", 200)]);
    rejects("name", &["name: ''", &long("name", 201), "name: 5", "name: [a]"]);
    let missing = parse(&BASE.replace("name: A case\n", ""));
    assert_eq!(messages(&missing), "1:1: error: missing key: `name` [name]");
}

#[test]
fn surface_description_1_to_1000_and_required() {
    accepts(&[&long("description", 1000)]);
    rejects("description", &["description: ''", &long("description", 1001)]);
    let missing = parse(&BASE.replace("description: About something.\n", ""));
    assert_eq!(messages(&missing), "1:1: error: missing key: `description` [description]");
}

#[test]
fn surface_repo_is_a_public_url_or_local() {
    let here = tempfile::tempdir().unwrap();
    let path = here.path().display();
    accepts(&[
        "repo: http://example.com/x",
        "repo: https://8.8.8.8/x.git",
        "repo: ssh://git@github.com/a/b.git",
        "repo: git@github.com:a/b.git",
        &format!("repo: file://{path}"),
        &format!("repo: {path}"),
    ]);
    rejects(
        "repo",
        &[
            "repo: ''",
            "repo: not-a-url",
            "repo: ftp://example.com/x",
            "repo: https://",
            "repo: --upload-pack=evil",
            "repo: ext::sh -c evil",
            "repo: ./nothing-here",
            "repo: file:///nothing/here",
            "repo: http://localhost/x",
            "repo: http://127.0.0.1:8080/x",
            "repo: http://127.1/x",
            "repo: http://2130706433/x",
            "repo: http://0.0.0.0/x",
            "repo: 'http://[::1]/x'",
            "repo: 'http://[::ffff:10.0.0.1]/x'",
            "repo: 'http://[fe80::1]/x'",
            "repo: 'http://[fd00::1]/x'",
            "repo: http://192.168.0.1/x",
            "repo: http://10.1.2.3/x",
            "repo: http://172.16.0.1/x",
            "repo: http://172.31.0.1/x",
            "repo: http://169.254.169.254/x",
            "repo: http://user@10.0.0.1/x",
            "repo: git@10.0.0.1:a/b.git",
        ],
    );
    accepts(&["repo: http://172.32.0.1/x"]);
    let private = BASE.replace("github.com", "10.0.0.1");
    let allowed = builtin().with_private_hosts(PrivateHosts::Allowed);
    assert!(yb_case::parse("case.yaml".as_ref(), private.as_bytes(), &allowed).case.is_some());
    let case = warns("repo: https://me:secret@example.com/x", "credentials in the repository URL");
    assert!(!case.start.to_string().contains("secret"), "{}", case.start);
}

#[test]
fn surface_branch_and_commit_are_strings() {
    accepts(&["branch: main", "commit: abc123"]);
    rejects("branch", &["branch: 1", "branch: --evil", "branch: a b", "branch: ''"]);
    rejects("commit", &["commit: 1234567", "commit: -x"]);
}

#[test]
fn surface_agent_type() {
    let agent = |kind: &str| format!("agent: {{ type: {kind}, config: {{ prompt: Do what is asked. }} }}");
    accepts(&[&agent("claude-code"), &agent("copilot-cli"), &agent("command")]);
    rejects(
        "agent.type",
        &[&agent("claude"), &agent("1"), "agent: { config: { prompt: Do what is asked. } }"],
    );
    rejects("agent", &["agent: claude-code", "agent:"]);
    assert_eq!(
        with(&agent("claud-code")).diagnostics[0].hint.as_deref(),
        Some("did you mean `claude-code`?")
    );
}

#[test]
fn surface_expected() {
    accepts(&["expected: done"]);
    rejects("expected", &["expected_source: branch", "expected_source: path", "expected: 5"]);
    let both = parse(&format!("{BASE}expected_source: branch\nexpected: done\n"));
    assert_eq!(both.case.unwrap().expected, Some(yb_case::Expected::Branch("done".to_owned())));
}

#[test]
fn surface_evaluators_at_least_one() {
    accepts(&[
        "evaluators: [{ name: 'agentic-judge:x', config: { type: claude-code, assertions: { a: b } } }]",
    ]);
    rejects(
        "evaluators",
        &[
            "evaluators: []",
            "evaluators: git-diff",
            "evaluators: [5]",
            "evaluators: [{ config: {} }]",
            "evaluators: [{ name: git-diff, file: x.yaml }]",
            "evaluators: [{ name: git-diff, conf: {} }]",
            "evaluators: [{ name: git-diff, config: [] }]",
            "evaluators: [{ name: git-diff, config: { asertions: {} } }]",
            "evaluators: [{ name: git-diff, config: { assertions: { max_files: 1 } } }]",
            "evaluators: [{ name: git-diff, config: { assertions: { max_files_changed: -1 } } }]",
            "evaluators: [{ name: git-diff, config: { assertions: { max_files_changed: 1.5 } } }]",
            "evaluators: [{ name: expected-diff, config: { threshold: 1.1 } }]",
            "evaluators: [{ name: agentic-judge, config: { assertions: [x] } }]",
            "evaluators: [{ name: agentic-judge, config: { type: claude-code, prompt: a, prompt_file: b } }]",
            "evaluators: [{ name: agentic-judge, config: { type: claude-code, prompt_file: ../b } }]",
            "evaluators: [{ name: agentic-judge-x, config: { type: claude-code, timeout: 0 } }]",
            "evaluators: [{ name: no-such }]",
            "evaluators: [{ file: nothing.yaml }]",
            "evaluators: [{ file: ../x.yaml }]",
            "evaluators: [{ file: /etc/passwd }]",
        ],
    );
}

#[test]
fn surface_evaluators_without_assertions_are_vacuous() {
    const VACUOUS: &str = "vacuous: it asserts nothing, so it always passes: ";
    for (evaluator, name) in [
        ("git-diff", "git-diff"),
        ("{ name: git-diff }", "git-diff"),
        ("{ name: git-diff, config: { assertions: {} } }", "git-diff"),
        ("{ name: agentic-judge, config: { type: claude-code } }", "agentic-judge"),
        ("{ name: 'agentic-judge:a', config: { type: claude-code, criteria: [] } }", "agentic-judge:a"),
    ] {
        let case = warns(&format!("evaluators: [{evaluator}]"), &format!("{VACUOUS}`{name}`"));
        assert!(case.evaluators[0].vacuous);
    }
    // An evaluator that can never work is reported before an agent costs money.
    rejects("evaluators[0]", &["evaluators: [expected-diff]"]);
    let twice = "[{ name: git-diff, config: &c { assertions: { max_files_changed: 1 } } }, { name: git-diff, config: *c }]";
    warns(&format!("evaluators: {twice}"), "evaluator named twice: `git-diff`");
}

#[test]
fn surface_hooks() {
    let pre = |config: &str| format!("pre_execution: [{{ name: script, config: {{ {config} }} }}]");
    let post =
        |name: &str, config: &str| format!("post_evaluation: [{{ name: {name}, config: {{ {config} }} }}]");
    accepts(&[
        &pre("command: make, args: [a], env: { A: b }, timeout_ms: 5, working_dir: x"),
        &post("script", "command: ./notify.sh"),
        &post("webhook", "url: 'https://example.com/x', method: PATCH"),
        &post("webhook", "url: '${ENV:URL}'"),
        &post("database", "type: json-file, output_path: ./x.jsonl"),
    ]);
    rejects(
        "pre_execution[0]",
        &[
            &pre("args: [a]"),
            &pre("command: ''"),
            &pre("command: x, timeout_ms: 0"),
            &pre("command: x, env: { 'A=B': c }"),
            &pre("command: x, timeout: 5"),
            "pre_execution: [{ name: webhook, config: { url: 'https://example.com' } }]",
            "pre_execution: [{ name: script }]",
        ],
    );
    rejects(
        "post_evaluation[0]",
        &[
            &post("webhook", "command: x"),
            &post("webhook", "url: ftp://example.com"),
            &post("webhook", "url: 'https://example.com', method: GET"),
            &post("database", "type: postgres, output_path: x"),
            &post("database", "type: json-file"),
            &post("mail", "to: x"),
        ],
    );
}

#[test]
fn surface_workspace_and_timeout() {
    accepts(&[
        "workspace_dir: /tmp/x",
        "workspace_name: a",
        "workspace_name: 1.b_c-d",
        &long("workspace_name", 100),
    ]);
    rejects(
        "workspace_name",
        &[
            "workspace_name: ''",
            "workspace_name: .a",
            "workspace_name: a/b",
            "workspace_name: a b",
            &long("workspace_name", 101),
        ],
    );
    accepts(&["timeout: 0", "timeout: 1", "timeout: 0.5", "timeout: 300000", "timeout: 5m"]);
    rejects("timeout", &["timeout: -1", "timeout: soon", "timeout: 1e99", "timeout: []"]);
}
