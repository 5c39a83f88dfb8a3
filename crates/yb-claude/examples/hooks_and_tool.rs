//! A hook for Bash and an in-process tool: `cargo run -p yb-claude --example hooks_and_tool`.

use schemars::JsonSchema;
use serde::Deserialize;
use yb_claude::Options;
use yb_claude::sdk::event::{PreToolUse, PreToolUseOutput};
use yb_claude::sdk::{Hooks, Host, PermissionResult, ToolServer, tool};

#[derive(Deserialize, JsonSchema)]
struct Weather {
    /// The name of the town.
    town: String,
}

#[expect(clippy::print_stdout, reason = "the example prints its result")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Must come first: kills everything that the agent started when a query ends.
    yb_claude::shim_main();

    // Called before every Bash call. The model receives the reason of a denial.
    let hooks = Hooks::new().on("Bash", |call: PreToolUse, _cx| async move {
        println!("hook   {}", call.tool_input);
        if call.tool_input.as_str().contains("rm ") {
            return PreToolUseOutput::deny("removing files is not allowed");
        }
        PreToolUseOutput::allow()
    });

    // The model calls it as `mcp__home__weather`. Errors and panics are reported to the model.
    let weather = tool("weather", "The weather in a town", |args: Weather, _cx| async move {
        match args.town.as_str() {
            "Nowhere" => Err("unknown town".to_owned()),
            town => Ok(format!("It rains in {town}.")),
        }
    });
    let tools = ToolServer::new("home").with_tool(weather);

    tokio::runtime::Runtime::new()?.block_on(async {
        let host = Host::new(Options::default().with_allowed_tools(tools.tool_names()))
            .with_hooks(hooks)
            .with_tools(tools)
            // Called for every tool call that neither the hook nor the rules have decided.
            .with_can_use_tool(|request, _cx| async move {
                println!("denied {}", request.tool_name);
                PermissionResult::deny("only Bash and weather are allowed")
            });
        println!("{}", host.query("Report the weather in Oslo and clean up.").text().await?);
        Ok(())
    })
}
