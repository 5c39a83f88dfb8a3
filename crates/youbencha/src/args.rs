//! What can be typed after `yb`.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use yb_tape::Vars;

use crate::exit_code::ExitCode;

/// Run, replay, grade and trace coding agents.
// Without a command it is a usage error that shows the help: an empty variable in a CI job must not pass.
#[derive(Debug, Parser)]
#[command(name = "yb", bin_name = "yb", version, arg_required_else_help = true)]
#[command(after_long_help = ExitCode::table())]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Ask Claude Code one question
    ///
    /// The answer goes to stdout while it is written, what it cost to stderr. Uses your own login.
    Ask(AskArgs),

    /// Watch the real Claude Code fix a tiny repository, offline and for nothing
    Demo(DemoArgs),

    /// Run a case once: the agent, what it changed, and whether that holds
    ///
    /// Everything is kept below `.youbencha-workspace/runs`: the agent's log, its changes as a patch, the results.
    Run(RunArgs),

    /// Print the JSON Schema of case files, for editors
    Schema(SchemaArgs),

    /// Stand in for an agent's model API
    #[command(subcommand, arg_required_else_help = true)]
    Tape(TapeCommand),

    /// Check case files and show everything that is wrong; nothing is started
    Validate(ValidateArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct AskArgs {
    /// The question; without it, or with `-`, stdin
    pub(crate) prompt: Option<String>,

    /// Print one JSON object with text, model, tokens, cost, session and duration
    #[arg(long)]
    pub(crate) json: bool,

    /// Go on with an earlier session
    #[arg(long, value_name = "SESSION")]
    pub(crate) resume: Option<String>,

    /// The model, by name or alias
    #[arg(long)]
    pub(crate) model: Option<String>,

    /// Stop when the answer has cost this much
    #[arg(long, value_name = "USD")]
    pub(crate) max_budget_usd: Option<f64>,

    /// Stop after this many turns
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) max_turns: u32,

    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub(crate) timeout: u64,

    /// Tools that need no permission, such as `Bash,Edit`; by default it may only look
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    pub(crate) allowed_tools: Vec<String>,

    /// Where Claude Code is: a program, or a folder with `node_modules` [default: searched]
    #[arg(long, value_name = "PATH")]
    pub(crate) claude: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SchemaArgs {
    /// Which file's
    #[arg(value_enum, default_value_t = SchemaOf::Case)]
    pub(crate) of: SchemaOf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SchemaOf {
    /// A case
    Case,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ValidateArgs {
    /// The case files, YAML or JSON
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// A case file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Show what each valid case says
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// Make warnings errors
    #[arg(long)]
    pub(crate) strict: bool,

    /// Allow repositories on hosts inside a private network
    #[arg(long)]
    pub(crate) allow_private_hosts: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// The case file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: PathBuf,

    /// Remove the agent's workspace afterwards
    #[arg(long)]
    pub(crate) delete_workspace: bool,

    /// Fetch from, and send webhooks to, hosts inside a private network too
    #[arg(long)]
    pub(crate) allow_private_hosts: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Where Claude Code is: a program, or a folder with `node_modules` [default: searched]
    #[arg(long, value_name = "DIR")]
    pub(crate) agents_dir: Option<PathBuf>,

    /// Keep the repository
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TapeCommand {
    /// Serve a scripted model on loopback until Ctrl-C
    ///
    /// Prints the address and the environment that points Claude Code to it, then one line for each request.
    /// Being stopped by a signal is its only end, so its exit code is 130.
    Serve(ServeArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// The script, a YAML file
    pub(crate) script: PathBuf,

    /// Port on 127.0.0.1; 0 takes any free one
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) port: u16,

    /// Set a variable that the script uses as `{{NAME}}`; may be repeated
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) vars: Vec<(String, String)>,
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected `NAME=VALUE`")?;
    if !Vars::is_name(name) {
        return Err(format!("not a variable name: `{name}`"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::{Args, variable};

    #[test]
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_variable_has_a_name_and_any_value() {
        assert_eq!(variable("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert_eq!(variable("a="), Ok(("a".into(), String::new())));
        assert_eq!(variable("a"), Err("expected `NAME=VALUE`".into()));
        assert_eq!(variable("1a=x"), Err("not a variable name: `1a`".into()));
    }
}
