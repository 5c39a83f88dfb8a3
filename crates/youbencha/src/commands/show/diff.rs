//! `yb show --diff`: the patch, byte for byte through a pipe, in colour on a terminal.

use owo_colors::OwoColorize as _;

use crate::error::{CliError, ErrorKind};
use crate::printer::Printer;
use crate::report::trial::Look;
use crate::workspace::harmless;

const FILE: &str = "git-diff.patch";

/// The patch; none if nothing changed.
pub(super) fn read(look: &Look<'_>) -> Result<Option<Vec<u8>>, CliError> {
    let Some((record, artifacts)) = look.record.zip(look.artifacts()) else {
        return Err(super::nothing(look));
    };
    match std::fs::read(artifacts.join(FILE)) {
        Ok(patch) if patch.is_empty() => Ok(None),
        Ok(patch) => Ok(Some(patch)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => match &record.trees {
            Some(trees) if trees.start == trees.end => Ok(None),
            _ => {
                let error = CliError::new(
                    ErrorKind::Usage,
                    format!("there is no patch of `{}`: what it left was not recorded", look.trial.folder),
                );
                Err(record.error.iter().fold(error, |error, reason| error.caused_by(harmless(reason))))
            }
        },
        Err(error) => Err(CliError::failed_to("read the patch")(error)),
    }
}

/// Through a pipe it is the file itself: `git apply` takes it.
pub(super) fn show(patch: &[u8], printer: &mut Printer) {
    if !printer.is_terminal() {
        printer.bytes(patch);
        return;
    }
    for line in String::from_utf8_lossy(patch).lines() {
        let line = harmless(line);
        match line.as_bytes() {
            [b'+', b'+', b'+', b' ', ..] | [b'-', b'-', b'-', b' ', ..] | [b'd', b'i', b'f', b'f', ..] => {
                printer.line(line.bold());
            }
            [b'+', ..] => printer.line(line.green()),
            [b'-', ..] => printer.line(line.red()),
            [b'@', b'@', ..] => printer.line(line.cyan()),
            _ => printer.line(line),
        }
    }
}
