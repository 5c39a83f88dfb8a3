//! `yb tape`: mocks, records and inspects model API traffic.

mod inspect;
mod record;
mod response;
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
        TapeCommand::Diff(args) => inspect::diff(args, printer),
        TapeCommand::Record(args) => record::run(args, extensions, printer),
        TapeCommand::Redact(args) => inspect::redact(args, printer),
        TapeCommand::Serve(args) => serve::run(args, printer),
        TapeCommand::Show(args) => inspect::show(args, printer),
        TapeCommand::Verify(args) => inspect::verify(args, printer),
    }
}
