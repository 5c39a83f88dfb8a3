//! `--max-cost`: a run over budget is stopped in flight, and the work of its trials is kept.

use serde_json::{Value, json};
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::RealClaude;

use crate::YB;
use crate::suites::{Journal, World, assert_complete, assert_same, case, variant};

/// Agents that report one call after another until the file `last` exists, and log their calls.
fn metered(repeats: usize) -> World {
    let world = World::new();
    let (calls, last) = (world.path("calls").display().to_string(), world.path("last").display().to_string());
    let frame = json!({ "type": "assistant", "session_id": "s", "message": { "id": "msg_@", "type": "message",
        "role": "assistant", "model": "claude-opus-5-5", "content": [{ "type": "text", "text": "working" }],
        "usage": { "input_tokens": 100_000, "output_tokens": 1 } } });
    let agent = format!(
        "echo more >> a.txt; i=0; while :; do i=$((i+1)); echo x >> {calls}; echo '{frame}' | sed s/@/$$.$i/; \
         [ ! -e {last} ] || exit 0; sleep 1; done"
    );
    let variants = json!([variant("v", &agent, "claude-stream-json")]);
    let text = format!(
        "youbencha: 1\nname: n\ncases: {}\nvariants: {variants}\nrepeats: {repeats}",
        json!([case("one")])
    );
    world.context.write("suite.yaml", text);
    world
}

/// The cost of one call of [`metered`].
fn one_call() -> f64 {
    let world = metered(1);
    world.context.write("last", "");
    assert_eq!(world.suite(&[]).run().code, Some(0));
    let usd = Journal::of(&world.only_run()).usd();
    assert!(usd > 0.0, "nothing was metered");
    usd
}

/// The limit of a run says nothing about an agent: the trials that it cut are still to do.
#[test]
fn run_over_budget_is_stopped_in_flight_and_resumes_what_it_cut() {
    let call = one_call();
    let world = metered(6);
    let limit = 6.0 * call;
    let outcome = world.suite(&["--jobs", "4", "--max-cost", &limit.to_string()]).run();
    assert_eq!(outcome.code, Some(5), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("budget exhausted: stopping 4 running trials"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("--max-cost MORE"), "{}", outcome.stderr);
    world.assert_nothing_runs();
    let run = world.only_run();
    let journal = Journal::of(&run);
    // All running trials and no waiting ones.
    assert_eq!((journal.started().len(), journal.results().len()), (4, 0));
    for repeat in 1..=4 {
        assert_eq!(journal.outcomes(&format!("one--v--{repeat}")), ["cancelled"]);
    }
    assert_eq!(journal.entries.last().unwrap()["reason"], "budget");
    // The documented overshoot: at most one call per running trial. A trial that was stopped during
    // a call has not reported it.
    let (spent, called) = (journal.usd(), world.lines("calls").len() as f64 * call);
    let most = limit + 4.0 * call + 1e-9;
    assert!(
        spent > limit - 1e-9 && spent <= called + 1e-9 && called <= most,
        "{spent}, {called}: {limit}, {call} each"
    );
    let printed: Value = serde_json::from_slice(&std::fs::read(run.join("results.json")).unwrap()).unwrap();
    assert_same(&journal, &printed);
    for repeat in 1..=4 {
        let artifacts = run.join(format!("trials/one--v--{repeat}/artifacts"));
        let read = |name: &str| std::fs::read_to_string(artifacts.join(name)).unwrap();
        assert!(read("git-diff.patch").contains("+more"), "what it did is kept");
        assert!(read("frames.jsonl").contains("working") && read("youbencha-log.json").contains("working"));
    }

    // The same limit leaves no budget.
    let outcome = world.run(&["--resume", "--jobs", "4"]).run();
    assert_eq!(outcome.code, Some(5), "{}", outcome.stderr);
    assert_eq!(Journal::of(&run).started().len(), 4);
    world.context.write("last", "");
    let more = (2.0 * spent + 6.0 * call).to_string();
    let outcome = world.run(&["--resume", "--jobs", "4", "--max-cost", &more]).run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let printed = assert_complete(&run, 6);
    assert_eq!(printed["outcomes"], json!({ "passed": 6 }));
    // The money of the cut attempts counts.
    assert!((Journal::of(&run).usd() - (spent + 6.0 * call)).abs() < 1e-9, "{spent}, {call}");
    world.assert_nothing_runs();
}

/// How many trials are in flight when the limit is reached depends on `--jobs`; pass rate, gates and baseline must not.
#[test]
fn pass_rate_gates_and_baseline_do_not_depend_on_jobs() {
    let call = one_call();
    let judged = |jobs: &str| {
        let world = metered(4);
        let (limit, gate) = ((2.5 * call).to_string(), "min_pass_rate=0.9");
        let cut = world.suite(&["--jobs", jobs, "--max-cost", &limit, "--gate", gate]).run();
        assert_eq!(cut.code, Some(5), "{}{}", cut.stdout, cut.stderr);
        assert!(cut.stdout.contains("no trial passed or failed"), "{}", cut.stdout);
        assert!(!cut.stdout.contains("infrastructure"), "{}", cut.stdout);
        let unfinished = world.context.command(YB).args(["baseline", "set", "main", "latest"]).run();
        assert_eq!(unfinished.code, Some(2), "{}", unfinished.stderr);
        world.context.write("last", "");
        let more = (100.0 * call).to_string();
        let done = world.run(&["--resume", "--jobs", jobs, "--max-cost", &more]).run();
        assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
        assert_eq!(world.context.command(YB).args(["baseline", "set", "main", "latest"]).run().code, Some(0));
        let stored = std::fs::read(world.path(".youbencha-workspace/baselines/main.json")).unwrap();
        let stored: Value = serde_json::from_slice(&stored).unwrap();
        (stored["results"]["outcomes"].clone(), Journal::of(&world.only_run()).results())
    };
    assert_eq!(judged("1"), judged("4"));
}

#[test]
fn run_below_budget_is_not_stopped() {
    let call = one_call();
    let world = metered(2);
    world.context.write("last", "");
    let outcome = world.suite(&["--max-cost", &(2.5 * call).to_string()]).run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_complete(&world.only_run(), 2);
}

/// Only the model is replaced; its script would continue.
#[test]
fn real_claude_is_stopped_when_the_budget_is_exhausted() {
    let turn = "{ tools: [{ Bash: { command: 'echo more >> a.txt; sleep 1', description: Work } }], \
                usage: { input: 100000, output: 1000 } }";
    let turns = format!("- {turn}\n    ").repeat(20);
    let script = format!("tape: 1\nlanes:\n  main:\n    {turns}- {{ say: Done. }}\n");
    let server =
        MockServer::start(Script::parse(&script, &Vars::new()).unwrap(), &MockServerOptions::default())
            .unwrap();
    let world = World::new();
    let mut one = case("one");
    one["agent"] = json!({ "type": "claude-code", "model": "claude-opus-5-5",
        "config": { "prompt": "Change one file.", "permission_mode": "bypassPermissions" } });
    one["isolation"] = json!("external");
    one["youbencha"] = json!(1);
    world.context.write("case.yaml", one.to_string());
    let outcome = world
        .run(&["-c", "case.yaml", "--max-cost", "1.2"])
        .env("ANTHROPIC_BASE_URL", server.base_url())
        .env("ANTHROPIC_API_KEY", "not-a-real-key")
        .env("YB_CLAUDE", RealClaude::new().program())
        .run();
    assert_eq!(outcome.code, Some(5), "{}{}", outcome.stdout, outcome.stderr);
    let run = world.only_run();
    let journal = Journal::of(&run);
    assert_eq!(journal.outcomes("one--default--1"), ["cancelled"], "{}", outcome.stderr);
    let asked = server.requests().iter().filter(|seen| seen.lane.is_some()).count();
    assert!(asked < 20, "it was stopped in flight: {asked}");
    assert!(journal.usd() >= 1.2, "{}", journal.usd());
    let patch = std::fs::read_to_string(run.join("artifacts/git-diff.patch")).unwrap();
    assert!(patch.contains("+more"), "{patch}");
    world.assert_nothing_runs();
}
