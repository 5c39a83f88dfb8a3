//! Properties of the diagnostics of all files in YAML.

use std::path::Path;

use yb_yaml::diagnostic::Diagnostic;

use super::{Probe, require};

/// Checks that positions lie in the file, and that nothing in a snippet is interpreted by a terminal.
pub(super) fn check(
    probe: &mut Probe,
    file: &Path,
    bytes: &[u8],
    diagnostics: &[Diagnostic],
) -> Result<(), String> {
    let text = std::str::from_utf8(bytes).ok();
    for found in diagnostics {
        probe.saw_message(&found.message);
        let key: String = found.key.chars().filter(|letter| !letter.is_ascii_digit()).take(40).collect();
        probe.saw(&(found.severity, key));
        if let Some(snippet) = &found.snippet {
            // The end of a line may be marked, and a snippet has no trailing spaces.
            require(
                snippet.start <= 100 && snippet.width >= 1,
                "the marked range is near the snippet",
                || format!("{snippet:?}"),
            )?;
            require(
                !snippet.text.chars().any(char::is_control),
                "no control character in a snippet",
                || format!("{snippet:?}"),
            )?;
        }
        require(!found.message.chars().any(char::is_control), "no control character in a message", || {
            format!("{:?}", found.message)
        })?;
        if found.file == file
            && let Some(text) = text
        {
            in_text(text, found.line, found.column)
                .map_err(|detail| format!("{detail} of {} in {:?}", found.location(), found.message))?;
        }
    }
    Ok(())
}

/// Checks that a position from 1 lies in a text; one past the end of a line is the position of its end.
pub(super) fn in_text(text: &str, line: usize, column: usize) -> Result<(), String> {
    if line == 0 {
        return Ok(());
    }
    // YAML and the prompt parser end lines at a lone CR too.
    let lines = || text.split(['\n', '\r']);
    let count = lines().count();
    require(line <= count + 1, "the line lies in the file", || format!("line {line} of {count}"))?;
    let longest = lines().map(|line| line.chars().count()).max().unwrap_or(0);
    require(column <= longest + 2, "the column lies in the file", || format!("column {column} of {longest}"))
}
