//! `yb init`: writes an example case that runs offline.

use std::path::Path;

use crate::args::InitArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::files;
use crate::printer::Printer;

const FILES: [(&str, &str); 3] = [
    ("testcase.yaml", include_str!("../../init/testcase.yaml")),
    ("testcase-project/greet.sh", include_str!("../../init/testcase-project/greet.sh")),
    ("testcase-hidden/test.sh", include_str!("../../init/testcase-hidden/test.sh")),
];

pub(super) fn run(args: &InitArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let here = Path::new(".");
    let there: Vec<String> = FILES
        .iter()
        .filter(|(path, _)| files::exists(&here.join(path)))
        .map(|(path, _)| format!("`{path}`"))
        .collect();
    if !there.is_empty() && !args.force {
        return Err(CliError::new(ErrorKind::Usage, format!("files exist: {}", there.join(", ")))
            .hint("pass `--force` to replace them; nothing was changed"));
    }
    for (path, content) in FILES {
        files::write(here, Path::new(path), content)?;
        printer.line(format_args!("wrote {path}"));
    }
    printer.line("\nRun it, offline and without API calls:");
    printer.line("  yb check testcase.yaml    # prove that its graders fail an agent that does nothing");
    printer.line("  yb run testcase.yaml");
    printer.line("\nThen edit testcase.yaml: one line switches to Claude Code.");
    Ok(ExitCode::Passed)
}
