//! `yb schema`: what a file may contain, for editors and for programs.

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
    match args.of {
        SchemaOf::Case => printer.text(&yb_engine::case::schema(&extensions.evaluators)),
        SchemaOf::Eval => printer.text(&yb_engine::case::eval_schema(&extensions.evaluators)),
        SchemaOf::Suite => printer.text(&yb_engine::suite::schema(&extensions.evaluators)),
        SchemaOf::RunResults => printer.text(&yb_engine::run::RunResults::schema()),
        SchemaOf::Comparison => printer.text(&yb_engine::compare::Comparison::schema()),
    }
    Ok(ExitCode::Passed)
}
