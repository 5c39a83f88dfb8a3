//! The agents whose programs can be installed and pinned.

/// A program that npm has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// A whole version, never a range or a tag: those mean something else tomorrow.
pub fn is_exact(version: &str) -> bool {
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
