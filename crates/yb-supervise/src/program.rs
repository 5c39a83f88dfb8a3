//! Resolves the program and validates the command before anything is started, for exact errors.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::error::SpawnError;

/// Size at which Linux rejects a single argument or variable, including its NUL.
#[cfg(target_os = "linux")]
const MAX_STRING: usize = 131_072;

/// Returns the file to execute: looked up in the *child's* PATH, or relative to the host's working directory.
pub(crate) fn resolve(program: &OsStr, env: &BTreeMap<OsString, OsString>) -> Result<PathBuf, SpawnError> {
    let path = Path::new(program);
    if path.components().count() > 1 || path.is_absolute() {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        if is_executable(&path) {
            return Ok(path);
        }
        return Err(if path.is_file() {
            SpawnError::NotExecutable { path }
        } else {
            not_found(program, vec![])
        });
    }
    let search = crate::env::value(env, "PATH").unwrap_or_default();
    if let Some(found) = find_program(program, search) {
        return Ok(found);
    }
    match candidates(program, search).find(|candidate| candidate.is_file()) {
        Some(path) => Err(SpawnError::NotExecutable { path }),
        None => Err(not_found(program, absolute_dirs(search).collect())),
    }
}

/// Returns the first executable with this name in the directories of a search path. Relative directories are
/// skipped.
pub fn find_program(name: impl AsRef<OsStr>, search: impl AsRef<OsStr>) -> Option<PathBuf> {
    candidates(name.as_ref(), search.as_ref()).find(|candidate| is_executable(candidate))
}

fn candidates(name: &OsStr, search: &OsStr) -> impl Iterator<Item = PathBuf> {
    absolute_dirs(search).map(move |dir| with_suffix(dir.join(name)))
}

fn absolute_dirs(search: &OsStr) -> impl Iterator<Item = PathBuf> {
    std::env::split_paths(search).filter(|dir| dir.is_absolute())
}

fn not_found(program: &OsStr, searched: Vec<PathBuf>) -> SpawnError {
    SpawnError::NotFound { program: program.to_string_lossy().into_owned(), searched }
}

/// Adds `.exe` on Windows, also to `python3.12`. Scripts such as npm's `.cmd` are not candidates: Windows runs them with a shell.
fn with_suffix(path: PathBuf) -> PathBuf {
    let runs = |extension: &OsStr| ["exe", "com"].iter().any(|known| extension.eq_ignore_ascii_case(known));
    if !cfg!(windows) || path.extension().is_some_and(runs) {
        return path;
    }
    let mut path = path.into_os_string();
    path.push(".exe");
    path.into()
}

#[cfg(unix)]
pub(crate) fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
pub(crate) fn is_executable(path: &Path) -> bool {
    path.is_file()
}

/// Rejects strings that can't be passed to exec.
pub(crate) fn check_strings(
    program: &OsStr,
    args: &[OsString],
    env: &BTreeMap<OsString, OsString>,
) -> Result<(), SpawnError> {
    check_string(program, 0, || "program".to_owned())?;
    for (index, arg) in args.iter().enumerate() {
        check_string(arg, 0, || format!("argument {}", index + 1))?;
    }
    for (name, value) in env {
        let what = || format!("environment variable `{}`", name.to_string_lossy());
        check_string(name, 0, what)?;
        check_string(value, name.len() + 1, what)?;
    }
    Ok(())
}

fn check_string(string: &OsStr, prefix: usize, what: impl Fn() -> String) -> Result<(), SpawnError> {
    if string.as_encoded_bytes().contains(&0) {
        return Err(SpawnError::NulByte { what: what() });
    }
    #[cfg(target_os = "linux")]
    if string.len() + prefix + 1 > MAX_STRING {
        return Err(SpawnError::TooLong {
            what: what(),
            bytes: string.len() + prefix,
            limit: MAX_STRING - 1,
        });
    }
    let _ = prefix;
    Ok(())
}

/// Returns the total size of arguments and environment, for the message of an `E2BIG`.
#[cfg(unix)]
pub(crate) fn total_size(args: &[OsString], env: &BTreeMap<OsString, OsString>) -> usize {
    let args: usize = args.iter().map(|arg| arg.len() + 1).sum();
    let env: usize = env.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    args + env
}
