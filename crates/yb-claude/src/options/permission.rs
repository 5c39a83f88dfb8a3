//! Permission modes: one set, and the other names under which people know them.

use std::fmt;
use std::str::FromStr;

use super::finding::Finding;
use super::values::{UnknownValue, words};

words! {
    /// What an agent may do without being asked.
    PermissionMode {
        /// Reads and harmless commands; the rest is asked for, which without anybody there means denied.
        Default = "default",
        /// Edits inside the working directory as well.
        AcceptEdits = "acceptEdits",
        /// A classifier decides. It needs the network for more than the model.
        Auto = "auto",
        /// Everything, everywhere. Root needs [`Options::sandboxed`](crate::Options::sandboxed) for it.
        BypassPermissions = "bypassPermissions",
        /// What was allowed beforehand, and nothing else.
        DontAsk = "dontAsk",
        /// Looks and plans, changes nothing.
        Plan = "plan",
    }
}

impl PermissionMode {
    /// Reads a mode under any of its names; an old name comes with a warning.
    ///
    /// # Errors
    /// When it is no mode.
    pub fn read(text: &str) -> Result<(Self, Option<Finding>), UnknownValue> {
        match text {
            "ask" | "manual" => {
                let message = format!("`{text}` is another name of `default`, which is used");
                let hint = "write `default`: without anybody to ask, what would be asked is denied";
                Ok((Self::Default, Some(Finding::new("permission_mode", message, hint))))
            }
            _ => text.parse().map(|mode| (mode, None)),
        }
    }
}
