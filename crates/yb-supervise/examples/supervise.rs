//! Runs a command under supervision and prints the report:
//! `cargo run -p yb-supervise --example supervise -- --deadline 2 -- sh -c 'sleep 60 & wait'`.

use std::path::PathBuf;
use std::time::Duration;

use yb_supervise::{Command, ContainmentMethod, Launch};

#[expect(clippy::print_stdout, reason = "an example prints to the terminal")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    // First, before any thread is started: this program is its own shim.
    yb_supervise::shim_main();

    let mut deadline = Duration::ZERO;
    let mut launch = Launch::Contained;
    let mut copies = 1;
    let mut method = None;
    let mut pause_after = None;
    let mut records: Option<PathBuf> = None;
    let mut wait_for: Option<PathBuf> = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--deadline" => {
                deadline = Duration::from_secs_f64(args.next().ok_or("--deadline SECONDS")?.parse()?);
            }
            "--copies" => copies = args.next().ok_or("--copies NUMBER")?.parse()?,
            "--method" => method = Some(parse_method(&args.next().ok_or("--method METHOD")?)?),
            "--pause-after" => {
                let seconds = args.next().ok_or("--pause-after SECONDS")?.parse()?;
                pause_after = Some(Duration::from_secs_f64(seconds));
            }
            "--records" => records = Some(args.next().ok_or("--records FILE")?.into()),
            // Before the runtime, which has threads.
            "--keeper" => yb_supervise::start_keeper(),
            "--wait-for" => wait_for = Some(args.next().ok_or("--wait-for FILE")?.into()),
            "--direct" => launch = Launch::Direct,
            "--" => break,
            other => return Err(format!("unknown option: `{other}`").into()),
        }
    }
    let program =
        args.next().ok_or("usage: supervise [--deadline S] [--copies N] [--method M] [--direct] [--pause-after S] [--records FILE] [--keeper] [--wait-for FILE] -- PROGRAM ARGS…")?;
    let args: Vec<String> = args.collect();

    tokio::runtime::Runtime::new()?.block_on(async {
        let mut running = Vec::new();
        for copy in 0..copies {
            // All copies but the first wait for the file.
            while copy > 0 && wait_for.as_ref().is_some_and(|file| !file.exists()) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let mut command = Command::new(&program).args(&args).deadline(deadline).launch(launch);
            if let Some(method) = method {
                command = command.containment_method(method);
            }
            running.push(command.spawn().await?);
        }
        // With these records another process can kill the trees if this one and its shims are killed.
        if let Some(records) = records {
            let written: Vec<_> = running.iter().map(yb_supervise::Child::record).collect();
            std::fs::write(records, serde_json::to_string(&written)?)?;
        }
        if let Some(time) = pause_after {
            tokio::time::sleep(time).await;
            running.iter().for_each(yb_supervise::Child::pause);
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

fn parse_method(name: &str) -> Result<ContainmentMethod, String> {
    let known = [ContainmentMethod::Cgroup, ContainmentMethod::Subreaper, ContainmentMethod::Sweep];
    known
        .into_iter()
        .find(|method| method.to_string() == name)
        .ok_or_else(|| format!("unknown method: `{name}`"))
}
