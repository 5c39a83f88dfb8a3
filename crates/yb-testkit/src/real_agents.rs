//! The real CLIs of the other agents, pinned in `agents/`, and the variables that lead them to a scripted model.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Stands where a key has to be. Copilot blanks whatever looks like its key, so it must be no word.
pub const DUMMY_KEY: &str = "not-a-secret-loopback-only";
/// What to run when they are not there.
const INSTALL: &str = "npm ci --ignore-scripts --prefix agents";

/// One of the pinned CLIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RealAgent {
    /// As a case calls it.
    pub name: &'static str,
    /// The variable that names its program.
    pub variable: &'static str,
    /// Its npm package, which `agents/package.json` pins.
    pub package: &'static str,
    /// Its program, below `agents/node_modules`.
    program: &'static str,
    /// A model to ask for. Codex has other tools with models that it knows, which a script could not call.
    pub model: &'static str,
    /// The variables that lead it to a model; `{url}` is where that is.
    variables: &'static [(&'static str, &'static str)],
}

/// Every pinned CLI, in the order in which agents are listed.
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
    /// The CLI that a case calls by this name.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    #[track_caller]
    pub fn named(name: &str) -> Self {
        REAL_AGENTS.into_iter().find(|agent| agent.name == name).unwrap_or_else(|| panic!("no agent: {name}"))
    }

    /// The program, or what a wrapper of npm's is found by.
    ///
    /// # Panics
    /// When it is not installed, with the command that installs it: a test that needs it never skips.
    #[must_use]
    #[track_caller]
    pub fn program(&self) -> PathBuf {
        if self.name == "claude-code" {
            return crate::RealClaude::new().program().to_owned();
        }
        let path = agents().join("node_modules").join(self.program);
        assert!(path.exists(), "{} is not there\nhint: run `{INSTALL}`", path.display());
        path
    }

    /// Variables that lead it to a model at this address, with its program and a PATH.
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

    /// The version that `agents/package.json` pins.
    ///
    /// # Panics
    /// When the file does not say.
    #[must_use]
    pub fn pinned_version(&self) -> String {
        let path = agents().join("package.json");
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let package: serde_json::Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let lists = ["dependencies", "devDependencies"];
        let version = lists.iter().find_map(|list| package[list][self.package].as_str());
        version.unwrap_or_else(|| panic!("{} pins no {}", path.display(), self.package)).to_owned()
    }
}

fn agents() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).join("agents")
}
