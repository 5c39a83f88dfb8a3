//! Latency of a deadline, and time to kill an uncooperative process tree.

use std::time::{Duration, Instant};

use yb_supervise::{Command, End, Launch};

use crate::Failure;
use crate::stats::{median, ms, row};

const DEADLINE: Duration = Duration::from_millis(400);
const GRACE: Duration = Duration::from_millis(300);
const ROUNDS: usize = 10;

const NASTY: [(&str, &str); 5] = [
    ("ignores SIGTERM", "trap '' TERM; sleep 60"),
    ("stops itself", "kill -STOP $$; sleep 60"),
    ("setsid daemon", "trap '' TERM; setsid sh -c 'sleep 60 & sleep 60' >/dev/null 2>&1 & sleep 60"),
    ("grandchild holds the pipes", "trap '' TERM; sh -c 'setsid sleep 60 &' ; sleep 60"),
    ("forks on and on", "trap '' TERM; while :; do sleep 60 & sleep 0.01; done"),
];

pub(crate) fn run() -> Result<(), Failure> {
    let runtime = tokio::runtime::Runtime::new()?;
    for launch in [Launch::Contained, Launch::Direct] {
        let mut late = Vec::new();
        for _ in 0..ROUNDS {
            late.push(runtime.block_on(sigterm_lateness(launch))?);
        }
        let worst = late.iter().copied().max().unwrap_or_default();
        row(&format!("{launch:?}: SIGTERM late, median"), &ms(median(&mut late)), None);
        row(
            &format!("{launch:?}: SIGTERM late, worst"),
            &ms(worst),
            Some(("at most 250 ms", worst.as_millis() <= 250)),
        );
        for (name, script) in NASTY {
            let mut after = Vec::new();
            for _ in 0..ROUNDS {
                let command = Command::new("/bin/sh").args(["-c", script]);
                let report = runtime.block_on(command.launch(launch).deadline(DEADLINE).grace(GRACE).run());
                if !matches!(report.end, End::TimedOut { .. }) {
                    return Err(format!("{name}: {}", report.end).into());
                }
                after.push(report.duration.saturating_sub(DEADLINE + GRACE));
            }
            let worst = after.iter().copied().max().unwrap_or_default();
            let bound = Some(("at most 1 s", worst.as_millis() <= 1000));
            row(&format!("{launch:?}, {name}: dead after grace, worst"), &ms(worst), bound);
        }
    }
    Ok(())
}

/// The child prints when it receives SIGTERM. The time of its shell counts as ours.
async fn sigterm_lateness(launch: Launch) -> Result<Duration, Failure> {
    let script = "trap 'echo received; exit' TERM; while :; do sleep 60 & wait; done";
    let command = Command::new("/bin/sh").args(["-c", script]).launch(launch).deadline(DEADLINE).tap();
    let mut running = command.spawn().await?;
    let due = Instant::now() + DEADLINE;
    let mut tap = running.tap().ok_or("no tap")?;
    tap.next().await.ok_or("SIGTERM was not received")?;
    let late = due.elapsed();
    running.wait().await;
    Ok(late)
}
