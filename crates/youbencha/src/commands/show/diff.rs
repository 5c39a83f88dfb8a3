//! `yb show --diff`: the patch, unchanged through a pipe, colored on a terminal.

use owo_colors::OwoColorize as _;

use crate::error::{CliError, ErrorKind};
use crate::printer::Printer;
use crate::report::trial::TrialView;
use crate::workspace::sanitize;

const FILE: &str = "git-diff.patch";

/// Reads the patch; `None` without changes.
pub(super) fn read(view: &TrialView<'_>) -> Result<Option<Vec<u8>>, CliError> {
    let Some((record, artifacts)) = view.record.zip(view.artifacts()) else {
        return Err(super::not_finished(view));
    };
    match std::fs::read(artifacts.join(FILE)) {
        Ok(patch) if patch.is_empty() => Ok(None),
        Ok(patch) => Ok(Some(patch)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => match &record.trees {
            Some(trees) if trees.start == trees.end => Ok(None),
            _ => {
                let error = CliError::new(
                    ErrorKind::Usage,
                    format!("no patch of `{}`: the end tree was not recorded", view.trial.folder),
                );
                Err(record.error.iter().fold(error, |error, reason| error.caused_by(sanitize(reason))))
            }
        },
        Err(error) => Err(CliError::failed_to("read the patch")(error)),
    }
}

/// Prints the patch. Through a pipe it is unchanged, for `git apply`.
pub(super) fn show(patch: &[u8], printer: &mut Printer) {
    if !printer.is_terminal() {
        printer.bytes(patch);
        return;
    }
    for line in String::from_utf8_lossy(patch).lines() {
        let line = sanitize(line);
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
