//! Availability checks with fake CLIs. Test names start with the ID of the requirement.

#![cfg(unix)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use yb_claude::{AuthMethod, Availability, AvailabilityCheck, CliSearch, MissingReason, Version};
use yb_testkit::FakeAgent;

const LOGGED_IN: &str = r#"{"loggedIn": true, "authMethod": "oauth_token", "apiProvider": "firstParty"}"#;
const LOGGED_OUT: &str = r#"{"loggedIn": false, "authMethod": "none", "apiProvider": "firstParty"}"#;

/// A fake CLI that answers both probe commands and counts the calls.
struct Fake {
    dir: tempfile::TempDir,
}

impl Fake {
    fn new(version: &str, status: &str, code: i32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let script = format!(
            "#!/bin/sh\necho \"$*|$CLAUDECODE|$HOME\" >> \"$0.asked\"\n\
             case \"$*\" in\n--version) echo '{version}';;\n'auth status') echo '{status}'; exit {code};;\n\
             *) echo 'a prompt!'; exit 9;;\nesac\n"
        );
        let path = dir.path().join("claude");
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { dir }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("claude")
    }

    fn asked(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.dir.path().join("claude.asked")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    async fn check(&self, env: &[(&str, &str)]) -> Availability {
        check(&self.path(), env).check().await
    }
}

fn check(path: &Path, env: &[(&str, &str)]) -> AvailabilityCheck {
    let path_variable = [("PATH", "/usr/bin:/bin")];
    let env = path_variable.into_iter().chain(env.iter().copied());
    AvailabilityCheck::new(env).with_program(path).with_shim(yb_testkit::bin("yb-shim"))
}

#[tokio::test]
async fn cr_1_1_installed_cli_is_ready() {
    let fake = Fake::new("2.1.325 (Claude Code)", LOGGED_IN, 0);
    let availability = fake.check(&[("HOME", "/h"), ("CLAUDECODE", "1")]).await;
    let Availability::Ready(ready) = &availability else { panic!("{availability}") };
    assert_eq!(ready.path, fake.path());
    assert_eq!(ready.version, Version::new(2, 1, 325));
    assert_eq!(ready.auth, AuthMethod::Login { method: "oauth_token".into(), provider: "firstParty".into() });
    assert!(availability.is_ready() && availability.hints().is_empty());
    assert_eq!(fake.asked(), ["--version||/h", "auth status||/h"]);
}

#[tokio::test]
async fn cr_1_1_cli_is_found_in_path_of_given_environment() {
    let fake = Fake::new("2.1.325 (Claude Code)", LOGGED_IN, 0);
    let path = format!("{}:/usr/bin:/bin", fake.dir.path().display());
    let check = AvailabilityCheck::new([("PATH", path)]).with_shim(yb_testkit::bin("yb-shim"));
    assert!(check.check().await.is_ready());
}

#[tokio::test]
async fn cr_1_2_missing_cli_is_not_an_error() {
    let empty = tempfile::tempdir().unwrap();
    let path = empty.path().join("claude");
    let availability = check(&path, &[]).check().await;
    assert!(!availability.is_ready());
    assert!(matches!(availability, Availability::Missing(MissingReason::NotFound(_))), "{availability}");
    assert!(!availability.hints().is_empty());
    let search = CliSearch::from_env(&|name| (name == "PATH").then(|| empty.path().into()));
    let availability = AvailabilityCheck::new([("PATH", empty.path())]).with_search(search).check().await;
    assert!(availability.hints().join("\n").contains("npm install"), "{availability}");
}

#[tokio::test]
async fn cr_1_2_cli_that_does_not_run_is_missing() {
    for (version, code) in [("no version here", 0), ("", 0)] {
        let fake = Fake::new(version, LOGGED_IN, code);
        let availability = fake.check(&[]).await;
        assert!(
            matches!(availability, Availability::Missing(MissingReason::NotRunnable { .. })),
            "{availability}"
        );
        assert!(!availability.hints().is_empty());
    }
    let dir = tempfile::tempdir().unwrap();
    let agent =
        FakeAgent::in_dir(dir.path()).name("claude").script("- print: 2.1.325 (Claude Code)\n- exit: 3\n");
    let availability = check(&agent, &[]).check().await;
    assert!(availability.to_string().contains("exited with code 3"), "{availability}");
}

#[tokio::test]
async fn cr_1_3_unauthenticated_cli_has_message_and_hints() {
    let fake = Fake::new("2.1.325 (Claude Code)", LOGGED_OUT, 1);
    let availability = fake.check(&[("ANTHROPIC_API_KEY", ""), ("CLAUDE_CODE_USE_BEDROCK", "0")]).await;
    assert!(matches!(availability, Availability::NotAuthenticated { .. }), "{availability}");
    let text = availability.to_string();
    assert!(text.contains("authentication") && text.contains("API key"), "{text}");
    let hints = availability.hints().join("\n");
    assert!(hints.contains("claude auth login") && hints.contains("ANTHROPIC_API_KEY"), "{hints}");
}

#[tokio::test]
async fn cr_1_3_login_is_detected_by_next_check() {
    let fake = Fake::new("2.1.325 (Claude Code)", LOGGED_OUT, 1);
    assert!(!fake.check(&[]).await.is_ready());
    assert!(!fake.check(&[]).await.is_ready());
    assert_eq!(fake.asked().len(), 4);
}

#[tokio::test]
async fn cr_1_3_variable_authenticates_without_status_command() {
    for (name, value) in [
        ("ANTHROPIC_API_KEY", "dummy"),
        ("ANTHROPIC_AUTH_TOKEN", "dummy"),
        ("CLAUDE_CODE_OAUTH_TOKEN", "dummy"),
        ("CLAUDE_CODE_USE_BEDROCK", "1"),
        ("CLAUDE_CODE_USE_VERTEX", "true"),
        ("CLAUDE_CODE_USE_FOUNDRY", "1"),
    ] {
        let fake = Fake::new("2.1.325 (Claude Code)", LOGGED_OUT, 1);
        let availability = fake.check(&[(name, value)]).await;
        let Availability::Ready(ready) = availability else { panic!("{name}: {availability}") };
        assert_eq!(ready.auth, AuthMethod::Variable(name));
        assert_eq!(fake.asked().len(), 1);
        assert!(!format!("{:?}", check(&fake.path(), &[(name, "dummy-value")])).contains("dummy-value"));
    }
}

#[tokio::test]
async fn cr_1_3_old_version_is_not_probed_with_auth_status() {
    let fake = Fake::new("2.0.76 (Claude Code)", LOGGED_IN, 0);
    let availability = fake.check(&[]).await;
    let Availability::Ready(ready) = availability else { panic!("{availability}") };
    assert!(matches!(ready.auth, AuthMethod::Unknown { .. }));
    assert_eq!(fake.asked().len(), 1);
}

#[tokio::test]
async fn cr_1_3_invalid_status_is_unknown_authentication() {
    for status in ["not JSON", "{}"] {
        let fake = Fake::new("2.1.325 (Claude Code)", status, 1);
        let availability = fake.check(&[]).await;
        let Availability::Ready(ready) = availability else { panic!("{status}: {availability}") };
        assert!(matches!(ready.auth, AuthMethod::Unknown { .. }), "{status}");
    }
}

#[tokio::test]
async fn cr_1_4_valid_version_is_accepted_and_cached() {
    let fake = Fake::new("2.1.325 (Claude Code)", LOGGED_IN, 0);
    let first = fake.check(&[]).await;
    assert_eq!(fake.check(&[]).await, first);
    assert_eq!(fake.asked().len(), 2, "the second answer was known");
    assert!(fake.check(&[("HOME", "/other")]).await.is_ready());
    assert_eq!(fake.asked().len(), 4, "another environment is another question");
}

#[tokio::test]
async fn hanging_cli_times_out() {
    let dir = tempfile::tempdir().unwrap();
    let agent = FakeAgent::in_dir(dir.path()).name("claude").script("- ignore: [TERM]\n- sleep_ms: 60000\n");
    let started = Instant::now();
    let availability = check(&agent, &[]).with_timeout(Duration::from_millis(300)).check().await;
    assert!(availability.to_string().contains("timed out"), "{availability}");
    assert!(started.elapsed() < Duration::from_secs(40));
}
