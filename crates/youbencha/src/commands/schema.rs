//! `yb schema`: JSON Schemas for editors and programs.

use crate::args::{SchemaArgs, SchemaOf};
use crate::error::CliError;
use crate::exit_code::ExitCode;
use crate::printer::Printer;

pub(super) fn run(args: &SchemaArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    match args.of {
        SchemaOf::Case => printer.text(&yb_engine::case::schema()),
        SchemaOf::Eval => printer.text(&yb_engine::case::eval_schema()),
        SchemaOf::Suite => printer.text(&yb_engine::suite::schema()),
        SchemaOf::RunResults => printer.text(&yb_engine::run::RunResults::schema()),
        SchemaOf::Comparison => printer.text(&yb_engine::compare::Comparison::schema()),
    }
    Ok(ExitCode::Passed)
}
