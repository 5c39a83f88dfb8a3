//! Definitions of named agents (`agent_name`): inline in the case, or files that agents keep in a project or in a home.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use yb_case::{AgentSpec, AgentSpecs};
use yb_claude::AgentDefinition;

use super::{AdapterError, ExecutionContext};

/// The directories with an agent's definition files, below a project and below the home.
#[derive(Debug, Clone, Copy)]
pub(super) struct DefinitionDirs {
    pub(super) project: &'static [&'static str],
    pub(super) home: &'static [&'static str],
}

/// How the names of definition files end.
const SUFFIXES: [&str; 2] = [".md", ".agent.md"];
/// The maximum size of a definition file.
const MAX_BYTES: u64 = 1 << 20;

/// Finds the text of a definition file: in the workspace, beside the case, in the project, in the home.
///
/// # Errors
/// If there is none, with all paths that were searched.
pub(super) fn find(
    name: &str,
    dirs: DefinitionDirs,
    context: &ExecutionContext,
) -> Result<String, AdapterError> {
    let others = context.search_roots.iter().chain(&context.project_dir).map(PathBuf::as_path);
    let roots = context.workspace_roots().into_iter().chain(others);
    let below = |root: &Path| dirs.project.iter().map(|dir| root.join(dir)).collect::<Vec<_>>();
    let home = context.host.variable("HOME").map(Path::new);
    let in_home = home.into_iter().flat_map(|home| dirs.home.iter().map(|dir| home.join(dir)));
    let folders = roots.flat_map(below).chain(in_home);
    let mut searched: Vec<PathBuf> = Vec::new();
    for path in folders.flat_map(|folder| SUFFIXES.map(|suffix| folder.join(format!("{name}{suffix}")))) {
        if searched.contains(&path) {
            continue;
        }
        match std::fs::metadata(&path) {
            Ok(found) if found.is_file() && found.len() <= MAX_BYTES => {
                return std::fs::read_to_string(&path).map_err(|error| {
                    let message = format!("failed to read the definition of agent `{name}`: {error}");
                    AdapterError::config(message, format!("check the file: `{}`", path.display()))
                });
            }
            _ => searched.push(path),
        }
    }
    let shown: Vec<String> = searched.iter().map(|path| path.display().to_string()).collect();
    Err(AdapterError::config(
        format!("no definition of agent `{name}`; searched: {}", shown.join(", ")),
        "create one of these files, or define the agent in the case: `agent.config.agents`",
    ))
}

/// Checks the tools of a definition, which an agent would ignore if it does not know them.
///
/// # Errors
/// If the agent has no such tool.
pub(super) fn own_tools(
    name: &str,
    tools: &[String],
    spec: &'static AgentSpec,
    mcp_servers: &[String],
) -> Result<Vec<String>, AdapterError> {
    let mut names = Vec::new();
    for tool in tools {
        let own = spec.tool_names(tool, &AgentSpecs::new([spec]), mcp_servers).map_err(|_| {
            let known: Vec<String> = spec.tools.iter().map(|tool| format!("`{}`", tool.name)).collect();
            let message = format!("`tools` of agent `{name}`: {} has no tool `{tool}`", spec.label);
            AdapterError::config(message, format!("its tools are {}", known.join(", ")))
        })?;
        names.extend(own);
    }
    Ok(names)
}

/// Renders an inline definition as a Markdown file with a header. JSON values are valid YAML.
pub(super) fn file_text(definition: &AgentDefinition, name: &str) -> String {
    let mut header = vec![("name", json!(name)), ("description", json!(definition.description))];
    if let Some(tools) = &definition.tools {
        header.push(("tools", json!(tools)));
    }
    if let Some(model) = &definition.model {
        header.push(("model", json!(model)));
    }
    let lines: Vec<String> =
        header.iter().map(|(key, value): &(_, Value)| format!("{key}: {value}")).collect();
    format!("---\n{}\n---\n\n{}\n", lines.join("\n"), definition.prompt)
}
