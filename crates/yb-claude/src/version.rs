//! Versions of Claude Code, parsed from `claude --version`, and the versions that introduced features.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// A version of Claude Code, such as 2.1.325.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version {
    major: u64,
    minor: u64,
    patch: u64,
    /// The pre-release part after `-`, which sorts before the release.
    pre: Option<String>,
}

impl Version {
    /// The first version that supports `client_composed` in a user frame, and so takes a prompt verbatim. Measured:
    /// 2.1.247 ignores the field.
    pub const VERBATIM_PROMPTS: Self = Self::new(2, 1, 248);

    /// The first version with the control protocol that the SDK uses; older versions cause a warning.
    pub const CONTROL_PROTOCOL: Self = Self::new(2, 0, 0);

    /// The first version with `claude auth status`, by its release notes. Older versions take the arguments as a prompt.
    pub const AUTH_STATUS: Self = Self::new(2, 1, 41);

    /// Creates a version without a pre-release part.
    #[must_use]
    pub const fn new(major: u64, minor: u64, patch: u64) -> Self {
        Self { major, minor, patch, pre: None }
    }

    /// Parses the first line of `claude --version`: `2.1.325 (Claude Code)`.
    #[must_use]
    pub fn from_output(output: &str) -> Option<Self> {
        let words = output.lines().next()?.split_ascii_whitespace();
        words.filter_map(|word| word.strip_prefix('v').unwrap_or(word).parse().ok()).next()
    }

    fn numbers(&self) -> [u64; 3] {
        [self.major, self.minor, self.patch]
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.major, self.minor, self.patch)?;
        self.pre.iter().try_for_each(|pre| write!(formatter, "-{pre}"))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.numbers().cmp(&other.numbers()).then_with(|| match (&self.pre, &other.pre) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(own), Some(other)) => own.cmp(other),
        })
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The error for an invalid version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a version such as `2.1.325`: {0}")]
pub struct VersionError(String);

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let error = || VersionError(text.to_owned());
        let (text, _build) = text.split_once('+').unwrap_or((text, ""));
        let (numbers, pre) = match text.split_once('-') {
            Some((_, "")) => return Err(error()),
            Some((numbers, pre)) => (numbers, Some(pre.to_owned())),
            None => (text, None),
        };
        let mut parts = numbers.split('.').map(|part| {
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| part.parse::<u64>().ok()).flatten().ok_or_else(error)
        });
        let mut next = || parts.next().unwrap_or_else(|| Err(error()));
        let (major, minor, patch) = (next()?, next()?, next()?);
        if parts.next().is_some() {
            return Err(error());
        }
        Ok(Self { major, minor, patch, pre })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_parsed_from_cli_output() {
        let check = |output: &str, expect: Option<Version>| {
            assert_eq!(Version::from_output(output), expect, "{output}");
        };
        check("2.1.325 (Claude Code)\n", Some(Version::new(2, 1, 325)));
        check("Claude Code v1.0.58", Some(Version::new(1, 0, 58)));
        check("", None);
        check("claude: command not found", None);
        check("2.1 (Claude Code)", None);
        check("99999999999999999999.0.0", None);
    }

    #[test]
    fn versions_sort_numerically_and_pre_releases_first() {
        let read = |text: &str| text.parse::<Version>().unwrap();
        assert!(read("2.1.9") < read("2.1.10"));
        assert!(read("2.1.248-beta.1") < Version::VERBATIM_PROMPTS);
        assert!(read("2.1.248") >= Version::VERBATIM_PROMPTS);
        assert_eq!(read("2.1.3+build").to_string(), "2.1.3");
        assert_eq!(read("2.1.3-rc.1").to_string(), "2.1.3-rc.1");
        for bad in ["", "1", "1.2", "1.2.3.4", "a.b.c", "1.2.3-", "+1.2.3", "1..3"] {
            assert!(bad.parse::<Version>().is_err(), "{bad}");
        }
    }
}
