//! Asks Claude Code one question: `cargo run -p yb-claude --example ask -- "What does this repository do?"`.

use yb_claude::{ClaudeCodeProvider, Context, Provider};

#[expect(clippy::print_stdout, reason = "the example prints its result")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Must come first: kills everything that the agent started when a call ends.
    yb_claude::shim_main();

    let question = std::env::args().nth(1).ok_or("usage: ask QUESTION")?;
    tokio::runtime::Runtime::new()?.block_on(async {
        let provider = ClaudeCodeProvider::new().with_max_budget_usd(0.50);
        let answer = provider.complete(&Context::bare(question)).await?;
        println!("{}", answer.text);
        if let (Some(model), Some(tokens)) = (answer.metadata.model, answer.metadata.tokens_used) {
            println!("-- {model}, {tokens} tokens");
        }
        Ok(())
    })
}
