//! Formats of strings, each with its pattern for editors.

use yb_claude::Options;

/// The format of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Any string.
    Any,
    /// The name of an agent definition.
    Name,
    /// The prefix of a run's name.
    WorkspaceName,
    /// The name of an environment variable.
    EnvName,
    /// A short label.
    Tag,
    /// The name of a model.
    Model,
    /// An exact version of a program.
    Version,
    /// A tool, or a permission rule for a tool.
    Tool,
    /// A flag without dashes.
    Flag,
    /// A relative path that can't leave its directory.
    RelativePath,
    /// A glob of relative paths.
    Glob,
    /// The URL of a webhook.
    HttpUrl,
    /// A host rule for the network.
    Host,
}

impl Format {
    /// Returns the text of the `expected` line in messages.
    #[must_use]
    pub fn expected(self) -> &'static str {
        match self {
            Self::Any => "a string",
            Self::Name => "1 to 100 letters, digits, `-` and `_`",
            Self::WorkspaceName => {
                "1 to 100 letters, digits, `.`, `_` and `-`, starting with a letter or digit"
            }
            Self::EnvName => "a variable name: letters, digits and `_`, not starting with a digit",
            Self::Tag => "1 to 50 letters, digits, `.`, `_`, `-`, `:` and `/`",
            Self::Model => "a model name without spaces, such as `claude-sonnet-4-5` or `sonnet`",
            Self::Version => "an exact version, such as `2.1.325`",
            Self::Tool => "a tool such as `Read`, `Bash(git *)` or `mcp__server__*`",
            Self::Flag => "a flag name without dashes",
            Self::RelativePath => "a relative path without `..`",
            Self::Glob => "a glob such as `src/**/*.rs`, relative and without `..`",
            Self::Host => "a host such as `registry.npmjs.org`, `example.org:8443` or `*.example.org`",
            Self::HttpUrl => "a URL that starts with `https://` or `http://`",
        }
    }

    /// Returns the regular expression for editors, without anchors.
    pub(crate) fn pattern(self) -> Option<&'static str> {
        Some(match self {
            Self::Any | Self::RelativePath | Self::Glob => return None,
            Self::Name => r"[\w\-]+",
            Self::WorkspaceName => r"[a-zA-Z0-9][a-zA-Z0-9._\-]*",
            Self::EnvName => r"[A-Za-z_][A-Za-z0-9_]*",
            Self::Tag => r"[\w.:/\-]+",
            Self::Model => r"[A-Za-z0-9][\w.:/@\[\]\-]*",
            Self::Version => r"[0-9]+\.[0-9]+\.[0-9]+([\-+][0-9A-Za-z.+\-]+)?",
            Self::Tool => r"[A-Za-z_][\w.:*\-]*(\(.+\))?",
            Self::Flag => r"[A-Za-z][A-Za-z0-9\-]*",
            Self::Host => r"[\w.*:\[\]\-]+",
            Self::HttpUrl => r"https?://.+",
        })
    }

    /// Returns whether a string has this format.
    #[must_use]
    pub fn accepts(self, text: &str) -> bool {
        let all = |more: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        };
        match self {
            Self::Any => !text.contains('\0'),
            Self::Name => all("_-"),
            Self::WorkspaceName => all("._-") && text.starts_with(|c: char| c.is_ascii_alphanumeric()),
            Self::EnvName => all("_") && !text.starts_with(|c: char| c.is_ascii_digit()),
            Self::Tag => all("._-:/"),
            Self::Version => crate::programs::is_exact(text),
            // The crate of the agent decides.
            Self::Model => Options::default().with_model(text).validate().is_ok(),
            Self::Tool => Options::default().with_allowed_tools([text]).validate().is_ok(),
            Self::Flag => all("-") && text.starts_with(|c: char| c.is_ascii_alphabetic()),
            Self::RelativePath => super::files::relative(text).is_ok(),
            Self::Glob => super::files::relative(text).is_ok() && yb_repo::PathGlobs::new([text]).is_ok(),
            Self::Host => text.parse::<yb_supervise::HostRule>().is_ok(),
            Self::HttpUrl => {
                let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
                let plain = text.chars().all(|c| !c.is_whitespace() && !c.is_control());
                plain && rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', ':']))
            }
        }
    }
}
