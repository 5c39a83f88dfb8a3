//! `yb verify`: checks all that a run recorded, signs it, or checks its signature.

mod signature;

use serde_json::{Value, json};
use yb_engine::run::{self, RunDir, Verification, VerificationProblem};
use yb_figures::plural;

use crate::args::VerifyArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::{Printer, Style, StyledText};
use crate::report::JSON_VERSION;
use crate::workspace::{self, display_path};

pub(super) fn run(args: &VerifyArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let root = workspace::root(printer)?;
    let run = run::find_run(&root, args.run.as_deref().unwrap_or("latest"))?;
    let runtime = tokio::runtime::Runtime::new().map_err(CliError::failed_to("start"))?;
    let mut found = runtime.block_on(run::verify(&run));
    let signature = match (&args.sign, &args.verify_with, &found.statement) {
        (None, None, _) => None,
        // A changed run is neither signed nor does its signature matter.
        _ if !found.problems.is_empty() => None,
        (_, _, None) => {
            return Err(CliError::new(
                ErrorKind::Usage,
                format!("no complete record to sign: `{}`", run.id()),
            )
            .hint(
                "only a finished or stopped run is signed, and only one of a version that chains the journal",
            ));
        }
        (sign, check, Some(statement)) => {
            if let Some(key) = sign {
                signature::sign(&run, statement, key)?;
            }
            check.as_ref().map(|key| signature::check(&run, statement, key)).transpose()?
        }
    };
    if let Some(Ok(newer @ 1..)) = signature {
        found
            .notes
            .push(format!("the signature does not cover {}, which are newer", plural(newer, "grading")));
    }
    let unsigned = signature.as_ref().and_then(|checked| checked.as_ref().err());
    let problems: Vec<&VerificationProblem> = found.problems.iter().chain(unsigned).collect();
    let code = if problems.is_empty() { ExitCode::Passed } else { ExitCode::Failed };
    if args.json {
        printer.pretty_json(&as_json(&run, &found, &problems, args, code));
    } else {
        show(&run, &found, &problems, args, printer);
    }
    Ok(code)
}

fn show(
    run: &RunDir,
    found: &Verification,
    problems: &[&VerificationProblem],
    args: &VerifyArgs,
    printer: &mut Printer,
) {
    for problem in problems {
        let line = StyledText::new().styled(Style::BoldRed, "problem:").text(" ").text(&problem.place);
        printer.line(line.text(": ").text(&problem.message));
    }
    for note in &found.notes {
        printer.note(format_args!("note: {note}"));
    }
    if problems.is_empty() {
        let mut checked = vec![
            plural(found.artifacts, "artifact"),
            plural(found.trees, "tree"),
            plural(found.tapes, "tape"),
        ];
        let further = [(found.gradings, "grading"), (found.baselines, "baseline")];
        checked.extend(further.into_iter().filter(|(count, _)| *count > 0).map(|(n, of)| plural(n, of)));
        let last = checked.pop().unwrap_or_default();
        let checked = checked.join(", ");
        printer.line(format_args!("{}: intact; checked journal, plan, {checked} and {last}", run.id()));
        if args.sign.is_some() {
            printer.line(format_args!("signed: {}", display_path(&signature::file(run))));
        }
        if let Some(key) = &args.verify_with {
            printer.line(format_args!("signature: valid for {}", key.display()));
        }
    } else {
        printer.line(format_args!(
            "{}: changed since it was recorded: {}",
            run.id(),
            plural(problems.len(), "problem")
        ));
    }
}

fn as_json(
    run: &RunDir,
    found: &Verification,
    problems: &[&VerificationProblem],
    args: &VerifyArgs,
    code: ExitCode,
) -> Value {
    let problems: Vec<Value> = problems
        .iter()
        .map(|problem| json!({ "place": problem.place, "message": problem.message }))
        .collect();
    let signed = args.verify_with.as_ref().map(|_| problems.is_empty());
    json!({
        "v": JSON_VERSION,
        "run": run.id(),
        "intact": problems.is_empty(),
        "problems": problems,
        "notes": found.notes,
        "checked": {
            "artifacts": found.artifacts,
            "trees": found.trees,
            "tapes": found.tapes,
            "gradings": found.gradings,
            "baselines": found.baselines,
        },
        "statement": found.statement.as_ref().map(run::RecordStatement::text),
        "signature_valid": signed,
        "exit_code": code.code(),
    })
}
