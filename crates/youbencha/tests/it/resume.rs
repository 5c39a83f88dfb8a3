//! `--resume` and `--rerun`: finished trials are kept, and the others run once.

#[cfg(target_os = "linux")]
mod orphans;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use insta::assert_snapshot;
use rustix::process::Signal;
use serde_json::json;

use crate::YB;
use crate::suites::{BAD, GOOD, Journal, World, assert_complete, case, refused, suite, variant, wait_until};

/// Runs briefly and leaves a background process.
const LEAVES_A_DAEMON: &str = "(setsid sleep 300 > /dev/null 2>&1 &); sleep 0.05; echo more >> a.txt";

/// A run of three trials, killed during the second.
fn killed() -> World {
    let world = World::new();
    let go = world.path("go").display().to_string();
    let agent =
        format!("case $PWD in *one--*) ;; *) while [ ! -e {go} ]; do sleep 0.02; done;; esac; {GOOD}");
    world.context.write("suite.yaml", suite(&["one", "two", "three"], &[("v", &agent)], ""));
    let yb = world.start(&["-c", "suite.yaml", "--jobs", "1"]);
    world.wait_for("attempt_started", 2);
    wait_until("the workspace of the second", || {
        world.only_run().join("trials/two--v--1/attempt-1/src-modified/a.txt").exists()
    });
    yb.signal(Signal::KILL);
    assert_eq!(yb.wait().code, None);
    world.assert_nothing_runs();
    fs::write(world.path("go"), "").unwrap();
    world
}

#[test]
fn resume_keeps_finished_trials_and_runs_the_rest() {
    let world = killed();
    let run = world.only_run();
    let outcome = world.run(&["--resume", "--jobs", "1", "--no-check"]).run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_snapshot!(outcome.snapshot(), @r"
    exit code: 0
    ----- stdout -----
    case   variant  passed  median time
    one    v        1/1     [TIME]
    two    v        1/1     [TIME]
    three  v        1/1     [TIME]
    3 of 3 trials: 3 passed in [TIME]; isolation: none
    ----- stderr -----
    [1/3] two / v: cancelled in [TIME]: the run was killed during this attempt
    resuming: 2 trials pending, 1 at once
    two / v: running agent `command`
    [2/3] two / v: passed in [TIME]
    three / v: running agent `command`
    [3/3] three / v: passed in [TIME]
    hint: inspect the run: yb show latest
    hint: write an HTML report: yb report --format html
    ");
    assert_complete(&run, 3);
    let journal = Journal::of(&run);
    assert_eq!(journal.started(), ["one--v--1", "two--v--1", "two--v--1", "three--v--1"]);
    assert_eq!(journal.outcomes("two--v--1"), ["cancelled", "passed"]);
    let died = journal.events("attempt_finished").find(|entry| entry["outcome"] == "cancelled").unwrap();
    assert!(died["error"].as_str().unwrap().starts_with("the run was killed during this attempt"), "{died}");
    assert!(!run.join("trials/two--v--1/attempt-1/private").exists());

    let again = world.run(&["--resume"]).run();
    assert_eq!(again.code, Some(2), "{}", again.stderr);
    assert!(again.stderr.contains("no unfinished run"), "{}", again.stderr);
    let named = world.run(&["--resume", "latest"]).run();
    assert_eq!(named.code, Some(2), "{}", named.stderr);
    assert!(named.stderr.contains("is pending"), "{}", named.stderr);
    assert_complete(&run, 3);
}

/// A deterministic pseudo-random number.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u128) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % u64::try_from(bound.max(1)).unwrap()
    }
}

mod soak {
    use super::*;

    /// `bench resume` does the same at 200 points.
    #[test]
    fn resume_after_kill_loses_and_repeats_nothing() {
        const TRIALS: usize = 6;
        let world = World::with(&suite(&["one", "two"], &[("v", LEAVES_A_DAEMON)], "repeats: 3"));
        let began = Instant::now();
        assert_eq!(world.suite(&["--jobs", "3", "--quiet"]).run().code, Some(0));
        let whole = began.elapsed();
        let seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
        let mut random = Random(seed);
        for point in 0..12 {
            let at = Duration::from_millis(random.below(whole.as_millis()));
            let what = format!("seed {seed}, point {point}, killed after {at:?}");
            fs::remove_dir_all(world.path(".youbencha-workspace/runs")).unwrap();
            let mut yb = world.start(&["-c", "suite.yaml", "--jobs", "3"]);
            std::thread::sleep(at);
            if yb.is_over() {
                continue;
            }
            yb.signal(Signal::KILL);
            yb.wait();
            world.assert_nothing_runs();
            let Some(run) = world.runs().pop() else {
                // The run had not started.
                assert_eq!(world.run(&["--resume"]).run().code, Some(2), "{what}");
                fs::create_dir_all(world.path(".youbencha-workspace/runs")).unwrap();
                continue;
            };
            let before = finished(&run);
            if point % 2 == 0 {
                let yb = world.start(&["--resume", "--jobs", "3"]);
                std::thread::sleep(Duration::from_millis(random.below(whole.as_millis() / 2)));
                yb.signal(Signal::KILL);
                yb.wait();
            }
            let outcome = world.run(&["--resume", "--jobs", "3"]).run();
            let done = outcome.code == Some(2) && outcome.stderr.contains("no unfinished run");
            assert!(outcome.code == Some(0) || done, "{what}: {}", outcome.stderr);
            let checked = std::panic::catch_unwind(|| assert_complete(&run, TRIALS));
            assert!(checked.is_ok(), "{what}");
            assert!(finished(&run).starts_with(&before), "{what}");
            world.assert_nothing_runs();
        }
    }
}

/// The first action of the agent is to kill `yb` and its shim. `yb` is stopped first, so that neither can kill the tree.
#[test]
fn agent_that_kills_yb_and_its_shim_at_once_is_reaped() {
    for round in 0..8 {
        let world = World::new();
        let killed = world.path("killed").display().to_string();
        let agent = format!(
            "if [ ! -e {killed} ]; then
               host=$(cut -d' ' -f4 /proc/$PPID/stat); kill -STOP $host; kill -KILL $PPID $host
               (setsid sleep 300 > /dev/null 2>&1 &); : > {killed}; exec sleep 300
             fi; {GOOD}"
        );
        world.context.write("suite.yaml", suite(&["one"], &[("v", &agent)], ""));
        let yb = world.start(&["-c", "suite.yaml"]);
        assert_eq!(yb.wait().code, None, "round {round}");
        wait_until("the agent", || world.path("killed").exists());
        let outcome = world.run(&["--resume"]).run();
        assert_eq!(outcome.code, Some(0), "round {round}: {}", outcome.stderr);
        let journal = fs::read_to_string(world.only_run().join("journal.jsonl")).unwrap();
        assert!(journal.contains("of its processes were reaped"), "round {round}: {journal}");
        world.assert_nothing_runs();
    }
}

/// The final lines of the journal.
fn finished(run: &Path) -> Vec<String> {
    if !run.join("journal.jsonl").exists() {
        return Vec::new();
    }
    let journal = Journal::of(run);
    journal.events("attempt_finished").map(ToString::to_string).collect()
}

#[test]
fn resume_writes_results_after_kill_at_the_end() {
    let world = World::with(&suite(&["one", "two"], &[("v", GOOD)], ""));
    assert_eq!(world.suite(&[]).run().code, Some(0));
    let run = world.only_run();
    // Killed before the last line, or between the last line and the results.
    for lines in [1, 0] {
        let text = fs::read_to_string(run.join("journal.jsonl")).unwrap();
        let kept: Vec<&str> = text.lines().rev().skip(lines).collect();
        let kept: String = kept.iter().rev().map(|line| format!("{line}\n")).collect();
        fs::write(run.join("journal.jsonl"), kept).unwrap();
        fs::remove_file(run.join("results.json")).unwrap();
        let outcome = world.run(&["--resume"]).run();
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        assert_complete(&run, 2);
        assert_eq!(Journal::of(&run).count("attempt_started"), 2);
        assert_eq!(world.run(&["--resume"]).run().code, Some(2));
    }
}

#[test]
fn second_process_on_a_run_is_rejected() {
    let world = World::new();
    let go = world.path("go").display().to_string();
    let agent = format!("while [ ! -e {go} ]; do sleep 0.02; done; {GOOD}");
    world.context.write("suite.yaml", suite(&["one"], &[("v", &agent)], ""));
    let yb = world.start(&["-c", "suite.yaml"]);
    world.wait_for("attempt_started", 1);
    let second = world.run(&["--resume", "latest"]).run();
    assert_eq!(second.code, Some(2), "{}", second.stderr);
    assert!(second.stderr.contains(&format!("is in use by process {}", yb.pid())), "{}", second.stderr);
    // Without a name, the run is not a candidate.
    assert_eq!(world.run(&["--resume"]).run().code, Some(2));
    fs::write(world.path("go"), "").unwrap();
    assert_eq!(yb.wait().code, Some(0));
    assert_complete(&world.only_run(), 1);
}

#[test]
fn resume_rejects_changed_files() {
    let world = World::new();
    let mut one = case("one");
    one["agent"]["config"] = json!({ "prompt_file": "prompt.md" });
    one["youbencha"] = json!(1);
    world.context.write("one.yaml", one.to_string());
    world.context.write("prompt.md", "Change one file.");
    let text =
        suite(&[], &[("v", "sleep 0.2; echo more >> a.txt")], "").replace("cases: []", "cases: [one.yaml]");
    world.context.write("suite.yaml", &text);
    let yb = world.start(&["-c", "suite.yaml"]);
    world.wait_for("attempt_started", 1);
    yb.signal(Signal::KILL);
    yb.wait();
    world.assert_nothing_runs();
    for (file, content) in [
        ("suite.yaml", format!("{text}\n# changed")),
        ("one.yaml", one.to_string().replace("One file", "Two files")),
        ("prompt.md", "Change two files.".to_owned()),
        ("tree/a.txt", "another start\n".to_owned()),
    ] {
        let journal = Journal::of(&world.only_run()).entries;
        let before = world.context.read(file);
        world.context.write(file, content);
        let outcome = world.run(&["--resume"]).run();
        assert_eq!(outcome.code, Some(2), "{file}: {}", outcome.stderr);
        let named = if file == "tree/a.txt" { "start or content of case `one`" } else { file };
        assert!(
            outcome.stderr.contains("files have changed since run") && outcome.stderr.contains(named),
            "{file}: {}",
            outcome.stderr
        );
        assert_eq!(Journal::of(&world.only_run()).entries, journal);
        world.context.write(file, before);
    }
    assert_eq!(world.run(&["--resume"]).run().code, Some(0));
    assert_complete(&world.only_run(), 1);
}

#[test]
fn resume_continues_a_truncated_journal() {
    let world = killed();
    let run = world.only_run();
    let outcome = world.run(&["--resume", "--jobs", "1"]).run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let whole = fs::read(run.join("journal.jsonl")).unwrap();
    let borders: Vec<usize> =
        whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    for border in borders.iter().rev().skip(1).take(5) {
        for cut in [*border, border + 1, border + 40] {
            fs::write(run.join("journal.jsonl"), &whole[..cut]).unwrap();
            fs::remove_file(run.join("results.json")).unwrap();
            let before = finished(&run);
            let outcome = world.run(&["--resume", "--jobs", "1", "--quiet"]).run();
            assert_eq!(outcome.code, Some(0), "cut at {cut}: {}", outcome.stderr);
            assert_complete(&run, 3);
            assert!(finished(&run).starts_with(&before), "cut at {cut}");
        }
    }
}

/// Tests reading at every byte.
#[test]
fn journal_truncated_at_any_byte_keeps_complete_lines() {
    let world = killed();
    let run = world.only_run();
    let whole = fs::read(run.join("journal.jsonl")).unwrap();
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    let tail: usize = lines.iter().rev().take(3).map(|line| line.len()).sum();
    for cut in whole.len() - tail..=whole.len() {
        fs::write(run.join("journal.jsonl"), &whole[..cut]).unwrap();
        let info = yb_engine::run::RunInfo::read(yb_engine::run::RunDir::at(&run)).unwrap();
        let expected = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
        let found = yb_engine::run::read_journal(&run.join("journal.jsonl")).unwrap();
        assert_eq!(found.entries.len(), expected, "cut at {cut}");
        assert!(info.is_unfinished());
    }
}

#[test]
fn resume_reports_missing_files() {
    let world = killed();
    let run = world.only_run();
    let refused = |expected: &str, code| {
        let outcome = world.run(&["--resume", "latest"]).run();
        assert_eq!(outcome.code, Some(code), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
    };
    let with = |file: &str, change: &dyn Fn(&Path), expected: &str, code| {
        let path = run.join(file);
        let before = fs::read(&path).unwrap();
        change(&path);
        refused(expected, code);
        fs::write(&path, before).unwrap();
    };
    let gone = |path: &Path| fs::remove_file(path).unwrap();
    let patch = "trials/one--v--1/attempt-1/artifacts/git-diff.patch";
    with(patch, &gone, &format!("`{patch}` is missing"), 4);
    let newer = |path: &Path| {
        let text = fs::read_to_string(path).unwrap().replacen("\"version\": 1", "\"version\": 2", 1);
        fs::write(path, text).unwrap();
    };
    with("plan.json", &newer, "it has version 2; this version reads up to 1", 2);
    with("plan.json", &|path| fs::write(path, "{").unwrap(), "failed to read the plan", 2);
    let damaged = |path: &Path| {
        let text = fs::read_to_string(path).unwrap();
        fs::write(path, text.replacen("attempt_started", "attempt_st\0", 1)).unwrap();
    };
    with("journal.jsonl", &damaged, "is damaged in line 2", 4);
    // With all files restored, the run resumes.
    assert_eq!(world.run(&["--resume"]).run().code, Some(0));
    assert_complete(&run, 3);
}

#[test]
fn run_without_journal_starts_and_run_without_plan_is_skipped() {
    let world = killed();
    let run = world.only_run();
    fs::remove_file(run.join("journal.jsonl")).unwrap();
    let outcome = world.run(&["--resume", "--jobs", "1"]).run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_complete(&run, 3);
    // The artifacts of the missing journal are kept.
    assert!(run.join("trials/one--v--1/attempt-1/artifacts").is_dir());
    assert!(run.join("trials/one--v--1/attempt-2/artifacts").is_dir());
    assert!(!run.join("trials/two--v--1/attempt-1/private").exists(), "nobody else would remove it");

    fs::create_dir(run.with_file_name("run-2999-01-01-32472144000000")).unwrap();
    assert_eq!(world.run(&["--resume"]).run().code, Some(2));
}

/// A run with failed and excluded trials.
fn failed_and_lost() -> (World, PathBuf) {
    let variants = json!([
        variant("good", GOOD, "text"),
        variant("bad", BAD, "text"),
        variant("lost", &refused(500), "claude-stream-json")
    ]);
    let text =
        format!("youbencha: 1\nname: n\ncases: {}\nvariants: {variants}", json!([case("one"), case("two")]));
    let world = World::with(&text);
    assert_eq!(world.suite(&["--retries", "0"]).run().code, Some(1));
    let run = world.only_run();
    (world, run)
}

#[test]
fn rerun_failed_creates_a_new_run() {
    let (world, first) = failed_and_lost();
    let before = fs::read(first.join("journal.jsonl")).unwrap();
    let outcome = world.run(&["--rerun", "failed", "latest", "--jobs", "1"]).run();
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    let runs = world.runs();
    assert_eq!(runs.len(), 2);
    assert_complete(&runs[1], 2);
    assert_eq!(Journal::of(&runs[1]).started(), ["one--bad--1", "two--bad--1"]);
    assert_eq!(fs::read(first.join("journal.jsonl")).unwrap(), before, "the first keeps its score");
    let plan: serde_json::Value =
        serde_json::from_slice(&fs::read(runs[1].join("plan.json")).unwrap()).unwrap();
    assert_eq!(plan["rerun_of"].as_str(), first.file_name().unwrap().to_str());
    // Equal trials have equal ids.
    let ids = |run: &Path| -> Vec<String> {
        let plan: serde_json::Value =
            serde_json::from_slice(&fs::read(run.join("plan.json")).unwrap()).unwrap();
        let bad =
            plan["trials"].as_array().unwrap().iter().filter(|trial| trial["variant"] == "bad").cloned();
        bad.map(|trial| trial["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&first), ids(&runs[1]));
}

#[test]
fn rerun_failed_runs_what_was_edited_and_says_so() {
    let text = suite(&["one", "two"], &[("v", GOOD)], "");
    let text = text.replacen("\"max_files_changed\":1", "\"max_files_changed\":0", 1);
    let world = World::with(&text);
    assert_eq!(world.suite(&["--quiet"]).run().code, Some(1));
    // The grader of the failed case is mended.
    let edited = text.replacen("\"max_files_changed\":0", "\"max_files_changed\":1", 1);
    world.context.write("suite.yaml", &edited);
    let outcome = world.run(&["--rerun", "failed", "latest", "--jobs", "1"]).run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert!(
        outcome.stderr.contains(": `one`; rerunning all their trials, and those that failed"),
        "{}",
        outcome.stderr
    );
    let runs = world.runs();
    assert_eq!(Journal::of(&runs[1]).started(), ["one--v--1"]);
    let shown = world.context.run(YB, ["show", "latest"]);
    let first = runs[0].file_name().unwrap().to_str().unwrap();
    let note = format!("note: rerun of failed or edited trials of {first}");
    assert!(shown.stderr.contains(&note), "{}{}", shown.stdout, shown.stderr);
    // Against the first run, its prompt is edited as well.
    let prompt = edited.replacen("Change one file.", "Change one file, please.", 1);
    world.context.write("suite.yaml", &prompt);
    let outcome = world.run(&["--rerun", "failed", first, "--jobs", "1"]).run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(Journal::of(&world.runs()[2]).started(), ["one--v--1"]);
    // Nothing failed and no case was edited.
    world.context.write("suite.yaml", format!("{prompt}\n# a comment"));
    let outcome = world.run(&["--rerun", "failed", "latest"]).run();
    assert_eq!(outcome.code, Some(2), "{}{}", outcome.stdout, outcome.stderr);
}

#[test]
fn rerun_infra_continues_the_same_run() {
    let (world, run) = failed_and_lost();
    let outcome = world.run(&["--rerun", "infra", "latest", "--jobs", "1", "--retries", "0"]).run();
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    assert_eq!(world.only_run(), run);
    assert_complete(&run, 6);
    let journal = Journal::of(&run);
    let resumed = journal.events("run_resumed").next().unwrap();
    assert_eq!(resumed["again"], json!(["one--lost--1", "two--lost--1"]));
    assert_eq!(journal.outcomes("one--lost--1"), ["infra", "infra"]);
    assert_eq!(journal.outcomes("one--bad--1"), ["failed"]);
}

#[test]
fn rerun_without_matching_trials_is_an_error() {
    let world = World::with(&suite(&["one"], &[("v", GOOD)], ""));
    assert_eq!(world.suite(&[]).run().code, Some(0));
    for (which, expected) in
        [("failed", "no trial of run"), ("infra", "no trial of run"), ("all", "expected `failed` or `infra`")]
    {
        let outcome = world.run(&["--rerun", which, "latest"]).run();
        assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
    }
    assert_eq!(world.runs().len(), 1);
}
