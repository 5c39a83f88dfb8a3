//! Isolation, network and limits of suites and variants: the strictest value wins.

use crate::case::builtin;
use yb_case::suite;
use yb_case::{Isolation, NetworkMode};

fn load(suite_keys: &str, variant_keys: &str, case_keys: &str) -> std::sync::Arc<yb_case::Case> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("tree")).unwrap();
    let text = format!(
        "youbencha: 1
name: guarded
{suite_keys}
cases:
  - name: one
    description: It is held.
    directory: tree
    agent: {{ type: command, config: {{ prompt: Do the work., command: {{ argv: [\"true\"] }} }} }}
    evaluators: [git-diff]
    {case_keys}
variants:
  - name: held
    {variant_keys}
"
    );
    let path = dir.path().join("suite.yaml");
    std::fs::write(&path, text).unwrap();
    let loaded = suite::load(&path, &builtin());
    let suite = loaded.suite.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics));
    suite.combinations[0].case.clone()
}

#[test]
fn strictest_isolation_wins() {
    for (suite, variant, case, expected) in [
        ("", "", "", Isolation::Auto),
        ("isolation: landlock", "", "", Isolation::Landlock),
        ("isolation: landlock", "isolation: bubblewrap", "", Isolation::Bubblewrap),
        ("", "isolation: none", "isolation: bubblewrap", Isolation::Bubblewrap),
        ("isolation: none", "", "isolation: landlock", Isolation::Landlock),
        ("", "isolation: bubblewrap", "isolation: landlock", Isolation::Bubblewrap),
        ("isolation: external", "", "", Isolation::External),
    ] {
        assert_eq!(load(suite, variant, case).isolation, expected, "{suite}/{variant}/{case}");
    }
}

#[test]
fn strictest_network_mode_wins() {
    let named = "network: { mode: model-only, allow: [example.org] }";
    for (suite, variant, case, expected, allow) in [
        ("", "", "", None, 0),
        ("network: none", "", "", Some(NetworkMode::None), 0),
        ("network: none", "network: open", named, Some(NetworkMode::None), 0),
        ("", "network: open", named, Some(NetworkMode::ModelOnly), 1),
        ("", "network: model-only", named, Some(NetworkMode::ModelOnly), 1),
        ("", named, "network: open", Some(NetworkMode::ModelOnly), 1),
    ] {
        let network = load(suite, variant, case).network.clone();
        assert_eq!(network.as_ref().map(|network| network.mode), expected, "{suite}/{variant}/{case}");
        assert_eq!(network.map_or(0, |network| network.allow.len()), allow, "{suite}/{variant}/{case}");
    }
}

#[test]
fn lowest_limit_wins() {
    let case = load(
        "limits: { memory_mb: 500, processes: 9 }",
        "limits: { memory_mb: 900, cpu_seconds: 5 }",
        "limits: { memory_mb: 0, disk_mb: 7 }",
    );
    let limits: Vec<_> = case.limits.iter().collect();
    assert_eq!(
        limits,
        [("memory_mb", Some(500)), ("processes", Some(9)), ("cpu_seconds", Some(5)), ("disk_mb", Some(7))]
    );
}
