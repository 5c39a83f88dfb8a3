//! Skills with `evals/evals.json`, as agentskills.io and skill-creator write it.

use std::path::Path;

use serde_json::{Value, json};

use crate::output::CaseDraft;
use crate::{Format, ImportError, ImportOptions, ImportedSuite, document};

/// The file with the evals, below the skill.
pub(crate) const EVALS_FILE: &str = "evals/evals.json";

pub(crate) fn import(path: &Path, options: &ImportOptions) -> Result<ImportedSuite, ImportError> {
    let path = path.canonicalize().map_err(ImportError::io(path))?;
    // The file is in `evals` below the skill.
    let skill = if path.is_dir() { Some(path.as_path()) } else { path.parent().and_then(Path::parent) };
    let skill = skill.ok_or_else(|| ImportError::invalid(path.display().to_string(), "not in a skill"))?;
    let file = skill.join(EVALS_FILE);
    let document = document::read(&file)?;
    let invalid = |reason: String| ImportError::invalid(file.display().to_string(), reason);
    let own_name = skill.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = document["skill_name"].as_str().unwrap_or(&own_name);
    let evals = document["evals"].as_array().ok_or_else(|| invalid("no list `evals`".to_owned()))?;
    let mut suite = ImportedSuite::new(name, Format::SkillEval);
    for (at, eval) in evals.iter().enumerate() {
        let id = match &eval["id"] {
            Value::Null => (at + 1).to_string(),
            Value::String(id) => id.clone(),
            other => other.to_string(),
        };
        let place = format!("eval-{id}");
        let prompt = eval["prompt"].as_str().ok_or_else(|| invalid(format!("{place}: no `prompt`")))?;
        let mut draft = CaseDraft::new(&place, prompt);
        draft.config.insert("permission_mode".to_owned(), json!("bypassPermissions"));
        let list = [&eval["assertions"], &eval["expectations"]].into_iter().find_map(Value::as_array);
        let expected = eval["expected_output"].as_str();
        let texts: Vec<String> = match list {
            Some(list) => list.iter().filter_map(assertion_text).collect(),
            None => expected.map(|text| format!("The result is as expected: {text}")).into_iter().collect(),
        };
        draft.description = expected.map(str::to_owned);
        for (at, text) in texts.iter().enumerate() {
            draft.graders.push(json!({
                "name": format!("assertion-{}", at + 1), "type": "llm", "criteria": text, "focus": "trace",
            }));
        }
        for file in eval["files"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let source = skill.join(file);
            let inside = source.canonicalize().is_ok_and(|path| path.starts_with(skill) && path.is_file());
            if !inside {
                return Err(invalid(format!("{place}: not a file of the skill: `{file}`")));
            }
            draft.start.push((file.trim_start_matches("./").to_owned(), source));
        }
        if draft.graders.is_empty() {
            suite.note(&place, "left out: neither assertions nor an expected output");
            continue;
        }
        suite.case(draft, options);
    }
    let target = format!("skills/{own_name}");
    suite.copy_all(Path::new(&target), skill, &["evals", ".git"])?;
    suite.compare("skills", &[target]);
    Ok(suite)
}

/// Returns the text of an assertion, which may be a mapping.
fn assertion_text(value: &Value) -> Option<String> {
    value.as_str().or_else(|| value["text"].as_str()).map(str::to_owned)
}
