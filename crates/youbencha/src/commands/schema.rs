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
    let (agents, evaluators) = (extensions.adapters.specs(), &extensions.evaluators);
    match args.of {
        SchemaOf::Case => printer.text(&yb_engine::case::schema(&agents, evaluators)),
        SchemaOf::Eval => printer.text(&yb_engine::case::eval_schema(&agents, evaluators)),
        SchemaOf::Suite => printer.text(&yb_engine::suite::schema(&agents, evaluators)),
        SchemaOf::RunResults => printer.text(&yb_engine::run::RunResults::schema()),
        SchemaOf::Comparison => printer.text(&yb_engine::compare::Comparison::schema()),
    }
    Ok(ExitCode::Passed)
}
