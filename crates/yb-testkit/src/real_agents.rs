//! The real CLIs of other agents, pinned in `agents/`, and the variables that point them at a scripted model.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A dummy API key. Copilot redacts text that equals its key, so it must not be an ordinary word.
pub const DUMMY_KEY: &str = "not-a-secret-loopback-only";
/// The command that installs them.
const INSTALL: &str = "npm ci --ignore-scripts --prefix agents";

/// A pinned CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RealAgent {
    /// Agent name, as in a case.
    pub name: &'static str,
    /// The variable with the path of its program.
    pub variable: &'static str,
    /// Its npm package, pinned in `agents/package.json`.
    pub package: &'static str,
    /// Its program, relative to `agents/node_modules`.
    program: &'static str,
    /// A model name. For models that it knows, Codex uses other tools, which a script could not call.
    pub model: &'static str,
    /// The variables that point it at a model; `{url}` is the base URL.
    variables: &'static [(&'static str, &'static str)],
}

/// All pinned CLIs, in the order in which agents are listed.
pub const REAL_AGENTS: [RealAgent; 5] = [
    RealAgent {
        name: "claude-code",
        variable: "YB_CLAUDE",
        package: "@anthropic-ai/claude-code",
        program: "@anthropic-ai/claude-code",
        model: "claude-opus-5-5",
        variables: &[
            ("ANTHROPIC_BASE_URL", "{url}"),
            ("ANTHROPIC_API_KEY", DUMMY_KEY),
            ("CLAUDE_CODE_MAX_RETRIES", "1"),
        ],
    },
    RealAgent {
        name: "copilot-cli",
        variable: "YB_COPILOT",
        package: "@github/copilot",
        program: ".bin/copilot",
        model: "scripted-1",
        variables: &[
            ("COPILOT_PROVIDER_BASE_URL", "{url}/v1"),
            ("COPILOT_PROVIDER_API_KEY", DUMMY_KEY),
            ("XDG_CACHE_HOME", "{cache}"),
        ],
    },
    RealAgent {
        name: "codex",
        variable: "YB_CODEX",
        package: "@openai/codex",
        program: ".bin/codex",
        model: "scripted-1",
        variables: &[("OPENAI_BASE_URL", "{url}/v1"), ("OPENAI_API_KEY", DUMMY_KEY)],
    },
    RealAgent {
        name: "gemini",
        variable: "YB_GEMINI",
        package: "@google/gemini-cli",
        program: ".bin/gemini",
        model: "gemini-2.5-flash",
        variables: &[("GOOGLE_GEMINI_BASE_URL", "{url}"), ("GEMINI_API_KEY", DUMMY_KEY)],
    },
    RealAgent {
        name: "opencode",
        variable: "YB_OPENCODE",
        package: "opencode-linux-x64",
        program: "opencode-linux-x64/bin/opencode",
        model: "scripted-1",
        variables: &[("OPENAI_BASE_URL", "{url}/v1"), ("OPENAI_API_KEY", DUMMY_KEY)],
    },
];

impl RealAgent {
    /// Returns the CLI with an agent name.
    ///
    /// # Panics
    /// Panics if there is none.
    #[must_use]
    #[track_caller]
    pub fn named(name: &str) -> Self {
        REAL_AGENTS
            .into_iter()
            .find(|agent| agent.name == name)
            .unwrap_or_else(|| panic!("unknown agent: {name}"))
    }

    /// Returns the path of the program or of its npm wrapper.
    ///
    /// # Panics
    /// Panics with the install command if it is not installed: tests that need it never skip.
    #[must_use]
    #[track_caller]
    pub fn program(&self) -> PathBuf {
        if self.name == "claude-code" {
            return crate::RealClaude::new().program().to_owned();
        }
        let path = agents().join("node_modules").join(self.program);
        assert!(path.exists(), "{} is not installed\nhint: run `{INSTALL}`", path.display());
        path
    }

    /// Returns the variables that point it at a model with this base URL, including its program and a PATH.
    #[must_use]
    pub fn env(&self, base_url: &str) -> Vec<(&'static str, OsString)> {
        let cache = agents().join("node_modules/.cache");
        let model = self.variables.iter().map(|(name, value)| {
            let value = value.replace("{url}", base_url).replace("{cache}", &cache.to_string_lossy());
            (*name, OsString::from(value))
        });
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        [("PATH", path), (self.variable, self.program().into())].into_iter().chain(model).collect()
    }

    /// Returns the version pinned in `agents/package.json`.
    ///
    /// # Panics
    /// Panics if the file has no version.
    #[must_use]
    pub fn pinned_version(&self) -> String {
        let path = agents().join("package.json");
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let package: serde_json::Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let lists = ["dependencies", "devDependencies"];
        let version = lists.iter().find_map(|list| package[list][self.package].as_str());
        version.unwrap_or_else(|| panic!("{} does not pin {}", path.display(), self.package)).to_owned()
    }
}

fn agents() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).join("agents")
}
