//! Edits of files in the arguments of tool calls, recognized by their shape: agents name tools and fields differently, and a tool
//! of an MCP server may edit as well.

use serde_json::{Map, Value};

/// The most lines around a change that are kept.
const CONTEXT: usize = 3;

const PATH: [&str; 4] = ["file_path", "filePath", "path", "notebook_path"];
const OLD: [&str; 3] = ["old_string", "oldString", "old_str"];
const NEW: [&str; 3] = ["new_string", "newString", "new_str"];
const CONTENT: [&str; 2] = ["content", "file_text"];
/// Arguments that are patches: `*** Begin Patch`, or a unified diff.
const PATCH: [&str; 5] = ["patchText", "patch", "input", "diff", "patch_text"];

/// A line of an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditLine {
    /// In the file before and after.
    Context(String),
    /// Removed.
    Removed(String),
    /// Added.
    Added(String),
    /// A note: a header of a patch, or what is not in the arguments.
    Note(String),
}

impl EditLine {
    /// Returns the line as in a unified diff.
    #[must_use]
    pub fn to_diff(&self) -> String {
        match self {
            Self::Context(text) => format!(" {text}"),
            Self::Removed(text) => format!("-{text}"),
            Self::Added(text) => format!("+{text}"),
            Self::Note(text) => text.clone(),
        }
    }
}

/// An edit of a file by a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEdit {
    /// The file, as the agent names it; empty if a patch names several.
    pub path: String,
    /// The lines of the difference.
    pub lines: Vec<EditLine>,
}

impl FileEdit {
    /// Reads the edit in the arguments of a tool call; `None` if they are something else.
    #[must_use]
    pub fn from_arguments(arguments: &str) -> Option<Self> {
        let Value::Object(map) = serde_json::from_str(arguments).ok()? else { return None };
        if let Some(changes) = map.get("changes") {
            return of_changes(changes);
        }
        if let Some(patch) = text(&map, &PATCH).filter(|text| is_patch(text)) {
            return Some(Self { path: String::new(), lines: of_patch(patch) });
        }
        let path = text(&map, &PATH)?.to_owned();
        let parts = map.get("edits").and_then(Value::as_array);
        let lines = if let Some(edits) = parts {
            let edits = edits.iter().filter_map(Value::as_object);
            edits.filter_map(replacement).flatten().collect()
        } else if let Some(lines) = replacement(&map) {
            lines
        } else {
            let content = text(&map, &CONTENT)?;
            content.lines().map(|line| EditLine::Added(line.to_owned())).collect()
        };
        Some(Self { path, lines })
    }
}

fn text<'a>(map: &'a Map<String, Value>, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|key| map.get(*key)?.as_str())
}

fn is_patch(text: &str) -> bool {
    text.starts_with("*** Begin Patch") || text.starts_with("diff --git ") || text.starts_with("--- ")
}

fn of_patch(patch: &str) -> Vec<EditLine> {
    let line = |line: &str| {
        let note = ["***", "@@", "diff --git ", "--- ", "+++ ", "index "];
        if note.iter().any(|start| line.starts_with(start)) {
            return EditLine::Note(line.to_owned());
        }
        match line.split_at_checked(1) {
            Some(("+", rest)) => EditLine::Added(rest.to_owned()),
            Some(("-", rest)) => EditLine::Removed(rest.to_owned()),
            Some((" ", rest)) => EditLine::Context(rest.to_owned()),
            _ => EditLine::Note(line.to_owned()),
        }
    };
    patch.lines().map(line).collect()
}

/// `changes` of Codex: kinds and paths, without content.
fn of_changes(changes: &Value) -> Option<FileEdit> {
    let changes: Vec<&Map<String, Value>> = changes.as_array()?.iter().filter_map(Value::as_object).collect();
    let path = |change: &Map<String, Value>| text(change, &PATH).map(str::to_owned);
    if let [only] = changes.as_slice() {
        let kind = text(only, &["kind"]).unwrap_or("update");
        return Some(FileEdit { path: path(only)?, lines: vec![EditLine::Note(kind.to_owned())] });
    }
    let note = |change: &&Map<String, Value>| {
        let kind = text(change, &["kind"]).unwrap_or("update");
        Some(EditLine::Note(format!("{kind} {}", path(change)?)))
    };
    let lines: Vec<EditLine> = changes.iter().filter_map(note).collect();
    (!lines.is_empty()).then_some(FileEdit { path: String::new(), lines })
}

/// The difference of the replaced and the new text: what they share at both ends is context.
fn replacement(map: &Map<String, Value>) -> Option<Vec<EditLine>> {
    let (old, new) = (text(map, &OLD)?, text(map, &NEW)?);
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = |one: &mut dyn Iterator<Item = &&str>, two: &mut dyn Iterator<Item = &&str>| {
        one.zip(two).take_while(|(one, two)| one == two).count()
    };
    let before = same(&mut old.iter(), &mut new.iter());
    let after = same(&mut old[before..].iter().rev(), &mut new[before..].iter().rev());
    let context =
        |lines: &[&str]| lines.iter().map(|line| EditLine::Context((*line).to_owned())).collect::<Vec<_>>();
    let mut lines = context(&old[before.saturating_sub(CONTEXT)..before]);
    lines.extend(old[before..old.len() - after].iter().map(|line| EditLine::Removed((*line).to_owned())));
    lines.extend(new[before..new.len() - after].iter().map(|line| EditLine::Added((*line).to_owned())));
    let end = &old[old.len() - after..];
    lines.extend(context(&end[..end.len().min(CONTEXT)]));
    Some(lines)
}

/// Writes paths below a directory without it: `src/a.rs` in place of `/…/src-modified/src/a.rs`.
#[must_use]
pub fn relative_paths(text: &str, workspace: &str) -> String {
    let workspace = workspace.trim_end_matches('/');
    if workspace.len() < 2 || !text.contains(workspace) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(workspace) {
        let (before, found) = rest.split_at(at);
        let after = &found[workspace.len()..];
        out.push_str(before);
        let next = after.chars().next();
        if before.ends_with(|c: char| c.is_alphanumeric() || "/_.-".contains(c))
            || next.is_some_and(|c| c.is_alphanumeric() || "_.-".contains(c))
        {
            // A part of another path.
            out.push_str(workspace);
            rest = after;
        } else if let Some(inside) = after.strip_prefix('/') {
            let names = inside.starts_with(|c: char| !c.is_whitespace() && !"\"'`:;,)]}".contains(c));
            out.push_str(if names { "" } else { "." });
            rest = inside;
        } else {
            out.push('.');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn diff(arguments: &Value) -> Option<(String, String)> {
        let edit = FileEdit::from_arguments(&arguments.to_string())?;
        Some((edit.path, edit.lines.iter().map(EditLine::to_diff).collect::<Vec<_>>().join("\n")))
    }

    #[test]
    fn edits_of_all_agents_are_differences() {
        let (old, new) = ("a\nb\nc\nd\none\nz\n", "a\nb\nc\nd\ntwo\nthree\nz\n");
        let change = " b\n c\n d\n-one\n+two\n+three\n z";
        for (arguments, path, expected) in [
            // Claude Code, Gemini CLI
            (
                json!({"file_path": "a", "old_string": old, "new_string": new, "replace_all": false}),
                "a",
                change,
            ),
            // OpenCode
            (json!({"filePath": "a", "oldString": old, "newString": new}), "a", change),
            // Copilot CLI
            (json!({"path": "a", "old_str": old, "new_str": new}), "a", change),
            (json!({"path": "a", "file_text": "x\ny\n"}), "a", "+x\n+y"),
            (json!({"file_path": "a", "content": "x"}), "a", "+x"),
            (
                json!({"file_path": "a", "edits": [{"old_string": "1", "new_string": "2"}, {"old_string": "3", "new_string": ""}]}),
                "a",
                "-1\n+2\n-3",
            ),
            // Codex
            (json!({"changes": [{"path": "a", "kind": "update"}]}), "a", "update"),
            (
                json!({"changes": [{"path": "a", "kind": "add"}, {"path": "b", "kind": "delete"}]}),
                "",
                "add a\ndelete b",
            ),
            (
                json!({"patchText": "*** Begin Patch\n*** Update File: a\n@@\n x\n-y\n+z\n*** End Patch"}),
                "",
                "*** Begin Patch\n*** Update File: a\n@@\n x\n-y\n+z\n*** End Patch",
            ),
        ] {
            assert_eq!(diff(&arguments), Some((path.to_owned(), expected.to_owned())), "{arguments}");
        }
        for arguments in [
            json!({"command": "ls"}),
            json!({"file_path": "a"}),
            json!({"path": "a", "pattern": "x"}),
            json!("x"),
        ] {
            assert_eq!(diff(&arguments), None, "{arguments}");
        }
        assert_eq!(FileEdit::from_arguments("not json"), None);
    }

    #[test]
    fn paths_below_the_workspace_are_relative() {
        let workspace = "/w/run/src-modified";
        for (text, expected) in [
            ("/w/run/src-modified/src/a.rs", "src/a.rs"),
            ("cd /w/run/src-modified && cat /w/run/src-modified/b", "cd . && cat b"),
            ("{\"path\":\"/w/run/src-modified/\"}", "{\"path\":\".\"}"),
            (
                "/w/run/src-modified-2/a and /x/w/run/src-modified/a",
                "/w/run/src-modified-2/a and /x/w/run/src-modified/a",
            ),
            ("nothing", "nothing"),
        ] {
            assert_eq!(relative_paths(text, workspace), expected);
        }
        assert_eq!(relative_paths("/a/b", "/"), "/a/b");
        assert_eq!(relative_paths("/a/b", ""), "/a/b");
    }
}
