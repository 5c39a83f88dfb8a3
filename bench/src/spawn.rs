//! What supervision adds to starting a process that does nothing.

use std::time::{Duration, Instant};

use yb_supervise::{Command, ContainmentMethod, Launch};

use crate::Failure;
use crate::stats::{median, ms, row};

const ROUNDS: usize = 300;

pub(crate) fn run() -> Result<(), Failure> {
    let runtime = tokio::runtime::Runtime::new()?;
    let supervised = |launch: Launch, means: Option<ContainmentMethod>| -> Result<Duration, Failure> {
        let began = Instant::now();
        let mut command = Command::new("/bin/true").launch(launch);
        if let Some(means) = means {
            command = command.containment_method(means);
        }
        let report = runtime.block_on(command.run());
        let took = began.elapsed();
        if report.success() { Ok(took) } else { Err(report.end.to_string().into()) }
    };
    let has_cgroup = supervised(Launch::Contained, Some(ContainmentMethod::Cgroup)).is_ok();
    let (mut bare, mut direct, mut cgroup, mut subreaper) = (vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let began = Instant::now();
        std::process::Command::new("/bin/true").status()?;
        bare.push(began.elapsed());
        direct.push(supervised(Launch::Direct, None)?);
        subreaper.push(supervised(Launch::Contained, Some(ContainmentMethod::Subreaper))?);
        if has_cgroup {
            cgroup.push(supervised(Launch::Contained, Some(ContainmentMethod::Cgroup))?);
        }
    }
    let bare = median(&mut bare);
    let direct = median(&mut direct);
    row("bare std::process::Command::status", &ms(bare), None);
    let ratio = direct.as_secs_f64() / bare.as_secs_f64();
    row("Direct", &ms(direct), None);
    row("Direct / bare", &format!("{ratio:.2}"), Some(("at most 3", ratio <= 3.0)));
    for (name, times) in [("Contained, subreaper", &mut subreaper), ("Contained, cgroup", &mut cgroup)] {
        if times.is_empty() {
            row(name, "not possible here", None);
            continue;
        }
        let more = median(times).saturating_sub(bare);
        row(&format!("{name}: more than bare"), &ms(more), Some(("at most 10 ms", more.as_millis() < 10)));
    }
    Ok(())
}
