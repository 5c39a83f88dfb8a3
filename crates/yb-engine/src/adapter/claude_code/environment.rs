//! The environment of Claude Code in a trial: private where it can be, the user's own where a login needs it.

use std::ffi::OsString;

use yb_claude::env_vars as vars;
use yb_claude::{Options, PermissionMode};

use super::super::{AdapterError, ExecutionContext, Host, Isolation};

/// How often the CLI asks the model API again; about eight seconds. What lasts longer is the runner's to repeat.
const MAX_RETRIES: u32 = 4;
/// Lets `--add-dir` read the instructions of the directory.
const READ_INSTRUCTIONS: &str = "CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD";
/// Hosts that no proxy can reach for us.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "::1"];

/// Where the credentials are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Credentials {
    /// In a variable.
    Variable,
    /// In files of a cloud's own tools, which are found through HOME.
    Cloud,
    /// Where the CLI stored its login. It is never copied: its tokens rotate, and the original would break.
    Login,
}

impl Credentials {
    fn of(host: &Host) -> Self {
        let set = |name: &&str| host.variable(name).is_some();
        let keys = [vars::ANTHROPIC_API_KEY, vars::ANTHROPIC_AUTH_TOKEN, vars::CLAUDE_CODE_OAUTH_TOKEN];
        let clouds =
            [vars::CLAUDE_CODE_USE_BEDROCK, vars::CLAUDE_CODE_USE_VERTEX, vars::CLAUDE_CODE_USE_FOUNDRY];
        if clouds.iter().any(set) {
            Self::Cloud
        } else if keys.iter().any(set) {
            Self::Variable
        } else {
            Self::Login
        }
    }
}

/// The same options with everything that the environment decides.
pub(super) fn apply(options: Options, mode: PermissionMode, context: &ExecutionContext) -> Options {
    let host = &context.host;
    let private = |name: &str| context.private_dir.join(name);
    let mut options = options.with_env(vars::TMPDIR, private("tmp"));
    match Credentials::of(host) {
        Credentials::Variable => {
            options = options.with_env(vars::HOME, private("home"));
            options = options.with_env(vars::CLAUDE_CONFIG_DIR, private("config"));
        }
        Credentials::Cloud => options = options.with_env(vars::CLAUDE_CONFIG_DIR, private("config")),
        Credentials::Login => options.no_session_persistence = true,
    }
    if host.variable(vars::CLAUDE_CODE_MAX_RETRIES).is_none() {
        options.max_retries = Some(MAX_RETRIES);
    }
    for name in [vars::NO_PROXY, vars::NO_PROXY_LOWER] {
        options = options.with_env(name, without_loopback(host, name));
    }
    for name in [vars::DISABLE_TELEMETRY, vars::DISABLE_AUTOUPDATER, vars::DISABLE_ERROR_REPORTING] {
        options = options.with_env(name, "1");
    }
    // The classifier of this mode is such traffic.
    if mode != PermissionMode::Auto {
        options = options.with_env(vars::CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC, "1");
    }
    if !context.config.trust_repo_settings {
        options = options.with_env(READ_INSTRUCTIONS, "1");
    }
    // An inherited value says nothing about this machine.
    if context.isolation == Isolation::External {
        options.with_sandboxed(true)
    } else {
        options.without_env(vars::IS_SANDBOX)
    }
}

/// The hosts that are reached without a proxy, loopback among them.
fn without_loopback(host: &Host, name: &str) -> OsString {
    let mut hosts = host.variable(name).unwrap_or_default().to_owned();
    for loopback in LOOPBACK {
        let known = hosts.to_string_lossy().split(',').any(|known| known.trim() == loopback);
        if !known {
            if !hosts.is_empty() {
                hosts.push(",");
            }
            hosts.push(loopback);
        }
    }
    hosts
}

/// As root the CLI refuses to bypass permissions, unless the machine is a sandbox.
pub(super) fn check_privileges(
    mode: PermissionMode,
    isolation: Isolation,
    privileges: Privileges,
) -> Result<(), AdapterError> {
    let refused = mode == PermissionMode::BypassPermissions
        && privileges == Privileges::Root
        && isolation != Isolation::External;
    if !refused {
        return Ok(());
    }
    Err(AdapterError::InvalidConfig {
        message: "as root, Claude Code bypasses permissions only in a sandbox (`IS_SANDBOX=1`)".to_owned(),
        hints: vec![
            "say `isolation: external` if this machine is a sandbox".to_owned(),
            "or run as another user, or choose another `permission_mode`".to_owned(),
        ],
    })
}

/// Who we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Privileges {
    Root,
    Ordinary,
}

/// Whether this process may do everything.
pub(super) fn privileges() -> Privileges {
    #[cfg(unix)]
    if rustix::process::geteuid().is_root() {
        return Privileges::Root;
    }
    Privileges::Ordinary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_without_a_sandbox_may_not_bypass() {
        use Isolation::{External, None};
        use PermissionMode::{AcceptEdits, BypassPermissions};
        use Privileges::{Ordinary, Root};
        for (mode, isolation, privileges, fine) in [
            (BypassPermissions, None, Root, false),
            (BypassPermissions, External, Root, true),
            (BypassPermissions, None, Ordinary, true),
            (AcceptEdits, None, Root, true),
        ] {
            let checked = check_privileges(mode, isolation, privileges);
            assert_eq!(checked.is_ok(), fine, "{mode} {isolation:?} {privileges:?}");
        }
        let error = check_privileges(BypassPermissions, None, Root).unwrap_err();
        assert!(
            error.hints()[0].contains("isolation: external") && error.to_string().contains("IS_SANDBOX=1")
        );
    }

    #[test]
    fn loopback_is_added_to_what_the_user_says() {
        let with = |value: &str| without_loopback(&Host::new([("NO_PROXY", value)]), "NO_PROXY");
        assert_eq!(with(""), "127.0.0.1,localhost,::1");
        assert_eq!(with("example.org, localhost"), "example.org, localhost,127.0.0.1,::1");
    }

    #[test]
    fn a_login_is_the_last_resort() {
        assert_eq!(Credentials::of(&Host::new([("ANTHROPIC_API_KEY", "k")])), Credentials::Variable);
        assert_eq!(Credentials::of(&Host::new([("ANTHROPIC_API_KEY", "")])), Credentials::Login);
        assert_eq!(Credentials::of(&Host::new([("CLAUDE_CODE_USE_BEDROCK", "1")])), Credentials::Cloud);
    }
}
