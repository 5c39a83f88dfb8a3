//! `yb show --diff`: the patch, with hidden characters written out; `--raw` writes its bytes.

use yb_figures::visible_bytes;

use crate::error::{CliError, ErrorKind};
use crate::printer::{Printer, Style, StyledText};
use crate::report::trial::TrialView;

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
                Err(record.error.iter().fold(error, |error, reason| error.caused_by(reason.clone())))
            }
        },
        Err(error) => Err(CliError::failed_to("read the patch")(error)),
    }
}

/// Prints the patch for people: an agent wrote it, so its bytes could say anything to a terminal, also at the end of a pipe.
pub(in crate::commands) fn show(patch: &[u8], printer: &mut Printer) {
    for line in visible_bytes(patch).lines() {
        let style = match line.as_bytes() {
            [b'+', b'+', b'+', b' ', ..] | [b'-', b'-', b'-', b' ', ..] | [b'd', b'i', b'f', b'f', ..] => {
                Style::Bold
            }
            [b'+', ..] => Style::Green,
            [b'-', ..] => Style::Red,
            [b'@', b'@', ..] => Style::Cyan,
            _ => Style::Plain,
        };
        printer.line(StyledText::new().styled(style, line));
    }
}

/// Writes the bytes of the patch, for `git apply`.
pub(super) fn write_raw(patch: &[u8], printer: &mut Printer) -> Result<(), CliError> {
    if printer.is_terminal() {
        return Err(CliError::new(ErrorKind::Usage, "`--raw` does not write to a terminal")
            .hint("redirect the output to a file, or pipe it into `git apply`"));
    }
    printer.raw_bytes(patch);
    Ok(())
}
