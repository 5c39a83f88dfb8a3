//! Terminal output of gates: name, answer and reason, one line each.

use yb_engine::gates::{GateReport, GateResult, GateStatus};
use yb_figures::{pad_end, width};

use crate::exit_code::ExitCode;
use crate::printer::Printer;

/// Returns the exit code of an answer.
pub(crate) fn exit_code(answer: GateStatus) -> ExitCode {
    match answer {
        GateStatus::Passed => ExitCode::Passed,
        GateStatus::Failed => ExitCode::Failed,
        _ => ExitCode::Inconclusive,
    }
}

/// Prints the gates as aligned columns.
pub(crate) fn show(report: &GateReport, printer: &mut Printer) {
    printer.line(format_args!("gates: {}", report.status.label()));
    let columns =
        |of: fn(&GateResult) -> &str| report.gates.iter().map(|gate| width(of(gate))).max().unwrap_or(0);
    let (names, answers) = (columns(|gate| &gate.gate), columns(|gate| gate.status.label()));
    for gate in &report.gates {
        let (name, answer) = (pad_end(&gate.gate, names), pad_end(gate.status.label(), answers));
        printer.line(format_args!("  {name}  {answer}  {}", gate.reason));
    }
}
