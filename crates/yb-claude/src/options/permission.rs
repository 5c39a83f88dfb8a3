//! Permission modes and their aliases.

use std::fmt;
use std::str::FromStr;

use super::issue::OptionIssue;
use super::values::{UnknownValue, string_enum};

string_enum! {
    /// The permission mode: the actions that are allowed without a permission request.
    PermissionMode {
        /// Reads and harmless commands; everything else needs permission, and is denied without a permission handler.
        Default = "default",
        /// Also edits inside the working directory.
        AcceptEdits = "acceptEdits",
        /// A classifier decides. Requires network access beyond the model API.
        Auto = "auto",
        /// Everything. Root needs [`Options::sandboxed`](crate::Options::sandboxed) .
        BypassPermissions = "bypassPermissions",
        /// Only explicitly allowed actions; all others are denied.
        DontAsk = "dontAsk",
        /// Reads and plans, without changes.
        Plan = "plan",
    }
}

impl PermissionMode {
    /// Parses a mode or an alias; an alias comes with a warning.
    ///
    /// # Errors
    /// If the text is not a mode.
    pub fn parse_with_aliases(text: &str) -> Result<(Self, Option<OptionIssue>), UnknownValue> {
        match text {
            "ask" | "manual" => {
                let message = format!("`{text}` is an alias of `default`");
                let hint = "use `default`: without a permission handler, permission requests are denied";
                Ok((Self::Default, Some(OptionIssue::new("permission_mode", message, hint))))
            }
            _ => text.parse().map(|mode| (mode, None)),
        }
    }
}
