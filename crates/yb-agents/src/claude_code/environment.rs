//! The environment of Claude Code in a trial: private, except for what a stored login needs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use yb_claude::env_vars as vars;
use yb_claude::{Options, PermissionMode};
use yb_supervise::Sandbox;

use super::super::guard::Model;
use super::super::{AdapterError, ExecutionContext, Host, Isolation};
use yb_case::Network;

/// The most API retries, about eight seconds. The runner retries after longer failures.
const MAX_RETRIES: u32 = 4;
/// Lets `--add-dir` read the instructions of the directory.
const READ_INSTRUCTIONS: &str = "CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD";
/// Hosts that are never reached through a proxy.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "::1"];

/// The source of the credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Credentials {
    /// A variable.
    Variable,
    /// Files of a cloud's tools below HOME.
    Cloud,
    /// The stored login of the CLI. It is never copied: its tokens rotate, and the original would become invalid.
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

/// The default host of the API.
const API: &str = "api.anthropic.com";
/// Hosts where the CLI renews its login.
const LOGIN: [&str; 2] = ["platform.claude.com", "console.anthropic.com"];

/// The hosts of the model's API.
pub(super) fn model(host: &Host, network: &Network) -> Result<Vec<Model>, AdapterError> {
    let named = host.variable("ANTHROPIC_BASE_URL").map(|url| Model::At(url.to_string_lossy().into_owned()));
    match (Credentials::of(host), named) {
        (_, Some(named)) => Ok(vec![named]),
        (Credentials::Variable, None) => Ok(vec![Model::On(API)]),
        (Credentials::Login, None) => Ok([API].into_iter().chain(LOGIN).map(Model::On).collect()),
        (Credentials::Cloud, None) if !network.allow.is_empty() => Ok(Vec::new()),
        (Credentials::Cloud, None) => Err(AdapterError::config(
            "`network: model-only` does not know the hosts of a cloud's models",
            "name them: `network: { mode: model-only, allow: [\"*.amazonaws.com\"] }`",
        )),
    }
}

/// The configuration directory of this execution; `None` if it uses the user's, in which it stores no session.
pub(super) fn private_config_dir(context: &ExecutionContext) -> Option<PathBuf> {
    match Credentials::of(&context.host) {
        Credentials::Variable | Credentials::Cloud => Some(context.private_dir.join("config")),
        Credentials::Login => None,
    }
}

/// Rejects skills if the configuration directory is the user's, with skills and settings of its own.
pub(super) fn check_skills(context: &ExecutionContext) -> Result<(), AdapterError> {
    if context.config.skills.is_empty() || private_config_dir(context).is_some() {
        return Ok(());
    }
    Err(AdapterError::config(
        "`skills` needs credentials in a variable: a stored login comes with the user's own skills and settings",
        "set `ANTHROPIC_API_KEY`, or `CLAUDE_CODE_OAUTH_TOKEN` as `claude setup-token` prints it",
    ))
}

/// Links the skills into the configuration directory.
pub(super) fn link_skills(context: &ExecutionContext) -> std::io::Result<()> {
    let skills = context.config.skills.first().and_then(|skill| skill.path.parent());
    let (Some(skills), Some(config)) = (skills, private_config_dir(context)) else { return Ok(()) };
    std::fs::create_dir_all(&config)?;
    link(skills, &config.join("skills"))
}

#[cfg(unix)]
fn link(target: &Path, path: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

#[cfg(windows)]
fn link(target: &Path, path: &Path) -> std::io::Result<()> {
    std::os::windows::fs::symlink_dir(target, path)
}

/// Adds the environment to the options.
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
    // The classifier of this mode counts as nonessential traffic.
    if mode != PermissionMode::Auto {
        options = options.with_env(vars::CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC, "1");
    }
    if !context.config.trust_repo_settings {
        options = options.with_env(READ_INSTRUCTIONS, "1");
    }
    // An inherited value does not describe this machine.
    if context.isolation.is_sandbox() {
        options.with_sandboxed(true)
    } else {
        options.without_env(vars::IS_SANDBOX)
    }
}

/// Files of clouds' tools, below HOME.
const CLOUD_FILES: [&str; 3] = [".aws", ".azure", ".config/gcloud"];
/// The login and the settings of the CLI, below HOME.
const LOGIN_FILES: [&str; 2] = [".claude", ".claude.json"];

/// Adds the credentials to the view. A stored login is writable, because its tokens rotate; the rest of HOME is private.
pub(super) fn show(view: Sandbox, context: &ExecutionContext) -> Sandbox {
    let credentials = Credentials::of(&context.host);
    let home = context.host.variable(vars::HOME).map(Path::new).filter(|home| home.is_dir());
    let (Credentials::Cloud | Credentials::Login, Some(home)) = (credentials, home) else { return view };
    let view = view.writable_as(context.private_dir.join("home"), home);
    let below = |names: &[&str]| -> Vec<PathBuf> {
        names.iter().map(|name| home.join(name)).filter(|path| path.exists()).collect()
    };
    match (credentials, context.host.variable(vars::CLAUDE_CONFIG_DIR)) {
        (Credentials::Cloud, _) => below(&CLOUD_FILES).iter().fold(view, Sandbox::read_only),
        (_, Some(own)) if Path::new(own).is_dir() => view.writable(own),
        _ => below(&LOGIN_FILES).iter().fold(view, Sandbox::writable),
    }
}

/// The hosts that are reached without a proxy, including loopback.
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
        && !isolation.is_sandbox();
    if !refused {
        return Ok(());
    }
    Err(AdapterError::InvalidConfig {
        message: "as root, Claude Code bypasses permissions only in a sandbox (`IS_SANDBOX=1`)".to_owned(),
        hints: vec![
            "say `isolation: external` if this machine is a sandbox".to_owned(),
            "or let it run in one: `yb doctor` says what bubblewrap needs here".to_owned(),
            "or run as another user, or choose another `permission_mode`".to_owned(),
        ],
    })
}

/// The privileges of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Privileges {
    Root,
    Ordinary,
}

/// Returns the privileges of this process.
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
        use Isolation::{Bubblewrap, External, Landlock, None};
        use PermissionMode::{AcceptEdits, BypassPermissions};
        use Privileges::{Ordinary, Root};
        for (mode, isolation, privileges, fine) in [
            (BypassPermissions, None, Root, false),
            (BypassPermissions, External, Root, true),
            (BypassPermissions, Bubblewrap, Root, true),
            (BypassPermissions, Landlock, Root, true),
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
    fn loopback_is_added_to_no_proxy_of_the_user() {
        let with = |value: &str| without_loopback(&Host::new([("NO_PROXY", value)]), "NO_PROXY");
        assert_eq!(with(""), "127.0.0.1,localhost,::1");
        assert_eq!(with("example.org, localhost"), "example.org, localhost,127.0.0.1,::1");
    }

    #[test]
    fn stored_login_is_visible_in_the_sandbox_but_its_home_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (home, private) = (dir.path().join("home"), dir.path().join("private"));
        for name in [".claude", ".ssh", ".aws"] {
            std::fs::create_dir_all(home.join(name)).unwrap();
        }
        let shown = |more: &[(&str, &str)]| {
            let mut host = Host::new([("HOME", &home)]);
            host.env.extend(more.iter().map(|(name, value)| (name.into(), value.into())));
            let context = ExecutionContext::new("/w", "/a", &private, Default::default(), host);
            show(Sandbox::new(), &context)
        };
        let around = || Sandbox::new().writable_as(private.join("home"), &home);
        assert_eq!(shown(&[]), around().writable(home.join(".claude")));
        let own = home.join(".aws");
        assert_eq!(shown(&[("CLAUDE_CONFIG_DIR", own.to_str().unwrap())]), around().writable(&own));
        assert_eq!(shown(&[("CLAUDE_CODE_USE_BEDROCK", "1")]), around().read_only(&own));
        assert_eq!(shown(&[("ANTHROPIC_API_KEY", "key")]), Sandbox::new());
    }

    #[test]
    fn model_s_hosts_follow_the_credentials() {
        let network = Network::new(yb_case::NetworkMode::ModelOnly);
        let hosts = |env: &[(&str, &str)]| model(&Host::new(env.iter().copied()), &network);
        assert_eq!(hosts(&[("ANTHROPIC_API_KEY", "k")]).unwrap(), [Model::On("api.anthropic.com")]);
        assert_eq!(hosts(&[]).unwrap().len(), 3);
        let named = hosts(&[("ANTHROPIC_BASE_URL", "http://x:1"), ("CLAUDE_CODE_USE_BEDROCK", "1")]).unwrap();
        assert_eq!(named, [Model::At("http://x:1".to_owned())]);
        assert!(hosts(&[("CLAUDE_CODE_USE_BEDROCK", "1")]).is_err());
    }

    #[test]
    fn login_is_the_last_resort() {
        assert_eq!(Credentials::of(&Host::new([("ANTHROPIC_API_KEY", "k")])), Credentials::Variable);
        assert_eq!(Credentials::of(&Host::new([("ANTHROPIC_API_KEY", "")])), Credentials::Login);
        assert_eq!(Credentials::of(&Host::new([("CLAUDE_CODE_USE_BEDROCK", "1")])), Credentials::Cloud);
    }
}
