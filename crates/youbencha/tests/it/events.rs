//! `yb run --json` and `--dry-run`.

use insta::assert_snapshot;
use serde_json::Value;
use yb_testkit::{Outcome, TestContext};

use crate::YB;
use crate::small_suite::{SUITE, world};

fn yb(context: &TestContext, args: &[&str]) -> Outcome {
    context.run(YB, args)
}

/// Parses every line of stdout as an event.
fn events(outcome: &Outcome) -> Vec<Value> {
    let lines: Vec<Value> = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in &lines {
        assert_eq!(line["v"], 1, "{line}");
        assert!(line["event"].is_string(), "{line}");
    }
    lines
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"].as_str().unwrap()).collect()
}

#[test]
fn json_lines_are_events_and_the_last_is_the_summary() {
    let context = world();
    context.write("suite.yaml", SUITE);
    let outcome = yb(&context, &["run", "-c", "suite.yaml", "--json", "--jobs", "2"]);
    let events = events(&outcome);
    let all = names(&events);
    assert_eq!((all[0], all[all.len() - 2], all[all.len() - 1]), ("run_started", "run_finished", "summary"));
    for (name, count) in [("attempt_started", 3), ("attempt_finished", 3)] {
        assert_eq!(all.iter().filter(|event| **event == name).count(), count, "{name}: {all:?}");
    }
    assert!(all.contains(&"progress_step"), "{all:?}");
    let summary = events.last().unwrap();
    assert_eq!(summary["exit_code"], 1);
    assert_eq!(outcome.code, Some(1));
    let counts =
        ["planned", "done", "passed", "failed", "left_out"].map(|name| summary[name].as_u64().unwrap());
    assert_eq!(counts, [3, 3, 2, 1, 0]);
    // Numbered events are those of the journal.
    let directory = summary["directory"].as_str().unwrap();
    let journal = std::fs::read_to_string(std::path::Path::new(directory).join("journal.jsonl")).unwrap();
    let recorded: Vec<Value> = journal.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut printed: Vec<Value> = events.iter().filter(|event| event["seq"].is_u64()).cloned().collect();
    for event in &mut printed {
        event.as_object_mut().unwrap().remove("v");
    }
    assert_eq!(printed, recorded);
}

#[test]
fn json_stdout_has_only_events() {
    let context = world();
    context.write("suite.yaml", SUITE);
    let one = yb(&context, &["run", "-c", "suite.yaml", "--json", "--filter", "variant=one"]);
    assert_eq!(events(&one).last().unwrap()["event"], "summary");
    let wrong = yb(&context, &["run", "-c", "suite.yaml", "--json", "--filter", "variant=nobody"]);
    assert_eq!((wrong.code, wrong.stdout.as_str()), (Some(2), ""), "{}", wrong.stderr);
    let gone_on = yb(&context, &["run", "--rerun", "failed", "latest", "--json"]);
    assert_eq!((gone_on.code, gone_on.stdout.as_str()), (Some(2), ""), "{}", gone_on.stderr);
}

/// An agent that reports its cost.
const PRICED: &str = r#"
youbencha: 1
name: nightly
cases:
  - name: greeting
    description: The script greets by name.
    repo: repo
    env: { DEPLOY_TOKEN: very-secret-token }
    isolation: none
    agent: { type: command, config: { prompt: Greet by name. } }
    evaluators: [{ name: git-diff, config: { assertions: { max_files_changed: 2 } } }]
variants:
  - { name: priced, type: command, config: { command: { output: claude-stream-json, argv: [sh, -c, "cat ../../../../../../../frames"] } } }
  - { name: free, type: command, config: { command: { argv: ["true"] } } }
repeats: 2
"#;

const FRAMES: &str = r#"{"type":"system","subtype":"init","session_id":"s","model":"claude-opus-5-5","tools":[],"cwd":"/","claude_code_version":"2.1.0"}
{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s","num_turns":2,"duration_ms":5,"total_cost_usd":0.25,"usage":{"input_tokens":10,"output_tokens":5},"modelUsage":{"claude-opus-5-5":{"inputTokens":10,"outputTokens":5,"costUSD":0.25}}}
"#;

#[test]
fn dry_run_estimates_from_earlier_runs() {
    let context = world();
    context.write("frames", FRAMES);
    context.write("suite.yaml", PRICED);
    let dry = |more: &[&str]| {
        let mut args = vec!["run", "-c", "suite.yaml", "--dry-run", "--jobs", "2"];
        args.extend(more);
        let outcome = yb(&context, &args);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        outcome
    };
    assert_snapshot!(dry(&[]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    trial                agent    commit        median cost  median time
    greeting--priced--1  command  [HEX]  unknown      unknown
    greeting--free--1    command  [HEX]  unknown      unknown
    greeting--priced--2  command  [HEX]  unknown      unknown
    greeting--free--2    command  [HEX]  unknown      unknown
    dry run: 4 trials, 2 at once
    estimate: unknown, no trial ran before
    command: ready, receives DEPLOY_TOKEN
    ----- stderr -----
    ");
    assert!(!context.dir().join(".youbencha-workspace/runs").exists(), "nothing is started");
    assert_eq!(yb(&context, &["run", "-c", "suite.yaml", "--quiet"]).code, Some(0));
    assert_snapshot!(dry(&["--max-cost", "0.30"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    trial                agent    commit        median cost  median time  samples
    greeting--priced--1  command  [HEX]  $0.25        [TIME]  2
    greeting--free--1    command  [HEX]  unknown      [TIME]  2
    greeting--priced--2  command  [HEX]  $0.25        [TIME]  2
    greeting--free--2    command  [HEX]  unknown      [TIME]  2
    dry run: 4 trials, 2 at once
    estimate from earlier runs: at least $0.50, [TIME]; cost of 2 trials unknown
    budget $0.30: exceeded by the estimate, some trials would not run
    command: ready, receives DEPLOY_TOKEN
    ----- stderr -----
    ");
    let printed = &events(&dry(&["--json", "--max-cost", "9", "--filter", "variant=priced"]))[0];
    assert_eq!(
        (&printed["estimate"]["cost_usd"], &printed["exceeds_max_cost"]),
        (&0.5.into(), &false.into())
    );
    assert_eq!(printed["trials"][0]["estimate"]["from"], 2);
    assert_eq!(printed["credentials"]["command"][0], "DEPLOY_TOKEN");
    // A changed case is matched by name.
    context.write("suite.yaml", PRICED.replace("Greet by name.", "Greet everybody by name."));
    let printed = &events(&dry(&["--json", "--filter", "variant=priced"]))[0];
    assert_eq!(printed["estimate"]["cost_usd"], 0.5);
}

#[test]
fn dry_run_of_resume_lists_pending_trials() {
    let context = world();
    context.write("suite.yaml", SUITE);
    yb(&context, &["run", "-c", "suite.yaml", "--quiet", "--jobs", "1"]);
    let runs = context.dir().join(".youbencha-workspace/runs");
    let run = std::fs::read_dir(runs).unwrap().next().unwrap().unwrap().path();
    // Simulates a kill during the third trial.
    let journal = std::fs::read_to_string(run.join("journal.jsonl")).unwrap();
    let third = journal.lines().position(|line| line.contains("greeting--none--1")).unwrap();
    let kept: String = journal.lines().take(third + 1).map(|line| format!("{line}\n")).collect();
    std::fs::write(run.join("journal.jsonl"), kept).unwrap();
    std::fs::remove_file(run.join("results.json")).unwrap();
    assert_snapshot!(yb(&context, &["run", "--resume", "--dry-run", "--jobs", "2"]).snapshot(), @r"
    exit code: 0
    ----- stdout -----
    trial              agent    commit        median cost  median time
    greeting--none--1  command  [HEX]  unknown      unknown
    dry run: 1 trial, 1 at once
    estimate: unknown, no trial ran before
    ----- stderr -----
    ");
}
