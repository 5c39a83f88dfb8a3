//! `yb open`, `yb diff` and `yb trend`.

use std::os::unix::fs::PermissionsExt as _;

use insta::assert_snapshot;
use serde_json::Value;
use yb_testkit::{Outcome, TestContext};

use crate::YB;
use crate::small_suite::{SUITE, world};

fn yb(context: &TestContext, args: &[&str]) -> Outcome {
    context.run(YB, args)
}

/// A context with two runs of the suite.
fn ran_twice() -> TestContext {
    let context = world();
    context.write("suite.yaml", SUITE);
    for _ in 0..2 {
        let outcome = yb(&context, &["run", "-c", "suite.yaml", "--jobs", "2", "--quiet"]);
        assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    }
    context
}

fn runs(context: &TestContext) -> Vec<String> {
    let listed: Value = serde_json::from_str(&yb(context, &["list", "runs", "--json"]).stdout).unwrap();
    listed["runs"].as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn open_starts_the_opener_with_the_report_or_the_workspace() {
    let context = ran_twice();
    let newest = runs(&context).pop().unwrap();
    let folder = context.dir().join(".youbencha-workspace/runs").join(newest);
    let report = folder.join("report.html").display().to_string();
    let printed = yb(&context, &["open", "--print"]);
    assert_eq!((printed.code, printed.stdout.trim_end()), (Some(0), report.as_str()), "{}", printed.stderr);
    assert!(std::fs::read_to_string(&report).unwrap().contains("greeting"));
    let workspace = folder.join("trials/greeting--two--1/attempt-1/src-modified");
    let printed = yb(&context, &["open", "greeting--two--1", "--print"]);
    assert_eq!(printed.stdout.trim_end(), workspace.to_str().unwrap(), "{}", printed.stderr);

    let headless = yb(&context, &["open"]);
    assert_eq!(headless.code, Some(4), "{}", headless.stderr);
    assert_eq!(headless.stdout.trim_end(), report);
    assert!(headless.stderr.contains("error: no display to open it on"), "{}", headless.stderr);

    let opener = context.root().join("bin/xdg-open");
    std::fs::create_dir_all(opener.parent().unwrap()).unwrap();
    std::fs::write(&opener, "#!/bin/sh\nprintf '%s' \"$1\" > \"$OPENED\"\n").unwrap();
    std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", opener.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let opened = context.root().join("opened");
    let on_desktop = || context.command(YB).env("PATH", &path).env("DISPLAY", ":9").env("OPENED", &opened);
    let outcome = on_desktop().args(["open", "latest", "greeting--two--1"]).run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(std::fs::read_to_string(&opened).unwrap(), workspace.to_str().unwrap());
    std::fs::write(&opener, "#!/bin/sh\nexit 3\n").unwrap();
    let failed = on_desktop().arg("open").run();
    assert_eq!(failed.code, Some(4), "{}", failed.stderr);
    assert!(
        failed.stderr.contains("failed to open") && failed.stderr.contains("`xdg-open`: exit status: 3"),
        "{}",
        failed.stderr
    );
}

#[test]
fn open_writes_the_end_tree_of_a_workspace_that_was_not_kept() {
    let context = world();
    context.write("suite.yaml", SUITE);
    yb(&context, &["run", "-c", "suite.yaml", "-q", "--delete-workspace"]);
    let outcome = yb(&context, &["open", "greeting--two--1", "--print"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("the workspace was not kept; wrote the "), "{}", outcome.stderr);
    let tree = std::path::Path::new(outcome.stdout.trim_end());
    assert!(tree.ends_with("greeting--two--1/attempt-1/end-tree"), "{}", tree.display());
    let changed = std::fs::read_to_string(tree.join("greet.sh")).unwrap();

    // Again, and to another directory, which must be empty.
    std::fs::write(tree.join("greet.sh"), "edited").unwrap();
    yb(&context, &["open", "greeting--two--1", "--print"]);
    assert_eq!(std::fs::read_to_string(tree.join("greet.sh")).unwrap(), changed);
    let into = ["open", "greeting--two--1", "--print", "--into", "elsewhere"];
    assert_eq!(yb(&context, &into).code, Some(0));
    assert_eq!(context.read("elsewhere/greet.sh"), changed);
    let refused = yb(&context, &into);
    assert_eq!(refused.code, Some(4), "{}", refused.stderr);
    assert!(refused.stderr.contains("elsewhere"), "{}", refused.stderr);
    assert_eq!(yb(&context, &["open", "latest", "--into", "x"]).code, Some(2));
    let verified = yb(&context, &["verify", "latest"]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.stdout, verified.stderr);
}

#[test]
fn diff_compares_end_trees_of_trials_and_runs() {
    let context = ran_twice();
    let shown = yb(&context, &["diff", "greeting--none--1", "greeting--one--1"]);
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    assert!(shown.stdout.contains("+++ b/colours\n@@ -0,0 +1 @@\n+\\u{1b}[31mred\n"), "{}", shown.stdout);
    assert_snapshot!(yb(&context, &["diff", "greeting--one--1", "greeting--two--1", "--stat"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    +0 -0  a (only in the second)
    +0 -0  b (only in the second)
    +0 -0  c (only in the second)
    +0 -1  colours (only in the first)
    +0 -1  kept-although-ignored (only in the first)
    5 files changed, +0 -2 lines
    ----- stderr -----
    ");
    let runs = runs(&context);
    let names = [format!("{}/greeting--one--1", runs[0]), format!("{}/greeting--two--1", runs[1])];
    let across = yb(&context, &["diff", &names[0], &names[1], "--json"]);
    let value: Value = serde_json::from_str(&across.stdout).unwrap_or_else(|_| panic!("{}", across.stderr));
    assert_eq!(value["files"].as_array().unwrap().len(), 5);
    assert_eq!((&value["a"], &value["b"]), (&names[0].as_str().into(), &names[1].as_str().into()));
    let same = yb(&context, &["diff", &names[0], "latest/greeting--one--1"]);
    assert_eq!((same.stdout.as_str(), same.stderr.as_str()), ("", "no differences\n"));
    let unknown = yb(&context, &["diff", "nothing", "greeting--one--1"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.stderr.contains("name a trial of another run as `RUN/TRIAL`"), "{}", unknown.stderr);
}

#[test]
fn diff_redacts_the_secrets_of_the_case() {
    let context = world();
    context.write("suite.yaml", SUITE.replace("touch a b c", "echo $DEPLOY_TOKEN > a"));
    yb(&context, &["run", "-c", "suite.yaml", "-q"]);
    let shown = yb(&context, &["diff", "greeting--none--1", "greeting--two--1"]);
    assert!(shown.stdout.contains("+[REDACTED:DEPLOY_TOKEN]"), "{}{}", shown.stdout, shown.stderr);
    assert!(!shown.stdout.contains("very-secret-token"), "{}", shown.stdout);
}

#[test]
fn trend_lists_the_runs_of_a_suite() {
    let context = ran_twice();
    context.write("other.yaml", SUITE.replace("name: nightly", "name: other"));
    yb(&context, &["run", "-c", "other.yaml", "-q", "-f", "variant=one"]);
    let shown = yb(&context, &["trend", "nightly"]);
    let lines: Vec<&str> = shown.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{}{}", shown.stdout, shown.stderr);
    assert!(lines[0].starts_with("created") && lines[0].contains("95% interval"), "{}", shown.stdout);
    let runs = runs(&context);
    for (line, run) in lines[1..].iter().zip(&runs) {
        assert!(
            line.contains("  2/3     66.7%  20.8%–93.9%   ━━━━━━━━━━━━━╌╌╌╌╌╌") && line.ends_with(run),
            "{line}"
        );
    }
    let by_file = yb(&context, &["trend", "suite.yaml"]);
    assert_eq!(by_file.stdout, shown.stdout, "{}", by_file.stderr);
    let json = yb(&context, &["trend", "nightly", "--json", "--variant", "two", "--limit", "1"]);
    let value: Value = serde_json::from_str(&json.stdout).unwrap();
    let [run] = value["runs"].as_array().unwrap().as_slice() else { panic!("{value}") };
    assert_eq!(
        (&run["run"], &run["passed"], &run["counted"]),
        (&runs[1].as_str().into(), &0.into(), &1.into())
    );
    assert_eq!(run["pass_rate"], 0.0);
    let unknown = yb(&context, &["trend", "nothing"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.stderr.contains("hint: there are runs of `nightly`, `other`"), "{}", unknown.stderr);
}
