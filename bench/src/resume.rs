//! `kill -9` at random moments of a run, and truncation of the journal at every byte of its end: no trial is lost or repeated.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use yb_engine::Extensions;
use yb_engine::config::Settings;
use yb_engine::run::{Plan, RunContext, RunDir};

use crate::Failure;
use crate::runs::{World, journal, results};
use crate::stats::row;

const POINTS: usize = 200;
const TRIALS: usize = 20;
/// An agent that works briefly and leaves a background process.
const AGENT: &str = "(setsid sleep 300 > /dev/null 2>&1 &); sleep 0.02; echo more >> a.txt";

#[derive(Default)]
struct Count {
    in_flight: usize,
    before: usize,
    after: usize,
    lost: usize,
    repeated: usize,
    orphans: usize,
    wrong: usize,
}

pub(crate) fn run() -> Result<(), Failure> {
    let seed =
        std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x9E37_79B9_7F4A_7C15_u64);
    let mut random = seed;
    let world = World::new(AGENT, TRIALS)?;
    let began = Instant::now();
    let (code, output) = world.start(&["-c", "suite.yaml", "--jobs", "4"])?.wait()?;
    if code != Some(0) {
        return Err(output.into());
    }
    let whole = began.elapsed();
    let mut count = Count::default();
    // A run that had already ended was not killed.
    while count.before + count.in_flight < POINTS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let at = Duration::from_nanos(random % u64::try_from(whole.as_nanos())?);
        kill(&world, at, &mut count)?;
    }
    row("seed", &seed.to_string(), None);
    row("uninterrupted run", &format!("{:.2} s", whole.as_secs_f64()), None);
    row(
        "killed before its plan, after it; over by then",
        &format!("{}, {}, {}", count.before, count.in_flight, count.after),
        None,
    );
    row("finished trials lost", &count.lost.to_string(), Some(("0", count.lost == 0)));
    row("finished trials repeated", &count.repeated.to_string(), Some(("0", count.repeated == 0)));
    row("orphan processes", &count.orphans.to_string(), Some(("0", count.orphans == 0)));
    row("wrong totals", &count.wrong.to_string(), Some(("0", count.wrong == 0)));
    cuts(&world)
}

fn kill(world: &World, at: Duration, count: &mut Count) -> Result<(), Failure> {
    world.clear()?;
    let mut yb = world.start(&["-c", "suite.yaml", "--jobs", "4"])?;
    std::thread::sleep(at);
    if yb.is_over()? {
        count.after += 1;
        return Ok(());
    }
    yb.signal(Signal::KILL)?;
    yb.wait()?;
    count.orphans += world.orphans();
    let Some(run) = world.run()? else {
        count.before += 1;
        return Ok(());
    };
    let before = results(&journal(&run)?)?;
    count.in_flight += 1;
    let (code, output) = world.start(&["--resume", "--jobs", "4"])?.wait()?;
    // Killed after its results were written, the run was finished.
    let was_finished = code == Some(2) && output.contains("no unfinished run");
    if code != Some(0) && !was_finished {
        return Err(format!("after {at:?}: {output}").into());
    }
    count.orphans += world.orphans();
    let after = match results(&journal(&run)?) {
        Ok(after) => after,
        Err(_) => {
            count.repeated += 1;
            return Ok(());
        }
    };
    count.lost += before.iter().filter(|(trial, result)| after.get(*trial) != Some(result)).count();
    let Ok(bytes) = fs::read(run.join("results.json")) else {
        let last = journal(&run)?.pop().unwrap_or_default();
        return Err(
            format!("no results, killed after {at:?}, exit code {code:?}, last {last}: {output}").into()
        );
    };
    let results: serde_json::Value = serde_json::from_slice(&bytes)?;
    let right = results["done"] == TRIALS
        && after.len() == TRIALS
        && results["outcomes"]["passed"] == TRIALS
        && results["finished"] == true;
    count.wrong += usize::from(!right);
    Ok(())
}

/// Truncates the journal of a killed run at every byte of its last lines, and resumes up to the first trial.
fn cuts(world: &World) -> Result<(), Failure> {
    world.clear()?;
    let yb = world.start(&["-c", "suite.yaml", "--jobs", "4"])?;
    let run = loop {
        match world.run()? {
            Some(run) if results(&journal(&run)?)?.len() >= 3 => break run,
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    yb.signal(Signal::KILL)?;
    yb.wait()?;
    let path = run.join("journal.jsonl");
    let whole = fs::read(&path)?;
    let tail: usize = whole.split_inclusive(|byte| *byte == b'\n').rev().take(4).map(<[u8]>::len).sum();
    let runtime = tokio::runtime::Runtime::new()?;
    let (mut resumed, mut wrong) = (0, 0);
    for cut in whole.len() - tail..=whole.len() {
        fs::write(&path, &whole[..cut])?;
        let done = results(&journal(&run)?)?.len();
        match runtime.block_on(resume(world.path(), &run)) {
            Ok(pending) if pending == TRIALS - done => resumed += 1,
            _ => wrong += 1,
        }
    }
    row("journal truncations", &format!("{}", tail + 1), None);
    row("resumed with the remaining trials", &resumed.to_string(), Some(("all", wrong == 0)));
    Ok(())
}

async fn resume(root: &Path, run: &Path) -> Result<usize, Failure> {
    let workspace = root.join(".youbencha-workspace").display().to_string();
    let settings = Settings::default().with_argument("workspace_dir", workspace);
    let path = std::env::var("PATH").unwrap_or_default();
    let setup = RunContext::new(settings, BTreeMap::from([("PATH".to_owned(), path)]), Extensions::builtin());
    let loaded = yb_engine::suite::load(&root.join("suite.yaml"), &setup.extensions.load_options());
    let suite = loaded.suite.ok_or("the suite can't be read")?;
    let run = RunDir::at(run);
    let plan = Plan::read(&run.plan())?;
    let open = setup.resume(run, plan, &suite, false, 4).await?;
    Ok(open.state.tally().pending())
}
