//! The commands, one file each.

mod ask;
mod baseline;
mod clean;
mod compare;
mod completions;
mod config;
mod demo;
mod doctor;
mod eval;
mod gate;
mod help;
mod index;
mod init;
mod install_agents;
mod list;
mod prompt;
mod report;
mod run;
mod schema;
mod scripted_agent;
mod show;
mod suggest;
mod tape;
mod validate;

use crate::args::{Args, Command};
use crate::error::CliError;
use crate::exit_code::ExitCode;
use crate::printer::Printer;

pub(crate) use help::topics_help;

/// Runs the command.
pub(crate) fn run(args: &Args, printer: &mut Printer) -> Result<ExitCode, CliError> {
    match &args.command {
        Command::Ask(args) => ask::run(args, printer),
        Command::Baseline(command) => baseline::run(command, printer),
        Command::Clean(args) => clean::run(args, printer),
        Command::Compare(args) => compare::run(args, printer),
        Command::Completions(args) => Ok(completions::completions(args, printer)),
        Command::Config(command) => config::run(command, printer),
        Command::Demo(args) => demo::run(args, printer),
        Command::Doctor(args) => doctor::run(args, printer),
        Command::Eval(args) => eval::run(args, printer),
        Command::Gate(args) => gate::run(args, printer),
        Command::Help(args) => help::run(args, printer),
        Command::Index(command) => index::run(command, printer),
        Command::Init(args) => init::run(args, printer),
        Command::InstallAgents(args) => install_agents::run(args, printer),
        Command::List(args) => list::run(args, printer),
        Command::Man(args) => completions::man(args, printer),
        Command::Prompt(command) => prompt::run(command, printer),
        Command::Report(args) => report::run(args, printer),
        Command::Run(args) => run::run(args, printer),
        Command::Schema(args) => schema::run(args, printer),
        Command::ScriptedAgent => scripted_agent::run(printer),
        Command::Show(args) => show::run(args, printer),
        Command::SuggestTestcase(args) => suggest::run(args, printer),
        Command::Tape(command) => tape::run(command, printer),
        Command::Validate(args) => validate::run(args, printer),
    }
}
