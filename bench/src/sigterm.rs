//! SIGTERM while eight trials run whose agents ignore it: time until `yb` exits, and leftover processes.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::Failure;
use crate::runs::{MEET, World, journal, results};
use crate::stats::{median, ms, row};

const ROUNDS: usize = 10;
const RUNNING: usize = 8;

pub(crate) fn run() -> Result<(), Failure> {
    for (who, trap) in [("listen", ""), ("ignore it", "trap '' TERM; ")] {
        let (mut times, mut left, mut unfinished) = (Vec::new(), 0, 0);
        for _ in 0..ROUNDS {
            let world = World::new("true", 1)?;
            let agent = format!(
                "{trap}(setsid sleep 300 > /dev/null 2>&1 &); while [ ! -e $MEET/go ]; do sleep 0.05; done; echo more >> a.txt"
            );
            world.suite(&agent, RUNNING + 2)?;
            let yb = world.start(&["-c", "suite.yaml", "--jobs", "8"])?;
            while started(&world)? < RUNNING {
                std::thread::sleep(Duration::from_millis(2));
            }
            // Give the shells time to reach their wait.
            std::thread::sleep(Duration::from_millis(500));
            let began = Instant::now();
            yb.signal(Signal::TERM)?;
            let (code, output) = yb.wait()?;
            times.push(began.elapsed());
            if code != Some(130) {
                return Err(format!("exit code {code:?}: {output}").into());
            }
            left += world.orphans();
            fs::write(world.path().join(MEET).join("go"), "")?;
            let (code, output) = world.start(&["--resume"])?.wait()?;
            let run = world.run()?.ok_or("no run")?;
            if code != Some(0) {
                return Err(output.into());
            }
            unfinished += RUNNING + 2 - results(&journal(&run)?)?.len();
        }
        let worst = times.iter().max().copied().unwrap_or_default();
        row(&format!("agents that {who}: exit, median"), &ms(median(&mut times)), None);
        row(
            &format!("agents that {who}: exit, worst"),
            &ms(worst),
            Some(("at most 3 s", worst.as_secs_f64() <= 3.0)),
        );
        row("  processes left alive", &left.to_string(), Some(("0", left == 0)));
        row("  trials missing after --resume", &unfinished.to_string(), Some(("0", unfinished == 0)));
    }
    Ok(())
}

/// Returns how many agents have started.
fn started(world: &World) -> Result<usize, Failure> {
    let Some(run) = world.run()? else { return Ok(0) };
    let events = journal(&run).unwrap_or_default();
    Ok(events.iter().filter(|event| event["event"] == "agent_started").count())
}
