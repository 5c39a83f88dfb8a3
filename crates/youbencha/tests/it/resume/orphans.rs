//! `yb` and its shims are killed at the same moment, while a hook, an evaluator or a judge runs: nobody is left to kill its
//! processes, and the resumed run does it by the records in the journal.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::suites::{GOOD, World, Yb, assert_complete, case, variant, wait_until};

/// Starts a daemon in its own session and waits without end, unless `HANG` is `no`.
const HANGS: &str = "[ \"$HANG\" = no ] || { (setsid sleep 300 > /dev/null 2>&1 &); sleep 300; }";

/// Returns the children of a process.
fn children(parent: u32) -> Vec<i32> {
    let stat = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in parentheses may have spaces.
    let is_child = |pid: &i32| {
        stat(pid).rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse().ok()) == Some(parent)
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_child).collect()
}

/// Kills `yb` and its shims. Stopped first, `yb` can't react to the end of a shim.
fn kill_with_shims(yb: Yb) {
    yb.signal(Signal::STOP);
    let shims = children(yb.pid());
    assert!(!shims.is_empty());
    for shim in shims {
        kill_process(Pid::from_raw(shim).unwrap(), Signal::KILL).unwrap();
    }
    yb.signal(Signal::KILL);
    assert_eq!(yb.wait().code, None);
}

/// Returns the number of processes in the directory that sleep.
fn sleepers(world: &World) -> usize {
    let root = world.context.root().canonicalize().unwrap();
    let is_sleeper = |pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")
            && fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(&root))
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_sleeper).count()
}

fn assert_reaped_on_resume(isolation: &str, role: &str, change: impl FnOnce(&mut Value)) {
    let world = World::new();
    let mut case = case("one");
    case["isolation"] = json!(isolation);
    change(&mut case);
    let suite = json!({ "youbencha": 1, "name": "nightly", "cases": [case], "variants": [variant("v", GOOD, "text")] });
    world.context.write("suite.yaml", suite.to_string());
    let _guard = yb_testkit::KillOnDrop::in_dir(world.context.root());
    // The check of the graders beside a run would hang as well.
    let yb = world.start_with(&["-c", "suite.yaml", "--no-check"], &[("HANG", "yes")]);
    wait_until("the two processes", || sleepers(&world) == 2);
    let journal = fs::read_to_string(world.only_run().join("journal.jsonl")).unwrap();
    kill_with_shims(yb);
    assert_eq!(sleepers(&world), 2, "they are still running");
    let resumed = world.run(&["--resume"]).env("HANG", "no").run();
    assert_eq!(resumed.code, Some(0), "{isolation}, {role}: {}{}", resumed.stdout, resumed.stderr);
    world.assert_nothing_runs();
    let role = format!("\"role\":\"{role}\"");
    assert!(journal.contains("\"event\":\"process_started\"") && journal.contains(&role), "{journal}");
    let journal = fs::read_to_string(world.only_run().join("journal.jsonl")).unwrap();
    assert!(journal.contains("of its processes were reaped"), "{journal}");
    assert_complete(&world.only_run(), 1);
}

/// The levels at which a sandbox does not kill its processes by itself.
const LEVELS: [&str; 2] = ["none", "landlock"];

fn hook() -> Value {
    json!([{ "name": "script", "config": { "command": HANGS, "env": { "HANG": "${ENV:HANG}" } } }])
}

#[test]
fn hook_before_the_agent_is_reaped_on_resume() {
    for level in LEVELS {
        assert_reaped_on_resume(level, "hook", |case| case["pre_execution"] = hook());
    }
}

#[test]
fn hook_after_grading_is_reaped_on_resume() {
    for level in LEVELS {
        assert_reaped_on_resume(level, "hook", |case| case["post_evaluation"] = hook());
    }
}

#[test]
fn evaluator_is_reaped_on_resume() {
    for level in LEVELS {
        assert_reaped_on_resume(level, "evaluator", |case| {
            case["evaluators"] = json!([{ "name": "command",
                "config": { "shell": HANGS, "env": { "HANG": "${ENV:HANG}" } } }]);
        });
    }
}

#[test]
fn preparation_is_reaped_on_resume() {
    for level in LEVELS {
        assert_reaped_on_resume(level, "evaluator", |case| {
            case["prepare"] = json!([{ "command": HANGS, "env": { "HANG": "${ENV:HANG}" } }]);
            case["evaluators"] = json!([{ "name": "command", "config": { "shell": "true" } }]);
        });
    }
}

#[test]
fn judge_is_reaped_on_resume() {
    let nonce =
        r#"p=$(cat); n=$(printf '%s' "$p" | sed -n 's/.*"answer_to": "\([0-9a-f]*\)".*/\1/p' | tail -1)"#;
    let judge = format!(
        r#"{nonce}; {HANGS}; printf '{{"answer_to":"%s","status":"passed","metrics":{{"good":1}},"message":"seen"}}' "$n""#
    );
    for level in LEVELS {
        assert_reaped_on_resume(level, "judge", |case| {
            let config = json!({ "type": "command", "command": { "argv": ["sh", "-c", judge] },
                "env": { "HANG": "${ENV:HANG}" }, "assertions": { "good": "It is good." } });
            case["evaluators"] = json!([{ "name": "agentic-judge", "config": config }]);
        });
    }
}

/// Grades with a command that hangs if the start is not changed.
fn hangs_untouched() -> Value {
    let command = format!("grep -q more a.txt || {{ {HANGS}; }}");
    json!([{ "name": "command", "config": { "shell": command, "env": { "HANG": "${ENV:HANG}" } } }])
}

/// A world with a case whose grading of the start hangs, and an eval file for its start.
fn hanging_world(isolation: &str) -> World {
    let world = World::new();
    let mut case = case("one");
    (case["isolation"], case["evaluators"]) = (json!(isolation), hangs_untouched());
    let agent = "[ \"$HANG\" != agent ] || exec tail -f /dev/null; echo more >> a.txt";
    let mut variant = variant("v", agent, "text");
    variant["env"] = json!({ "HANG": "${ENV:HANG}" });
    let suite = json!({ "youbencha": 1, "name": "nightly", "cases": [case], "variants": [variant] });
    world.context.write("suite.yaml", suite.to_string());
    let eval =
        json!({ "name": "graded", "description": "d", "directory": "tree", "evaluators": hangs_untouched() });
    world.context.write("eval.yaml", eval.to_string());
    world
}

/// Starts a command that hangs, kills it with its shims, and lets another one kill what is left.
fn assert_reaped_by(world: &World, hanging: (&[&str], &str), next: &[&str]) {
    let _guard = yb_testkit::KillOnDrop::in_dir(world.context.root());
    let yb = world.start_command(hanging.0, &[("HANG", hanging.1)]);
    wait_until("the two processes", || sleepers(world) == 2);
    kill_with_shims(yb);
    assert_eq!(sleepers(world), 2, "they are still running");
    let done = world.context.command(crate::YB).args(next).env("HANG", "no").run();
    assert!(
        done.stderr.contains("processes of a grading or check that was killed still ran and were killed"),
        "{next:?}: {}",
        done.stderr
    );
    assert_eq!(done.code, Some(0), "{next:?}: {}{}", done.stdout, done.stderr);
    world.assert_nothing_runs();
    let again = world.context.command(crate::YB).args(next).env("HANG", "no").run();
    assert!(!again.stderr.contains("still ran"), "{}", again.stderr);
}

#[test]
fn check_beside_a_run_is_reaped_on_resume() {
    for level in LEVELS {
        let world = hanging_world(level);
        // The agent waits too, so that the run does not end before its check.
        let run: &[&str] = &["run", "suite.yaml"];
        let _guard = yb_testkit::KillOnDrop::in_dir(world.context.root());
        let yb = world.start_command(run, &[("HANG", "agent")]);
        wait_until("the two processes", || sleepers(&world) == 2);
        kill_with_shims(yb);
        let resumed = world.run(&["--resume"]).env("HANG", "no").run();
        assert!(
            resumed
                .stderr
                .contains("processes of a grading or check that was killed still ran and were killed"),
            "{}",
            resumed.stderr
        );
        assert_eq!(resumed.code, Some(0), "{level}: {}{}", resumed.stdout, resumed.stderr);
        world.assert_nothing_runs();
    }
}

#[test]
fn evaluation_of_a_directory_is_reaped_by_the_next_one() {
    for level in LEVELS {
        let world = hanging_world(level);
        let eval: &[&str] = &["eval", "eval.yaml", "--isolation", level];
        assert_reaped_by(&world, (eval, "yes"), eval);
    }
}

#[test]
fn evaluation_of_a_directory_is_reaped_by_clean() {
    let world = hanging_world("none");
    assert_reaped_by(&world, (&["eval", "eval.yaml", "--isolation", "none"], "yes"), &["clean"]);
}

#[test]
fn regrading_is_reaped_by_the_next_one() {
    let world = hanging_world("none");
    world.context.write("idle.yaml", world.context.read("suite.yaml").replace("echo more >> a.txt", "true"));
    let first = world.run(&["idle.yaml", "--no-check"]).env("HANG", "no").run();
    assert_eq!(first.code, Some(0), "{}{}", first.stdout, first.stderr);
    let eval: &[&str] = &["eval", "--from", "latest"];
    assert_reaped_by(&world, (eval, "yes"), eval);
}

#[test]
fn check_of_a_case_is_reaped_by_the_next_run() {
    let world = hanging_world("none");
    let run: &[&str] = &["run", "suite.yaml", "--no-check"];
    assert_reaped_by(&world, (&["check", "suite.yaml"], "yes"), run);
}

/// A run that is removed instead of resumed leaves nothing either.
#[test]
fn agent_of_a_killed_run_is_reaped_by_clean() {
    let world = World::with(&suite_that_hangs());
    let _guard = yb_testkit::KillOnDrop::in_dir(world.context.root());
    let yb = world.start(&["suite.yaml", "--no-check"]);
    wait_until("the two processes", || sleepers(&world) == 2);
    kill_with_shims(yb);
    assert_eq!(sleepers(&world), 2, "they are still running");
    let cleaned = world.context.command(crate::YB).args(["clean", "--all", "--yes"]).run();
    assert_eq!(cleaned.code, Some(0), "{}{}", cleaned.stdout, cleaned.stderr);
    assert!(cleaned.stderr.contains("still ran and were killed"), "{}", cleaned.stderr);
    world.assert_nothing_runs();
}

fn suite_that_hangs() -> String {
    crate::suites::suite(&["one"], &[("v", "(setsid sleep 300 > /dev/null 2>&1 &); sleep 300")], "")
}
