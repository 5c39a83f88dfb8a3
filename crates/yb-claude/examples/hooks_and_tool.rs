//! A hook that watches Bash and a tool that runs in this program: `cargo run -p yb-claude --example hooks_and_tool`.

use schemars::JsonSchema;
use serde::Deserialize;
use yb_claude::Options;
use yb_claude::sdk::event::{PreToolUse, PreToolUseOutput};
use yb_claude::sdk::{Hooks, Host, Permission, ToolServer, tool};

#[derive(Deserialize, JsonSchema)]
struct Weather {
    /// The name of a town.
    town: String,
}

#[expect(clippy::print_stdout, reason = "an example speaks to its user")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    yb_supervise::shim_main();

    // Called before every use of Bash; what it denies does not happen, and the model is told why.
    let hooks = Hooks::new().on("Bash", |call: PreToolUse, _cx| async move {
        println!("hook   {}", call.tool_input);
        if call.tool_input.as_str().contains("rm ") {
            return PreToolUseOutput::deny("nothing is removed here");
        }
        PreToolUseOutput::allow()
    });

    // The model calls it `mcp__home__weather`. An error or a panic is told to the model.
    let weather = tool("weather", "The weather in a town", |args: Weather, _cx| async move {
        match args.town.as_str() {
            "Nowhere" => Err("there is no such town".to_owned()),
            town => Ok(format!("It rains in {town}.")),
        }
    });
    let tools = ToolServer::new("home").with(weather);

    tokio::runtime::Runtime::new()?.block_on(async {
        let host = Host::new(Options::default().with_allowed_tools(tools.tool_names()))
            .with_hooks(hooks)
            .with_tools(tools)
            // Asked about everything that neither the hook nor the rules have decided.
            .with_can_use_tool(|request, _cx| async move {
                println!("asked  {}", request.tool_name);
                Permission::deny("only Bash and the weather today")
            });
        println!("{}", host.query("Look at the weather in Oslo and tidy up.").text().await?);
        Ok(())
    })
}
