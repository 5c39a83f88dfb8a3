//! Runs a command under supervision and says how it went:
//! `cargo run -p yb-supervise --example supervise -- --deadline 2 -- sh -c 'sleep 60 & wait'`.

use std::path::PathBuf;
use std::time::Duration;

use yb_supervise::{Command, Launch, Means};

#[expect(clippy::print_stdout, reason = "an example speaks to its user")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    // First of all, before any thread: this program is its own shim.
    yb_supervise::shim_main();

    let mut deadline = Duration::ZERO;
    let mut launch = Launch::Contained;
    let mut copies = 1;
    let mut means = None;
    let mut pause_after = None;
    let mut records: Option<PathBuf> = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--deadline" => {
                deadline = Duration::from_secs_f64(args.next().ok_or("--deadline SECONDS")?.parse()?);
            }
            "--copies" => copies = args.next().ok_or("--copies NUMBER")?.parse()?,
            "--means" => means = Some(parse_means(&args.next().ok_or("--means MEANS")?)?),
            "--pause-after" => {
                let seconds = args.next().ok_or("--pause-after SECONDS")?.parse()?;
                pause_after = Some(Duration::from_secs_f64(seconds));
            }
            "--records" => records = Some(args.next().ok_or("--records FILE")?.into()),
            "--direct" => launch = Launch::Direct,
            "--" => break,
            other => return Err(format!("unknown option: `{other}`").into()),
        }
    }
    let program =
        args.next().ok_or("usage: supervise [--deadline S] [--copies N] [--means M] [--direct] [--pause-after S] [--records FILE] -- PROGRAM ARGS…")?;
    let args: Vec<String> = args.collect();

    tokio::runtime::Runtime::new()?.block_on(async {
        let mut running = Vec::new();
        for _ in 0..copies {
            let mut command = Command::new(&program).args(&args).deadline(deadline).launch(launch);
            if let Some(means) = means {
                command = command.means(means);
            }
            running.push(command.spawn().await?);
        }
        // With these another process can end what is left if this one and its shims are killed.
        if let Some(records) = records {
            let written: Vec<_> = running.iter().map(yb_supervise::Running::record).collect();
            std::fs::write(records, serde_json::to_string(&written)?)?;
        }
        if let Some(time) = pause_after {
            tokio::time::sleep(time).await;
            running.iter().for_each(yb_supervise::Running::pause);
        }
        for child in running {
            let report = child.wait().await;
            if let Some(captured) = report.output.captured() {
                println!("{}", captured.text().text);
            }
            println!("{} in {:?}, {:?}", report.end, report.duration, report.containment);
            println!(
                "leaked: {}, unkillable: {:?}, usage: {:?}",
                report.leaked, report.unkillable, report.usage
            );
        }
        Ok(())
    })
}

fn parse_means(name: &str) -> Result<Means, String> {
    let known = [Means::Cgroup, Means::Subreaper, Means::Sweep];
    known
        .into_iter()
        .find(|means| means.to_string() == name)
        .ok_or_else(|| format!("unknown means: `{name}`"))
}
