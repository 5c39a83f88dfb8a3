//! Validation rules V1 to V6. V7 and V8 are about tracing.

use serde_json::{Value, json};
use yb_prompt::{
    AdaptOptions, Adapter, AdapterOptions, ClaudeAgentObjectParams, MemoryLoader, ModelRegistry,
    ModelSettings, ObjectConfig, ObjectSettings, Prompt, PromptError, PromptTool, RichChatMessage, Role,
    TextConfig, ToolRegistry,
};

fn adapter(options: AdapterOptions) -> Adapter {
    Adapter::new(ModelRegistry::create_default(), ToolRegistry::new()).with_options(options)
}

fn text(settings: ModelSettings) -> TextConfig {
    let messages = vec![RichChatMessage::text(Role::User, "Hello")];
    TextConfig { name: "p".to_owned(), messages, text_config: settings }
}

fn adapt(settings: ModelSettings, options: AdapterOptions) -> Result<(), String> {
    let adapted = adapter(options).adapt_text(&text(settings), &AdaptOptions::default());
    adapted.map(drop).map_err(|error| error.to_string())
}

fn options(value: &Value) -> Result<AdapterOptions, String> {
    AdapterOptions::from_json(value).map_err(|error| error.to_string())
}

/// Returns the error of a prompt file with this header.
fn header(text_config: &str) -> String {
    let file = format!("---\ntext_config:\n{text_config}---\n<User>x</User>\n");
    let loader = MemoryLoader::new().with("p.prompt.mdx", file);
    Prompt::load("p.prompt.mdx", &loader).map_or_else(|error| error.to_string(), |_| "fine".to_owned())
}

#[test]
fn v1_model_name_is_not_empty() {
    for empty in ["", "  "] {
        let error = adapt(ModelSettings::new(empty), AdapterOptions::default()).unwrap_err();
        assert_eq!(error, "`model`: expected a non-empty name");
    }
    assert_eq!(header("  model_name: ''\n"), "p.prompt.mdx:3:15: `model_name`: expected a non-empty string");
    assert_eq!(header("  max_calls: 1\n"), "p.prompt.mdx:3:3: missing `model_name`");
    assert_eq!(header("  model_name: 7\n"), "p.prompt.mdx:3:15: `model_name`: expected a non-empty string");
    assert_eq!(adapt(ModelSettings::new("m"), AdapterOptions::default()), Ok(()));
}

#[test]
fn v2_tool_parameters_are_json_schema() {
    let wrong = json!({"type": "nonsense"});
    let tools = ToolRegistry::new().register("t", |_: Value| async { Ok::<_, String>("x") });
    let registered = Adapter::new(ModelRegistry::create_default(), tools);
    let settings =
        ModelSettings { tools: vec![PromptTool::function("t", "d", wrong)], ..ModelSettings::new("m") };
    // Unregistered tools are checked too.
    for adapter in [registered, adapter(AdapterOptions::default())] {
        let error = adapter.adapt_text(&text(settings.clone()), &AdaptOptions::default()).unwrap_err();
        assert!(
            matches!(&error, PromptError::Invalid { field, .. } if field == "tools.t.parameters"),
            "{error}"
        );
    }
    let error = header("  model_name: m\n  tools:\n    t:\n      parameters: { type: nonsense }\n");
    assert!(
        error.starts_with("p.prompt.mdx:6:19: `tools.t.parameters`: not a valid JSON Schema: "),
        "{error}"
    );
    let remote =
        header("  model_name: m\n  tools:\n    t:\n      parameters: { $ref: 'http://x.example/s' }\n");
    assert!(remote.contains("not a valid JSON Schema"), "{remote}");
    assert_eq!(header("  model_name: m\n  tools:\n    t:\n      parameters: { type: object }\n"), "fine");
}

#[test]
fn v3_permission_modes_are_a_closed_set() {
    // The modes are compared with those of the official SDK in `yb-claude`, by the same list.
    for mode in yb_claude::PermissionMode::ALL {
        let read = options(&json!({"permissionMode": mode.as_str()})).unwrap();
        assert_eq!(read.permission_mode, Some(*mode));
        let query = adapter(read).adapt_text(&text(ModelSettings::new("m")), &AdaptOptions::default());
        assert_eq!(query.unwrap().options.to_json()["permissionMode"], mode.as_str());
    }
    for wrong in [json!("yolo"), json!(""), json!(1), json!("Default")] {
        let error = options(&json!({"permission_mode": wrong})).unwrap_err();
        assert!(error.starts_with("`permission_mode`: expected "), "{error}");
    }
}

#[test]
fn v4_turns_are_a_positive_integer() {
    for wrong in [json!(0), json!(-1), json!(1.5), json!("3")] {
        let error = options(&json!({"maxTurns": wrong})).unwrap_err();
        assert!(error.starts_with("`maxTurns`: expected a whole number of at least 1"), "{error}");
        let error = header(&format!("  model_name: m\n  max_calls: {wrong}\n"));
        assert_eq!(error, "p.prompt.mdx:4:14: `max_calls`: expected a whole number of at least 1", "{wrong}");
    }
    let zero = ModelSettings { max_calls: Some(0), ..ModelSettings::new("m") };
    assert!(adapt(zero, AdapterOptions::default()).is_err());
    let mut set = AdapterOptions::default();
    set.max_turns = Some(0);
    assert!(adapt(ModelSettings::new("m"), set).is_err());
    assert_eq!(options(&json!({"maxTurns": 3})).unwrap().max_turns, Some(3));
}

#[test]
fn v5_budget_is_above_zero() {
    for wrong in [json!(0), json!(-0.5), json!("1")] {
        let error = options(&json!({"maxBudgetUsd": wrong})).unwrap_err();
        assert!(error.starts_with("`maxBudgetUsd`: expected a number above 0"), "{error}");
    }
    for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let mut set = AdapterOptions::default();
        set.max_budget_usd = Some(wrong);
        assert_eq!(
            adapt(ModelSettings::new("m"), set),
            Err("`maxBudgetUsd`: expected a number above 0".to_owned())
        );
    }
    assert_eq!(options(&json!({"max_budget_usd": 0.25})).unwrap().max_budget_usd, Some(0.25));
}

#[test]
fn v6_object_schema_is_json_schema() {
    let object = |schema: Value| {
        let model = ModelSettings::new("m");
        let object_config = ObjectSettings { model, schema, schema_name: None, schema_description: None };
        let messages = vec![RichChatMessage::text(Role::User, "Hello")];
        let config = ObjectConfig { name: "p".to_owned(), messages, object_config };
        let adapted: Result<ClaudeAgentObjectParams, _> =
            adapter(AdapterOptions::default()).adapt_object(&config, &AdaptOptions::default());
        adapted.map(drop).map_err(|error| error.to_string())
    };
    for wrong in [json!("object"), json!({"type": 3}), json!({"properties": []}), json!(null)] {
        let error = object(wrong.clone()).unwrap_err();
        assert!(error.starts_with("`outputFormat.schema`: not a valid JSON Schema: "), "{wrong}: {error}");
    }
    assert_eq!(object(json!({"type": "object", "properties": {"a": {"type": "string"}}})), Ok(()));
    let file = "---\nobject_config:\n  model_name: m\n  schema: { type: nonsense }\n---\n<User>x</User>\n";
    let loader = MemoryLoader::new().with("p.mdx", file);
    let error = Prompt::load("p.mdx", &loader).unwrap_err().to_string();
    assert!(error.starts_with("p.mdx:4:11: `schema`: not a valid JSON Schema: "), "{error}");
}
