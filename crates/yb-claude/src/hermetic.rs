//! The environment in which Claude Code stays offline and private while it talks to a model on loopback.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use crate::env_vars as vars;

/// Stands where an API key has to be; it opens nothing.
pub const DUMMY_KEY: &str = "not-a-secret-loopback-only";

/// What its HOME, its configuration and its temporary files are called below the private folder.
const FOLDERS: [&str; 3] = ["home", "config", "tmp"];

/// Variables to set, so that every request goes to `base_url` and every file below `private_dir`.
///
/// The folders must exist: see [`create_folders`]. `PATH` is the caller's. Whoever passes on other variables of
/// its own environment leaves out those that [`leaves_out`] names. What each is for was measured on 2.1.325.
#[must_use]
pub fn environment(base_url: &str, private_dir: &Path) -> Vec<(&'static str, OsString)> {
    let below = |name: &str| private_dir.join(name).into_os_string();
    let [home, config, tmp] = FOLDERS.map(below);
    let text = OsString::from;
    vec![
        // Without a HOME it finds the user's real one in the user database, and writes there.
        (vars::HOME, home),
        (vars::CLAUDE_CONFIG_DIR, config),
        // Every run leaves probes and sockets behind.
        (vars::TMPDIR, tmp),
        (vars::ANTHROPIC_BASE_URL, text(base_url)),
        // It refuses to work without one; with one in the environment it never asks.
        (vars::ANTHROPIC_API_KEY, text(DUMMY_KEY)),
        // It would ask a proxy for loopback too.
        (vars::NO_PROXY, text("127.0.0.1,localhost")),
        (vars::NO_PROXY_LOWER, text("127.0.0.1,localhost")),
        // Exactly `1`: as root, nothing else lets it skip permissions.
        (vars::IS_SANDBOX, text("1")),
        // A shell in the background would keep it alive for ten minutes after its result.
        (vars::CLAUDE_CODE_DISABLE_BACKGROUND_TASKS, text("1")),
        // Nothing but requests for the model. The price: permission mode `auto` has no classifier.
        (vars::CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC, text("1")),
        (vars::DISABLE_TELEMETRY, text("1")),
        (vars::DISABLE_AUTOUPDATER, text("1")),
        (vars::DISABLE_ERROR_REPORTING, text("1")),
    ]
}

/// Creates the folders that [`environment`] names, readable for nobody else.
///
/// # Errors
/// When one can't be created; one that is there already is fine.
pub fn create_folders(private_dir: &Path) -> io::Result<()> {
    FOLDERS.iter().try_for_each(|name| create_folder(&private_dir.join(name)))
}

/// Creates a folder that is nobody else's to read, and those above it.
///
/// # Errors
/// When it can't be created; one that is there already is fine.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Whether a variable of the host must not reach the child: it would lead it to another model, to another
/// account, to other files or to a telemetry collector.
///
/// Variables that [`environment`] sets are not among them: setting them is enough.
#[must_use]
pub fn leaves_out(name: &str) -> bool {
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
    fn everything_private_is_below_the_folder_and_exists() {
        let private = tempfile::tempdir().unwrap();
        create_folders(private.path()).unwrap();
        create_folders(private.path()).unwrap();
        let environment = environment("http://127.0.0.1:1", private.path());
        for name in [vars::HOME, vars::CLAUDE_CONFIG_DIR, vars::TMPDIR] {
            let (_, value) = environment.iter().find(|(known, _)| *known == name).unwrap();
            assert!(Path::new(value).starts_with(private.path()), "{name}");
            assert!(Path::new(value).is_dir(), "{name}");
        }
    }

    #[test]
    fn no_variable_is_named_twice() {
        let mut names: Vec<_> = environment("", Path::new("")).into_iter().map(|(name, _)| name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn what_leads_elsewhere_is_left_out() {
        for name in ["ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK", "CLAUDECODE", "OTEL_TRACES_EXPORTER"]
        {
            assert!(leaves_out(name), "{name}");
        }
        for name in ["PATH", "LANG", "SHELL", "HTTPS_PROXY", "SSL_CERT_FILE"] {
            assert!(!leaves_out(name), "{name}");
        }
    }
}
