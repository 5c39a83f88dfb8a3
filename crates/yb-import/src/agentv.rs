//! Eval files of AgentV: each test is a case.

use std::path::Path;

use serde_json::{Value, json};

use crate::output::CaseDraft;
use crate::{Format, ImportError, ImportOptions, ImportedSuite, assertions, document};

const KNOWN: &[&str] = &[
    "name",
    "description",
    "category",
    "version",
    "author",
    "tags",
    "license",
    "requires",
    "input",
    "tests",
    "eval_cases",
    "assertions",
    "assert",
    "$schema",
];

pub(crate) fn import(path: &Path, options: &ImportOptions) -> Result<ImportedSuite, ImportError> {
    let document = document::read(path)?;
    let place = path.display().to_string();
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let mut suite = ImportedSuite::new(document["name"].as_str().unwrap_or(&stem), Format::AgentV);
    for (key, value) in document.as_object().into_iter().flatten() {
        if matches!(key.as_str(), "target" | "providers") {
            suite.note(&place, format!("`{key}` is replaced by the agent `{}`", options.agent));
        } else if !KNOWN.contains(&key.as_str()) && !value.is_null() {
            suite.note(&place, format!("`{key}` is left out"));
        }
    }
    let tests = [&document["tests"], &document["eval_cases"]].into_iter().find_map(Value::as_array);
    let Some(tests) = tests else {
        return Err(ImportError::invalid(place, "`tests` is not a list; files with tests are not supported"));
    };
    for (at, test) in tests.iter().enumerate() {
        let name = test["id"].as_str().map_or_else(|| format!("test-{}", at + 1), str::to_owned);
        add(&mut suite, &name, &document, test, options);
    }
    Ok(suite)
}

fn add(suite: &mut ImportedSuite, name: &str, document: &Value, test: &Value, options: &ImportOptions) {
    let mut prompt = Vec::new();
    let mut system = Vec::new();
    for input in [&document["input"], &test["input"]] {
        if let Err(reason) = read_input(input, &mut prompt, &mut system) {
            return suite.note(name, format!("left out: {reason}"));
        }
    }
    if prompt.is_empty() {
        return suite.note(name, "left out: no `input`");
    }
    let mut draft = CaseDraft::new(name, prompt.join("\n\n"));
    draft.config.insert("permission_mode".to_owned(), json!("bypassPermissions"));
    if !system.is_empty() {
        draft.config.insert("append_system_prompt".to_owned(), json!(system.join("\n\n")));
    }
    let lists = [&document["assertions"], &document["assert"], &test["assertions"], &test["assert"]];
    for assertion in lists.into_iter().filter_map(Value::as_array).flatten() {
        // A text is a criterion of a judge.
        let converted = match assertion.as_str() {
            Some(text) => Ok(vec![json!({ "type": "llm", "criteria": text })]),
            None => assertions::convert(assertion),
        };
        match converted {
            Ok(graders) => draft.graders.extend(graders),
            Err(reason) => suite.note(name, format!("assertion left out: {reason}")),
        }
    }
    let expected = match &test["expected_output"] {
        Value::String(text) => Some(text.clone()),
        _ => None,
    };
    let criteria = test["criteria"].as_str();
    if let Some(criteria) = criteria.map(str::to_owned).or_else(|| {
        let is_only = draft.graders.is_empty();
        expected.as_ref().filter(|_| is_only).map(|text| format!("The answer agrees with: {text}"))
    }) {
        let with = expected.as_ref().filter(|_| test["criteria"].is_string());
        let with = with.map(|text| format!("\nExpected: {text}")).unwrap_or_default();
        draft
            .graders
            .push(json!({ "name": "criteria", "type": "llm", "criteria": format!("{criteria}{with}") }));
    }
    draft.description = criteria.map(str::to_owned);
    for key in ["execution", "conversation_id", "workspace"] {
        if !test[key].is_null() {
            suite.note(name, format!("`{key}` is left out"));
        }
    }
    if draft.graders.is_empty() {
        return suite.note(name, "left out: no assertion that can be graded");
    }
    suite.case(draft, options);
}

/// Reads a text, or a list of messages.
fn read_input(input: &Value, prompt: &mut Vec<String>, system: &mut Vec<String>) -> Result<(), String> {
    match input {
        Value::Null => Ok(()),
        Value::String(text) => {
            prompt.push(text.clone());
            Ok(())
        }
        Value::Array(messages) => {
            for message in messages {
                let text = match &message["content"] {
                    Value::String(text) => text.clone(),
                    _ => return Err("a message whose content is not a text".to_owned()),
                };
                match message["role"].as_str() {
                    Some("system") => system.push(text),
                    Some("user") | None => prompt.push(text),
                    Some(role) => return Err(format!("messages of `{role}` are not supported")),
                }
            }
            Ok(())
        }
        _ => Err("`input` is neither a text nor a list of messages".to_owned()),
    }
}
