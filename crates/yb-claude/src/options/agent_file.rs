//! Agent definitions from Markdown files with a YAML header, below `.claude/agents`.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{Agent, AgentDefinition, Options};

/// The maximum size of a definition file.
const MAX_BYTES: u64 = 1 << 20;

/// Header keys that are not passed to the CLI.
const IGNORED_KEYS: [&str; 3] = ["name", "color", "target"];

/// The error of [`find_agent`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// No definition file exists.
    #[error("no definition of agent `{name}`; searched: {}", listed(searched))]
    NotFound {
        /// The agent's name.
        name: String,
        /// All searched paths, in order.
        searched: Vec<PathBuf>,
    },
    /// The name contains characters other than letters, digits, `-` and `_`.
    #[error("invalid agent name (expected letters, digits, `-` and `_`): `{0}`")]
    BadName(String),
    /// The file is not readable.
    #[error("failed to read agent definition: {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The file is not a valid definition.
    #[error("invalid agent definition ({problem}): {}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
}

impl AgentError {
    /// Returns a hint for fixing the error.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "create one of these files, or define the agent inline",
            Self::BadName(_) => "rename the agent",
            Self::Unreadable { .. } => "check the file's permissions and size",
            Self::Malformed { .. } => "start with a header between `---` lines, followed by the prompt",
        }
    }
}

fn listed(searched: &[PathBuf]) -> String {
    if searched.is_empty() {
        return "no directories".to_owned();
    }
    searched.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Finds an agent definition: `.claude/agents/NAME.md`, then `.claude/agents/NAME.agent.md`, in each root.
///
/// # Errors
/// If no root has a definition, or it is invalid.
pub fn find_agent(name: &str, roots: &[&Path]) -> Result<(AgentDefinition, PathBuf), AgentError> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() > 100 || !name.chars().all(word) {
        return Err(AgentError::BadName(name.to_owned()));
    }
    let mut searched = Vec::new();
    for root in roots {
        for file in [format!("{name}.md"), format!("{name}.agent.md")] {
            let path = root.join(".claude").join("agents").join(file);
            match read(&path) {
                Ok(text) => {
                    let definition = parse(name, &text);
                    let definition = definition
                        .map_err(|problem| AgentError::Malformed { path: path.clone(), problem })?;
                    return Ok((definition, path));
                }
                Err(error) if is_absent(&error) => searched.push(path),
                Err(source) => return Err(AgentError::Unreadable { path, source }),
            }
        }
    }
    Err(AgentError::NotFound { name: name.to_owned(), searched })
}

impl Options {
    /// Sets the agent by name, from an inline definition or else from the first root with a definition file. The
    /// definition is passed inline, so the CLI needs no file.
    ///
    /// # Errors
    /// As [`find_agent`].
    pub fn with_agent_from(mut self, name: &str, roots: &[&Path]) -> Result<Self, AgentError> {
        if !self.agents.contains_key(name) {
            let (definition, _) = find_agent(name, roots)?;
            self.agents.insert(name.to_owned(), definition);
        }
        self.agent = Some(Agent::Defined(name.to_owned()));
        Ok(self)
    }
}

impl AgentDefinition {
    /// Parses the text of a definition file: a header between `---` lines, then the prompt.
    ///
    /// # Errors
    /// Returns the problem if the text is no definition.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        parse(name, text)
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn read(path: &Path) -> io::Result<String> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("larger than {MAX_BYTES} bytes")));
    }
    Ok(text)
}

/// Parses a definition file.
fn parse(name: &str, text: &str) -> Result<AgentDefinition, String> {
    let (header, body) = split(text)?;
    let mut header = header.map(fields).transpose()?.unwrap_or_default();
    IGNORED_KEYS.iter().for_each(|key| drop(header.remove(*key)));
    let mut definition = AgentDefinition::new(name, body.trim());
    if definition.prompt.is_empty() {
        return Err("missing prompt after the header".to_owned());
    }
    if let Some(description) = take_text(&mut header, "description")?.filter(|text| !text.trim().is_empty()) {
        definition.description = description;
    }
    definition.model = take_text(&mut header, "model")?;
    definition.tools = take_list(&mut header, "tools")?;
    definition.disallowed_tools = take_list(&mut header, "disallowedTools")?;
    for list in ["skills"] {
        if let Some(items) = take_list(&mut header, list)? {
            header.insert(list.to_owned(), items.into());
        }
    }
    definition.more = header;
    Ok(definition)
}

/// Splits the optional header between `---` lines from the body.
fn split(text: &str) -> Result<(Option<&str>, &str), String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(rest) = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n")) else {
        return Ok((None, text));
    };
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Ok((Some(&rest[..at]), &rest[at + line.len()..]));
        }
        at += line.len();
    }
    Err("missing `---` line at the end of the header".to_owned())
}

/// Parses the header. Many existing files are not valid YAML, for example with a colon in a description; these are parsed
/// line by line, as Claude Code does.
fn fields(header: &str) -> Result<Map<String, Value>, String> {
    match serde_saphyr::from_str::<Option<Map<String, Value>>>(header) {
        Ok(map) => Ok(map.unwrap_or_default()),
        Err(error) => by_line(header).ok_or_else(|| format!("invalid YAML header: {error}")),
    }
}

fn by_line(header: &str) -> Option<Map<String, Value>> {
    let lines = header.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (key, value) = line.split_once(':')?;
            let is_key =
                !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
            is_key.then(|| (key.to_owned(), Value::String(value.trim().to_owned())))
        })
        .collect()
}

fn take_text(header: &mut Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    match header.remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("expected a string for `{key}`")),
    }
}

/// Takes a list or a comma-separated string; `*` means unset.
fn take_list(header: &mut Map<String, Value>, key: &str) -> Result<Option<Vec<String>>, String> {
    let error = || format!("expected a list of names for `{key}`");
    let items: Vec<String> = match header.remove(key) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => split_commas(&text),
        Some(Value::Array(items)) => {
            let texts = items.into_iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(error));
            texts.collect::<Result<_, _>>()?
        }
        Some(_) => return Err(error()),
    };
    Ok(Some(items).filter(|items| items.as_slice() != ["*"]))
}

/// Splits at commas outside parentheses.
fn split_commas(text: &str) -> Vec<String> {
    let text = text.trim().trim_start_matches('[').trim_end_matches(']');
    let mut items = vec![String::new()];
    let mut depth = 0_usize;
    for letter in text.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                items.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(item) = items.last_mut() {
            item.push(letter);
        }
    }
    items
        .iter()
        .map(|item| item.trim().trim_matches(['"', '\'']).to_owned())
        .filter(|item| !item.is_empty())
        .collect()
}

#[cfg(test)]
mod tests;
