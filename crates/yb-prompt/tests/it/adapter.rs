//! Conversion of prompts to queries: flattening, system prompts, precedence, tools, warnings.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use yb_claude::sdk::Hooks;
use yb_claude::sdk::event::{PreToolUse, PreToolUseOutput};
use yb_prompt::{
    AdapterOptions, ClientConfig, MemoryLoader, ModelConfig, ModelRegistry, PromptClient, PromptError,
    QueryParams, ToolRegistry, create_client,
};

fn config(file: &str) -> ClientConfig {
    ClientConfig::new().with_loader(MemoryLoader::new().with("p.prompt.mdx", file))
}

fn file(header: &str, body: &str) -> String {
    format!("---\nname: p\n{header}---\n{body}\n")
}

fn query(client: &PromptClient, props: &Value) -> Result<(String, Value), PromptError> {
    let prompt = client.load_prompt("p.prompt.mdx")?;
    Ok(match client.format(&prompt, props, &yb_prompt::AdaptOptions::default())? {
        QueryParams::Text(params) => (params.prompt, params.options.to_json()),
        QueryParams::Object(params) => (params.prompt, params.options.to_json()),
    })
}

const TEXT: &str = "text_config:\n  model_name: m\n";

#[test]
fn messages_are_flattened_without_names() {
    let body = "<System>Rules.</System>\n<System>ignored</System>\n<User>One <ImageAttachment image=\"x\"/></User>\n<Assistant>Two</Assistant>\n<User>{props.gone}</User>\n<User>\n  <FileAttachment data=\"x\" mimeType=\"text/plain\"/>\n  Three\n</User>";
    let client = create_client(config(&file(TEXT, body)));
    let (prompt, options) = query(&client, &json!({})).unwrap();
    assert_eq!(prompt, "One\n[Attached image]\n\nTwo\n\n[Attached file]\nThree");
    assert_eq!(options, json!({"model": "m", "permissionMode": "default", "systemPrompt": "Rules."}));
    let kept = client.load_text_prompt("p.prompt.mdx").unwrap().format(&json!({})).unwrap().messages;
    assert_eq!(kept.len(), 6);
}

#[test]
fn preset_precedes_the_system_message() {
    let mut options = AdapterOptions::default();
    options.system_prompt_preset = true;
    let with = |body: &str| {
        let client = create_client(config(&file(TEXT, body)).with_options(options.clone()));
        query(&client, &json!({})).unwrap().1["systemPrompt"].clone()
    };
    let preset = json!({"type": "preset", "preset": "claude_code"});
    assert_eq!(with("<User>x</User>"), preset);
    let mut appended = preset;
    appended["append"] = json!("Rules.");
    assert_eq!(with("<System>Rules.</System>\n<User>x</User>"), appended);
    let client = create_client(config(&file(TEXT, "<User>x</User>")));
    assert_eq!(query(&client, &json!({})).unwrap().1.get("systemPrompt"), None);
}

#[test]
fn c24_prompt_overrides_adapter_options() {
    let options = json!({
        "maxTurns": 9, "maxBudgetUsd": 0.5, "permissionMode": "plan", "cwd": "/work",
        "allowedTools": ["Read"], "disallowedTools": ["Bash"],
    });
    let options = AdapterOptions::from_json(&options).unwrap();
    let models = ModelRegistry::create_default()
        .register_models("smart", |_| ModelConfig::new("opus").with_max_thinking_tokens(4000));
    let header = "text_config:\n  model_name: smart\n  max_calls: 2\n  tools: [Grep, 'mcp://db/query']\n";
    let client = create_client(
        config(&file(header, "<User>x</User>")).with_options(options.clone()).with_models(models),
    );
    let expected = json!({
        "model": "opus", "maxThinkingTokens": 4000, "maxTurns": 2, "maxBudgetUsd": 0.5, "permissionMode": "plan",
        "cwd": "/work", "allowedTools": ["Read", "Grep", "mcp__db__query"], "disallowedTools": ["Bash"],
    });
    assert_eq!(query(&client, &json!({})).unwrap().1, expected);
    let client = create_client(config(&file(TEXT, "<User>x</User>")).with_options(options));
    assert_eq!(query(&client, &json!({})).unwrap().1["maxTurns"], 9);
}

#[test]
fn ignored_options_and_tools_are_warned_about_once() {
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let header = "text_config:\n  model_name: m\n  temperature: 0.5\n  top_p: 1\n  tools:\n    gone: { description: d }\n";
    let sink = Arc::clone(&warnings);
    let client = create_client(
        config(&file(header, "<User>x</User>"))
            .with_on_warning(move |text| sink.lock().unwrap().push(text.to_owned())),
    );
    for _ in 0..3 {
        let (_, options) = query(&client, &json!({})).unwrap();
        assert_eq!(options.get("mcpServers"), None);
    }
    assert_eq!(
        *warnings.lock().unwrap(),
        [
            "options of `text_config` in `p` are not supported by the Claude Agent SDK and ignored: `temperature`, `top_p`",
            "tools of `p` are not registered and ignored: `gone`",
        ]
    );
}

/// As in AgentMark's examples, whose headers list the names of functions.
#[test]
fn listed_names_are_registered_functions_or_tools_or_warned_about() {
    let header = "text_config:\n  model_name: m\n  tools: [calculate, lookup, Read, 'mcp://a/b', mcp__a__c, 'Bash(git *)']\n";
    let schema = json!({"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]});
    let tools =
        ToolRegistry::new()
            .register_described("calculate", "Calculates.", schema, |_: Value| async { Ok::<_, String>(1) });
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&warnings);
    let config = config(&file(header, "<User>x</User>")).with_tools(tools);
    let client =
        create_client(config.with_on_warning(move |text| sink.lock().unwrap().push(text.to_owned())));
    let (_, options) = query(&client, &json!({})).unwrap();
    assert_eq!(
        options["allowedTools"],
        json!(["Read", "mcp__a__b", "mcp__a__c", "Bash(git *)", "mcp__prompt-tools__calculate"])
    );
    assert_eq!(*warnings.lock().unwrap(), ["tools of `p` are not registered and ignored: `lookup`"]);
}

#[test]
fn registered_tools_are_served_and_hooks_are_combined() {
    let header = "object_config:\n  model_name: m\n  schema: { type: object }\n  schema_name: thing\n  tools:\n    add: { description: Adds, parameters: { type: object } }\n";
    let hook = || Hooks::new().on("Bash", |_: PreToolUse, _cx| async { PreToolUseOutput::new() });
    let tools = ToolRegistry::new().register("add", |_: Value| async { Ok::<_, String>(1) });
    let client = create_client(config(&file(header, "<User>x</User>")).with_tools(tools).with_hooks(hook()));
    let prompt = client.load_prompt("p.prompt.mdx").unwrap();
    let options = yb_prompt::AdaptOptions::default().with_hooks(hook());
    let QueryParams::Object(params) = client.format(&prompt, &json!({}), &options).unwrap() else { panic!() };
    assert_eq!(
        params.options.to_json(),
        json!({
            "model": "m", "permissionMode": "default", "allowedTools": ["mcp__prompt-tools__add"],
            "mcpServers": {"prompt-tools": {"type": "sdk", "tools": ["mcp__prompt-tools__add"]}},
            "hooks": 2,
            "outputFormat": {"type": "json_schema", "schema": {"type": "object"}},
        })
    );
    assert!(params.check(&json!({})).is_ok() && params.check(&json!([])).is_err());
    assert_eq!(client.adapter().hooks().len(), 1);
}

#[test]
fn images_and_speech_are_unsupported_with_an_alternative() {
    for (header, body, what) in [
        ("image_config:\n  model_name: m\n  size: 1x1\n", "<ImagePrompt>A cat</ImagePrompt>", "images"),
        ("speech_config:\n  model_name: m\n", "<SpeechPrompt>Hi</SpeechPrompt>", "speech"),
    ] {
        let client = create_client(config(&file(header, body)));
        let error = query(&client, &json!({})).unwrap_err();
        assert!(matches!(error, PromptError::Unsupported { .. }));
        assert_eq!(error.to_string(), format!("the Claude Agent SDK can't generate {what}: `p`"));
        assert!(error.hints()[0].contains("text_config"), "{:?}", error.hints());
        let error = client.load_text_prompt("p.prompt.mdx").unwrap_err();
        assert!(matches!(error, PromptError::WrongKind { expected: "text_config", .. }), "{error}");
    }
}
