//! The fields of `agent`: its name and its settings.

use super::format::Format;
use super::shape::{FREE, Field, Kind, Object, TEXT, TEXTS, formatted, text};

/// The longest prompt, in characters.
pub(crate) const MAX_PROMPT: usize = 1_000_000;
pub(crate) const AGENT_NAME: Kind = formatted(100, Format::Name);
pub(crate) const MODEL: Kind = formatted(200, Format::Model);
pub(crate) const PINNED: Kind = formatted(100, Format::Version);
const TOOLS: Kind = Kind::List { of: &formatted(1000, Format::Tool), min: 0 };
const OPEN_OBJECT: Kind = FREE;
const ADD_ON_PATH: Kind = text(1, 500);

pub(crate) static AGENT: Object = Object {
    name: "agent",
    fields: &[
        Field::new("type", Kind::AgentType, "Agent type.").required(),
        Field::new("agent_name", AGENT_NAME, "Agent definition to run, such as a subagent."),
        Field::new("version", PINNED, "Version of the agent CLI; install it with `yb install-agents --cli`."),
        Field::new("model", MODEL, "Model name or alias."),
        Field::new(
            "models",
            Kind::Map { names: Format::Name, of: &MODEL },
            "Model names by agent type, where they differ.",
        ),
        Field::new("config", Kind::Object(&CONFIG), "Prompt and options of the agent."),
    ],
};

/// The fields that more than one agent may support. Each agent adds a section with its name: `AgentSpec::section`.
pub(crate) static CONFIG: Object = Object {
    name: "agentConfig",
    fields: &[
        Field::new("prompt", text(1, MAX_PROMPT), "Prompt; alternatively `prompt_file`."),
        Field::new(
            "prompt_file",
            formatted(500, Format::RelativePath),
            "File with the prompt, relative to this file, or else in the workspace.",
        ),
        Field::new("agent_name", AGENT_NAME, "Same as `agent.agent_name`."),
        Field::new("agent", AGENT_NAME, "Alias of `agent_name`."),
        Field::new("model", MODEL, "Same as `agent.model`."),
        AGENTS,
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
        MCP,
        PLUGINS,
        SKILLS,
        INSTRUCTIONS,
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
        "Enables hooks, MCP servers and settings of the repository.",
    )
    .default("false"),
    AGENTS,
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
    MCP,
    PLUGINS,
    SKILLS,
    INSTRUCTIONS,
    EFFORT,
    SETTINGS,
    ADD_DIRS,
    EXTRA_ARGS,
];

const AGENTS: Field = Field::new(
    "agents",
    Kind::Map { names: Format::Name, of: &DEFINITION_KIND },
    "Definitions of named agents, for `agent_name` and as subagents; they take precedence over files.",
);
const DEFINITION_KIND: Kind = Kind::Object(&DEFINITION);
static DEFINITION: Object = Object {
    name: "agentDefinition",
    fields: &[
        Field::new("description", text(0, 10_000), "When to use the agent."),
        Field::new("prompt", text(1, MAX_PROMPT), "System prompt of the agent.").required(),
        Field::new("tools", TOOLS, "Tools of the agent; by default all."),
        Field::new("model", MODEL, "Model of the agent; by default that of the session."),
    ],
};
const APPEND_SYSTEM_PROMPT: Field =
    Field::new("append_system_prompt", text(0, 10_000), "Text appended to the system prompt.");
const SYSTEM_PROMPT: Field =
    Field::new("system_prompt", text(0, 50_000), "Replacement of the system prompt.");
const PERMISSION_MODE: Field = Field::new(
    "permission_mode",
    Kind::Word(&["default", "acceptEdits", "auto", "bypassPermissions", "dontAsk", "plan", "ask", "manual"]),
    "Permission mode; `ask` and `manual` are aliases of `default`.",
);
const TOOLS_FIELD: Field = Field::new("tools", TOOLS, "Available tools; an empty list disables all.");
const ALLOWED_TOOLS: Field = Field::new("allowed_tools", TOOLS, "Tools allowed without permission prompts.");
const DISALLOWED_TOOLS: Field = Field::new("disallowed_tools", TOOLS, "Denied tools.");
const MAX_TOKENS: Field =
    Field::new("max_tokens", Kind::Whole { min: 1, max: 200_000 }, "Maximum length of a response in tokens.");
const TEMPERATURE: Field = Field::new(
    "temperature",
    Kind::Number { min: 0.0, max: 1.0, above: false },
    "Recorded only; not supported by Claude Code.",
);
const MAX_TURNS: Field =
    Field::new("max_turns", Kind::Whole { min: 1, max: u32::MAX as i64 }, "Maximum number of turns.");
const MCP_SERVERS: Field = Field::new(
    "mcp_servers",
    Kind::Map { names: Format::Any, of: &OPEN_OBJECT },
    "MCP servers by name, in the configuration format of the agent.",
);
const MCP: Field = Field::new(
    "mcp",
    Kind::Word(&["required", "optional"]),
    "Whether an MCP server of `mcp_servers` that does not start fails the trial or is a warning.",
)
.default("required");
const PLUGINS: Field = Field::new(
    "plugins",
    Kind::List { of: &ADD_ON_PATH, min: 0 },
    "Plugins of the agent: directories relative to this file. A plugin that does not load makes the trial `miswired`.",
);
const SKILLS: Field = Field::new(
    "skills",
    Kind::List { of: &ADD_ON_PATH, min: 0 },
    "Skills of the agent: directories with a `SKILL.md`, relative to this file. A skill that does not load makes the trial `miswired`.",
);
const INSTRUCTIONS: Field = Field::new(
    "instructions",
    ADD_ON_PATH,
    "Instruction file of the agent, relative to this file; it replaces `CLAUDE.md`, `AGENTS.md`, `GEMINI.md` or `.github/copilot-instructions.md` of the start tree, by agent.",
);
const EFFORT: Field = Field::new(
    "effort",
    Kind::Word(&["low", "medium", "high", "xhigh", "max"]),
    "Reasoning effort of the model.",
);
const SETTINGS: Field = Field::new("settings", OPEN_OBJECT, "Settings of the agent.");
const ADD_DIRS: Field = Field::new("add_dirs", TEXTS, "Further directories that tools may access.");
const EXTRA_ARGS: Field = Field::new(
    "extra_args",
    Kind::Either(&[Kind::List { of: &TEXT, min: 0 }, Kind::Map { names: Format::Flag, of: &Kind::Any }]),
    "Further arguments: a list of `--flag` or `--flag=value`, or a map of flags to values.",
);
