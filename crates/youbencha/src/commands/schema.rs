//! `yb schema`: JSON Schemas for editors and programs.

use yb_engine::Extensions;

use crate::args::{SchemaArgs, SchemaOf};
use crate::error::CliError;
use crate::exit_code::ExitCode;
use crate::printer::Printer;

pub(super) fn run(
    args: &SchemaArgs,
    extensions: &Extensions,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    let agents = extensions.adapters.specs();
    match args.of {
        SchemaOf::Case => printer.text(&yb_engine::case::schema(&agents)),
        SchemaOf::Eval => printer.text(&yb_engine::case::eval_schema(&agents)),
        SchemaOf::Suite => printer.text(&yb_engine::suite::schema(&agents)),
        SchemaOf::RunResults => printer.text(&yb_engine::run::RunResults::schema()),
        SchemaOf::Comparison => printer.text(&yb_engine::compare::Comparison::schema()),
    }
    Ok(ExitCode::Passed)
}
