//! The fields of `agent`: which one, and what it is told.

use super::format::Format;
use super::shape::{FREE, Field, Kind, Object, TEXT, TEXTS, formatted, text};

/// The longest prompt, in characters.
pub(crate) const MAX_PROMPT: usize = 1_000_000;
pub(crate) const AGENT_NAME: Kind = formatted(100, Format::Name);
pub(crate) const MODEL: Kind = formatted(200, Format::Model);
pub(crate) const PINNED: Kind = formatted(100, Format::Version);
const TOOLS: Kind = Kind::List { of: &formatted(1000, Format::Tool), min: 0 };
const OPEN_OBJECT: Kind = FREE;

pub(crate) static AGENT: Object = Object {
    name: "agent",
    fields: &[
        Field::new("type", Kind::AgentType, "The agent.").required(),
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

/// The fields that more than one agent may support. Each agent adds a section with its name: `AgentSpec::section`.
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
    ],
};

/// The section of an agent that is a CLI with settings of its own.
pub static CLI_SECTION: Object = Object { name: "cli", fields: CLI_FIELDS };

/// The fields of the section of an agent that is a CLI with settings of its own.
pub const CLI_FIELDS: &[Field] = &[
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
