//! Agents that are defined in files: Markdown with a header of YAML, below `.claude/agents`.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{Agent, AgentDefinition, Options};

/// A larger file is no agent.
const MAX_BYTES: u64 = 1 << 20;

/// Keys of the header that are for people or for other programs, or that the name of the file says already.
const NOT_FOR_THE_CLI: [&str; 3] = ["name", "color", "target"];

/// Why an agent's definition can't be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// No file has this name.
    #[error("no definition of agent `{name}`; searched: {}", listed(searched))]
    NotFound {
        /// The agent.
        name: String,
        /// Every file that was looked for, in order.
        searched: Vec<PathBuf>,
    },
    /// The name could lead anywhere.
    #[error("expected letters, digits, `-` and `_` as an agent's name: `{0}`")]
    BadName(String),
    /// The file can't be read.
    #[error("failed to read the agent's definition: {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is no definition.
    #[error("{problem}: {}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

impl AgentError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "create one of these files, or define the agent inline",
            Self::BadName(_) => "rename the agent",
            Self::Unreadable { .. } => "check the file's rights and its size",
            Self::Malformed { .. } => "begin with a header between `---` lines and let the prompt follow",
        }
    }
}

fn listed(searched: &[PathBuf]) -> String {
    if searched.is_empty() {
        return "nothing, for no directory was given".to_owned();
    }
    searched.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Finds an agent's definition: in each root `.claude/agents/NAME.md`, then `.claude/agents/NAME.agent.md`.
///
/// # Errors
/// When no root has it, or what is there is no definition.
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
    /// The same, running as this agent: by the definition that it has inline, else by the one in a file below one of
    /// these roots, the first that has it. So the CLI needs no file, and none is copied into a repository.
    ///
    /// # Errors
    /// As [`find_agent`]; a name that is found nowhere lists every place.
    pub fn with_agent_from(mut self, name: &str, roots: &[&Path]) -> Result<Self, AgentError> {
        if !self.agents.contains_key(name) {
            let (definition, _) = find_agent(name, roots)?;
            self.agents.insert(name.to_owned(), definition);
        }
        self.agent = Some(Agent::Defined(name.to_owned()));
        Ok(self)
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

/// A definition from the text of its file.
fn parse(name: &str, text: &str) -> Result<AgentDefinition, String> {
    let (header, body) = split(text)?;
    let mut header = header.map(fields).transpose()?.unwrap_or_default();
    NOT_FOR_THE_CLI.iter().for_each(|key| drop(header.remove(*key)));
    let mut definition = AgentDefinition::new(name, body.trim());
    if definition.prompt.is_empty() {
        return Err("expected a prompt after the header".to_owned());
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

/// The header between two lines of dashes, if there is one, and what follows.
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
    Err("expected a line `---` that ends the header".to_owned())
}

/// The header's keys. Many files in use are not quite YAML, with a colon in the middle of a description: for those
/// each line counts by itself, as Claude Code does it.
fn fields(header: &str) -> Result<Map<String, Value>, String> {
    match serde_saphyr::from_str::<Option<Map<String, Value>>>(header) {
        Ok(map) => Ok(map.unwrap_or_default()),
        Err(error) => by_line(header).ok_or_else(|| format!("the header is not YAML ({error})")),
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
        Some(_) => Err(format!("expected a text as `{key}`")),
    }
}

/// A list, or a text with commas; `*` is the same as nothing.
fn take_list(header: &mut Map<String, Value>, key: &str) -> Result<Option<Vec<String>>, String> {
    let error = || format!("expected a list of names as `{key}`");
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

/// Commas inside parentheses belong to a rule.
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
