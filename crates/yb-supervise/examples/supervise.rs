//! Runs a command under supervision and says how it went:
//! `cargo run -p yb-supervise --example supervise -- --deadline 2 -- sh -c 'sleep 60 & wait'`.

use std::time::Duration;

use yb_supervise::{Command, Launch};

#[expect(clippy::print_stdout, reason = "an example speaks to its user")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    // First of all, before any thread: this program is its own shim.
    yb_supervise::shim_main();

    let mut deadline = Duration::ZERO;
    let mut launch = Launch::Contained;
    let mut copies = 1;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--deadline" => {
                deadline = Duration::from_secs_f64(args.next().ok_or("--deadline SECONDS")?.parse()?);
            }
            "--copies" => copies = args.next().ok_or("--copies NUMBER")?.parse()?,
            "--direct" => launch = Launch::Direct,
            "--" => break,
            other => return Err(format!("unknown option: `{other}`").into()),
        }
    }
    let program =
        args.next().ok_or("usage: supervise [--deadline S] [--copies N] [--direct] -- PROGRAM ARGS…")?;
    let args: Vec<String> = args.collect();

    tokio::runtime::Runtime::new()?.block_on(async {
        let mut running = Vec::new();
        for _ in 0..copies {
            let command = Command::new(&program).args(&args).deadline(deadline).launch(launch);
            running.push(command.spawn().await?);
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
