//! Availability checks with the real CLI.

use yb_claude::{AuthMethod, Availability, AvailabilityCheck};
use yb_testkit::RealClaude;

/// Creates a check in a private environment, without some variables and with others.
fn check(claude: &RealClaude, without: &[&str], with: &[(&str, &str)]) -> AvailabilityCheck {
    let env =
        claude.env("http://127.0.0.1:9").into_iter().filter(|(name, _)| !without.contains(&name.as_str()));
    let with = with.iter().map(|(name, value)| ((*name).to_owned(), (*value).into()));
    AvailabilityCheck::new(env.chain(with))
        .with_program(claude.program())
        .with_shim(yb_testkit::bin("yb-shim"))
}

mod real_claude {
    use super::*;

    #[tokio::test]
    async fn cr_1_1_and_1_4_cli_is_ready_with_version() {
        let claude = RealClaude::new();
        let availability = check(&claude, &[], &[]).check().await;
        let Availability::Ready(ready) = availability else { panic!("{availability}") };
        assert_eq!(ready.version.to_string(), RealClaude::pinned_version());
        assert_eq!(ready.auth, AuthMethod::Variable("ANTHROPIC_API_KEY"));
        assert_eq!(ready.path, claude.program());
    }

    #[tokio::test]
    async fn cr_1_3_cli_without_key_is_not_authenticated() {
        let claude = RealClaude::new();
        let availability = check(&claude, &["ANTHROPIC_API_KEY"], &[]).check().await;
        assert!(matches!(availability, Availability::NotAuthenticated { .. }), "{availability}");
    }

    #[tokio::test]
    async fn cr_1_3_reported_login_is_authenticated() {
        let claude = RealClaude::new();
        let settings = claude.private().join("config/settings.json");
        std::fs::write(settings, "{\"apiKeyHelper\": \"echo dummy\"}").unwrap();
        let availability = check(&claude, &["ANTHROPIC_API_KEY"], &[]).check().await;
        let Availability::Ready(ready) = availability else { panic!("{availability}") };
        assert!(matches!(ready.auth, AuthMethod::Login { .. }), "{:?}", ready.auth);
    }
}
