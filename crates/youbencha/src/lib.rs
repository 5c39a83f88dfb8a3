//! The command line: arguments, progress, reports on a terminal, exit codes.

mod agents;
mod args;
mod commands;
mod diagnostics;
mod error;
mod exit_code;
mod files;
mod printer;
mod report;
mod signals;
mod table;
mod tracing;
mod workspace;

use clap::Parser as _;

use crate::args::Args;
use crate::printer::Printer;

pub use crate::exit_code::ExitCode;
pub use yb_engine::Extensions;

/// The program `yb` with the built-in agents.
#[must_use]
pub fn main() -> std::process::ExitCode {
    run_with(&Extensions::builtin())
}

/// The program `yb` with more agents: reads the arguments, runs the command, prints errors.
#[must_use]
pub fn run_with(extensions: &Extensions) -> std::process::ExitCode {
    // First of all: this process may have been started to watch over a child, and then never comes back.
    yb_supervise::shim_main();

    let mut printer = Printer::for_terminal();
    let code = match Args::try_parse() {
        Ok(args) => commands::run(&args, extensions, &mut printer).unwrap_or_else(|error| {
            printer.error(&error);
            error.exit_code()
        }),
        Err(answer) => {
            // Help and version are answers too; clap knows which stream each belongs to.
            let _ = answer.print();
            if answer.use_stderr() { ExitCode::Usage } else { ExitCode::Passed }
        }
    };
    code.into()
}
