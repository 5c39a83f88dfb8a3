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
mod verify;

use yb_engine::Extensions;

use crate::args::{Args, Command};
use crate::error::CliError;
use crate::exit_code::ExitCode;
use crate::printer::Printer;

pub(crate) use help::topics_help;

/// Runs the command.
pub(crate) fn run(args: &Args, extensions: &Extensions, printer: &mut Printer) -> Result<ExitCode, CliError> {
    match &args.command {
        Command::Ask(args) => ask::run(args, printer),
        Command::Baseline(command) => baseline::run(command, printer),
        Command::Clean(args) => clean::run(args, printer),
        Command::Compare(args) => compare::run(args, printer),
        Command::Completions(args) => Ok(completions::completions(args, printer)),
        Command::Config(command) => config::run(command, printer),
        Command::Demo(args) => demo::run(args, extensions, printer),
        Command::Doctor(args) => doctor::run(args, extensions, printer),
        Command::Eval(args) => eval::run(args, extensions, printer),
        Command::Gate(args) => gate::run(args, extensions, printer),
        Command::Help(args) => help::run(args, extensions, printer),
        Command::Index(command) => index::run(command, printer),
        Command::Init(args) => init::run(args, printer),
        Command::InstallAgents(args) => install_agents::run(args, extensions, printer),
        Command::List(args) => list::run(args, extensions, printer),
        Command::Man(args) => completions::man(args, printer),
        Command::Prompt(command) => prompt::run(command, extensions, printer),
        Command::Report(args) => report::run(args, printer),
        Command::Run(args) => run::run(args, extensions, printer),
        Command::Schema(args) => schema::run(args, extensions, printer),
        Command::ScriptedAgent => scripted_agent::run(printer),
        Command::Show(args) => show::run(args, printer),
        Command::SuggestTestcase(args) => suggest::run(args, extensions, printer),
        Command::Tape(command) => tape::run(command, extensions, printer),
        Command::Validate(args) => validate::run(args, extensions, printer),
        Command::Verify(args) => verify::run(args, printer),
    }
}
