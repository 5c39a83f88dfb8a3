//! The commands, one file each.

mod ask;
mod baseline;
mod check;
mod clean;
mod compare;
mod completions;
mod config;
mod demo;
mod diff;
mod doctor;
mod eval;
mod export;
mod gate;
mod help;
mod import;
mod index;
mod init;
mod install_agents;
mod list;
mod open;
mod prompt;
mod report;
mod run;
mod schema;
mod scripted_agent;
mod self_doctor;
mod show;
mod suggest;
mod tape;
mod trajectory;
mod trend;
mod validate;
mod verify;
mod view;

use std::path::PathBuf;

use yb_engine::Extensions;

use crate::args::{Args, Command, SelfCommand};
use crate::error::CliError;
use crate::exit_code::ExitCode;
use crate::printer::Printer;

pub(crate) use help::topics_help;

/// Runs the command.
pub(crate) fn run(args: &Args, extensions: &Extensions, printer: &mut Printer) -> Result<ExitCode, CliError> {
    if starts_many_children(&args.command) {
        yb_supervise::start_keeper();
        if let Some(directory) = facts_dir() {
            yb_supervise::remember_facts_in(directory);
        }
    }
    match &args.command {
        Command::Ask(args) => ask::run(args, printer),
        Command::Baseline(command) => baseline::run(command, printer),
        Command::Check(args) => check::run(args, extensions, printer),
        Command::Clean(args) => clean::run(args, printer),
        Command::Compare(args) => compare::run(args, printer),
        Command::Completions(args) => Ok(completions::completions(args, printer)),
        Command::Config(command) => config::run(command, printer),
        Command::Demo(args) => demo::run(args, extensions, printer),
        Command::Diff(args) => diff::run(args, extensions, printer),
        Command::Doctor(args) => doctor::run(args, extensions, printer),
        Command::Eval(args) => eval::run(args, extensions, printer),
        Command::Export(args) => export::run(args, printer),
        Command::Gate(args) => gate::run(args, extensions, printer),
        Command::Help(args) => help::run(args, extensions, printer),
        Command::Import(args) => import::run(args, printer),
        Command::Index(command) => index::run(command, printer),
        Command::Init(args) => init::run(args, printer),
        Command::InstallAgents(args) => install_agents::run(args, extensions, printer),
        Command::List(args) => list::run(args, extensions, printer),
        Command::Man(args) => completions::man(args, printer),
        Command::Open(args) => open::run(args, printer),
        Command::Prompt(command) => prompt::run(command, extensions, printer),
        Command::Report(args) => report::run(args, printer),
        Command::Run(args) => run::run(args, extensions, printer),
        Command::Schema(args) => schema::run(args, extensions, printer),
        Command::ScriptedAgent => scripted_agent::run(printer),
        Command::Self_(SelfCommand::Doctor(args)) => self_doctor::run(args, printer),
        Command::Show(args) => show::run(args, printer),
        Command::SuggestTestcase(args) => suggest::run(args, extensions, printer),
        Command::Tape(command) => tape::run(command, extensions, printer),
        Command::Trend(args) => trend::run(args, printer),
        Command::Validate(args) => validate::run(args, extensions, printer),
        Command::Verify(args) => verify::run(args, printer),
        Command::View(args) => view::run(args, printer),
    }
}

/// Whether the command starts agents, evaluators and git many times.
fn starts_many_children(command: &Command) -> bool {
    matches!(
        command,
        Command::Check(_) | Command::Demo(_) | Command::Eval(_) | Command::Prompt(_) | Command::Run(_)
    )
}

/// Returns the directory for what was found out about this machine; `None` without a home directory.
fn facts_dir() -> Option<PathBuf> {
    let path = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = path("XDG_CACHE_HOME").or_else(|| Some(path("HOME")?.join(".cache")))?;
    Some(cache.join("youbencha"))
}
