//! The prompt: either text or a file. A file relative to the case takes precedence over one in the workspace.

use std::path::{Path, PathBuf};

use super::check::{Checker, join};
use super::fields_agent::MAX_PROMPT;
use super::files::{self, FileError};
use super::types::{Prompt, Start};
use yb_yaml::diagnostic::quoted;
use yb_yaml::{Node, SourceLayer, Span};

/// The maximum size of [`MAX_PROMPT`] characters.
const MAX_BYTES: usize = MAX_PROMPT * 4;
/// A shorter prompt is probably a mistake.
const SHORT: usize = 10;
const PATH: &str = "agent.config";

/// The base directories of relative paths.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dirs<'a> {
    pub(crate) own: &'a Path,
    /// The directory of the overlay file.
    pub(crate) over: &'a Path,
}

impl<'a> Dirs<'a> {
    /// Returns the base directory of a path at this position.
    pub(crate) fn of(self, at: Span) -> &'a Path {
        match at.layer {
            SourceLayer::Base => self.own,
            SourceLayer::Overlay => self.over,
        }
    }
}

/// Reads a text file below a directory and trims it.
pub(crate) fn read_file(dir: &Path, text: &str) -> Result<(PathBuf, String), FileError> {
    let path = files::find(dir, text)?;
    let bytes = files::read(&path, MAX_BYTES)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        FileError::Io(std::io::Error::new(std::io::ErrorKind::InvalidData, error.utf8_error()))
    })?;
    Ok((path, text.trim().to_owned()))
}

pub(crate) fn read(
    config: Option<&Node>,
    agent: Span,
    dirs: Dirs<'_>,
    start: Option<&Start>,
    checker: &mut Checker<'_, '_>,
) -> Option<Prompt> {
    let prompt = config.and_then(|config| config.get("prompt"));
    let file = config.and_then(|config| config.get("prompt_file"));
    match (prompt, file) {
        (Some(_), Some(file)) => {
            checker
                .found
                .error(file.span, join(PATH, "prompt_file"), "both `prompt` and `prompt_file` given")
                .hint("use only one of them");
            None
        }
        (None, None) => {
            checker
                .found
                .error(agent, join(PATH, "prompt"), "missing prompt")
                .expected("`prompt` or `prompt_file` under `agent.config`");
            None
        }
        (Some(prompt), None) => {
            let text = prompt.text()?;
            if text.trim().is_empty() {
                checker
                    .found
                    .error(prompt.span, join(PATH, "prompt"), "blank prompt")
                    .hint("describe the task");
            }
            warn_if_short(text, prompt.span, "prompt", checker);
            Some(Prompt::Text(text.to_owned()))
        }
        (None, Some(file)) => from_file(file, dirs.of(file.span), start, checker),
    }
}

fn from_file(
    file: &Node,
    dir: &Path,
    start: Option<&Start>,
    checker: &mut Checker<'_, '_>,
) -> Option<Prompt> {
    let written = file.text()?;
    // An invalid path has been reported by the validation.
    let relative = files::relative(written).ok()?;
    let key = join(PATH, "prompt_file");
    match read_file(dir, written) {
        Ok((path, text)) => {
            let length = text.chars().count();
            if length == 0 || length > MAX_PROMPT {
                let problem = if length == 0 { "empty" } else { "too long" };
                checker
                    .found
                    .error(file.span, key, format!("prompt file is {problem}: {}", quoted(written)))
                    .expected(format!("1 to {MAX_PROMPT} characters"));
                return None;
            }
            warn_if_short(&text, file.span, "prompt_file", checker);
            Some(Prompt::File { path, text })
        }
        Err(FileError::Missing) => {
            let in_start = match start {
                Some(Start::Directory(tree)) => Some(files::find(tree, written).is_ok()),
                _ => None,
            };
            match in_start {
                Some(true) => {}
                Some(false) => {
                    checker
                        .found
                        .error(file.span, key, format!("no such prompt file: {}", quoted(written)))
                        .hint("the file is searched relative to the case file, then in the start tree");
                    return None;
                }
                None => {
                    checker
                        .found
                        .warning(
                            file.span,
                            key,
                            format!("prompt file not found relative to the case: {}", quoted(written)),
                        )
                        .hint("it will be searched in the repository when the case runs");
                }
            }
            Some(Prompt::InWorkspace(relative))
        }
        Err(error) => {
            checker
                .found
                .error(file.span, key, format!("failed to read prompt file ({error}): {}", quoted(written)))
                .hint("the path is relative to the directory of the case file and must stay below it");
            None
        }
    }
}

fn warn_if_short(text: &str, at: Span, key: &str, checker: &mut Checker<'_, '_>) {
    let length = text.trim().chars().count();
    if (1..SHORT).contains(&length) {
        checker
            .found
            .warning(at, join(PATH, key), format!("very short prompt: {length} characters"))
            .hint("describe the task more precisely");
    }
}
