//! `yb install-agents`: the judge's definition, where agents look for theirs; with `--cli`, the agents' programs themselves.

mod cli;

use std::path::Path;

use yb_engine::Extensions;

use crate::args::InstallAgentsArgs;
use crate::error::CliError;
use crate::exit_code::ExitCode;
use crate::files;
use crate::printer::Printer;

/// Both are the same instructions under a head that the agent understands.
const FILES: [(&str, &str); 2] = [
    (
        ".github/agents/agentic-judge.md",
        concat!(
            include_str!("../../install-agents/github-head.md"),
            include_str!("../../install-agents/instructions.md")
        ),
    ),
    (
        ".claude/agents/agentic-judge.md",
        concat!(
            include_str!("../../install-agents/claude-head.md"),
            include_str!("../../install-agents/instructions.md")
        ),
    ),
];

pub(super) fn run(
    args: &InstallAgentsArgs,
    extensions: &Extensions,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    if !args.cli.is_empty() {
        return cli::run(&args.cli, extensions, printer);
    }
    let here = Path::new(".");
    let mut codes = Vec::new();
    let mut skipped = false;
    for (path, content) in FILES {
        let there = files::exists(&here.join(path));
        if there && !args.force {
            skipped = true;
            printer.line(format_args!("{:12} {path}", "skipped"));
            continue;
        }
        match files::write(here, Path::new(path), content) {
            Ok(()) => {
                printer.line(format_args!("{:12} {path}", if there { "overwritten" } else { "created" }));
            }
            // One that can't be written does not keep the other from being written.
            Err(error) => {
                printer.line(format_args!("{:12} {path}", "error"));
                printer.error(&error);
                codes.push(error.exit_code());
            }
        }
    }
    if skipped {
        printer.note("`--force` replaces what is there");
    }
    Ok(ExitCode::strongest(codes))
}
