//! The environment variables that `yb` reads, in one table for help and reference pages.

use yb_engine::config;

/// An environment variable.
pub(crate) struct EnvVar {
    pub(crate) name: String,
    pub(crate) description: String,
}

/// Variables that are not settings.
const OTHERS: &[(&str, &str)] = &[
    ("YB_CLAUDE", "Path to Claude Code: a program or a directory with `node_modules`"),
    ("YB_TOOLS_DIR", "Directory of agent CLIs installed by `yb install-agents --cli`"),
    ("XDG_DATA_HOME", "Parent of the default tools directory, `youbencha/tools` [default: `~/.local/share`]"),
    (
        "XDG_CACHE_HOME",
        "Parent of `youbencha`, which keeps the version of git and whether sandboxes work [default: `~/.cache`]",
    ),
    ("HOME", "Home directory with the global settings file"),
    ("PATH", "Where `git`, `npm`, `bwrap` and agents are searched"),
    ("ANTHROPIC_BASE_URL", "Messages API that `yb tape record` forwards to"),
    ("OPENAI_BASE_URL", "OpenAI API that `yb tape record` forwards to"),
    ("GOOGLE_GEMINI_BASE_URL", "Gemini API that `yb tape record` forwards to"),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTLP endpoint; enables traces"),
    ("OTEL_EXPORTER_OTLP_TIMEOUT", "Time limit of the final export in milliseconds [default: 10000]"),
    ("OTEL_SDK_DISABLED", "Disables traces unless `--otel` or `--otel-file` is given"),
    ("TRACEPARENT", "Parent span of traces (W3C Trace Context)"),
    ("NO_COLOR", "Disables color"),
    ("CLICOLOR, CLICOLOR_FORCE", "Disable or force color"),
    ("TERM", "Disables the live display if `dumb`"),
    ("CI", "Disables the live display"),
];

/// Returns all variables: settings first.
pub(crate) fn table() -> Vec<EnvVar> {
    let settings = config::known_keys().into_iter().map(|key| EnvVar {
        description: format!("Overrides the setting `{}`", key.name),
        name: key.variable,
    });
    let others = OTHERS.iter().map(|(name, description)| EnvVar {
        name: (*name).to_owned(),
        description: (*description).to_owned(),
    });
    settings.chain(others).collect()
}
