//! A session with several turns, one of which is interrupted: `cargo run -p yb-claude --example many_turns`.

use yb_claude::sdk::{Client, Error};
use yb_claude::{Message, Options, PermissionMode};

#[expect(clippy::print_stdout, reason = "the example prints its result")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Must come first: kills everything that the agent started when the client is dropped.
    yb_claude::shim_main();

    tokio::runtime::Runtime::new()?.block_on(async {
        let options = Options::default().with_include_partial_messages(true);
        let client = Client::connect(options).await?;
        println!("1 {}", client.turn("What is in this directory?").text().await?);

        // Interrupt the turn as soon as the model starts to respond.
        let mut turn = client.turn("Count to a million.");
        while let Some(message) = turn.next().await {
            if matches!(message?, Message::StreamEvent(_)) {
                client.interrupt().await?;
                break;
            }
        }
        match turn.result().await {
            Err(Error::Result(result)) => println!("2 {}", result.terminal_reason.unwrap_or_default()),
            other => println!("2 {:?}", other?.result),
        }

        client.set_permission_mode(PermissionMode::AcceptEdits).await?;
        println!("3 {}", client.turn("Say goodbye.").text().await?);
        let usage = client.context_usage().await?;
        println!("used {} of {} tokens", usage.total_tokens, usage.max_tokens);
        println!("ended with {}", client.close().await?);
        Ok(())
    })
}
