//! Portable tools (`run`, `read`, `write`, `edit`) and their mapping to the tools of each agent.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::protocol::Protocol;
use crate::script::{Block, Reply};

/// Name and arguments of each portable tool. Only a call with exactly these arguments is translated.
const PORTABLE: [(&str, &[&str]); 4] = [
    ("run", &["command"]),
    ("read", &["path"]),
    ("write", &["path", "content"]),
    ("edit", &["path", "old", "new"]),
];

/// Maps a portable tool to a tool of one agent.
struct ToolMapping {
    /// Name of the portable tool.
    tool: &'static str,
    /// Name of the agent's tool.
    name: &'static str,
    /// Portable argument names and the agent's.
    arguments: &'static [(&'static str, &'static str)],
    /// Further arguments of the agent's tool and their values.
    extra: &'static [(&'static str, &'static str)],
}

const fn mapping(
    tool: &'static str,
    name: &'static str,
    arguments: &'static [(&'static str, &'static str)],
    extra: &'static [(&'static str, &'static str)],
) -> ToolMapping {
    ToolMapping { tool, name, arguments, extra }
}

const CLAUDE_CODE: [ToolMapping; 4] = [
    mapping("run", "Bash", &[("command", "command")], &[]),
    mapping("read", "Read", &[("path", "file_path")], &[]),
    mapping("write", "Write", &[("path", "file_path"), ("content", "content")], &[]),
    mapping("edit", "Edit", &[("path", "file_path"), ("old", "old_string"), ("new", "new_string")], &[]),
];

const GEMINI: [ToolMapping; 4] = [
    mapping("run", "run_shell_command", &[("command", "command")], &[]),
    mapping("read", "read_file", &[("path", "file_path")], &[]),
    mapping("write", "write_file", &[("path", "file_path"), ("content", "content")], &[]),
    mapping(
        "edit",
        "replace",
        &[("path", "file_path"), ("old", "old_string"), ("new", "new_string")],
        &[("instruction", "as the script says")],
    ),
];

const OPENCODE: [ToolMapping; 4] = [
    mapping("run", "bash", &[("command", "command")], &[]),
    mapping("read", "read", &[("path", "filePath")], &[]),
    mapping("write", "write", &[("path", "filePath"), ("content", "content")], &[]),
    mapping("edit", "edit", &[("path", "filePath"), ("old", "oldString"), ("new", "newString")], &[]),
];

const COPILOT: [ToolMapping; 4] = [
    mapping("run", "bash", &[("command", "command")], &[("description", "as the script says")]),
    mapping("read", "view", &[("path", "path")], &[]),
    mapping("write", "create", &[("path", "path"), ("content", "file_text")], &[]),
    mapping("edit", "edit", &[("path", "path"), ("old", "old_str"), ("new", "new_str")], &[]),
];

/// Codex has a single tool; the other calls become commands, see [`codex_command`].
const CODEX: [ToolMapping; 1] = [mapping("run", "exec_command", &[("command", "cmd")], &[])];

/// All agents, identified by the tools that their requests declare.
const AGENTS: [&[ToolMapping]; 5] = [&CLAUDE_CODE, &GEMINI, &OPENCODE, &COPILOT, &CODEX];

/// Texts before and after the working directory in the prompts of agents.
const WORKING_DIRECTORY_MARKERS: [(&str, char); 5] = [
    ("<cwd>", '<'),
    ("Primary working directory: ", '\n'),
    ("Working directory: ", '\n'),
    ("Current working directory: ", '\n'),
    ("Workspace Directories:**\n  - ", '\n'),
];

/// Translates the portable tool calls of a reply for the agent that sent the request, given in the shape of a Messages
/// request.
pub(crate) fn translate_tools(reply: &Arc<Reply>, request: &Value, protocol: Protocol) -> Arc<Reply> {
    let portable = |block: &Block| matches!(block, Block::Tool { name, input } if is_portable(name, input));
    if !reply.blocks.iter().any(portable) {
        return Arc::clone(reply);
    }
    let agent = agent(request, protocol);
    let directory = working_directory(request);
    let blocks = reply.blocks.iter().map(|block| match block {
        Block::Tool { name, input } if is_portable(name, input) => {
            let mut input = input.clone();
            let path = input.get("path").and_then(Value::as_str);
            if let (Some(path), Some(directory)) = (path, &directory)
                && !path.starts_with('/')
            {
                let full = format!("{}/{path}", directory.trim_end_matches('/'));
                input.insert("path".to_owned(), full.into());
            }
            call(agent, name, &input)
        }
        other => other.clone(),
    });
    let reply = Reply { blocks: blocks.collect(), ..Reply::clone(reply) };
    Arc::new(reply)
}

fn is_portable(name: &str, input: &Map<String, Value>) -> bool {
    PORTABLE.iter().any(|(tool, arguments)| {
        *tool == name
            && arguments.len() == input.len()
            && arguments.iter().all(|argument| input.get(*argument).is_some_and(Value::is_string))
    })
}

/// Returns the tools of the agent with the most declared tools, or of the usual agent of the protocol.
fn agent(request: &Value, protocol: Protocol) -> &'static [ToolMapping] {
    let declared = request.get("tools").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let count = |agent: &&'static [ToolMapping]| {
        agent.iter().filter(|mapping| declared.iter().any(|tool| mapping.matches(tool))).count()
    };
    let usual: &[ToolMapping] = match protocol {
        Protocol::Messages => &CLAUDE_CODE,
        Protocol::Responses => &CODEX,
        Protocol::Chat => &OPENCODE,
        Protocol::Gemini(_) => &GEMINI,
    };
    AGENTS.into_iter().filter(|agent| count(agent) > 0).max_by_key(count).unwrap_or(usual)
}

impl ToolMapping {
    fn matches(&self, tool: &Value) -> bool {
        let has = |name: &str| tool["input_schema"]["properties"].get(name).is_some();
        tool["name"] == self.name
            && self.arguments.iter().all(|(_, own)| has(own))
            && self.extra.iter().all(|(own, _)| has(own))
    }
}

fn call(agent: &[ToolMapping], tool: &str, input: &Map<String, Value>) -> Block {
    let Some(mapping) = agent.iter().find(|mapping| mapping.tool == tool) else {
        let text = |name: &str| input.get(name).and_then(Value::as_str).unwrap_or_default();
        let command = codex_command(tool, text("path"), text("content"), text("old"), text("new"));
        let input = [("cmd".to_owned(), Value::String(command))].into_iter().collect();
        return Block::Tool { name: "exec_command".to_owned(), input };
    };
    let given = mapping
        .arguments
        .iter()
        .filter_map(|(portable, own)| Some(((*own).to_owned(), input.get(*portable)?.clone())));
    let extra = mapping.extra.iter().map(|(own, value)| ((*own).to_owned(), (*value).into()));
    Block::Tool { name: mapping.name.to_owned(), input: given.chain(extra).collect() }
}

/// Returns the equivalent command; files are changed by `apply_patch`, which works on whole lines.
fn codex_command(tool: &str, path: &str, content: &str, old: &str, new: &str) -> String {
    let lines =
        |sign: char, text: &str| -> String { text.lines().map(|line| format!("{sign}{line}\n")).collect() };
    let patch = match tool {
        "read" => return format!("cat -- {}", shell_quote(path)),
        // A patch can only add files that end with a newline.
        "write" if !content.ends_with('\n') => {
            return format!("printf %s {} > {}", shell_quote(content), shell_quote(path));
        }
        "write" => format!("*** Add File: {path}\n{}", lines('+', content)),
        _ => format!("*** Update File: {path}\n@@\n{}{}", lines('-', old), lines('+', new)),
    };
    format!("apply_patch <<'END_OF_PATCH'\n*** Begin Patch\n{patch}*** End Patch\nEND_OF_PATCH")
}

/// Quotes a shell argument.
fn shell_quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Returns the working directory that the agent mentions in its prompts.
fn working_directory(request: &Value) -> Option<String> {
    let messages = request.get("messages").and_then(Value::as_array).into_iter().flatten();
    let contents =
        request.get("system").into_iter().chain(messages.filter_map(|message| message.get("content")));
    let texts: Vec<&str> = contents.flat_map(crate::conversation::texts).collect();
    WORKING_DIRECTORY_MARKERS.iter().find_map(|(before, after)| {
        texts.iter().find_map(|text| {
            let rest = &text[text.find(before)? + before.len()..];
            let path = rest.split(*after).next()?.trim();
            path.starts_with('/').then(|| path.to_owned())
        })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::translate_tools;
    use crate::protocol::Protocol;
    use crate::script::{Block, Script};
    use crate::vars::Vars;

    const SCRIPT: &str = "
tape: 1
lanes:
  main:
    - tools:
        - run: { command: ls }
        - read: { path: a.txt }
        - write: { path: /w/b.txt, content: \"x\\n\" }
        - edit: { path: a.txt, old: one, new: two }
        - edit: { filePath: a.txt }
";

    fn tool(name: &str, arguments: &[&str]) -> Value {
        let properties: serde_json::Map<_, _> =
            arguments.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
        json!({ "name": name, "input_schema": { "properties": properties } })
    }

    fn translated(tools: &Value, protocol: Protocol) -> Vec<(String, Value)> {
        let script = Script::parse(SCRIPT, &Vars::new()).unwrap();
        let request = json!({ "tools": tools, "messages": [
            { "role": "user", "content": [{ "type": "text", "text": "<cwd>/w</cwd> go" }] },
        ] });
        let reply = translate_tools(&Arc::clone(&script.lanes[0].replies[0]), &request, protocol);
        let calls = reply.blocks.iter().map(|block| match block {
            Block::Tool { name, input } => (name.clone(), Value::Object(input.clone())),
            other => panic!("{other:?}"),
        });
        calls.collect()
    }

    fn check(tools: &Value, protocol: Protocol, expected: [(&str, Value); 4]) {
        let mut expected: Vec<_> =
            expected.into_iter().map(|(name, input)| (name.to_owned(), input)).collect();
        // A call with the agent's own arguments is not translated.
        expected.push(("edit".to_owned(), json!({ "filePath": "a.txt" })));
        assert_eq!(translated(tools, protocol), expected);
    }

    #[test]
    fn translate_tools_uses_the_tool_names_of_each_agent() {
        check(
            &json!([
                tool("bash", &["command"]),
                tool("read", &["filePath"]),
                tool("edit", &["filePath", "oldString", "newString"])
            ]),
            Protocol::Chat,
            [
                ("bash", json!({ "command": "ls" })),
                ("read", json!({ "filePath": "/w/a.txt" })),
                ("write", json!({ "filePath": "/w/b.txt", "content": "x\n" })),
                ("edit", json!({ "filePath": "/w/a.txt", "oldString": "one", "newString": "two" })),
            ],
        );
        check(
            &json!([tool("bash", &["command", "description"]), tool("view", &["path"])]),
            Protocol::Chat,
            [
                ("bash", json!({ "command": "ls", "description": "as the script says" })),
                ("view", json!({ "path": "/w/a.txt" })),
                ("create", json!({ "path": "/w/b.txt", "file_text": "x\n" })),
                ("edit", json!({ "path": "/w/a.txt", "old_str": "one", "new_str": "two" })),
            ],
        );
        check(
            &json!([]),
            Protocol::Messages,
            [
                ("Bash", json!({ "command": "ls" })),
                ("Read", json!({ "file_path": "/w/a.txt" })),
                ("Write", json!({ "file_path": "/w/b.txt", "content": "x\n" })),
                ("Edit", json!({ "file_path": "/w/a.txt", "old_string": "one", "new_string": "two" })),
            ],
        );
        check(
            &json!([tool("exec_command", &["cmd"])]),
            Protocol::Responses,
            [
                ("exec_command", json!({ "cmd": "ls" })),
                ("exec_command", json!({ "cmd": "cat -- '/w/a.txt'" })),
                (
                    "exec_command",
                    json!({ "cmd": "apply_patch <<'END_OF_PATCH'\n*** Begin Patch\n*** Add File: /w/b.txt\n+x\n*** End Patch\nEND_OF_PATCH" }),
                ),
                (
                    "exec_command",
                    json!({ "cmd": "apply_patch <<'END_OF_PATCH'\n*** Begin Patch\n*** Update File: /w/a.txt\n@@\n-one\n+two\n*** End Patch\nEND_OF_PATCH" }),
                ),
            ],
        );
    }
}
