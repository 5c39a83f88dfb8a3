//! The pinned Claude Code CLI in its private environment.

use std::process::Command;

use yb_testkit::RealClaude;

#[test]
fn real_cli_has_pinned_version() {
    let claude = RealClaude::new();
    let mut command = Command::new(claude.program());
    command.arg("--version").env_clear().envs(claude.env("http://127.0.0.1:9"));
    let output = command.current_dir(claude.private()).output().unwrap();
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(version.starts_with(&RealClaude::pinned_version()), "{version}");
}

#[test]
fn environment_is_private_and_offline() {
    let claude = RealClaude::new().max_retries(2);
    let env = claude.env("http://127.0.0.1:9");
    let get =
        |name: &str| env.iter().find(|(known, _)| known == name).map(|(_, value)| value.to_str().unwrap());
    for name in ["HOME", "CLAUDE_CONFIG_DIR", "TMPDIR"] {
        let dir = std::path::Path::new(get(name).unwrap());
        assert!(dir.starts_with(claude.private()) && dir.is_dir(), "{name}");
    }
    assert_eq!(get("ANTHROPIC_BASE_URL"), Some("http://127.0.0.1:9"));
    assert_eq!(get("CLAUDE_CODE_MAX_RETRIES"), Some("2"));
    assert_eq!(get("IS_SANDBOX"), Some("1"));
    assert_eq!(get("CLAUDECODE"), None);
}
