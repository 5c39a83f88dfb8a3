//! A small suite shared by tests of several commands.

use yb_testkit::TestContext;
use yb_testkit::git::Repo;

/// Three variants: one passes, one changes too much, one does nothing.
pub(crate) const SUITE: &str = r#"
youbencha: 1
name: nightly
cases:
  - name: greeting
    description: The script greets by name.
    repo: repo
    env: { DEPLOY_TOKEN: very-secret-token }
    agent: { type: command, config: { prompt: Greet by name. } }
    evaluators: [{ name: git-diff, config: { assertions: { max_files_changed: 2 } } }]
variants:
  - { name: one, type: command, config: { command: { argv: [sh, -c, "printf '\\033[31mred\\n' | tee colours; cp ignored kept-although-ignored", very-secret-token] } } }
  - { name: two, type: command, config: { command: { argv: [sh, -c, "touch a b c"] } } }
  - { name: none, type: command, config: { command: { argv: ["true"] } } }
"#;

/// A context with a repository that has a `.gitattributes`.
pub(crate) fn world() -> TestContext {
    let mut context = TestContext::new();
    context.filter(r"run-\d{4}-\d\d-\d\d-\[HEX\]", "[RUN]").filter(r"\[TIMESTAMP\]Z?", "[WHEN]");
    let repo = context.dir().join("repo");
    std::fs::create_dir(&repo).unwrap();
    Repo::init(&repo)
        .write("greet.sh", "echo Hello!\n")
        .write("ignored", "x\n")
        .write(".gitattributes", "ignored export-ignore\n")
        .commit("start");
    context
}
