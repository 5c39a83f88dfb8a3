//! `yb tape …`: models that are scripted, recorded and looked at.

mod answer;
mod look;
mod record;
mod serve;

use yb_engine::Extensions;

use crate::args::TapeCommand;
use crate::error::CliError;
use crate::exit_code::ExitCode;
use crate::printer::Printer;

pub(super) fn run(
    command: &TapeCommand,
    extensions: &Extensions,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    match command {
        TapeCommand::Diff(args) => look::diff(args, printer),
        TapeCommand::Record(args) => record::run(args, extensions, printer),
        TapeCommand::Redact(args) => look::redact(args, printer),
        TapeCommand::Serve(args) => serve::run(args, printer),
        TapeCommand::Show(args) => look::show(args, printer),
        TapeCommand::Verify(args) => look::verify(args, printer),
    }
}
