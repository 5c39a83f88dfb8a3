//! The fields of `agent`: which one, and what it is told.

use super::format::Format;
use super::shape::{FREE, Field, Kind, Object, TEXT, TEXTS, formatted, text};

/// The longest prompt, in characters.
pub(crate) const MAX_PROMPT: usize = 1_000_000;
pub(crate) const CLAUDE_CODE: &str = "claude-code";
pub(crate) const COPILOT_CLI: &str = "copilot-cli";
pub(crate) const CODEX: &str = "codex";
pub(crate) const GEMINI: &str = "gemini";
pub(crate) const OPENCODE: &str = "opencode";
pub(crate) const ACP: &str = "acp";
/// The agent that is any program.
pub const COMMAND: &str = "command";
/// The agents that there are.
pub(crate) const AGENTS: &[&str] = &[CLAUDE_CODE, COPILOT_CLI, CODEX, GEMINI, OPENCODE, ACP, COMMAND];

pub(crate) const AGENT_NAME: Kind = formatted(100, Format::Name);
pub(crate) const MODEL: Kind = formatted(200, Format::Model);
pub(crate) const PINNED: Kind = formatted(100, Format::Version);
const TOOLS: Kind = Kind::List { of: &formatted(1000, Format::Tool), min: 0 };
const OPEN_OBJECT: Kind = FREE;

pub(crate) static AGENT: Object = Object {
    name: "agent",
    fields: &[
        Field::new("type", Kind::Word(AGENTS), "The agent.").required(),
        Field::new("agent_name", AGENT_NAME, "The agent's own definition to run as, such as a subagent."),
        Field::new(
            "version",
            PINNED,
            "The version of the agent's program; `yb install-agents --cli` installs one.",
        ),
        Field::new("model", MODEL, "The model, by name or alias."),
        Field::new(
            "models",
            Kind::Map { names: Format::Name, of: &MODEL },
            "The model's name for each agent that calls it something else.",
        ),
        Field::new("config", Kind::Object(&CONFIG), "The prompt and everything else the agent is told."),
    ],
};

/// Every field that more than one agent may know; those of one agent alone are in a section with its name.
pub(crate) static CONFIG: Object = Object {
    name: "agentConfig",
    fields: &[
        Field::new("prompt", text(1, MAX_PROMPT), "What to do. This or `prompt_file`."),
        Field::new(
            "prompt_file",
            formatted(500, Format::RelativePath),
            "A file with the prompt, beside this file or else in the workspace.",
        ),
        Field::new("agent_name", AGENT_NAME, "As `agent.agent_name`."),
        Field::new("agent", AGENT_NAME, "Another name of `agent_name`."),
        Field::new("model", MODEL, "As `agent.model`."),
        APPEND_SYSTEM_PROMPT,
        SYSTEM_PROMPT,
        PERMISSION_MODE,
        TOOLS_FIELD,
        ALLOWED_TOOLS,
        DISALLOWED_TOOLS,
        MAX_TOKENS,
        TEMPERATURE,
        MAX_TURNS,
        MCP_SERVERS,
        EFFORT,
        SETTINGS,
        ADD_DIRS,
        EXTRA_ARGS,
        Field::new(CLAUDE_CODE, Kind::Object(&CLAUDE_SECTION), "For claude-code alone; others ignore it."),
        Field::new(COPILOT_CLI, OPEN_OBJECT, "For copilot-cli alone; others ignore it."),
        Field::new(CODEX, OPEN_OBJECT, "For codex alone; others ignore it."),
        Field::new(GEMINI, Kind::Object(&CLI_SECTION), "For gemini alone; others ignore it."),
        Field::new(OPENCODE, Kind::Object(&CLI_SECTION), "For opencode alone; others ignore it."),
        Field::new(ACP, Kind::Object(&ACP_SECTION), "For the `acp` agent alone; others ignore it."),
        Field::new(
            COMMAND,
            Kind::Object(&COMMAND_SECTION),
            "For the `command` agent alone; others ignore it.",
        ),
    ],
};

pub(crate) static CLAUDE_SECTION: Object = Object { name: "claudeCode", fields: OF_A_CLI };

static CLI_SECTION: Object = Object { name: "cli", fields: OF_A_CLI };

/// What a section may say of an agent that is a CLI with settings of its own.
const OF_A_CLI: &[Field] = &[
    Field::new(
        "trust_repo_settings",
        Kind::Bool,
        "Lets the hooks, MCP servers and settings that the repository brings take effect.",
    )
    .default("false"),
    APPEND_SYSTEM_PROMPT,
    SYSTEM_PROMPT,
    PERMISSION_MODE,
    TOOLS_FIELD,
    ALLOWED_TOOLS,
    DISALLOWED_TOOLS,
    MAX_TOKENS,
    TEMPERATURE,
    MAX_TURNS,
    MCP_SERVERS,
    EFFORT,
    SETTINGS,
    ADD_DIRS,
    EXTRA_ARGS,
];

static ACP_SECTION: Object = Object {
    name: "acp",
    fields: &[
        Field::new(
            "argv",
            Kind::List { of: &text(0, usize::MAX), min: 1 },
            "The program that speaks the Agent Client Protocol on its stdin and stdout, and its arguments.",
        )
        .required(),
        Field::new(
            "auth_method",
            text(1, 100),
            "The protocol's name of the way to authenticate, if it wants one.",
        ),
    ],
};

static COMMAND_SECTION: Object = Object {
    name: "command",
    fields: &[
        Field::new(
            "argv",
            Kind::List { of: &text(0, usize::MAX), min: 1 },
            "The program and its arguments; `{prompt}`, `{prompt_file}`, `{workspace}` and `{model}` are replaced.",
        )
        .required(),
        Field::new(
            "prompt_via",
            Kind::Word(&["argument", "stdin", "file"]),
            "How the prompt gets there; by default as `argv` says, else on stdin.",
        ),
        Field::new("output", Kind::Word(&["text", "claude-stream-json", "none"]), "What it prints.").default("\"text\""),
    ],
};

const APPEND_SYSTEM_PROMPT: Field =
    Field::new("append_system_prompt", text(0, 10_000), "What follows the agent's system prompt.");
const SYSTEM_PROMPT: Field =
    Field::new("system_prompt", text(0, 50_000), "What replaces the agent's system prompt.");
const PERMISSION_MODE: Field = Field::new(
    "permission_mode",
    Kind::Word(&["default", "acceptEdits", "auto", "bypassPermissions", "dontAsk", "plan", "ask", "manual"]),
    "What the agent may do without being asked; `ask` and `manual` are other names of `default`.",
);
const TOOLS_FIELD: Field = Field::new("tools", TOOLS, "The tools there are; an empty list is none.");
const ALLOWED_TOOLS: Field = Field::new("allowed_tools", TOOLS, "Tools that need no permission.");
const DISALLOWED_TOOLS: Field = Field::new("disallowed_tools", TOOLS, "Tools that are denied.");
const MAX_TOKENS: Field =
    Field::new("max_tokens", Kind::Whole { min: 1, max: 200_000 }, "The longest answer, in tokens.");
const TEMPERATURE: Field = Field::new(
    "temperature",
    Kind::Number { min: 0.0, max: 1.0, above: false },
    "Recorded only; Claude Code does not support it.",
);
const MAX_TURNS: Field =
    Field::new("max_turns", Kind::Whole { min: 1, max: u32::MAX as i64 }, "The limit of turns.");
const MCP_SERVERS: Field = Field::new(
    "mcp_servers",
    Kind::Map { names: Format::Any, of: &OPEN_OBJECT },
    "MCP servers by name, each as the agent's own configuration has it.",
);
const EFFORT: Field = Field::new(
    "effort",
    Kind::Word(&["low", "medium", "high", "xhigh", "max"]),
    "How much effort the model makes.",
);
const SETTINGS: Field = Field::new("settings", OPEN_OBJECT, "Settings for the agent.");
const ADD_DIRS: Field = Field::new("add_dirs", TEXTS, "More directories that tools may use.");
const EXTRA_ARGS: Field = Field::new(
    "extra_args",
    Kind::Either(&[Kind::List { of: &TEXT, min: 0 }, Kind::Map { names: Format::Flag, of: &Kind::Any }]),
    "Further arguments: a list of `--flag` or `--flag=value`, or a mapping of flags to values.",
);

/// The keys of [`CONFIG`] that an agent knows beside those that all know; Claude Code knows them all.
const KNOWN: &[(&str, &[&str])] = &[
    (
        COPILOT_CLI,
        &[
            "agent_name",
            "agent",
            "permission_mode",
            "tools",
            "allowed_tools",
            "disallowed_tools",
            "mcp_servers",
            "effort",
            "add_dirs",
            "extra_args",
        ],
    ),
    (
        CODEX,
        &[
            "append_system_prompt",
            "system_prompt",
            "permission_mode",
            "mcp_servers",
            "effort",
            "add_dirs",
            "extra_args",
        ],
    ),
    (
        GEMINI,
        &[
            "append_system_prompt",
            "system_prompt",
            "permission_mode",
            "tools",
            "allowed_tools",
            "disallowed_tools",
            "max_turns",
            "mcp_servers",
            "settings",
            "add_dirs",
            "extra_args",
        ],
    ),
    (
        OPENCODE,
        &[
            "agent_name",
            "agent",
            "append_system_prompt",
            "system_prompt",
            "permission_mode",
            "tools",
            "disallowed_tools",
            "mcp_servers",
            "effort",
            "settings",
            "extra_args",
        ],
    ),
    (ACP, &["permission_mode", "mcp_servers"]),
];

/// Whether an agent knows a key of [`CONFIG`].
pub(crate) fn supports(agent: &str, key: &str) -> bool {
    let common = ["prompt", "prompt_file", "model"].contains(&key) || AGENTS.contains(&key);
    let known = KNOWN.iter().find(|(name, _)| *name == agent).map_or(&[][..], |(_, known)| known);
    agent == CLAUDE_CODE || common || known.contains(&key)
}
