//! `yb completions` and `yb man`, generated from the argument definitions.

use std::path::Path;

use crate::args::{self, CompletionsArgs, ManArgs};
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::files;
use crate::printer::Printer;

pub(super) fn completions(options: &CompletionsArgs, printer: &mut Printer) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut args::command(), "yb", &mut script);
    printer.text(&String::from_utf8_lossy(&script));
    ExitCode::Passed
}

pub(super) fn man(options: &ManArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let mut program = args::command();
    program.build();
    let Some(directory) = &options.dir else {
        printer.text(&page(program)?);
        return Ok(ExitCode::Passed);
    };
    std::fs::create_dir_all(directory).map_err(|error| {
        CliError::new(
            ErrorKind::Infrastructure,
            format!("failed to create directory: `{}`", directory.display()),
        )
        .caused_by(error)
    })?;
    write(&program, "yb", directory, printer)?;
    Ok(ExitCode::Passed)
}

/// Writes the pages of a command and its subcommands: `yb.1`, `yb-config.1`, `yb-config-set.1`.
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
        .map_err(CliError::failed_to("render the manual page"))?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}
