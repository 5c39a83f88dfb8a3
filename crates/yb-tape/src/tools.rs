//! Tools that every agent has under a name of its own: `run`, `read`, `write` and `edit`, and how each agent spells them.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::script::{Block, Reply};
use crate::wire::Wire;

/// Name and arguments of each portable tool. A call with exactly these arguments is portable; any other is what it says.
const PORTABLE: [(&str, &[&str]); 4] = [
    ("run", &["command"]),
    ("read", &["path"]),
    ("write", &["path", "content"]),
    ("edit", &["path", "old", "new"]),
];

/// How one agent spells one tool: its name, its arguments by their portable names, and what it wants besides.
struct Spelling {
    tool: &'static str,
    name: &'static str,
    arguments: &'static [(&'static str, &'static str)],
    besides: &'static [(&'static str, &'static str)],
}

const fn spelling(
    tool: &'static str,
    name: &'static str,
    arguments: &'static [(&'static str, &'static str)],
    besides: &'static [(&'static str, &'static str)],
) -> Spelling {
    Spelling { tool, name, arguments, besides }
}

const CLAUDE_CODE: [Spelling; 4] = [
    spelling("run", "Bash", &[("command", "command")], &[]),
    spelling("read", "Read", &[("path", "file_path")], &[]),
    spelling("write", "Write", &[("path", "file_path"), ("content", "content")], &[]),
    spelling("edit", "Edit", &[("path", "file_path"), ("old", "old_string"), ("new", "new_string")], &[]),
];

const GEMINI: [Spelling; 4] = [
    spelling("run", "run_shell_command", &[("command", "command")], &[]),
    spelling("read", "read_file", &[("path", "file_path")], &[]),
    spelling("write", "write_file", &[("path", "file_path"), ("content", "content")], &[]),
    spelling(
        "edit",
        "replace",
        &[("path", "file_path"), ("old", "old_string"), ("new", "new_string")],
        &[("instruction", "as the script says")],
    ),
];

const OPENCODE: [Spelling; 4] = [
    spelling("run", "bash", &[("command", "command")], &[]),
    spelling("read", "read", &[("path", "filePath")], &[]),
    spelling("write", "write", &[("path", "filePath"), ("content", "content")], &[]),
    spelling("edit", "edit", &[("path", "filePath"), ("old", "oldString"), ("new", "newString")], &[]),
];

const COPILOT: [Spelling; 4] = [
    spelling("run", "bash", &[("command", "command")], &[("description", "as the script says")]),
    spelling("read", "view", &[("path", "path")], &[]),
    spelling("write", "create", &[("path", "path"), ("content", "file_text")], &[]),
    spelling("edit", "edit", &[("path", "path"), ("old", "old_str"), ("new", "new_str")], &[]),
];

/// Codex has one tool for all; what the others do becomes a command, see [`for_codex`].
const CODEX: [Spelling; 1] = [spelling("run", "exec_command", &[("command", "cmd")], &[])];

/// Every agent, told apart by the tools that its requests declare.
const AGENTS: [&[Spelling]; 5] = [&CLAUDE_CODE, &GEMINI, &OPENCODE, &COPILOT, &CODEX];

/// Texts between which agents tell their model where they work.
const PLACES: [(&str, char); 5] = [
    ("<cwd>", '<'),
    ("Primary working directory: ", '\n'),
    ("Working directory: ", '\n'),
    ("Current working directory: ", '\n'),
    ("Workspace Directories:**\n  - ", '\n'),
];

/// The reply with its portable calls spelled as the agent does that sent this request (in the shape of a Messages request).
pub(crate) fn spell(reply: &Arc<Reply>, request: &Value, wire: Wire) -> Arc<Reply> {
    let portable = |block: &Block| matches!(block, Block::Tool { name, input } if is_portable(name, input));
    if !reply.blocks.iter().any(portable) {
        return Arc::clone(reply);
    }
    let agent = agent(request, wire);
    let place = place(request);
    let blocks = reply.blocks.iter().map(|block| match block {
        Block::Tool { name, input } if is_portable(name, input) => {
            let mut input = input.clone();
            let path = input.get("path").and_then(Value::as_str);
            if let (Some(path), Some(place)) = (path, &place)
                && !path.starts_with('/')
            {
                let full = format!("{}/{path}", place.trim_end_matches('/'));
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

/// The agent most of whose tools are declared; one that declares none is known by its protocol.
fn agent(request: &Value, wire: Wire) -> &'static [Spelling] {
    let declared = request.get("tools").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let count = |agent: &&'static [Spelling]| {
        agent.iter().filter(|spelling| declared.iter().any(|tool| spelling.fits(tool))).count()
    };
    let usual: &[Spelling] = match wire {
        Wire::Messages => &CLAUDE_CODE,
        Wire::Responses => &CODEX,
        Wire::Chat => &OPENCODE,
        Wire::Gemini(_) => &GEMINI,
    };
    AGENTS.into_iter().filter(|agent| count(agent) > 0).max_by_key(count).unwrap_or(usual)
}

impl Spelling {
    fn fits(&self, tool: &Value) -> bool {
        let has = |name: &str| tool["input_schema"]["properties"].get(name).is_some();
        tool["name"] == self.name
            && self.arguments.iter().all(|(_, own)| has(own))
            && self.besides.iter().all(|(own, _)| has(own))
    }
}

fn call(agent: &[Spelling], tool: &str, input: &Map<String, Value>) -> Block {
    let Some(spelling) = agent.iter().find(|spelling| spelling.tool == tool) else {
        let text = |name: &str| input.get(name).and_then(Value::as_str).unwrap_or_default();
        let command = for_codex(tool, text("path"), text("content"), text("old"), text("new"));
        let input = [("cmd".to_owned(), Value::String(command))].into_iter().collect();
        return Block::Tool { name: "exec_command".to_owned(), input };
    };
    let given = spelling
        .arguments
        .iter()
        .filter_map(|(portable, own)| Some(((*own).to_owned(), input.get(*portable)?.clone())));
    let besides = spelling.besides.iter().map(|(own, value)| ((*own).to_owned(), (*value).into()));
    Block::Tool { name: spelling.name.to_owned(), input: given.chain(besides).collect() }
}

/// The command that does it: files are changed by `apply_patch`, which changes whole lines only.
fn for_codex(tool: &str, path: &str, content: &str, old: &str, new: &str) -> String {
    let lines =
        |sign: char, text: &str| -> String { text.lines().map(|line| format!("{sign}{line}\n")).collect() };
    let patch = match tool {
        "read" => return format!("cat -- {}", quoted(path)),
        // A patch adds only files that end with a line's end.
        "write" if !content.ends_with('\n') => {
            return format!("printf %s {} > {}", quoted(content), quoted(path));
        }
        "write" => format!("*** Add File: {path}\n{}", lines('+', content)),
        _ => format!("*** Update File: {path}\n@@\n{}{}", lines('-', old), lines('+', new)),
    };
    format!("apply_patch <<'END_OF_PATCH'\n*** Begin Patch\n{patch}*** End Patch\nEND_OF_PATCH")
}

/// One word of a shell's command.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Where the agent works, as it tells its model.
fn place(request: &Value) -> Option<String> {
    let messages = request.get("messages").and_then(Value::as_array).into_iter().flatten();
    let contents =
        request.get("system").into_iter().chain(messages.filter_map(|message| message.get("content")));
    let texts: Vec<&str> = contents.flat_map(crate::conversation::texts).collect();
    PLACES.iter().find_map(|(before, after)| {
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

    use super::spell;
    use crate::script::{Block, Script};
    use crate::vars::Vars;
    use crate::wire::Wire;

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

    fn spelled(tools: &Value, wire: Wire) -> Vec<(String, Value)> {
        let script = Script::parse(SCRIPT, &Vars::new()).unwrap();
        let request = json!({ "tools": tools, "messages": [
            { "role": "user", "content": [{ "type": "text", "text": "<cwd>/w</cwd> go" }] },
        ] });
        let reply = spell(&Arc::clone(&script.lanes[0].replies[0]), &request, wire);
        let calls = reply.blocks.iter().map(|block| match block {
            Block::Tool { name, input } => (name.clone(), Value::Object(input.clone())),
            other => panic!("{other:?}"),
        });
        calls.collect()
    }

    fn check(tools: &Value, wire: Wire, expected: [(&str, Value); 4]) {
        let mut expected: Vec<_> =
            expected.into_iter().map(|(name, input)| (name.to_owned(), input)).collect();
        // Whoever writes an agent's own arguments means its own tool.
        expected.push(("edit".to_owned(), json!({ "filePath": "a.txt" })));
        assert_eq!(spelled(tools, wire), expected);
    }

    #[test]
    fn each_agent_gets_its_own_names() {
        check(
            &json!([
                tool("bash", &["command"]),
                tool("read", &["filePath"]),
                tool("edit", &["filePath", "oldString", "newString"])
            ]),
            Wire::Chat,
            [
                ("bash", json!({ "command": "ls" })),
                ("read", json!({ "filePath": "/w/a.txt" })),
                ("write", json!({ "filePath": "/w/b.txt", "content": "x\n" })),
                ("edit", json!({ "filePath": "/w/a.txt", "oldString": "one", "newString": "two" })),
            ],
        );
        check(
            &json!([tool("bash", &["command", "description"]), tool("view", &["path"])]),
            Wire::Chat,
            [
                ("bash", json!({ "command": "ls", "description": "as the script says" })),
                ("view", json!({ "path": "/w/a.txt" })),
                ("create", json!({ "path": "/w/b.txt", "file_text": "x\n" })),
                ("edit", json!({ "path": "/w/a.txt", "old_str": "one", "new_str": "two" })),
            ],
        );
        check(
            &json!([]),
            Wire::Messages,
            [
                ("Bash", json!({ "command": "ls" })),
                ("Read", json!({ "file_path": "/w/a.txt" })),
                ("Write", json!({ "file_path": "/w/b.txt", "content": "x\n" })),
                ("Edit", json!({ "file_path": "/w/a.txt", "old_string": "one", "new_string": "two" })),
            ],
        );
        check(
            &json!([tool("exec_command", &["cmd"])]),
            Wire::Responses,
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
