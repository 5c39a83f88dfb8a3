//! One question with a typed answer: `cargo run -p yb-claude --example one_shot -- "Is this repository tested?"`.

use schemars::JsonSchema;
use serde::Deserialize;
use yb_claude::sdk::query;
use yb_claude::{Message, Options};

#[derive(Debug, Deserialize, JsonSchema)]
struct Verdict {
    /// Yes or no.
    yes: bool,
    /// In one sentence.
    because: String,
}

#[expect(clippy::print_stdout, reason = "an example speaks to its user")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    // First of all, before any thread: no process that the agent starts can escape.
    yb_supervise::shim_main();

    let question = std::env::args().nth(1).ok_or("usage: one_shot QUESTION")?;
    tokio::runtime::Runtime::new()?.block_on(async {
        // As it happens …
        let options = Options::default().with_max_budget_usd(0.50).with_allowed_tools(["Read"]);
        let mut answer = query(question.as_str(), &options);
        while let Some(message) = answer.next().await {
            match message? {
                Message::Assistant(message) => println!("says   {}", message.text()),
                Message::Result(result) => println!("result {}", result.subtype.as_str()),
                _ => {}
            }
        }
        // … or only what comes of it, in the shape of a type.
        let verdict: Verdict = query(question, &options).structured().await?;
        println!("{}: {}", if verdict.yes { "yes" } else { "no" }, verdict.because);
        Ok(())
    })
}
