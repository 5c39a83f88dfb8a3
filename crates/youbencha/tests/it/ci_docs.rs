//! Runs the workflows and scripts of docs/guides/ci.md, and `action.yml`, with `yb` on the PATH.

use std::path::Path;

use serde_json::Value;
use yb_testkit::git::Repo;
use yb_testkit::{Outcome, RealClaude, TestContext};

use crate::YB;
use crate::simulated_runner::{Event, Runner, yaml};
use crate::suites::{BAD, GOOD, WHO, World, suite};

/// Returns the `sh` blocks of a page by the name in their first comment.
fn block(name: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/ci.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mark = format!("```sh\n# {name}\n");
    let start =
        page.find(&mark).unwrap_or_else(|| panic!("no block `{name}` in docs/guides/ci.md")) + mark.len();
    let end = start + page[start..].find("```").unwrap();
    page[start..end].to_owned()
}

/// Returns a workflow of the page.
fn workflow(path: &str) -> Value {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/ci.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mark = format!("```yaml\n# {path}\n");
    let start = page.find(&mark).unwrap_or_else(|| panic!("no workflow `{path}`")) + mark.len();
    yaml(&page[start..start + page[start..].find("```").unwrap()])
}

fn sh(world: &World, script: &str) -> Outcome {
    let bin = Path::new(YB).parent().unwrap().display().to_string();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
    world
        .context
        .command("/bin/sh")
        .args(["-e", "-c", script])
        .env("PATH", path)
        .env("CI_COMMIT_BRANCH", "main")
        .env("CI_DEFAULT_BRANCH", "main")
        .run()
}

const GATES: &str = "repeats: 6\ngates: { no_regression: { against: main, on_inconclusive: pass } }";

/// Three cases with one repeat; the agent breaks the second one once the project has a file `broken`.
fn project(context: &TestContext, config: &str) -> Repo {
    let dir = context.root().join("project");
    std::fs::create_dir(&dir).unwrap();
    let repo = Repo::init(&dir);
    repo.write("suite.yaml", config)
        .write("tree/a.txt", "start\n")
        .write(".gitignore", ".youbencha-workspace\n");
    repo
}

fn runner(context: TestContext, repo: &Repo) -> Runner {
    let mut runner = Runner::new(context, repo.path().to_owned());
    runner.path.push(Path::new(YB).parent().unwrap().to_owned());
    runner
}

fn push(sha: &str) -> Event {
    Event { name: "push", ref_name: "main", sha: sha.to_owned(), pull_request: None }
}

fn pull_request(sha: &str) -> Event {
    Event { name: "pull_request", ref_name: "7/merge", sha: sha.to_owned(), pull_request: Some(7) }
}

const CI_GATES: &str = "gates: { no_regression: { against: main, on_inconclusive: pass, if_missing: pass }, \
                        no_case_dies: { against: main, if_missing: pass } }";

#[test]
fn workflow_comments_with_the_delta_to_the_baseline() {
    let context = TestContext::new();
    let names = ["one", "two", "three"];
    let good = suite(&names, &[("v", GOOD)], &format!("repeats: 3\n{CI_GATES}"));
    let repo = project(&context, &good);
    let first = repo.commit("start");
    let broken = format!("{WHO}echo more >> a.txt; case $trial in two*) echo 1 > b;; esac");
    repo.write("suite.yaml", suite(&names, &[("v", &broken)], &format!("repeats: 3\n{CI_GATES}")));
    let second = repo.commit("break a case");
    let mut runner = runner(context, &repo);
    let live = [("replay", ""), ("agents", "")];
    let workflow = workflow(".github/workflows/agents.yml");

    let job = runner.job(&workflow, &push(&first), &live);
    assert_eq!(job.failed, None, "{}", job.log());
    assert!(job.ran("Save the baseline") && !job.ran("Comment on the pull request"), "{}", job.log());

    let job = runner.job(&workflow, &pull_request(&first), &live);
    assert_eq!(job.failed, None, "{}", job.log());
    assert!(!job.ran("Save the baseline"), "{}", job.log());
    let comments = runner.api.comments();
    assert_eq!(comments.len(), 1);
    assert!(
        comments[0].starts_with("<!-- youbencha suite.yaml -->\n### ✅ nightly: 100.0% → 100.0%"),
        "{}",
        comments[0]
    );

    let job = runner.job(&workflow, &pull_request(&second), &live);
    assert_eq!(job.failed.as_deref(), Some("Pass the exit code on"), "{}", job.log());
    let comments = runner.api.comments();
    assert_eq!(comments.len(), 1, "the comment is updated: {:?}", runner.api.requests());
    assert!(comments[0].contains("### ❌ nightly: 100.0% → 66.7% (-33.3 pp)"), "{}", comments[0]);
    assert!(comments[0].contains("| ❌ | two | v | 3/3 | 0/3 | -100.0 pp |"), "{}", comments[0]);
    assert!(job.summary.contains("### ❌ nightly"), "{}", job.summary);
    let artifacts = runner.context.root().join("artifacts-3");
    assert!(std::fs::read_to_string(artifacts.join("junit.xml")).unwrap().contains("<testsuite"));
    assert!(
        std::fs::read_to_string(artifacts.join("html/index.html")).unwrap().contains("id=\"comparison\"")
    );

    // A push that breaks a case does not become the baseline.
    let job = runner.job(&workflow, &push(&second), &live);
    assert_eq!(job.failed.as_deref(), Some("Pass the exit code on"), "{}", job.log());
    assert!(!job.ran("Set the baseline") && !job.ran("Save the baseline"), "{}", job.log());
}

#[test]
fn live_workflow_keeps_its_own_baseline() {
    let context = TestContext::new();
    let repo = project(&context, &suite(&["one"], &[("v", GOOD)], CI_GATES));
    let sha = repo.commit("start");
    let mut runner = runner(context, &repo);
    let args = "--gate no_regression=live --gate no_case_dies=live";
    for _ in 0..2 {
        let job = runner.job(
            &workflow(".github/workflows/agents-live.yml"),
            &push(&sha),
            &[("agents", ""), ("args", args)],
        );
        assert_eq!(job.failed, None, "{}", job.log());
        assert!(job.ran("Save the baseline"), "{}", job.log());
    }
    assert!(runner.workspace().join(".youbencha-workspace/baselines/live.json").is_file());
}

#[test]
fn action_downloads_a_release_and_checks_its_digest() {
    let context = TestContext::new();
    let repo = project(&context, "");
    let sha = repo.commit("start");
    let release = context.root().join("release");
    std::fs::create_dir(&release).unwrap();
    std::fs::write(release.join("yb"), "#!/bin/sh\necho \"$@\"\n").unwrap();
    let folder = "youbencha-9-x86_64-unknown-linux-musl";
    let name = format!("{folder}.tar.gz");
    let script = format!(
        "chmod +x yb; mkdir {folder}; mv yb {folder}; tar -czf {name} {folder}; sha256sum {name} > SHA256SUMS"
    );
    assert_eq!(context.command("/bin/sh").args(["-c", &script]).current_dir(&release).run().code, Some(0));
    let mut runner = Runner::new(context, repo.path().to_owned());
    let file = |name: &str| std::fs::read(release.join(name)).unwrap();
    let at = |name: &str| format!("/youbencha/youbencha/releases/download/v9/{name}");
    runner.api.serve(&at(&name), file(&name));
    let workflow = workflow(".github/workflows/agents.yml");
    let inputs = [("version", "v9"), ("agents", "")];
    runner.api.serve(&at("SHA256SUMS"), format!("{}  {name}\n", "0".repeat(64)).into_bytes());
    let job = runner.job(&workflow, &push(&sha), &inputs);
    assert_eq!(job.failed.as_deref(), Some("Install yb"), "{}", job.log());
    runner.api.serve(&at("SHA256SUMS"), file("SHA256SUMS"));
    let job = runner.job(&workflow, &push(&sha), &inputs);
    assert!(job.ran("Run the suite"), "{}", job.log());
    let log = job.log();
    assert!(log.contains("run -c suite.yaml --replay tapes"), "{log}");
}

/// The check that costs nothing, with the real Claude Code: tapes are recorded once, a change of the grader is found.
#[test]
fn real_claude_replay_check_finds_a_case_that_died() {
    let claude = RealClaude::new();
    let context = TestContext::new();
    let config = format!(
        r#"
youbencha: 1
name: greetings
cases:
  - name: greeting
    description: The script greets by name.
    directory: tree
    agent: {{ type: claude-code, config: {{ prompt: "Make `greet.sh NAME` greet by name." }} }}
    tape: {{ script: model.yaml }}
    evaluators:
      - name: command
        config: {{ argv: [sh, check.sh], hidden: {{ check.sh: check.sh }} }}
{CI_GATES}
"#
    );
    let repo = project(&context, &config);
    repo.write("tree/greet.sh", "echo Hello!\n");
    repo.write("check.sh", "test \"$(sh greet.sh Ada)\" = 'Hello, Ada!'\n");
    repo.write(
        "model.yaml",
        "tape: 1\nlanes:\n  main:\n    - say: I add the name.\n      tools:\n        - Bash: { command: \"echo 'echo \\\"Hello, $1!\\\"' > greet.sh\", description: Write greet.sh }\n    - say: Done.\n",
    );
    let recorded = context
        .command(YB)
        .args(["run", "-c", "suite.yaml", "--record", "tapes"])
        .current_dir(repo.path())
        .env("YB_CLAUDE", claude.program())
        .timeout(std::time::Duration::from_secs(150))
        .run();
    assert_eq!(recorded.code, Some(0), "{}{}", recorded.stdout, recorded.stderr);
    let first = repo.commit("record the suite");
    repo.write("check.sh", "test \"$(sh greet.sh)\" = 'Hello, world!'\n");
    let second = repo.commit("check without a name too");
    let mut runner = runner(context, &repo);
    runner.env.push(("YB_CLAUDE".to_owned(), claude.program().display().to_string()));
    let workflow = workflow(".github/workflows/agents.yml");
    let inputs = [("agents", "")];
    let job = runner.job(&workflow, &push(&first), &inputs);
    assert_eq!(job.failed, None, "{}", job.log());
    let job = runner.job(&workflow, &pull_request(&first), &inputs);
    assert_eq!(job.failed, None, "{}", job.log());
    let job = runner.job(&workflow, &pull_request(&second), &inputs);
    assert_eq!(job.failed.as_deref(), Some("Pass the exit code on"), "{}", job.log());
    let comment = &runner.api.comments()[0];
    assert!(comment.contains("### ❌ greetings: 100.0% → 0.0%"), "{comment}");
    assert!(comment.contains("1/1 → 0/1: no longer passes"), "{comment}");
}

#[test]
fn gitlab_job_script_runs() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/ci.md");
    let page = std::fs::read_to_string(page).unwrap();
    let job = &page[page.find("```yaml\n# .gitlab-ci.yml").unwrap()..];
    let script = &job[job.find("  script:\n").unwrap() + 10..];
    let lines: String = script
        .lines()
        .map_while(|line| line.strip_prefix("    - "))
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(lines.lines().count() >= 2, "{lines}");
    let world = World::with(&suite(&["one"], &[("v", GOOD)], GATES));
    let first = sh(&world, &lines);
    assert_eq!(first.code, Some(0), "{}{}", first.stdout, first.stderr);
    assert!(world.path(".youbencha-workspace/baselines/main.json").is_file());
    world.context.write("suite.yaml", suite(&["one"], &[("v", BAD)], GATES));
    assert_eq!(sh(&world, &lines).code, Some(1));
}

#[test]
fn exit_code_script_runs() {
    for (agent, said) in [(GOOD, "not worse"), (BAD, "worse: do not merge")] {
        let world = World::with(&suite(&["one"], &[("v", GOOD)], "repeats: 6"));
        world.suite(&["--quiet"]).run();
        assert_eq!(world.context.run(YB, ["baseline", "set", "main"]).code, Some(0));
        let gates = "repeats: 6\ngates: { no_regression: { against: main, tolerance: 0.4 } }";
        world.context.write("suite.yaml", suite(&["one"], &[("v", agent)], gates));
        let printed = sh(&world, &block("what to do with the exit code"));
        assert!(printed.stdout.contains(said), "{}{}", printed.stdout, printed.stderr);
    }
}
