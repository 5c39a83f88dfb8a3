//! Whether the real CLI can be used: its version, and what it says about its login.

use yb_claude::{Auth, Availability, AvailabilityCheck};
use yb_testkit::RealClaude;

/// A check in its private environment, without the variables of these names and with these others.
fn check(claude: &RealClaude, without: &[&str], with: &[(&str, &str)]) -> AvailabilityCheck {
    let env =
        claude.env("http://127.0.0.1:9").into_iter().filter(|(name, _)| !without.contains(&name.as_str()));
    let with = with.iter().map(|(name, value)| ((*name).to_owned(), (*value).into()));
    AvailabilityCheck::new(env.chain(with)).program(claude.program()).shim(yb_testkit::bin("yb-shim"))
}

mod real_claude {
    use super::*;

    #[tokio::test]
    async fn cr_1_1_and_1_4_it_is_ready_and_says_its_version() {
        let claude = RealClaude::new();
        let availability = check(&claude, &[], &[]).check().await;
        let Availability::Ready(ready) = availability else { panic!("{availability}") };
        assert_eq!(ready.version.to_string(), RealClaude::pinned_version());
        assert_eq!(ready.auth, Auth::Variable("ANTHROPIC_API_KEY"));
        assert_eq!(ready.path, claude.program());
    }

    #[tokio::test]
    async fn cr_1_3_without_a_key_it_is_not_authenticated() {
        let claude = RealClaude::new();
        let availability = check(&claude, &["ANTHROPIC_API_KEY"], &[]).check().await;
        assert!(matches!(availability, Availability::NotAuthenticated { .. }), "{availability}");
    }

    #[tokio::test]
    async fn cr_1_3_what_it_says_itself_counts() {
        let claude = RealClaude::new();
        let settings = claude.private().join("config/settings.json");
        std::fs::write(settings, "{\"apiKeyHelper\": \"echo dummy\"}").unwrap();
        let availability = check(&claude, &["ANTHROPIC_API_KEY"], &[]).check().await;
        let Availability::Ready(ready) = availability else { panic!("{availability}") };
        assert!(matches!(ready.auth, Auth::Login { .. }), "{:?}", ready.auth);
    }
}
