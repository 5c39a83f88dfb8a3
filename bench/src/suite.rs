//! A long suite of trivial trials: CPU time and memory of `yb` itself, without its children.

use std::fs;

use crate::Failure;
use crate::runs::{World, journal};
use crate::stats::row;

const FEW: usize = 10;
const MANY: usize = 1000;

pub(crate) fn run() -> Result<(), Failure> {
    let world = World::new("echo more >> a.txt", FEW)?;
    // The first run fills the cache. Nothing is removed before the end: some file systems create files slowly after many
    // were removed.
    world.start(&["-c", "suite.yaml"])?.measured()?;
    let few = world.start(&["-c", "suite.yaml"])?.measured()?;
    world.suite("echo more >> a.txt", MANY)?;
    let began = std::time::Instant::now();
    let many = world.start(&["-c", "suite.yaml"])?.measured()?;
    let elapsed = began.elapsed();
    let run = world.run()?.ok_or("no run")?;
    let attempts = journal(&run)?.iter().filter(|entry| entry["event"] == "attempt_finished").count();
    if attempts != MANY {
        return Err(format!("{attempts} attempts").into());
    }
    let extra = many.cpu.saturating_sub(few.cpu).as_secs_f64() * 1000.0 / (MANY - FEW) as f64;
    let per_trial = fs::metadata(run.join("journal.jsonl"))?.len() / MANY as u64;
    let rss = many.peak_rss as f64 / 1e6;
    row(&format!("CPU of yb itself, {FEW} trials"), &format!("{:.2} s", few.cpu.as_secs_f64()), None);
    row(&format!("CPU of yb itself, {MANY} trials"), &format!("{:.2} s", many.cpu.as_secs_f64()), None);
    row("each additional trial", &format!("{extra:.2} ms"), Some(("at most 3 ms", extra <= 3.0)));
    row(
        "from start to end, each trial",
        &format!("{:.1} ms", elapsed.as_secs_f64() * 1000.0 / MANY as f64),
        None,
    );
    row("peak resident memory", &format!("{rss:.1} MB"), Some(("below 60 MB", rss < 60.0)));
    row("journal per trial", &format!("{per_trial} bytes"), Some(("below 4 KB", per_trial < 4096)));
    Ok(())
}
