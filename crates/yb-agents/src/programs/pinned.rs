//! An exact version of an agent's program: `codex@0.166.0`.

use std::fmt;

use yb_case::programs::is_exact;
use yb_case::{AgentSpec, AgentSpecs, NpmProgram};

use super::ProgramError;

/// One exact version of an agent's program.
#[derive(Debug, Clone)]
pub struct PinnedProgram {
    /// The agent.
    pub agent: &'static AgentSpec,
    /// Its npm program.
    pub npm: &'static NpmProgram,
    /// The exact version.
    pub version: String,
}

impl PinnedProgram {
    /// A version of an agent's program.
    ///
    /// # Errors
    /// If the agent has no program that can be installed, or the version is not exact.
    pub fn new(agent: &'static AgentSpec, version: &str) -> Result<Self, ProgramError> {
        let npm = agent
            .npm()
            .ok_or_else(|| ProgramError::UnknownProgram { name: agent.name.to_owned(), known: Vec::new() })?;
        if !is_exact(version) {
            return Err(ProgramError::NotExact { name: agent.name, version: version.to_owned() });
        }
        Ok(Self { agent, npm, version: version.to_owned() })
    }

    /// Parses `NAME@VERSION`. A name alone is the newest version that this version of `yb` was tested with.
    ///
    /// # Errors
    /// If no installable agent has this name, or the version is not exact.
    pub fn parse(text: &str, agents: &AgentSpecs) -> Result<Self, ProgramError> {
        let (name, version) = match text.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (text, None),
        };
        let installable = || agents.iter().filter(|spec| spec.npm().is_some());
        let agent =
            installable().find(|spec| spec.name == name).ok_or_else(|| ProgramError::UnknownProgram {
                name: name.to_owned(),
                known: {
                    let mut known: Vec<&str> = installable().map(|spec| spec.name).collect();
                    known.sort_unstable();
                    known
                },
            })?;
        Self::new(agent, version.or_else(|| Some(agent.npm()?.tested)).unwrap_or_default())
    }
}

impl fmt::Display for PinnedProgram {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}@{}", self.agent.name, self.version)
    }
}

/// The sort key of a version: numbers compare as numbers, and a pre-release comes before its release.
pub(super) fn sort_key(version: &str) -> (Vec<u32>, bool, String) {
    let (numbers, rest) = version.split_once('-').unwrap_or((version, ""));
    let numbers = numbers.split('.').map(|number| number.parse().unwrap_or(0)).collect();
    (numbers, rest.is_empty(), rest.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Adapters;

    fn parse(text: &str) -> Result<PinnedProgram, ProgramError> {
        PinnedProgram::parse(text, &Adapters::builtin().specs())
    }

    #[test]
    fn program_is_named_with_its_exact_version() {
        let program = parse("codex@0.166.0").unwrap();
        assert_eq!((program.npm.package, program.to_string().as_str()), ("@openai/codex", "codex@0.166.0"));
        assert!(parse("gemini@0.61.0-nightly.3").is_ok());
        assert_eq!(parse("codex").unwrap().version, program.npm.tested);
        for wrong in [
            "codex@",
            "codex@latest",
            "codex@^1.0.0",
            "codex@1.0",
            "codex@1.0.0.0",
            "codex@../../x",
            "codex@1.0.0-",
            "codex@1.0.0-a/b",
            "codex@1.0.0 --x",
            "codex@1.0.0-..",
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(matches!(error, ProgramError::NotExact { .. }), "{wrong}: {error}");
        }
        let error = parse("claude@1.0.0").unwrap_err();
        assert_eq!(error.to_string(), "no program of this name can be installed: `claude`");
        assert_eq!(error.hints()[0], "did you mean `claude-code`?");
        assert!(matches!(parse("command@1.0.0"), Err(ProgramError::UnknownProgram { .. })));
    }
}
