//! A streamed query and a query with structured output: `cargo run -p yb-claude --example one_shot -- "Is this repository tested?"`.

use schemars::JsonSchema;
use serde::Deserialize;
use yb_claude::sdk::query;
use yb_claude::{Message, Options};

#[derive(Debug, Deserialize, JsonSchema)]
struct Verdict {
    /// Yes or no.
    yes: bool,
    /// The reason in one sentence.
    because: String,
}

#[expect(clippy::print_stdout, reason = "the example prints its result")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Must come first: kills everything that the agent started when a query ends.
    yb_claude::shim_main();

    let question = std::env::args().nth(1).ok_or("usage: one_shot QUESTION")?;
    tokio::runtime::Runtime::new()?.block_on(async {
        // Stream the messages …
        let options = Options::default().with_max_budget_usd(0.50).with_allowed_tools(["Read"]);
        let mut messages = query(question.as_str(), &options);
        while let Some(message) = messages.next().await {
            match message? {
                Message::Assistant(message) => println!("text   {}", message.text()),
                Message::Result(result) => println!("result {}", result.subtype.as_str()),
                _ => {}
            }
        }
        // … or get only the structured output.
        let verdict: Verdict = query(question, &options).structured().await?;
        println!("{}: {}", if verdict.yes { "yes" } else { "no" }, verdict.because);
        Ok(())
    })
}
