//! A hermetic environment: Claude Code reaches only a model on loopback and writes only below a private directory.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use crate::env_vars as vars;

/// A placeholder API key without any privileges.
pub const DUMMY_KEY: &str = "not-a-secret-loopback-only";

/// The subdirectories for `HOME`, the configuration and temporary files.
const DIRS: [&str; 3] = ["home", "config", "tmp"];

/// Returns variables that direct every request to `base_url` and every file below `private_dir`.
///
/// The directories must exist: see [`create_dirs`]. `PATH` is up to the caller. A caller that passes on other variables
/// of its own environment must drop those for which [`is_excluded_variable`] is true. Measured on 2.1.325.
#[must_use]
pub fn environment(base_url: &str, private_dir: &Path) -> Vec<(&'static str, OsString)> {
    let below = |name: &str| private_dir.join(name).into_os_string();
    let [home, config, tmp] = DIRS.map(below);
    let text = OsString::from;
    vec![
        // Without `HOME` the CLI takes the real one from the user database, and writes there.
        (vars::HOME, home),
        (vars::CLAUDE_CONFIG_DIR, config),
        // Every run leaves temporary files and sockets behind.
        (vars::TMPDIR, tmp),
        (vars::ANTHROPIC_BASE_URL, text(base_url)),
        // Required; with a key in the environment the CLI never asks for one.
        (vars::ANTHROPIC_API_KEY, text(DUMMY_KEY)),
        // The CLI would use a proxy even for loopback.
        (vars::NO_PROXY, text("127.0.0.1,localhost")),
        (vars::NO_PROXY_LOWER, text("127.0.0.1,localhost")),
        // Exactly `1`: required for bypassing permissions as root.
        (vars::IS_SANDBOX, text("1")),
        // A background shell would keep the CLI alive for ten minutes after its result.
        (vars::CLAUDE_CODE_DISABLE_BACKGROUND_TASKS, text("1")),
        // Also disables the classifier of permission mode `auto`.
        (vars::CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC, text("1")),
        (vars::DISABLE_TELEMETRY, text("1")),
        (vars::DISABLE_AUTOUPDATER, text("1")),
        (vars::DISABLE_ERROR_REPORTING, text("1")),
    ]
}

/// Creates the directories of [`environment`] with mode 0700.
///
/// # Errors
/// If a directory can't be created. Existing directories are accepted.
pub fn create_dirs(private_dir: &Path) -> io::Result<()> {
    DIRS.iter().try_for_each(|name| create_private_dir(&private_dir.join(name)))
}

/// Creates a directory with mode 0700, and its parents.
///
/// # Errors
/// If the directory can't be created. An existing directory is accepted.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Returns whether a variable of the host must not reach the CLI, because it selects another model, account, file
/// location or telemetry collector.
///
/// Variables that [`environment`] sets are not included: they are overwritten anyway.
#[must_use]
pub fn is_excluded_variable(name: &str) -> bool {
    const FAMILIES: [&str; 7] =
        ["ANTHROPIC_", "CLAUDE_", "OTEL_", "AWS_", "GOOGLE_", "VERTEX_REGION_", "XDG_"];
    const OTHERS: [&str; 9] = [
        vars::CLAUDECODE,
        vars::TRACEPARENT,
        vars::TRACESTATE,
        vars::API_TIMEOUT_MS,
        "CLOUD_ML_REGION",
        "GCLOUD_PROJECT",
        "NODE_OPTIONS",
        "BUN_OPTIONS",
        "DEBUG",
    ];
    FAMILIES.iter().any(|family| name.starts_with(family)) || OTHERS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_dirs_exist_below_private_dir() {
        let private = tempfile::tempdir().unwrap();
        create_dirs(private.path()).unwrap();
        create_dirs(private.path()).unwrap();
        let environment = environment("http://127.0.0.1:1", private.path());
        for name in [vars::HOME, vars::CLAUDE_CONFIG_DIR, vars::TMPDIR] {
            let (_, value) = environment.iter().find(|(known, _)| *known == name).unwrap();
            assert!(Path::new(value).starts_with(private.path()), "{name}");
            assert!(Path::new(value).is_dir(), "{name}");
        }
    }

    #[test]
    fn environment_has_no_duplicate_variables() {
        let mut names: Vec<_> = environment("", Path::new("")).into_iter().map(|(name, _)| name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn redirecting_variables_are_excluded() {
        for name in ["ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK", "CLAUDECODE", "OTEL_TRACES_EXPORTER"]
        {
            assert!(is_excluded_variable(name), "{name}");
        }
        for name in ["PATH", "LANG", "SHELL", "HTTPS_PROXY", "SSL_CERT_FILE"] {
            assert!(!is_excluded_variable(name), "{name}");
        }
    }
}
