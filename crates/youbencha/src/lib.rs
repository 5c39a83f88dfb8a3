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

/// Runs the program with the built-in evaluators.
#[must_use]
pub fn main() -> std::process::ExitCode {
    main_with(&Extensions::builtin())
}

/// Runs the program: parses the arguments, runs the command, and prints errors.
#[must_use]
pub fn main_with(extensions: &Extensions) -> std::process::ExitCode {
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
