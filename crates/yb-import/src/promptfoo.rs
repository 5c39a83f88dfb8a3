//! Configurations of promptfoo: each prompt with each test is a case.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::output::CaseDraft;
use crate::{Format, ImportError, ImportOptions, ImportedSuite, assertions, document};

/// Keys that need nothing, or that are read below.
const KNOWN: &[&str] =
    &["description", "prompts", "tests", "defaultTest", "providers", "$schema", "tags", "metadata"];

pub(crate) fn import(path: &Path, options: &ImportOptions) -> Result<ImportedSuite, ImportError> {
    let document = document::read(path)?;
    let invalid = |reason: &str| ImportError::invalid(path.display().to_string(), reason);
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let mut suite = ImportedSuite::new(document["description"].as_str().unwrap_or(&stem), Format::Promptfoo);
    let place = path.display().to_string();
    if !document["providers"].is_null() {
        suite.note(&place, format!("`providers` are replaced by the agent `{}`", options.agent));
    }
    for key in document.as_object().ok_or_else(|| invalid("not a mapping"))?.keys() {
        if !KNOWN.contains(&key.as_str()) {
            suite.note(&place, format!("`{key}` is left out"));
        }
    }
    let prompts = prompts(path, &document["prompts"], &mut suite)?;
    let tests = document["tests"].as_array();
    let Some(tests) = tests else {
        return Err(invalid("`tests` is not a list; files with tests are not supported"));
    };
    for (at, test) in tests.iter().enumerate() {
        for (number, prompt) in prompts.iter().enumerate() {
            let name = test["description"].as_str().map_or_else(|| format!("test-{}", at + 1), str::to_owned);
            let name = if prompts.len() > 1 { format!("{name} prompt {}", number + 1) } else { name };
            add(&mut suite, &name, prompt, &document["defaultTest"], test, options);
        }
    }
    Ok(suite)
}

fn prompts(path: &Path, value: &Value, suite: &mut ImportedSuite) -> Result<Vec<String>, ImportError> {
    let one = std::slice::from_ref(value);
    let items = value.as_array().map_or(one, Vec::as_slice);
    let mut prompts = Vec::new();
    for item in items {
        let text = item.as_str().or_else(|| item["raw"].as_str());
        match text.map(|text| (text, text.strip_prefix("file://"))) {
            Some((_, Some(file))) if file.ends_with(".txt") || file.ends_with(".md") => {
                prompts.push(document::read_text(&path.with_file_name(file))?);
            }
            Some((text, None)) => prompts.push(text.to_owned()),
            _ => suite.note("prompts", format!("left out: {item}")),
        }
    }
    Ok(prompts)
}

fn add(
    suite: &mut ImportedSuite,
    name: &str,
    prompt: &str,
    default: &Value,
    test: &Value,
    options: &ImportOptions,
) {
    let mut vars = Map::new();
    for source in [&default["vars"], &test["vars"]] {
        vars.extend(source.as_object().cloned().unwrap_or_default());
    }
    let prompt = match render(prompt, &vars) {
        Ok(prompt) => prompt,
        Err(reason) => return suite.note(name, format!("left out: {reason}")),
    };
    let mut draft = CaseDraft::new(name, prompt);
    draft.config.insert("permission_mode".to_owned(), json!("bypassPermissions"));
    draft.threshold = test["threshold"].as_f64().or(default["threshold"].as_f64());
    let all = [&default["assert"], &test["assert"]].into_iter().filter_map(Value::as_array).flatten();
    for assertion in all {
        let rendered = render_value(assertion, &vars);
        match rendered.and_then(|assertion| assertions::convert(&assertion)) {
            Ok(graders) => draft.graders.extend(graders),
            Err(reason) => suite.note(name, format!("assertion left out: {reason}")),
        }
    }
    for key in ["options", "provider", "providers"] {
        if !test[key].is_null() {
            suite.note(name, format!("`{key}` is left out"));
        }
    }
    if draft.graders.is_empty() {
        return suite.note(name, "left out: no assertion that can be graded");
    }
    suite.case(draft, options);
}

fn render_value(value: &Value, vars: &Map<String, Value>) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => json!(render(text, vars)?),
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| render_value(item, vars)).collect::<Result<_, _>>()?)
        }
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| Ok((key.clone(), render_value(value, vars)?)));
            Value::Object(entries.collect::<Result<_, String>>()?)
        }
        other => other.clone(),
    })
}

/// Replaces `{{name}}`; filters and statements have no counterpart.
fn render(text: &str, vars: &Map<String, Value>) -> Result<String, String> {
    if text.contains("{%") {
        return Err("template statements (`{%`) are not supported".to_owned());
    }
    let mut rendered = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, tail) = after.split_once("}}").ok_or("`{{` without `}}`")?;
        rendered.push_str(before);
        match vars.get(name.trim()) {
            Some(Value::String(text)) if text.starts_with("file://") => {
                return Err(format!("the variable `{}` is a file", name.trim()));
            }
            Some(Value::String(text)) => rendered.push_str(text),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => rendered.push_str(&value.to_string()),
            Some(_) => return Err(format!("the variable `{}` is not a text", name.trim())),
            None => return Err(format!("unknown variable or filter: `{}`", name.trim())),
        }
        rest = tail;
    }
    rendered.push_str(rest);
    Ok(rendered)
}
