//! The four tools of the built-in agent: Read, Write, Edit and Bash.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use yb_supervise::{Command, End, Launch};

pub(super) const NAMES: [&str; 4] = ["Read", "Write", "Edit", "Bash"];
const DEADLINE: Duration = Duration::from_secs(120);

pub(super) fn schemas() -> Value {
    let schema = |name: &str, words: &[&str]| {
        let properties: serde_json::Map<String, Value> =
            words.iter().map(|word| ((*word).to_owned(), json!({ "type": "string" }))).collect();
        json!({
            "name": name,
            "description": name,
            "input_schema": { "type": "object", "properties": properties, "required": words },
        })
    };
    json!([
        schema("Read", &["file_path"]),
        schema("Write", &["file_path", "content"]),
        schema("Edit", &["file_path", "old_string", "new_string"]),
        schema("Bash", &["command"]),
    ])
}

/// Runs a tool and returns its text and whether it failed.
pub(super) async fn call(name: &Value, input: &Value, cwd: &Path) -> (String, bool) {
    let done = match name.as_str().unwrap_or_default() {
        "Read" => file(input, cwd).and_then(|path| read(&path)),
        "Write" => file(input, cwd).and_then(|path| {
            let content = text(input, "content")?;
            let parent = path.parent().map_or(Ok(()), std::fs::create_dir_all);
            parent.and_then(|()| std::fs::write(&path, content)).map_err(|error| error.to_string())?;
            Ok("written".to_owned())
        }),
        "Edit" => file(input, cwd).and_then(|path| edit(&path, input)),
        "Bash" => match text(input, "command") {
            Ok(command) => bash(command, cwd).await,
            Err(error) => Err(error),
        },
        other => Err(format!("unknown tool: `{other}`")),
    };
    match done {
        Ok(text) => (text, false),
        Err(text) => (text, true),
    }
}

fn text<'a>(input: &'a Value, key: &str) -> Result<&'a str, String> {
    input[key].as_str().ok_or_else(|| format!("missing input: `{key}`"))
}

fn file(input: &Value, cwd: &Path) -> Result<PathBuf, String> {
    Ok(cwd.join(text(input, "file_path")?))
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

fn edit(path: &Path, input: &Value) -> Result<String, String> {
    let (old, new) = (text(input, "old_string")?, text(input, "new_string")?);
    let content = read(path)?;
    match content.matches(old).count() {
        1 => std::fs::write(path, content.replacen(old, new, 1)).map_err(|error| error.to_string())?,
        count => return Err(format!("`old_string` occurs {count} times")),
    }
    Ok("edited".to_owned())
}

/// Runs a command directly: the agent itself runs in containment.
async fn bash(command: &str, cwd: &Path) -> Result<String, String> {
    let command = Command::new("sh").args(["-c", command]).current_dir(cwd).inherit_env();
    let report = command.launch(Launch::Direct).deadline(DEADLINE).run().await;
    let output =
        report.output.captured().map(|captured| captured.text().text.into_owned()).unwrap_or_default();
    match report.end {
        End::Exited { code: 0 } => Ok(output),
        end => Err(format!("{output}{end}")),
    }
}
