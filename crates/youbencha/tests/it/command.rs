//! Runs `yb` as a user would, with nothing of this machine in its environment.

use std::path::Path;
use std::process::{Command, Stdio};

/// `yb` in a directory, with a cleared environment.
pub(crate) fn yb(directory: &Path) -> Command {
    program(env!("CARGO_BIN_EXE_yb"), directory)
}

/// Any of our programs, likewise.
pub(crate) fn program(path: &str, directory: &Path) -> Command {
    let mut command = Command::new(path);
    command.env_clear().current_dir(directory).stdin(Stdio::null());
    // An instrumented program would else write its profile into the directory.
    if let Some(profile) = std::env::var_os("LLVM_PROFILE_FILE") {
        command.env("LLVM_PROFILE_FILE", profile);
    }
    command
}

/// Everything that a finished command shows, for a snapshot.
pub(crate) fn shown(command: &mut Command) -> String {
    let output = command.output().unwrap();
    format!(
        "exit code: {}\n----- stdout -----\n{}----- stderr -----\n{}",
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}
