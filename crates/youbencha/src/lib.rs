//! The command line: arguments, progress, terminal output, exit codes.

mod agents;
mod args;
mod commands;
mod diagnostics;
mod env_vars;
mod error;
mod exit_code;
mod files;
mod printer;
#[cfg(test)]
mod reference;
mod report;
mod signals;
mod table;
mod tracing;
mod workspace;

use crate::printer::Printer;

pub use crate::exit_code::ExitCode;
pub use yb_engine::Extensions;

/// Runs `yb` with the built-in agents and evaluators.
#[must_use]
pub fn main() -> std::process::ExitCode {
    run_with(&Extensions::builtin())
}

/// Runs `yb` with these agents and evaluators: parses the arguments, runs the command and prints its error, if any.
#[must_use]
pub fn run_with(extensions: &Extensions) -> std::process::ExitCode {
    // Must come first: if this process was started as a shim, the call does not return.
    yb_supervise::shim_main();
    yb_supervise::raise_open_files_limit();

    let mut printer = Printer::for_terminal();
    let code = match args::parse() {
        Ok(args) => commands::run(&args, extensions, &mut printer).unwrap_or_else(|error| {
            printer.error(&error);
            error.exit_code()
        }),
        Err(error) => {
            // Help and version come as errors too.
            if error.use_stderr() {
                printer.usage_error(&error);
                ExitCode::Usage
            } else {
                printer.help(&error.render());
                ExitCode::Passed
            }
        }
    };
    yb_supervise::stop_keeper();
    code.into()
}
