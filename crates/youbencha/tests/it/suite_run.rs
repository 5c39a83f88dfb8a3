//! `yb run` of a suite: order, limits, selection, retries, results and exit codes.

use std::fs;

use insta::assert_snapshot;
use serde_json::json;

use crate::suites::{BAD, GOOD, Journal, WHO, World, assert_complete, case, refused, suite, variant};

const TWO: [&str; 2] = ["one", "two"];
const BOTH: [(&str, &str); 2] = [("good", GOOD), ("bad", BAD)];

#[test]
fn suite_runs_trials_in_fair_order() {
    let world = World::with(&suite(&TWO, &BOTH, "repeats: 2"));
    let outcome = world.suite(&["--jobs", "1"]).run();
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    let run = world.only_run();
    let printed = assert_complete(&run, 8);
    let order = [
        "one--good--1",
        "one--bad--1",
        "two--good--1",
        "two--bad--1",
        "one--good--2",
        "one--bad--2",
        "two--good--2",
        "two--bad--2",
    ];
    assert_eq!(Journal::of(&run).started(), order);
    assert_eq!(printed["outcomes"], json!({ "passed": 4, "failed": 4 }));
    for (trial, folder) in printed["trials"].as_array().unwrap().iter().zip(order) {
        assert_eq!(trial["trial"], folder);
        let outcome = if folder.contains("good") { "passed" } else { "failed" };
        assert_eq!((&trial["outcome"], &trial["attempts"][0]["outcome"]), (&json!(outcome), &json!(outcome)));
        let patch =
            fs::read_to_string(run.join("trials").join(folder).join("artifacts/git-diff.patch")).unwrap();
        assert_eq!(patch.contains("+more"), folder.contains("good"), "{folder}");
    }
    world.assert_nothing_runs();
}

#[test]
fn suite_prints_a_table_and_the_next_command() {
    let world = World::with(&suite(&TWO, &BOTH, "repeats: 2"));
    assert_snapshot!(world.suite(&["--jobs", "1", "--quiet"]).run().snapshot(), @r"
    exit code: 1
    ----- stdout -----
    case  variant  passed  median time
    one   good     2/2     [TIME]
    one   bad      0/2     [TIME]
    two   good     2/2     [TIME]
    two   bad      0/2     [TIME]

    variant  passed  pass rate  95% interval
    good     4/4     100.0%     1.2% to 100.0%
    bad      0/4     0.0%       0.0% to 98.8%
    cannot tell whether `bad` is better than `good`: 100.0% → 0.0%, -100.0 pp (95% bounds -100.0 to -25.5 pp, p = 0.056)


    ✗ one / bad: failed (2 times): git-diff: 2 files changed (+2/-0 lines): `b`, `c` | Violations: files_changed (2) exceeds max_files_changed (1)
    ✗ two / bad: failed (2 times): git-diff: 2 files changed (+2/-0 lines): `b`, `c` | Violations: files_changed (2) exceeds max_files_changed (1)

    8 of 8 trials: 4 passed, 4 failed in [TIME]; isolation: none
    ----- stderr -----
    hint: inspect a trial: yb show latest one--bad--1
    hint: write an HTML report: yb report --format html
    ");
}

#[test]
fn exit_codes_by_precedence() {
    let (unauthenticated, infra) = (refused(401), refused(500));
    for (variants, code) in [
        (vec![("a", GOOD, "text"), ("b", GOOD, "text")], 0),
        (vec![("a", GOOD, "text"), ("b", infra.as_str(), "claude-stream-json")], 4),
        (vec![("a", &unauthenticated, "claude-stream-json"), ("b", &infra, "claude-stream-json")], 3),
        (vec![("a", &unauthenticated, "claude-stream-json"), ("b", BAD, "text")], 1),
    ] {
        let variants: Vec<_> =
            variants.iter().map(|(name, command, output)| variant(name, command, output)).collect();
        let cases = json!([case("one")]);
        let world =
            World::with(&format!("youbencha: 1\nname: n\ncases: {cases}\nvariants: {}", json!(variants)));
        let outcome = world.suite(&["--retries", "0"]).run();
        assert_eq!(outcome.code, Some(code), "{}", outcome.stderr);
        assert_complete(&world.only_run(), 2);
    }
}

#[test]
fn filters_select_trials_and_report_no_match() {
    let mut cases = [case("one"), case("two"), case("three")];
    cases[1]["tags"] = json!(["slow"]);
    let text = suite(&[], &BOTH, "").replace("cases: []", &format!("cases: {}", json!(cases)));
    let world = World::with(&text);
    for (filters, expected) in [
        (&["t*", "variant=good"][..], &["two--good--1", "three--good--1"][..]),
        (&["tag=slow"], &["two--good--1", "two--bad--1"]),
        (&["case=one", "case=two", "variant=b*"], &["one--bad--1", "two--bad--1"]),
    ] {
        let mut run = world.suite(&["--jobs", "1"]);
        for filter in filters {
            run = run.args(["--filter", filter]);
        }
        run.run();
        assert_eq!(Journal::of(world.runs().last().unwrap()).started(), expected, "{filters:?}");
    }
    let before = world.runs();
    assert_snapshot!(world.suite(&["--filter", "variant=better", "--filter", "one"]).run().snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: no trial matches the filters: `variant=better`, `one`
    hint: available: `one / good`, `one / bad`, `two / good`, `two / bad`, `three / good`, `three / bad`
    ");
    assert_eq!(world.runs(), before);
}

#[test]
fn repeat_overrides_the_suite_and_dry_run_creates_no_run() {
    let world = World::with(&suite(&["one"], &[("good", GOOD)], "repeats: 2"));
    let dry = world.suite(&["--dry-run", "--repeat", "3", "--jobs", "2", "--max-cost", "2.5"]).run();
    assert_snapshot!(dry.snapshot(), @r"
    exit code: 0
    ----- stdout -----
    trial         agent    commit        median cost  median time
    one--good--1  command  [HEX]  unknown      unknown
    one--good--2  command  [HEX]  unknown      unknown
    one--good--3  command  [HEX]  unknown      unknown
    dry run: 3 trials, 2 at once
    estimate: unknown, no trial ran before
    budget $2.50
    command: ready
    ----- stderr -----
    ");
    assert_eq!(world.runs().len(), 0);
    assert!(!world.path(".youbencha-workspace/runs").exists());
    assert_eq!(world.suite(&["--repeat", "3", "--quiet"]).run().code, Some(0));
    assert_complete(&world.only_run(), 3);
}

/// Returns the maximum number of concurrent agents, from their start and end marks.
fn overlap(lines: &[String], of: &str) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    for line in lines.iter().filter(|line| line.ends_with(of)) {
        if line.starts_with('+') {
            now += 1;
        } else {
            now -= 1;
        }
        most = most.max(now);
    }
    most
}

#[test]
fn concurrency_limits_are_respected() {
    let world = World::new();
    let file = world.path("overlaps").display().to_string();
    let agent = format!("echo + $0 >> {file}; sleep 0.1; echo - $0 >> {file}; {GOOD}");
    let variants = [("a", agent.as_str()), ("b", agent.as_str())];
    world.context.write("suite.yaml", suite(&TWO, &variants, "repeats: 2\nconcurrency: { command: 2 }"));
    for (jobs, most) in [("8", 2), ("1", 1)] {
        let _ = fs::remove_file(&file);
        let outcome = world.suite(&["--jobs", jobs]).run();
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let lines = world.lines("overlaps");
        assert_eq!((lines.len(), overlap(&lines, "sh")), (16, most));
    }
}

#[test]
fn infrastructure_failures_are_retried_and_agent_failures_are_not() {
    let world = World::new();
    let count = world.path("count").display().to_string();
    // The API fails for the first two attempts.
    let lost =
        format!("echo x >> {count}; if [ $(wc -l < {count}) -lt 3 ]; then {}; fi; {GOOD}", refused(500));
    let variants =
        json!([variant("lost", &lost, "claude-stream-json"), variant("wrong", "echo said; exit 7", "text"),]);
    let text = format!("youbencha: 1\nname: n\ncases: {}\nvariants: {variants}", json!([case("one")]));
    world.context.write("suite.yaml", text);
    let outcome = world.suite(&["--jobs", "2"]).run();
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("one / lost: infra, retrying"), "{}", outcome.stderr);
    let run = world.only_run();
    assert_complete(&run, 2);
    let journal = Journal::of(&run);
    assert_eq!(journal.outcomes("one--lost--1"), ["infra", "infra", "passed"]);
    assert_eq!(journal.outcomes("one--wrong--1"), ["agent_error"]);
    for attempt in 1..=3 {
        let artifacts = run.join(format!("trials/one--lost--1/attempt-{attempt}/artifacts"));
        assert!(artifacts.join("youbencha-log.json").is_file(), "attempt {attempt} is kept");
    }
    let link = fs::read_link(run.join("trials/one--lost--1/artifacts")).unwrap();
    assert_eq!(link.to_str(), Some("attempt-3/artifacts"));
}

#[test]
fn retries_are_limited() {
    let variants = json!([variant("lost", &refused(500), "claude-stream-json")]);
    let world =
        World::with(&format!("youbencha: 1\nname: n\ncases: {}\nvariants: {variants}", json!([case("one")])));
    let outcome = world.suite(&["--retries", "1"]).run();
    assert_eq!(outcome.code, Some(4), "{}", outcome.stderr);
    assert_eq!(Journal::of(&world.only_run()).outcomes("one--lost--1"), ["infra", "infra"]);
}

/// A file blocks the directory of the next trial until a third trial removes it.
#[test]
fn unwritable_trial_directory_is_retried_while_others_run() {
    let agent = format!(
        "{WHO} cd \"$d/..\"; case $trial in one-*) : > two--v--1;; three-*) rm two--v--1;; esac; cd \"$OLDPWD\"; {GOOD}"
    );
    let world = World::with(&suite(&["one", "two", "three"], &[("v", &agent)], ""));
    let outcome = world.suite(&["--jobs", "1"]).run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let run = world.only_run();
    assert_complete(&run, 3);
    let journal = Journal::of(&run);
    assert_eq!(journal.started(), ["one--v--1", "two--v--1", "three--v--1", "two--v--1"]);
    assert_eq!(journal.outcomes("two--v--1"), ["infra", "passed"]);
}

#[test]
fn failing_hook_is_not_retried() {
    let mut one = case("one");
    one["pre_execution"] =
        json!([{ "name": "script", "config": { "command": "sh", "args": ["-c", "echo no >&2; exit 3"] } }]);
    let text =
        suite(&[], &[("v", GOOD)], "").replace("cases: []", &format!("cases: {}", json!([one, case("two")])));
    let world = World::with(&text);
    let outcome = world.suite(&[]).run();
    assert_eq!(outcome.code, Some(4), "{}", outcome.stderr);
    let journal = Journal::of(&world.only_run());
    assert_eq!(journal.outcomes("one--v--1"), ["infra"]);
    assert_eq!(journal.outcomes("two--v--1"), ["passed"]);
    let failed = journal.events("attempt_finished").find(|entry| entry["trial"] == "one--v--1").unwrap();
    assert!(failed["error"].as_str().unwrap().contains("pre-execution failed"), "{failed}");
}

/// A rate limit delays trials of the same account only.
#[test]
fn rate_limit_delays_other_trials_of_the_agent() {
    let world = World::new();
    let count = world.path("count").display().to_string();
    let limited =
        format!("echo x >> {count}; if [ $(wc -l < {count}) = 1 ]; then {}; fi; {GOOD}", refused(429));
    let mut other = variant("other", GOOD, "text");
    // Another secret means another account.
    other["env"] = json!({ "API_KEY": "another-account" });
    let variants = json!([variant("limited", &limited, "claude-stream-json"), other]);
    let text =
        format!("youbencha: 1\nname: n\ncases: {}\nvariants: {variants}\nrepeats: 2", json!([case("one")]));
    world.context.write("suite.yaml", text);
    let outcome = world.suite(&["--jobs", "1", "--json"]).run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("progress_holding"), "{}", outcome.stdout);
    let run = world.only_run();
    assert_complete(&run, 4);
    let journal = Journal::of(&run);
    assert_eq!(journal.outcomes("one--limited--1"), ["rate_limited", "passed"]);
    // The second repeat of the same account would have been next.
    let order = journal.started();
    let others = order.iter().take(3).copied().collect::<Vec<_>>();
    assert_eq!(others, ["one--limited--1", "one--other--1", "one--other--2"], "{order:?}");
}

/// Also while the agent waits for a retry.
#[test]
fn api_retry_delays_other_trials_of_the_agent() {
    let world = World::new();
    let count = world.path("count").display().to_string();
    let retry = json!({ "type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 10,
        "retry_delay_ms": 1500, "error_status": 429, "error": "rate_limit" });
    let agent = format!(
        "echo x >> {count}; if [ $(wc -l < {count}) = 1 ]; then echo '{retry}'; sleep 1.5; fi; {GOOD}"
    );
    let variants = json!([variant("v", &agent, "claude-stream-json")]);
    let cases = json!([case("one")]);
    world.context.write(
        "suite.yaml",
        format!("youbencha: 1\nname: n\ncases: {cases}\nvariants: {variants}\nrepeats: 3"),
    );
    let outcome = world.suite(&["--jobs", "1", "--json"]).run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    let events: Vec<serde_json::Value> =
        outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let holding = events.iter().position(|event| event["event"] == "progress_holding").unwrap();
    assert_eq!(events[holding]["for_ms"], 1500);
    let ended = events.iter().position(|event| event["event"] == "attempt_finished").unwrap();
    assert!(holding < ended, "reported while the agent waits");
    assert_complete(&world.only_run(), 3);
}
