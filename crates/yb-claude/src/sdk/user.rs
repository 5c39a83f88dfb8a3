//! Runs the CLI as another user: `setpriv` changes the user and executes the CLI.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::Error;
use crate::Invocation;

/// The program that changes the user, from util-linux.
const SETPRIV: &str = "setpriv";
/// The users of the machine.
const USERS: &str = "/etc/passwd";

/// A user of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SystemUser {
    uid: u32,
    gid: u32,
}

impl SystemUser {
    /// Finds a user by name.
    pub(super) fn find(name: &str) -> Result<Self, Error> {
        let users =
            std::fs::read_to_string(USERS).map_err(|error| Error::spawn(format!("{USERS}: {error}")))?;
        users.lines().find_map(|line| Self::parse(line, name)).ok_or_else(|| Error::Spawn {
            reason: format!("unknown user: `{name}`"),
            hints: vec![format!("use a name from {USERS}")],
        })
    }

    /// Parses `NAME:PASSWORD:UID:GID:…`.
    fn parse(line: &str, name: &str) -> Option<Self> {
        let mut fields = line.split(':');
        fields.next().filter(|found| *found == name && !name.is_empty())?;
        let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        Some(Self { uid, gid })
    }

    /// Returns the program and the invocation that run `program` as this user.
    pub(super) fn wrap(&self, program: &Path, invocation: &Invocation) -> (PathBuf, Invocation) {
        let mut wrapped = invocation.clone();
        wrapped.args = [format!("--reuid={}", self.uid), format!("--regid={}", self.gid)]
            .into_iter()
            .chain(["--init-groups".to_owned(), "--".to_owned()])
            .map(OsString::from)
            .chain([program.as_os_str().to_owned()])
            .chain(invocation.args.iter().cloned())
            .collect();
        (SETPRIV.into(), wrapped)
    }

    /// Makes the user the owner of a directory and everything in it.
    pub(super) fn own(&self, directory: &Path) -> io::Result<()> {
        #[cfg(unix)]
        {
            let entries = std::fs::read_dir(directory)?;
            for entry in entries {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    self.own(&entry.path())?;
                } else {
                    std::os::unix::fs::lchown(entry.path(), Some(self.uid), Some(self.gid))?;
                }
            }
            std::os::unix::fs::chown(directory, Some(self.uid), Some(self.gid))
        }
        #[cfg(not(unix))]
        {
            let _ = directory;
            Err(io::Error::new(io::ErrorKind::Unsupported, "can't run as another user on this platform"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_is_found_by_exact_name() {
        let line = "agent:x:1001:100:An agent:/home/agent:/bin/sh";
        let expected = SystemUser { uid: 1001, gid: 100 };
        assert_eq!(SystemUser::parse(line, "agent"), Some(expected));
        for other in ["age", "agents", "", "x", "1001"] {
            assert_eq!(SystemUser::parse(line, other), None, "{other}");
        }
        assert!(SystemUser::find("no such user").is_err());
    }
}
