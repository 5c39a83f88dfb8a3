//! `yb install-agents`: writes the judge definition for agents; with `--cli`, installs agent programs.

mod cli;

use std::path::Path;

use yb_engine::Extensions;

use crate::args::InstallAgentsArgs;
use crate::error::CliError;
use crate::exit_code::ExitCode;
use crate::files;
use crate::printer::Printer;

/// The same instructions with the front matter of each agent.
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
            // The other file is still written.
            Err(error) => {
                printer.line(format_args!("{:12} {path}", "error"));
                printer.error(&error);
                codes.push(error.exit_code());
            }
        }
    }
    if skipped {
        printer.note("hint: pass `--force` to overwrite");
    }
    Ok(ExitCode::strongest(codes))
}
