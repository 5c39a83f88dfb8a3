//! `yb completions` and `yb man`: what shells and `man` know about `yb`, made from its own definition.

use std::path::Path;

use clap::CommandFactory as _;

use crate::args::{Args, CompletionsArgs, ManArgs};
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::files;
use crate::printer::Printer;

pub(super) fn completions(args: &CompletionsArgs, printer: &mut Printer) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "yb", &mut script);
    printer.text(&String::from_utf8_lossy(&script));
    ExitCode::Passed
}

pub(super) fn man(args: &ManArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let mut program = Args::command();
    program.build();
    let Some(directory) = &args.dir else {
        printer.text(&page(program)?);
        return Ok(ExitCode::Passed);
    };
    std::fs::create_dir_all(directory).map_err(|error| {
        CliError::new(
            ErrorKind::Infrastructure,
            format!("failed to make the directory: `{}`", directory.display()),
        )
        .caused_by(error)
    })?;
    write(&program, "yb", directory, printer)?;
    Ok(ExitCode::Passed)
}

/// The page of a command and those of the commands below it: `yb.1`, `yb-config.1`, `yb-config-set.1`.
fn write(
    command: &clap::Command,
    name: &str,
    directory: &Path,
    printer: &mut Printer,
) -> Result<(), CliError> {
    let file = format!("{name}.1");
    files::write(directory, Path::new(&file), &page(command.clone())?)?;
    printer.line(format_args!("wrote {}", directory.join(&file).display()));
    for below in command.get_subcommands().filter(|below| below.get_name() != "help" && !below.is_hide_set())
    {
        write(below, &format!("{name}-{}", below.get_name()), directory, printer)?;
    }
    Ok(())
}

fn page(command: clap::Command) -> Result<String, CliError> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command)
        .manual("youBencha")
        .render(&mut page)
        .map_err(CliError::failed_to("make the page"))?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}
