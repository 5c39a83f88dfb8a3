//! `yb show`, `yb list runs` and `yb clean`.

use insta::assert_snapshot;
use serde_json::Value;
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::{Outcome, RealClaude, TestContext};

use crate::YB;
use crate::small_suite::{SUITE, world};

fn yb(context: &TestContext, args: &[&str]) -> Outcome {
    context.run(YB, args)
}

/// A context with one run of the suite.
fn ran() -> TestContext {
    let context = world();
    context.write("suite.yaml", SUITE);
    let outcome = yb(&context, &["run", "-c", "suite.yaml", "--jobs", "2", "--quiet"]);
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    context
}

fn runs(context: &TestContext) -> Vec<String> {
    let listed = yb(context, &["list", "runs", "--json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    listed["runs"].as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn show_prints_the_newest_run() {
    let context = ran();
    assert_snapshot!(yb(&context, &["show"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    [RUN]: nightly, finished
      [WHEN], suite.yaml
      .youbencha-workspace/runs/[RUN]
      0 of 1 case proven; not: `greeting` (unchecked)

    case      variant  passed  median time
    greeting  one      1/1     [TIME]
    greeting  two      0/1     [TIME]
    greeting  none     1/1     [TIME]

    variant  passed  pass rate  95% interval
    one      1/1     100.0%     20.7% to 100.0%
    two      0/1     0.0%       0.0% to 79.3%
    none     1/1     100.0%     20.7% to 100.0%
    `one` has the highest pass rate: cannot tell from `two`, `none` (error rate 5% for all pairs together)


    ✗ greeting / two: failed: git-diff: 3 files changed (+0/-0 lines): `a`, `b`, `c` | Violations: files_changed (3) exceeds max_files_changed (2)

    3 of 3 trials: 2 passed, 1 failed; isolation: bubblewrap
    ----- stderr -----
    hint: inspect a trial: yb show latest greeting--two--1
    hint: write an HTML report: yb report --format html
    ");
}

#[test]
fn show_prints_a_trial_with_its_files() {
    let context = ran();
    assert_snapshot!(yb(&context, &["show", "latest", "greeting--two"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    greeting / two: failed
      trial: greeting--two--1, id [HEX], of [RUN]
      started: [WHEN]
      agent: command succeeded after [TIME]
      isolation: bubblewrap
        exit code 0
      git-diff: failed: ✗ 3 files changed (+0/-0 lines): `a`, `b`, `c` | Violations: files_changed (3) exceeds max_files_changed (2)
      workspace: .youbencha-workspace/runs/[RUN]/trials/greeting--two--1/attempt-1/src-modified
      artifacts: .youbencha-workspace/runs/[RUN]/trials/greeting--two--1/attempt-1/artifacts
        command-logs/  evaluators/  git-diff.patch  results.json  youbencha-log.json
      check: unproven: the case was not checked before the run (`yb check FILE`)
    ----- stderr -----
    hint: see also `--transcript`, `--diff` and `--command`
    ");
    let by_trial_alone = yb(&context, &["show", "greeting--two--1"]);
    assert_eq!(by_trial_alone.stdout, yb(&context, &["show", "latest", "greeting--two"]).stdout);
}

#[test]
fn transcript_is_readable_and_sanitized() {
    let context = ran();
    assert_snapshot!(yb(&context, &["show", "greeting--one--1", "--transcript"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----

    user
      Greet by name.

    agent
      red
    ----- stderr -----
    ");
}

#[test]
fn raw_diff_is_byte_identical_and_diff_is_visible() {
    let context = ran();
    let visible = yb(&context, &["show", "greeting--one--1", "--diff"]);
    assert!(visible.stdout.contains("+\\u{1b}[31mred"), "{:?}", visible.stdout);
    let shown = yb(&context, &["show", "greeting--one--1", "--diff", "--raw"]);
    let run = &runs(&context)[0];
    let path =
        format!(".youbencha-workspace/runs/{run}/trials/greeting--one--1/attempt-1/artifacts/git-diff.patch");
    assert_eq!(shown.stdout, context.read(path));
    assert!(shown.stdout.contains("+\u{1b}[31mred"), "{:?}", shown.stdout);
    let nothing = yb(&context, &["show", "greeting--none--1", "--diff"]);
    assert_eq!((nothing.stdout.as_str(), nothing.stderr.as_str()), ("", "no changes\n"));
}

#[test]
fn command_repeats_the_execution() {
    let context = ran();
    let script = yb(&context, &["show", "greeting--one--1", "--command"]).stdout;
    assert!(script.contains("[REDACTED:DEPLOY_TOKEN]") && !script.contains("very-secret"), "{script}");
    assert!(script.contains("DEPLOY_TOKEN"), "{script}");
    let again = context.command("sh").arg("-e").stdin(script).run();
    assert!(again.success(), "{}{}", again.stdout, again.stderr);
    assert_eq!(context.read("again/colours"), "\u{1b}[31mred\n");
    assert_eq!(context.read("again/kept-although-ignored"), "x\n");
}

#[test]
fn show_errors_have_hints() {
    let context = ran();
    let said = |args: &[&str]| {
        let outcome = yb(&context, args);
        assert_eq!(outcome.code, Some(2), "{}", outcome.stdout);
        outcome.snapshot()
    };
    assert_snapshot!(said(&["show", "--transcript"]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: run has several trials: `[RUN]`
    hint: name a trial: `yb show latest greeting--one--1`
    ");
    assert_snapshot!(said(&["show", "latest", "greeting"]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: `greeting` is ambiguous: `greeting--one--1`, `greeting--two--1`, `greeting--none--1`
    hint: use a longer prefix
    ");
    assert_snapshot!(said(&["show", "greeting--one--1", "--attempt", "7"]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: no finished attempt 7 of `greeting--one--1`
    hint: finished attempts: 1
    ");
    assert_snapshot!(said(&["show", "nothing-like-this"]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: no run matches `nothing-like-this` in `[TEMP]/work/.youbencha-workspace/runs`
    hint: `yb list runs` shows all runs
    ");
}

#[test]
fn show_json_has_all_details() {
    let context = ran();
    let run: Value = serde_json::from_str(&yb(&context, &["show", "--json"]).stdout).unwrap();
    assert_eq!((&run["state"], &run["done"], &run["planned"]), (&"finished".into(), &3.into(), &3.into()));
    let args = ["show", "greeting--one--1", "--json", "--transcript", "--diff", "--command"];
    let trial: Value = serde_json::from_str(&yb(&context, &args).stdout).unwrap();
    assert_eq!(trial["outcome"], "passed");
    assert_eq!(trial["messages"][0]["content"], "Greet by name.");
    assert_eq!(trial["command"]["argv"][0], "sh");
    assert!(trial["diff"].as_str().unwrap().contains("colours"));
    assert_eq!(trial["results"]["evaluators"][0]["status"], "passed");
}

#[test]
fn runs_are_listed_with_their_state() {
    let context = ran();
    assert_eq!(yb(&context, &["run", "-c", "suite.yaml", "--filter", "variant=one", "-q"]).code, Some(0));
    // Simulates a kill after the first trial.
    let newest = runs(&context).pop().unwrap();
    let journal = format!(".youbencha-workspace/runs/{newest}/journal.jsonl");
    let cut: String = context.read(&journal).lines().take(1).map(|line| format!("{line}\n")).collect();
    context.write(&journal, cut);
    std::fs::remove_file(context.dir().join(&journal).with_file_name("results.json")).unwrap();
    assert_snapshot!(yb(&context, &["list", "runs"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    run                           created               name     done  passed  failed  state
    [RUN]  [WHEN]  nightly  3/3   2       1       finished
    [RUN]  [WHEN]  nightly  0/1   0               died
    ----- stderr -----
    hint: 1 run unfinished, resume with: yb run --resume [RUN]
    ");
    let listed: Value = serde_json::from_str(&yb(&context, &["list", "runs", "--json"]).stdout).unwrap();
    assert_eq!((&listed["runs"][0]["passed"], &listed["runs"][1]["state"]), (&2.into(), &"died".into()));
    assert_snapshot!(yb(&TestContext::new(), &["list", "runs"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    ----- stderr -----
    no runs in `.youbencha-workspace`; hint: create one with: yb run FILE
    ");
}

#[test]
fn clean_removes_finished_runs_only_with_yes() {
    let mut context = ran();
    context.filter(r"\d+\.\d kB", "[SIZE]").filter("size +state", "size  state");
    for _ in 0..2 {
        assert_eq!(yb(&context, &["run", "-c", "suite.yaml", "-f", "variant=one", "-q"]).code, Some(0));
    }
    let all = runs(&context);
    let unfinished = format!(".youbencha-workspace/runs/{}/journal.jsonl", all[1]);
    let cut: String = context.read(&unfinished).lines().take(1).map(|line| format!("{line}\n")).collect();
    context.write(&unfinished, cut);
    assert_snapshot!(yb(&context, &["clean"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    run                           created               name     size  state
    [RUN]  [WHEN]  nightly  [SIZE]  finished
    [RUN]  [WHEN]  nightly  [SIZE]  finished
    would remove 2 runs, [SIZE]
    ----- stderr -----
    keeping 1 unfinished or unreadable run; hint: name it or pass `--all`
    hint: pass `--yes` to remove
    ");
    assert_eq!(runs(&context).len(), 3);
    // The newest and the unfinished run are kept.
    assert_snapshot!(yb(&context, &["clean", "--keep", "1", "--yes"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    run                           created               name     size  state
    [RUN]  [WHEN]  nightly  [SIZE]  finished
    removed 1 run, [SIZE]
    ----- stderr -----
    keeping 1 unfinished or unreadable run; hint: name it or pass `--all`
    ");
    assert_eq!(runs(&context), all[1..]);
    assert_eq!(
        yb(&context, &["clean", "--older-than", "1d", "--yes"]).stderr,
        "keeping 1 unfinished or unreadable run; hint: name it or pass `--all`\nnothing to remove\n"
    );
    // By name, it is removed.
    assert_eq!(yb(&context, &["clean", &all[1], "--yes"]).code, Some(0));
    assert_eq!(runs(&context), all[2..]);
    assert!(yb(&context, &["clean", "--cache", "--yes"]).stdout.contains("removed the cache"));
    assert!(!context.dir().join(".youbencha-workspace/cache").exists());
    assert_eq!(runs(&context), all[2..]);
}

#[test]
fn clean_keeps_running_runs_and_paths_outside() {
    let context = ran();
    let run = &runs(&context)[0];
    let folder = context.dir().join(".youbencha-workspace/runs").join(run);
    let lock = std::fs::File::options().write(true).open(folder.join("run.lock")).unwrap();
    lock.lock().unwrap();
    for args in [&["clean", "--all", "--yes"][..], &["clean", run, "--yes"], &["clean", "--cache", "--yes"]] {
        let outcome = yb(&context, args);
        assert!(outcome.stderr.contains("nothing to remove"), "{args:?}: {}", outcome.stderr);
    }
    assert!(folder.join("plan.json").exists());
    drop(lock);
    let elsewhere = context.root().join("elsewhere");
    std::fs::rename(&folder, &elsewhere).unwrap();
    let outcome = yb(&context, &["clean", elsewhere.to_str().unwrap(), "--yes"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(elsewhere.join("plan.json").exists());
}

/// The transcript of the real agent is readable, and its command can be repeated.
#[test]
fn real_claude_is_shown_and_repeated_by_hand() {
    let script = "
tape: 1
lanes:
  main:
    - { think: What does it say now?, say: I look first., tools: [{ Bash: { command: cat greet.sh, description: Look } }] }
    - { tools: [{ Bash: { command: 'echo changed > greet.sh', description: Fix } }] }
    - { say: Done., usage: { input: 100, output: 20 } }
";
    let server =
        MockServer::start(Script::parse(script, &Vars::new()).unwrap(), &MockServerOptions::default())
            .unwrap();
    let (claude, context) = (RealClaude::new(), world());
    let key = "not-a-real-key-but-a-secret";
    context.write(
        "case.yaml",
        "
youbencha: 1
name: greeting
description: The script greets by name.
repo: repo
isolation: external
agent: { type: claude-code, model: claude-opus-5-5, config: { prompt: Greet by name., permission_mode: bypassPermissions } }
evaluators: [{ name: git-diff, config: { assertions: { max_files_changed: 1 } } }]
",
    );
    let with_model = |program: &str| {
        let command = context.command(program).env("ANTHROPIC_BASE_URL", server.base_url());
        // Allows the CLI to bypass permissions as root.
        command.env("ANTHROPIC_API_KEY", key).env("YB_CLAUDE", claude.program()).env("IS_SANDBOX", "1")
    };
    let ran = with_model(YB).args(["run", "-c", "case.yaml", "-q"]).run();
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert_snapshot!(yb(&context, &["show", "--transcript"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----

    user
      Greet by name.

    agent
      thinking: What does it say now?
      I look first.
      → Bash command: cat greet.sh, description: Look
      ← echo Hello!

    agent
      → Bash command: echo changed > greet.sh, description: Fix
      ← (Bash completed with no output)

    agent
      Done.
    ----- stderr -----
    ");
    let script = yb(&context, &["show", "--command"]).stdout;
    assert!(script.contains("ANTHROPIC_API_KEY") && !script.contains(key), "{script}");
    let again = with_model("sh").arg("-e").stdin(script.clone()).run();
    assert!(again.success(), "{script}{}{}", again.stdout, again.stderr);
    assert_eq!(context.read("again/greet.sh"), "changed\n");
}
