//! `.youbencharc`: its layers, where each value came from, and what is wrong in it.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use yb_case::config::{ConfigSource, FILE_NAMES, Settings, environment_name};
use yb_yaml::diagnostic::Diagnostic;

struct Dirs {
    root: TempDir,
}

impl Dirs {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for name in ["home", "project"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        Self { root }
    }

    fn write(&self, file: &str, text: &str) -> PathBuf {
        let path = self.root.path().join(file);
        fs::write(&path, text).unwrap();
        path
    }

    fn load(&self) -> (Settings, Vec<Diagnostic>) {
        Settings::from_files(Some(&self.root.path().join("home")), &self.root.path().join("project"))
    }

    fn said(&self) -> Vec<String> {
        let found = self.load().1;
        found
            .iter()
            .map(|found| format!("{}:{} {}: {}", found.line, found.column, found.severity, found.message))
            .collect()
    }
}

#[test]
fn the_defaults_are_those_of_the_surface() {
    let settings = Settings::default();
    assert_eq!(settings.workspace_dir(), PathBuf::from(".youbencha-workspace"));
    assert_eq!(settings.output_dir(), PathBuf::from(".youbencha-eval"));
    assert_eq!(settings.timeouts().agent.as_millis(), 300_000, "C2");
    assert_eq!(settings.log_level(), "info");
    assert!(settings.keep_workspace());
    assert!(settings.variables().is_empty());
    assert_eq!(settings.max_concurrent_evaluators(), 4);
    assert_eq!(settings.model(), None);
    assert_eq!(settings.source_of("workspace_dir"), Some(&ConfigSource::Default));
}

#[test]
fn every_layer_wins_over_the_one_before() {
    let dirs = Dirs::new();
    let user = dirs.write(
        "home/.youbencharc",
        "workspace_dir: a\noutput_dir: a\nlog_level: debug\ntimeout_ms: 1\nvariables: { A: user, B: user }\n",
    );
    let project = dirs.write(
        "project/.youbencharc.json",
        r#"{"output_dir": "b", "timeout_ms": 2, "log_level": "warn", "variables": {"B": "project"}}"#,
    );
    let (settings, found) = dirs.load();
    assert_eq!(found, []);
    let environment = [("YB_TIMEOUT_MS", "3"), ("YB_LOG_LEVEL", "error"), ("YB_OTHER", "x"), ("HOME", "x")];
    let (settings, found) =
        settings.with_environment(environment.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(found, []);
    let settings = settings.with_argument("log_level", "info");
    assert_eq!(settings.source_of("keep_workspace"), Some(&ConfigSource::Default));
    assert_eq!(settings.source_of("workspace_dir"), Some(&ConfigSource::User(user.clone())));
    assert_eq!(settings.source_of("output_dir"), Some(&ConfigSource::Project(project.clone())));
    assert_eq!(settings.source_of("timeout_ms"), Some(&ConfigSource::Environment("YB_TIMEOUT_MS".into())));
    assert_eq!(settings.source_of("log_level"), Some(&ConfigSource::CommandLine));
    assert_eq!(settings.source_of("variables.A"), Some(&ConfigSource::User(user)));
    assert_eq!(settings.source_of("variables.B"), Some(&ConfigSource::Project(project)));
    assert_eq!(settings.timeouts().clone.as_millis(), 3);
    assert_eq!(settings.variables()["B"], "project");
    assert_eq!(settings.source_of("nothing"), None);
}

#[test]
fn files_are_looked_for_in_the_originals_order() {
    let dirs = Dirs::new();
    for (at, name) in FILE_NAMES.iter().enumerate().rev() {
        let text = format!("{{\"timeout_ms\": {}}}", at + 1);
        dirs.write(&format!("project/{name}"), &text);
        assert_eq!(dirs.load().0.timeouts().agent.as_millis(), at as u128 + 1, "{name}");
    }
}

#[test]
fn an_unknown_key_is_a_warning_and_the_rest_counts() {
    let dirs = Dirs::new();
    dirs.write(
        "project/.youbencharc",
        "workspce_dir: x\noutput_dir: y\nagent: { timeout: 5, timeout_ms: 7 }\n",
    );
    assert_eq!(
        dirs.said(),
        ["1:1 warning: unknown key: `workspce_dir`", "3:10 warning: unknown key: `timeout`"]
    );
    let (settings, found) = dirs.load();
    assert_eq!(found[0].hint.as_deref(), Some("did you mean `workspace_dir`?"));
    assert_eq!(settings.output_dir(), PathBuf::from("y"));
    assert_eq!((settings.timeouts().agent.as_millis(), settings.timeouts().clone.as_millis()), (7, 300_000));
}

#[test]
fn a_wrong_value_is_an_error() {
    for (text, message) in [
        ("workspace_dir: 5", "1:16 error: wrong value: `5`"),
        ("timeout_ms: 0", "1:13 error: wrong value: `0`"),
        ("log_level: loud", "1:12 error: wrong value: `loud`"),
        ("keep_workspace: yes", "1:17 error: wrong value: `yes`"),
        ("variables: { A: 1 }", "1:17 error: wrong value: `1`"),
        ("agent: { timeout_ms: 1.5 }", "1:22 error: wrong value: `1.5`"),
        ("agent: { model: a b }", "1:17 error: wrong value: `a b`"),
        ("evaluators: { max_concurrent: 0 }", "1:31 error: wrong value: `0`"),
        ("[]", "1:1 error: wrong value: a list"),
    ] {
        let dirs = Dirs::new();
        dirs.write("home/.youbencha.yml", text);
        assert_eq!(dirs.said(), [message], "{text}");
    }
    let environment = [("YB_KEEP_WORKSPACE".to_owned(), "maybe".to_owned())];
    let (settings, found) = Settings::default().with_environment(environment);
    assert_eq!((found.len(), settings.keep_workspace()), (1, true));
    assert_eq!(environment_name("agent.timeout_ms"), "YB_AGENT_TIMEOUT_MS");
}

#[test]
fn a_file_of_comments_says_nothing() {
    let dirs = Dirs::new();
    dirs.write("project/.youbencharc", "# workspace_dir: x\n\n");
    assert_eq!(dirs.said(), Vec::<String>::new());
}
