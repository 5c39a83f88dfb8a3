//! Models and tools by name.

use regex::Regex;
use serde_json::{Value, json};
use yb_prompt::{ModelConfig, ModelRegistry, PromptError, ToolRegistry};

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap()
}

fn named(model: &'static str) -> impl Fn(&str) -> ModelConfig + Send + Sync + 'static {
    move |_| ModelConfig::new(model)
}

#[test]
fn model_lookup_prefers_exact_then_pattern_then_provider_then_default() {
    let models = ModelRegistry::new()
        .register_models(regex("^claude"), named("first pattern"))
        .register_models(regex("opus"), named("second pattern"))
        .register_models("claude-opus", named("exact"))
        .register_models(["one", "two"], named("list"))
        .register_provider("anthropic", |rest| ModelConfig::new(format!("provider {rest}")))
        .with_default(|name| ModelConfig::new(format!("default {name}")));
    for (name, expected) in [
        ("claude-opus", "exact"),
        ("claude-opus-2", "first pattern"),
        ("my-opus", "second pattern"),
        ("two", "list"),
        ("anthropic/sonnet", "provider sonnet"),
        ("anthropic/opus", "second pattern"),
        ("anthropic/", "default anthropic/"),
        ("other/sonnet", "default other/sonnet"),
        ("x", "default x"),
    ] {
        assert_eq!(models.get_model_config(name).unwrap().model, expected, "{name}");
    }
}

#[test]
fn last_registration_of_a_model_wins() {
    let models = ModelRegistry::new().register_models("a", named("old")).register_models(["a"], named("new"));
    assert_eq!(models.get_model_config("a").unwrap().model, "new");
}

#[test]
fn model_is_unknown_without_a_default() {
    let models = ModelRegistry::new()
        .register_models("a", |name| ModelConfig::new(name).with_max_thinking_tokens(1000));
    assert!(models.has_model("a") && !models.has_model("b") && !models.has_model(""));
    assert_eq!(models.get_model_config("a").unwrap().max_thinking_tokens, Some(1000));
    let error = models.get_model_config("b").unwrap_err();
    assert!(matches!(&error, PromptError::UnknownModel { name } if name == "b"), "{error}");
    let all = ModelRegistry::create_default();
    assert!(all.has_model("anything") && !all.has_model(" "));
    assert_eq!(all.get_model_config("anything").unwrap(), ModelConfig::new("anything"));
}

#[tokio::test]
async fn tools_are_typed_and_chainable() {
    #[derive(serde::Deserialize)]
    struct Add {
        a: i64,
        b: i64,
    }
    let tools = ToolRegistry::new()
        .register("add", |args: Add| async move { Ok::<_, String>(json!({"sum": args.a + args.b})) })
        .register("text", |_: Value| async { Ok::<_, String>("as it is") })
        .register("fails", |_: Value| async { Err::<(), _>("no luck") });
    assert_eq!(tools.tool_names(), ["add", "fails", "text"]);
    assert!(tools.has("add") && !tools.has("sub") && tools.get("sub").is_none());
    let call = |name: &str, arguments: Value| {
        let tool = tools.get(name).unwrap().clone();
        async move { tool.call(arguments).await }
    };
    assert_eq!(call("add", json!({"a": 1, "b": 2})).await.unwrap(), "{\n  \"sum\": 3\n}");
    assert_eq!(call("text", json!({})).await.unwrap(), "as it is");
    assert_eq!(call("fails", json!({})).await.unwrap_err(), "no luck");
    assert!(call("add", json!({"a": "x"})).await.unwrap_err().starts_with("invalid arguments: "));
}
