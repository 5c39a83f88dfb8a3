//! Which programs can be installed, and how one is named: `codex@0.166.0`.

use std::fmt;
use std::str::FromStr;

use yb_case::programs::{KnownCli, is_exact, known_clis};

use super::ToolError;

/// One version of one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CliSpec {
    /// The program.
    pub cli: &'static KnownCli,
    /// Its version, exactly.
    pub version: String,
}

impl CliSpec {
    /// A version of a program.
    ///
    /// # Errors
    /// When there is no such program, or that is no exact version.
    pub fn new(name: &str, version: &str) -> Result<Self, ToolError> {
        let cli = known_clis().iter().find(|cli| cli.name == name);
        let cli = cli.ok_or_else(|| ToolError::UnknownCli { name: name.to_owned() })?;
        if !is_exact(version) {
            return Err(ToolError::NotExact { name: cli.name, version: version.to_owned() });
        }
        Ok(Self { cli, version: version.to_owned() })
    }
}

impl FromStr for CliSpec {
    type Err = ToolError;

    fn from_str(text: &str) -> Result<Self, ToolError> {
        let (name, version) = text.split_once('@').unwrap_or((text, ""));
        Self::new(name, version)
    }
}

impl fmt::Display for CliSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}@{}", self.cli.name, self.version)
    }
}

/// What versions are sorted by: numbers as numbers, and a version before its final one first.
pub(super) fn order(version: &str) -> (Vec<u32>, bool, String) {
    let (numbers, rest) = version.split_once('-').unwrap_or((version, ""));
    let numbers = numbers.split('.').map(|number| number.parse().unwrap_or(0)).collect();
    (numbers, rest.is_empty(), rest.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_named_with_its_exact_version() {
        let spec: CliSpec = "codex@0.166.0".parse().unwrap();
        assert_eq!((spec.cli.package, spec.to_string().as_str()), ("@openai/codex", "codex@0.166.0"));
        assert!("gemini@0.61.0-nightly.3".parse::<CliSpec>().is_ok());
        for wrong in [
            "codex",
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
            let error = wrong.parse::<CliSpec>().unwrap_err();
            assert!(matches!(error, ToolError::NotExact { .. }), "{wrong}: {error}");
        }
        let error = "claude@1.0.0".parse::<CliSpec>().unwrap_err();
        assert_eq!(error.to_string(), "no program of this name can be installed: `claude`");
        assert_eq!(error.hints()[0], "did you mean `claude-code`?");
    }
}
