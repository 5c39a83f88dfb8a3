//! What is wrong with a case is said before an agent is paid.

use serde_json::{Value, json};
use yb_testkit::{Outcome, TestContext};

use crate::YB;

/// Writes a case whose agent leaves a trace.
fn write(context: &TestContext, more: &Value) {
    let trace = format!("echo x >> {}", context.root().join("paid").display());
    let mut case = json!({ "youbencha": 1, "name": "one", "description": "d", "directory": "project", "isolation": "none",
        "agent": { "type": "command", "config": { "prompt": "x", "command": { "argv": ["sh", "-c", trace] } } },
        "evaluators": [{ "name": "files", "config": { "assertions": { "exists": ["a.txt"] } } }] });
    for (key, value) in more.as_object().unwrap() {
        if value.is_null() {
            case.as_object_mut().unwrap().remove(key);
        } else {
            case[key] = value.clone();
        }
    }
    context.write("project/a.txt", "one\n");
    context.write("case.yaml", case.to_string());
}

fn run(context: &TestContext) -> Outcome {
    context.command(YB).args(["run", "case.yaml"]).run()
}

fn assert_refused(context: &TestContext, more: &Value, wanted: &str) {
    write(context, more);
    let outcome = run(context);
    assert_eq!(outcome.code, Some(2), "{more}: {}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stderr.contains(wanted), "{wanted}: {}", outcome.stderr);
    assert!(!context.root().join("paid").exists(), "an agent ran: {more}");
}

#[test]
fn bad_glob_is_reported_with_its_place_before_anything_runs() {
    let context = TestContext::new();
    let of = |name: &str, config: Value| json!({ "evaluators": [{ "name": name, "config": config }] });
    let bad = json!(["src/[a"]);
    for more in [
        of("git-diff", json!({ "include": bad, "assertions": { "max_files_changed": 1 } })),
        of("git-diff", json!({ "exclude": bad, "assertions": { "max_files_changed": 1 } })),
        of("files", json!({ "assertions": { "unchanged": bad } })),
        of("command", json!({ "argv": ["true"], "may_change": bad })),
        of("command", json!({ "argv": ["true"], "restore": bad })),
        json!({ "may_change": bad }),
        json!({ "capture": { "include": bad } }),
    ] {
        assert_refused(&context, &more, "expected: a glob such as `src/**/*.rs`");
    }
}

#[test]
fn missing_program_of_an_evaluator_or_hook_is_reported_before_anything_runs() {
    let context = TestContext::new();
    let missing = "no-such-program-anywhere";
    let of = |name: &str, config: Value| json!({ "evaluators": [{ "name": name, "config": config }] });
    let hook =
        |key: &str, command: &str| json!({ key: [{ "name": "script", "config": { "command": command } }] });
    let probe = json!({ "program": [missing], "probes": [{ "name": "a", "expect": { "stdout": "x" } }] });
    for more in [
        of("command", json!({ "argv": [missing] })),
        of("command", json!({ "argv": ["/no/such/program"] })),
        of("command", json!({ "shell": format!("{missing} --all && true") })),
        of("probe", probe),
        hook("pre_execution", &format!("{missing} install")),
        hook("post_evaluation", missing),
        json!({ "prepare": [format!("{missing} ci")] }),
    ] {
        assert_refused(&context, &more, "program not found: `");
    }
    // What may be right is left alone: programs of the tree, and lines that can succeed without the program.
    for more in [
        of("command", json!({ "argv": ["sh", "-c", "true"] })),
        hook("pre_execution", &format!("{missing} || true")),
        hook("pre_execution", &format!("if false; then {missing}; fi")),
    ] {
        write(&context, &more);
        let outcome = run(&context);
        assert_eq!(outcome.code, Some(0), "{more}: {}{}", outcome.stdout, outcome.stderr);
    }
}

#[test]
fn missing_repository_is_an_error_and_a_dirty_one_a_warning_before_anything_runs() {
    let context = TestContext::new();
    assert_refused(&context, &json!({ "directory": null, "repo": "nowhere" }), "nowhere");
    write(&context, &json!({ "directory": null, "repo": "project" }));
    for line in ["init -q -b main", "add -A", "commit -qm one"] {
        let git = ["-C", "project", "-c", "user.name=x", "-c", "user.email=x@localhost"];
        assert_eq!(context.command("git").args(git).args(line.split(' ')).run().code, Some(0), "{line}");
    }
    let warning = "has uncommitted changes, which trials do not see: `a.txt`";
    let outcome = run(&context);
    assert!(outcome.code == Some(0) && !outcome.stderr.contains("uncommitted"), "{}", outcome.stderr);
    context.write("project/a.txt", "two\n");
    // A filter of the repository must not run.
    let filter = format!("touch {}; cat", context.root().join("filtered").display());
    for args in [["filter.x.clean", filter.as_str()], ["core.fsmonitor", filter.as_str()]] {
        assert_eq!(context.command("git").args(["-C", "project", "config"]).args(args).run().code, Some(0));
    }
    context.write("project/.git/info/attributes", "* filter=x\n");
    let outcome = run(&context);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let (at, agent) = (outcome.stderr.find(warning), outcome.stderr.find("running agent"));
    assert!(at.is_some() && at < agent, "{}", outcome.stderr);
    assert!(!context.root().join("filtered").exists());
    // A case that names its branch does not start from the working tree.
    write(&context, &json!({ "directory": null, "repo": "project", "branch": "main" }));
    context.write("project/a.txt", "two\n");
    assert!(!run(&context).stderr.contains("uncommitted"));
}

#[test]
fn workspace_directory_ignores_itself() {
    let context = TestContext::new();
    write(&context, &json!({}));
    assert_eq!(context.command("git").args(["init", "-q"]).run().code, Some(0));
    assert_eq!(run(&context).code, Some(0));
    let status = context.command("git").args(["status", "--porcelain", "--untracked-files=all"]).run();
    assert!(!status.stdout.contains(".youbencha-workspace"), "{}", status.stdout);
}

#[test]
fn cases_with_names_in_other_scripts_coexist() {
    let context = TestContext::new();
    write(&context, &json!({}));
    let case: Value = serde_json::from_str(&context.read("case.yaml")).unwrap();
    let named = |name: &str| {
        let mut case = case.clone();
        case["name"] = json!(name);
        case.as_object_mut().unwrap().remove("youbencha");
        case
    };
    let suite = json!({ "youbencha": 1, "name": "s", "cases": [named("漢字"), named("日本語")],
        "variants": [{ "name": "甲" }, { "name": "乙" }] });
    context.write("suite.yaml", suite.to_string());
    let outcome = context.run(YB, ["run", "suite.yaml"]);
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert!(
        outcome.stdout.contains("漢字") && outcome.stdout.contains("4 of 4 trials"),
        "{}",
        outcome.stdout
    );
}

/// Installs once for all trials and graders; what is installed is no change of the agent.
#[test]
fn prepare_for_both_fills_the_workspace_of_the_agent_from_the_cache() {
    let context = TestContext::new();
    let count = context.root().join("count");
    let install =
        format!("mkdir -p deps; echo built > deps/x; ln -s x deps/y; echo x >> {}", count.display());
    let more = json!({
        "prepare": [{ "command": install, "for": "both" }],
        "agent": { "type": "command", "config": { "prompt": "x",
            "command": { "argv": ["sh", "-c", "cat deps/y > out.txt; echo changed > deps/x"] } } },
        "evaluators": [
            { "name": "files", "config": { "assertions": { "contains": { "out.txt": "built" } } } },
            { "name": "git-diff", "config": { "assertions": { "max_files_changed": 1 } } },
            { "name": "command", "config": { "argv": ["grep", "-q", "built", "deps/y"] } }] });
    write(&context, &more);
    context.write("project/.gitignore", "deps\n");
    let outcome = context.command(YB).args(["run", "case.yaml", "--repeat", "3"]).run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(std::fs::read_to_string(&count).unwrap().lines().count(), 1);
}
