//! Case files: examples and the schema, with helpers for other tests of cases.

use std::path::{Path, PathBuf};

use serde_json::Value;
use yb_agents::Adapters;
use yb_case::config::Settings;
use yb_case::{Case, EnvVar, Isolation, LoadOptions, Loaded, PostHook, Prompt, Start};

const NAMED_TWICE: &str = "52:5: warning: evaluator named twice: `git-diff` [evaluators[4]]";

/// The directory with the example files.
pub(crate) fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

/// Options with the built-in agents.
pub(crate) fn builtin() -> LoadOptions {
    LoadOptions::new(Adapters::builtin().specs(), yb_evaluate::builtin_evaluators())
}

pub(crate) fn options() -> LoadOptions {
    let variables = [("PROJECT", "Service"), ("REPO_BASE", "https://github.com/example")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    builtin().with_variables(variables.into())
}

/// Everything found, a line each.
pub(crate) fn messages(loaded: &Loaded) -> String {
    let lines = loaded.diagnostics.iter().map(|found| {
        let key = if found.key.is_empty() { String::new() } else { format!(" [{}]", found.key) };
        format!("{}:{}: {}: {}{key}", found.line, found.column, found.severity, found.message)
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn load(name: &str, expected: &str) -> Case {
    let loaded = yb_case::load(&examples().join(name), &options());
    assert_eq!(messages(&loaded), expected, "{name}");
    Case::clone(&loaded.case.unwrap())
}

#[test]
fn basic_example_loads_from_yaml_and_json() {
    let mut yaml = load("basic.yaml", "");
    let json = load("basic.json", "");
    yaml.file.clone_from(&json.file);
    assert_eq!(yaml, json);
    assert!(!json.strict);
}

#[test]
fn case_with_all_original_keys_loads() {
    let case = load("everything-of-the-original.yaml", NAMED_TWICE);
    assert_eq!(case.name, "Service: log in with a token");
    let Start::Repo { repo, branch, commit } = &case.start else { panic!("{:?}", case.start) };
    assert_eq!(repo, "https://github.com/example/service.git");
    assert_eq!(branch.as_deref(), Some("develop"));
    assert_eq!(commit.as_ref().map(String::len), Some(40));
    let Prompt::File { path, text } = &case.agent.prompt else { panic!("{:?}", case.agent.prompt) };
    assert!(path.ends_with("prompts/token.md"));
    assert_eq!(text, "Let the service accept a token.");
    assert_eq!(case.agent.agent_name.as_deref(), Some("code-reviewer"));
    assert_eq!(case.agent.config.permission_mode.as_deref(), Some("plan"));
    assert_eq!(case.agent.config.allowed_tools.as_ref().map(Vec::len), Some(4));
    assert_eq!(case.expected, Some(yb_case::Expected::Branch("feature/token-done".to_owned())));
    let names: Vec<_> = case.evaluators.iter().map(|evaluator| evaluator.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "git-diff",
            "expected-diff",
            "agentic-judge-security",
            "agentic-judge:tests",
            "git-diff",
            "agentic-judge-coverage"
        ]
    );
    assert!(case.evaluators.iter().all(|evaluator| !evaluator.vacuous));
    let judge = format!("{:?}", case.evaluators[3].parsed);
    assert!(judge.contains(r#"prompt: Some("Look at the tests only.")"#), "{judge}");
    assert!(judge.contains(r#"instructions: Some("Judge:\n{{ASSERTIONS}}")"#), "{judge}");
    assert_eq!(judge.matches("JudgeAssertion {").count(), 2, "{judge}");
    assert_eq!(case.evaluators[4].description.as_deref(), Some("The change is small."));
    assert_eq!(case.pre_execution[0].args, ["--into", "${WORKSPACE_DIR}", "${BRANCH}"]);
    assert_eq!(case.pre_execution[0].timeout.as_secs(), 60);
    let PostHook::Webhook(hook) = &case.post_evaluation[0] else { panic!() };
    assert_eq!((hook.method.as_str(), hook.retry_on_failure), ("PUT", false));
    assert_eq!(case.environment_names(), ["SLACK_WEBHOOK_URL", "WEBHOOK_TOKEN"]);
    assert_eq!(case.timeouts.clone, case.timeouts.agent, "one timeout is for both");
    assert_eq!(case.workspace_name.as_deref(), Some("token.login-1"));
}

#[test]
fn case_with_all_own_keys_loads() {
    let case = load("everything.yaml", "");
    assert!(case.strict);
    assert!(matches!(&case.start, Start::Directory(dir) if dir.is_absolute()));
    assert_eq!(case.agent.model.as_deref(), Some("claude-opus-5-5"));
    let config = &case.agent.config;
    assert_eq!(config.max_turns, Some(30), "the agent's own section wins");
    assert!(config.trust_repo_settings);
    assert_eq!(config.extra_args, ["--betas=context-1m"]);
    assert_eq!(config.effort.as_deref(), Some("high"));
    assert_eq!(case.timeouts.clone.map(|time| time.as_secs()), Some(120));
    assert_eq!(case.timeouts.agent.map(|time| time.as_secs()), Some(0));
    assert_eq!(case.max_budget_usd, Some(1.5));
    assert_eq!(case.tags, ["shell", "size:small"]);
    let env: Vec<_> =
        case.env.iter().map(|EnvVar { name, value, .. }| (name.as_str(), value.as_deref())).collect();
    assert_eq!(env, [("GREETING", Some("Hello")), ("TOKEN", Some("${ENV:APP_TOKEN}"))]);
    assert_eq!(case.environment_names(), ["APP_TOKEN", "DOCS_TOKEN"]);
    assert_eq!(case.capture_include, ["dist/**"]);
    assert_eq!(case.isolation, Isolation::External);
}

#[test]
fn seed_examples_load() {
    let vacuous = "warning: vacuous: it asserts nothing, so it always passes: `git-diff` [evaluators[0]]";
    let case = load(
        "seed-002.yaml",
        &format!(
            "2:1: warning: missing key: `name` [name]\n\
             2:1: warning: missing key: `description` [description]\n\
             8:14: {vacuous}"
        ),
    );
    assert_eq!(case.name, "seed-002");
    assert_eq!(case.evaluators[0].name, "git-diff", "C32");
    load("seed-001.yaml", &format!("15:11: {vacuous}"));
    let case = load(
        "seed-000.yaml",
        "16:18: warning: unsupported by the CLI: `temperature` [agent.config.temperature]",
    );
    assert_eq!(case.agent.model.as_deref(), Some("claude-sonnet-4-5-20250929"));
    assert_eq!(case.agent.agent_name.as_deref(), Some("code-reviewer"));
}

#[test]
fn ignored_keys_of_original_files_are_warnings() {
    let case = load(
        "wrong-as-in-the-docs.yaml",
        "11:5: warning: `copilot-cli` has no such setting: `temperature` [agent.config.temperature]\n\
         12:5: warning: unknown key: `something_of_its_own` [agent.config.something_of_its_own]\n\
         16:7: warning: unknown key: `include_entropy` [evaluators[0].config.include_entropy]\n\
         17:21: warning: unknown key: `max_lines_changed` [evaluators[0].config.assertions.max_lines_changed]\n\
         18:11: warning: unknown evaluator: `lint` [evaluators[1].name]",
    );
    assert_eq!(case.agent.agent_name.as_deref(), Some("helper"));
    assert_eq!(case.agent.config.temperature, None);
}

#[test]
fn case_settings_are_a_config_layer() {
    let case = load("everything-of-the-original.yaml", NAMED_TWICE);
    let settings = Settings::default().with_case(&case);
    assert_eq!(settings.workspace_dir(), Path::new(".runs"));
    assert_eq!(settings.timeouts().agent.as_secs(), 600);
    assert!(
        settings.source_of("workspace_dir").unwrap().to_string().ends_with("everything-of-the-original.yaml")
    );
}

#[test]
fn committed_schema_is_up_to_date() {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/case.schema.json");
    if std::env::var_os("YB_UPDATE_SCHEMAS").is_some() {
        std::fs::write(&committed, yb_case::schema(&builtin().agents, &builtin().evaluators)).unwrap();
    }
    let committed = std::fs::read_to_string(committed).unwrap();
    assert!(
        committed == yb_case::schema(&builtin().agents, &builtin().evaluators),
        "the schema drifted; hint: run this test with `YB_UPDATE_SCHEMAS=1`"
    );
}

#[test]
fn schema_tells_the_command_evaluator_from_the_command_agent() {
    let schema: Value =
        serde_json::from_str(&yb_case::schema(&builtin().agents, &builtin().evaluators)).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let basic = std::fs::read_to_string(examples().join("basic.json")).unwrap();
    let mut case: Value = serde_json::from_str(&basic).unwrap();
    let config = serde_json::json!({ "shell": "make test", "expect": { "exit_code": [0, 3] } });
    case["evaluators"] = serde_json::json!([{ "name": "command-test", "config": config }]);
    assert!(validator.is_valid(&case));
    case["evaluators"][0]["config"]["prompt_via"] = "stdin".into();
    assert!(!validator.is_valid(&case));
}

#[test]
fn schema_agrees_with_the_decoder() {
    let schema: Value =
        serde_json::from_str(&yb_case::schema(&builtin().agents, &builtin().evaluators)).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let basic = std::fs::read_to_string(examples().join("basic.json")).unwrap();
    let basic: Value = serde_json::from_str(&basic).unwrap();
    assert!(validator.is_valid(&basic));
    let changes: [(&str, Value, bool); 14] = [
        ("/name", "".into(), false),
        ("/workspace_name", "-x".into(), false),
        ("/workspace_name", "x-1".into(), true),
        ("/timeout", 0.into(), true),
        ("/timeout", "5m".into(), true),
        ("/evaluators", Value::Array(vec![]), false),
        ("/evaluators/0", "git-diff".into(), true),
        ("/evaluators/0/config/threshold", 1.into(), false),
        ("/agent/type", "other".into(), false),
        ("/agent/config/max_tokens", 200_001.into(), false),
        ("/agent/config/permission_mode", "ask".into(), true),
        ("/isolation", "external".into(), true),
        ("/unknown", 1.into(), false),
        ("/directory", "./app".into(), false),
    ];
    for (pointer, value, valid) in changes {
        let mut document = basic.clone();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = document.pointer_mut(parent).unwrap();
        match parent {
            Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
            parent => parent[key] = value,
        }
        assert_eq!(validator.is_valid(&document), valid, "{pointer}");
        let strict = {
            document["youbencha"] = 1.into();
            document.to_string()
        };
        let loaded = yb_case::parse(&examples().join("x.json"), strict.as_bytes(), &options());
        assert_eq!(loaded.case.is_some(), valid, "{pointer}: {}", messages(&loaded));
    }
}
