//! `yb install-agents`, `yb completions` and `yb man`.

use insta::assert_snapshot;
use yb_testkit::TestContext;

use crate::YB;

const JUDGES: [&str; 2] = [".github/agents/agentic-judge.md", ".claude/agents/agentic-judge.md"];

#[test]
fn install_agents_reports_each_file() {
    let context = TestContext::new();
    context.write(JUDGES[1], "mine");
    assert_snapshot!(context.run(YB, ["install-agents"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    created      .github/agents/agentic-judge.md
    skipped      .claude/agents/agentic-judge.md
    ----- stderr -----
    hint: pass `--force` to overwrite
    ");
    assert_eq!(context.read(JUDGES[1]), "mine");
    assert_snapshot!(context.run(YB, ["install-agents", "--force"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    overwritten  .github/agents/agentic-judge.md
    overwritten  .claude/agents/agentic-judge.md
    ----- stderr -----
    ");
    assert_ne!(context.read(JUDGES[1]), "mine");
}

/// Claude Code finds the definition, and it contains the answer format.
#[test]
fn judge_definition_is_valid() {
    let context = TestContext::new();
    context.run(YB, ["install-agents"]);
    let (judge, path) = yb_claude::find_agent("agentic-judge", &[&context.dir()]).unwrap();
    assert!(path.ends_with(JUDGES[1]));
    assert_eq!(judge.tools.as_deref(), Some(&["Read".to_owned(), "Grep".to_owned(), "Glob".to_owned()][..]));
    for path in JUDGES {
        let text = context.read(path);
        assert!(text.starts_with("---\nname: agentic-judge\ndescription: "), "{text}");
        let answer = text.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let answer: serde_json::Value = serde_json::from_str(answer).unwrap();
        assert_eq!(answer["status"], "passed");
        assert!(answer["message"].is_string());
        let scores = answer["metrics"].as_object().unwrap();
        assert!(scores.values().all(|score| (0.0..=1.0).contains(&score.as_f64().unwrap())), "{answer}");
    }
}

#[test]
fn install_agents_writes_the_other_file_after_an_error() {
    let context = TestContext::new();
    context.write(".github", "a file where a directory should be");
    let outcome = context.run(YB, ["install-agents"]);
    assert_eq!(outcome.code, Some(4), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("error        .github"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("created      .claude"), "{}", outcome.stdout);
    assert!(outcome.stderr.contains("failed to create directory: `./.github`"), "{}", outcome.stderr);

    let context = TestContext::new();
    let elsewhere = context.root().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, context.dir().join(".claude")).unwrap();
    assert_eq!(context.run(YB, ["install-agents", "--force"]).code, Some(2));
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let outcome = TestContext::new().run(YB, ["completions", shell]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{shell}");
        for word in ["validate", "install-agents", "delete-workspace"] {
            assert!(outcome.stdout.contains(word), "{shell}: {word}");
        }
    }
    let context = TestContext::new();
    let script = context.run(YB, ["completions", "bash"]).stdout;
    context.write("yb.bash", script);
    let asked =
        "source ./yb.bash; COMP_WORDS=(yb val); COMP_CWORD=1; _yb yb val yb; echo \"${COMPREPLY[@]}\"";
    assert_eq!(context.run("/bin/bash", ["-c", asked]).stdout, "validate\n");
}

#[test]
fn every_command_has_a_manual_page() {
    let context = TestContext::new();
    let page = context.run(YB, ["man"]);
    assert!(page.stdout.contains(".TH yb 1") && page.stdout.contains("Exit codes:"), "{}", page.stdout);
    let outcome = context.run(YB, ["man", "--dir", "pages/man1"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    for (file, words) in
        [("yb.1", "coding agents"), ("yb-config-set.1", "Examples:"), ("yb-tape-serve.1", "loopback")]
    {
        let text = context.read(format!("pages/man1/{file}"));
        assert!(text.contains(words), "{file}: {text}");
    }
    assert!(!context.dir().join("pages/man1/yb-man.1").exists());
}
