//! Finds the binaries of this crate for tests of other packages, where `CARGO_BIN_EXE_*` is not set.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The environment variable with the directory of the binaries, for layouts other than cargo's.
pub const BIN_DIR_VARIABLE: &str = "YB_TESTKIT_BIN_DIR";

/// The command that builds the binaries.
const BUILD: &str = "cargo build -p yb-testkit --bins";

/// Returns the path of a binary of this crate: `fake-agent`, `model-request`, `raw-syscall` or `yb-shim`.
///
/// # Panics
/// Panics if the binary was not built, or is older than its sources.
#[must_use]
pub fn bin(name: &str) -> PathBuf {
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    if let Some(dir) = std::env::var_os(BIN_DIR_VARIABLE) {
        let path = Path::new(&dir).join(file);
        assert!(
            path.is_file(),
            "missing {} ({BIN_DIR_VARIABLE} is set); hint: run `{BUILD}`",
            path.display()
        );
        return path;
    }
    let path = target_dir().join(file);
    assert!(path.is_file(), "missing {}; hint: run `{BUILD}`", path.display());
    let built = modified(&path).unwrap_or(SystemTime::UNIX_EPOCH);
    if let Some(source) = newer_source(name, built) {
        panic!("{} is older than {}; hint: run `{BUILD}`", path.display(), source.display());
    }
    path
}

/// Returns the directory that contains `deps`, where the running test is.
fn target_dir() -> PathBuf {
    let exe =
        std::env::current_exe().unwrap_or_else(|error| panic!("failed to find the test executable: {error}"));
    let dir = exe.parent().unwrap_or(&exe);
    match dir.file_name() {
        Some(name) if name == "deps" => dir.parent().unwrap_or(dir).to_owned(),
        _ => dir.to_owned(),
    }
}

/// Returns a source file that changed after the binary was built.
fn newer_source(name: &str, built: SystemTime) -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = files_below(&here.join("src"));
    sources.retain(|path| path.parent().is_none_or(|dir| !dir.ends_with("bin")) || is_named(path, name));
    if name == "yb-shim" {
        sources.extend(files_below(&here.join("../yb-supervise/src")));
    }
    sources.into_iter().find(|path| modified(path).is_some_and(|changed| changed > built))
}

fn is_named(path: &Path, name: &str) -> bool {
    path.file_stem().is_some_and(|stem| stem == name)
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    entries
        .filter_map(Result::ok)
        .flat_map(|entry| {
            let path = entry.path();
            if path.is_dir() { files_below(&path) } else { vec![path] }
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|metadata| metadata.modified()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_is_stale_when_a_source_is_newer() {
        let in_a_year = SystemTime::now() + std::time::Duration::from_secs(365 * 24 * 3600);
        for name in ["fake-agent", "raw-syscall", "yb-shim"] {
            assert!(newer_source(name, SystemTime::UNIX_EPOCH).is_some());
            assert_eq!(newer_source(name, in_a_year), None);
        }
    }
}
