//! Drops a query after a timeout: `cargo run -p yb-claude --example timeout -- 10 "Run the test suite"`.

use std::io::Read as _;
use std::time::Duration;

use yb_claude::Options;
use yb_claude::sdk::query;

#[expect(clippy::print_stdout, reason = "the example prints its result")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Must come first: without it, processes that the agent started may survive the query.
    yb_claude::shim_main();

    let mut args = std::env::args().skip(1);
    let (Some(seconds), Some(prompt)) = (args.next(), args.next()) else {
        return Err("usage: timeout SECONDS PROMPT".into());
    };
    let timeout = Duration::from_secs_f64(seconds.parse()?);
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        // When the time is up, the query is dropped: the CLI and all its descendants are killed.
        match tokio::time::timeout(timeout, query(prompt, Options::default()).text()).await {
            Ok(text) => println!("{}", text?),
            Err(_) => println!("timed out after {seconds} s"),
        }
        Ok::<_, yb_claude::sdk::Error>(())
    })?;
    println!("press Ctrl-D to exit");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
