//! Reads the prompt of an execution: from the case, or from a file below one of its roots.

use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use yb_claude::MAX_PROMPT_CHARS;

use super::{AdapterError, AgentConfig, ExecutionContext, Intent};

/// The longest path of a prompt file.
const MAX_PATH: usize = 500;

/// The prompt's text.
pub(super) fn prompt(context: &ExecutionContext) -> Result<String, AdapterError> {
    let roots = roots(context);
    known(&context.config, &roots)?.ok_or_else(|| {
        let file = context.config.prompt_file.as_deref().unwrap_or(Path::new(""));
        let searched: Vec<_> = roots.iter().map(|root| format!("`{}`", root.join(file).display())).collect();
        let message =
            format!("`prompt_file` not found: `{}`; searched: {}", file.display(), searched.join(", "));
        AdapterError::config(message, "create it, or correct the path")
    })
}

/// The text of the prompt, if it is known before there is a workspace.
pub(super) fn early(intent: &Intent<'_>) -> Result<Option<String>, AdapterError> {
    let roots: Vec<&Path> = intent.search_roots.iter().map(PathBuf::as_path).collect();
    known(intent.config, &roots)
}

/// The text of the prompt; `None` if no root has the file.
fn known(config: &AgentConfig, roots: &[&Path]) -> Result<Option<String>, AdapterError> {
    let text = match (&config.prompt, &config.prompt_file) {
        (Some(prompt), None) => Some(prompt.clone()),
        (None, Some(file)) => read(file, roots)?,
        (Some(_), Some(_)) => {
            let message = "`prompt` and `prompt_file` are mutually exclusive, both are given";
            return Err(AdapterError::config(message, "use only one of them"));
        }
        (None, None) => {
            let message = "one of `prompt` and `prompt_file` is required";
            return Err(AdapterError::config(message, "say what to do in `agent.config.prompt`"));
        }
    };
    text.as_deref().map(check).transpose()?;
    Ok(text)
}

fn check(text: &str) -> Result<(), AdapterError> {
    if text.trim().is_empty() {
        return Err(AdapterError::config("the prompt is blank", "say what to do"));
    }
    let chars = text.chars().count();
    if chars > MAX_PROMPT_CHARS {
        let message = format!("the prompt has {chars} characters, at most {MAX_PROMPT_CHARS} are possible");
        return Err(AdapterError::config(message, "put the long part into a file of the workspace"));
    }
    if text.contains('\0') {
        return Err(AdapterError::config("the prompt contains a NUL", "remove it"));
    }
    Ok(())
}

/// The roots of prompt files, in order.
fn roots(context: &ExecutionContext) -> Vec<&Path> {
    context.search_roots.iter().map(PathBuf::as_path).chain(context.workspace_roots()).collect()
}

fn read(file: &Path, roots: &[&Path]) -> Result<Option<String>, AdapterError> {
    let shown = file.display();
    if !is_within(file) || file.as_os_str().len() > MAX_PATH {
        let message = format!("`prompt_file` has to be a relative path without `..`: `{shown}`");
        return Err(AdapterError::config(message, "put the file beside the case, or into the repository"));
    }
    for root in roots {
        let Ok(path) = root.join(file).canonicalize() else { continue };
        if !root.canonicalize().is_ok_and(|root| path.starts_with(root)) {
            let message = format!("`prompt_file` leads out of its directory: `{shown}`");
            return Err(AdapterError::config(message, "replace the symbolic link by the file"));
        }
        return content(&path).map(Some).map_err(|reason| {
            let message = format!("failed to read `prompt_file` ({reason}): `{}`", path.display());
            AdapterError::config(message, "it has to be a text file that you may read")
        });
    }
    Ok(None)
}

fn content(path: &Path) -> Result<String, String> {
    // A character has at most four bytes.
    let limit = 4 * MAX_PROMPT_CHARS as u64;
    if !path.is_file() {
        return Err("not a regular file".to_owned());
    }
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(limit + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    Ok(text)
}

/// Whether a path is relative and stays below its root.
fn is_within(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let foreign = text.contains(['\0', '\\']) || text.as_bytes().get(1) == Some(&b':');
    let mut parts = path.components();
    !foreign
        && parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        && path.file_name().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_file_stays_below_its_root() {
        for path in ["task.md", "./prompts/task.md", "a/b.md", ".hidden/x"] {
            assert!(is_within(Path::new(path)), "{path}");
        }
        for path in ["/etc/passwd", "../x", "a/../../x", "C:\\x", "c:x", "\\\\host\\x", "a\0b", "", "."] {
            assert!(!is_within(Path::new(path)), "{path:?}");
        }
    }
}
