//! Which programs can be installed, and how one is named: `codex@0.166.0`.

use std::fmt;
use std::str::FromStr;

use super::ToolError;

/// A program that npm has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownCli {
    /// What a case calls the agent.
    pub name: &'static str,
    /// Its package.
    pub package: &'static str,
    /// The program that npm links.
    pub bin: &'static str,
    /// About how much it takes on the disk, in MB.
    pub megabytes: u32,
    /// Whether it is of no use until the scripts of its packages have run.
    pub scripts: bool,
}

static KNOWN: [KnownCli; 5] = [
    KnownCli {
        name: "claude-code",
        package: "@anthropic-ai/claude-code",
        bin: "claude",
        megabytes: 350,
        scripts: false,
    },
    KnownCli { name: "codex", package: "@openai/codex", bin: "codex", megabytes: 440, scripts: false },
    KnownCli {
        name: "copilot-cli",
        package: "@github/copilot",
        bin: "copilot",
        megabytes: 190,
        scripts: false,
    },
    KnownCli { name: "gemini", package: "@google/gemini-cli", bin: "gemini", megabytes: 100, scripts: false },
    KnownCli { name: "opencode", package: "opencode-ai", bin: "opencode", megabytes: 360, scripts: true },
];

/// Every program that can be installed.
#[must_use]
pub fn known_clis() -> &'static [KnownCli] {
    &KNOWN
}

/// One version of one program.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
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
        let cli = KNOWN.iter().find(|cli| cli.name == name);
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

/// A whole version, never a range or a tag: those mean something else tomorrow.
pub(crate) fn is_exact(version: &str) -> bool {
    let (numbers, rest) = match version.find(['-', '+']) {
        Some(at) => (&version[..at], &version[at + 1..]),
        None => (version, "x"),
    };
    let numbers: Vec<&str> = numbers.split('.').collect();
    let number =
        |text: &&str| !text.is_empty() && text.len() < 10 && text.bytes().all(|b| b.is_ascii_digit());
    let label = |c: char| c.is_ascii_alphanumeric() || ".-+".contains(c);
    version.len() <= 100
        && numbers.len() == 3
        && numbers.iter().all(number)
        && !rest.is_empty()
        && rest.chars().all(label)
        && !rest.contains("..")
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
