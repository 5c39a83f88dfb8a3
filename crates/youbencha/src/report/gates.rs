//! What gates say, with the reason of each in one line.

use yb_engine::gates::{GateReport, GateStatus};

use crate::exit_code::ExitCode;
use crate::printer::Printer;

/// What a script is told.
pub(crate) fn exit_code(answer: GateStatus) -> ExitCode {
    match answer {
        GateStatus::Passed => ExitCode::Passed,
        GateStatus::Failed => ExitCode::Failed,
        _ => ExitCode::Uncertain,
    }
}

/// What a person is told.
pub(crate) fn show(told: &GateReport, printer: &mut Printer) {
    printer.line(format_args!("gates: {}", told.status.label()));
    for one in &told.gates {
        printer.line(format_args!("  {:11}  {}: {}", one.status.label(), one.gate, one.reason));
    }
}
