//! Plugins with `evals/`, the format of `claude plugin eval` 1.1: `prompt.md` or `case.yaml`, and `graders/*.md`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::output::CaseDraft;
use crate::{Format, ImportError, ImportOptions, ImportedSuite, document};

const MANIFEST: &str = ".claude-plugin/plugin.json";
const PROMPT_FILE: &str = "prompt.md";
const CASE_FILE: &str = "case.yaml";
/// Runs of a case that names none.
const DEFAULT_RUNS: u64 = 3;
/// Tools that are withheld from the model unless a case allows them.
const GATED_TOOLS: [&str; 2] = ["Bash", "WebFetch"];
/// How deep cases are looked for.
const MAX_DEPTH: usize = 8;

/// Keys of a case, without those of `execution` and `context`.
const CASE_KEYS: &[&str] = &[
    "schema_version",
    "name",
    "description",
    "tags",
    "plugins",
    "runs",
    "expected_outcome",
    "execution",
    "context",
    "graders",
];
const RUN_KEYS: &[&str] =
    &["prompt", "model", "max_turns", "timeout_seconds", "allowed_tools", "append_system_prompt", "env"];
const CONTEXT_KEYS: &[&str] = &["scaffold_script", "history_file", "add_dirs"];

/// Returns the directory of the cases of a plugin: `experimental.evals` of its manifest, or `evals`.
fn eval_dir(plugin: &Path) -> PathBuf {
    let manifest = document::read(&plugin.join(MANIFEST)).unwrap_or_default();
    plugin.join(manifest["experimental"]["evals"].as_str().unwrap_or("evals"))
}

/// Returns whether a directory is a plugin with cases.
pub(crate) fn has_cases(path: &Path) -> bool {
    !case_dirs(&eval_dir(path)).is_empty()
}

/// Returns the directories of cases, sorted.
fn case_dirs(root: &Path) -> Vec<PathBuf> {
    fn visit(path: &Path, depth: usize, found: &mut Vec<PathBuf>) {
        if path.join(PROMPT_FILE).is_file() || path.join(CASE_FILE).is_file() {
            found.push(path.to_owned());
        }
        let Ok(entries) = fs::read_dir(path) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let is_case = name != "results" && name != "mocks" && name != "graders";
            if depth < MAX_DEPTH && is_case && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                visit(&entry.path(), depth + 1, found);
            }
        }
    }
    let mut found = Vec::new();
    visit(root, 0, &mut found);
    found.sort();
    found
}

pub(crate) fn import(path: &Path, options: &ImportOptions) -> Result<ImportedSuite, ImportError> {
    let path = &path.canonicalize().map_err(ImportError::io(path))?;
    let root = eval_dir(path);
    let manifest = document::read(&path.join(MANIFEST)).unwrap_or_default();
    let own_name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = manifest["name"].as_str().map_or(own_name, str::to_owned);
    let mut suite = ImportedSuite::new(&name, Format::PluginEval);
    let mut plugins: Vec<PathBuf> = Vec::new();
    for dir in case_dirs(&root) {
        let case = PluginCase::read(&root, &dir)?;
        for plugin in case.plugins(path)? {
            if !plugins.contains(&plugin) {
                plugins.push(plugin);
            }
        }
        case.add(&mut suite, options)?;
    }
    if root.join("mocks").is_dir() {
        suite.note("mocks", "MCP mocks are not supported; servers of the plugin start as they are");
    }
    let mut paths = Vec::new();
    for plugin in &plugins {
        let name = plugin.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let target = format!("plugins/{name}");
        let evals = eval_dir(plugin);
        let evals = evals.strip_prefix(plugin).ok().and_then(Path::to_str).unwrap_or("evals");
        suite.copy_all(Path::new(&target), plugin, &[evals, "evals", ".git"])?;
        paths.push(target);
    }
    suite.compare("plugins", &paths);
    Ok(suite)
}

/// A case: the keys of `prompt.md` over those of `case.yaml`.
struct PluginCase {
    name: String,
    dir: PathBuf,
    keys: Map<String, Value>,
    prompt: String,
    graders: Vec<Value>,
}

impl PluginCase {
    fn read(root: &Path, dir: &Path) -> Result<Self, ImportError> {
        let file = dir.join(CASE_FILE);
        let mut keys = Map::new();
        let mut graders = Vec::new();
        let invalid = |reason: String| ImportError::invalid(dir.display().to_string(), reason);
        if file.is_file() {
            let Value::Object(mut case) = document::read(&file)? else {
                return Err(ImportError::invalid(file.display().to_string(), "not a mapping"));
            };
            for (section, known) in [("execution", RUN_KEYS), ("context", CONTEXT_KEYS)] {
                let Some(value) = case.remove(section) else { continue };
                let Value::Object(inner) = value else {
                    return Err(invalid(format!("`{section}` is not a mapping")));
                };
                // `runs` belongs to the case; the CLI ignores it here, too.
                for (key, value) in inner.into_iter().filter(|(key, _)| known.contains(&key.as_str())) {
                    keys.insert(key, value);
                }
            }
            if let Some(list) = case.remove("graders") {
                let Value::Array(list) = list else {
                    return Err(invalid("`graders` is not a list".to_owned()));
                };
                graders.extend(list);
            }
            keys.extend(case);
        }
        let mut prompt = keys.remove("prompt").and_then(|text| text.as_str().map(str::to_owned));
        if dir.join(PROMPT_FILE).is_file() {
            let (header, body) = document::read_markdown(&dir.join(PROMPT_FILE))?;
            keys.extend(header);
            prompt = Some(body);
        }
        let known = |key: &&String| {
            !CASE_KEYS.contains(&key.as_str())
                && !RUN_KEYS.contains(&key.as_str())
                && !CONTEXT_KEYS.contains(&key.as_str())
        };
        if let Some(key) = keys.keys().find(known) {
            return Err(invalid(format!("unknown key `{key}`")));
        }
        graders.extend(read_graders(&dir.join("graders"))?);
        let relative = dir.strip_prefix(root).ok().map(|path| path.to_string_lossy().replace('/', "-"));
        let name = keys.get("name").and_then(Value::as_str).map(str::to_owned);
        let prompt = prompt.filter(|text| !text.trim().is_empty());
        Ok(Self {
            name: name.or(relative).unwrap_or_default(),
            dir: dir.to_owned(),
            keys,
            prompt: prompt.ok_or_else(|| invalid("no prompt".to_owned()))?,
            graders,
        })
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.keys.get(key).and_then(Value::as_str)
    }

    fn texts(&self, key: &str) -> Vec<String> {
        let items = self.keys.get(key).and_then(Value::as_array);
        items.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Returns the plugins of the case: its own, or that of the suite.
    fn plugins(&self, suite: &Path) -> Result<Vec<PathBuf>, ImportError> {
        let named = self.texts("plugins");
        if named.is_empty() {
            return Ok(vec![suite.to_owned()]);
        }
        let resolve = |path: &String| {
            let path = self.dir.join(path);
            path.canonicalize().map_err(ImportError::io(&path))
        };
        named.iter().map(resolve).collect()
    }

    fn add(self, suite: &mut ImportedSuite, options: &ImportOptions) -> Result<(), ImportError> {
        if self.text("history_file").is_some() {
            suite.note(&self.name, "left out: `history_file` is not supported");
            return Ok(());
        }
        let reads_mock_calls =
            |grader: &Value| grader["target"] == "mock_calls" || grader["focus"] == "mock_calls";
        if self.graders.iter().any(reads_mock_calls) {
            suite.note(&self.name, "left out: graders of `mock_calls` are not supported");
            return Ok(());
        }
        let runs = self.keys.get("runs").and_then(Value::as_u64).unwrap_or(DEFAULT_RUNS);
        suite.repeat(runs);
        let mut draft = CaseDraft::new(&self.name, &self.prompt);
        draft.description = self.text("description").or(self.text("expected_outcome")).map(str::to_owned);
        draft.tags = self.texts("tags");
        draft.model = self.text("model").map(str::to_owned);
        let allowed = self.texts("allowed_tools");
        let is_granted = |tool: &str| allowed.iter().any(|one| one.split('(').next() == Some(tool));
        let withheld: Vec<&str> = GATED_TOOLS.into_iter().filter(|tool| !is_granted(tool)).collect();
        draft.config.insert("permission_mode".to_owned(), json!("dontAsk"));
        draft.config.insert("max_turns".to_owned(), self.keys.get("max_turns").cloned().unwrap_or(json!(10)));
        if !withheld.is_empty() {
            draft.config.insert("disallowed_tools".to_owned(), json!(withheld));
        }
        if !allowed.is_empty() {
            draft.config.insert("allowed_tools".to_owned(), json!(allowed));
        }
        if let Some(text) = self.text("append_system_prompt") {
            draft.config.insert("append_system_prompt".to_owned(), json!(text));
        }
        let timeout = self.keys.get("timeout_seconds").and_then(Value::as_f64).unwrap_or(300.0);
        draft.keys.insert("timeouts".to_owned(), json!({ "agent": (timeout * 1000.0) as u64 }));
        if let Some(env) = self.keys.get("env").filter(|env| env.is_object()) {
            draft.keys.insert("env".to_owned(), env.clone());
        }
        if let Some(script) = self.text("scaffold_script") {
            let text = document::read_text(&self.dir.join(script))?;
            draft.keys.insert("pre_execution".to_owned(), json!([scaffold(&text)]));
        }
        for dir in self.texts("add_dirs") {
            let source = self.dir.join(&dir);
            let target = format!("dirs/{}/{}", yb_model::safe_name(&self.name), dir.trim_start_matches("./"));
            suite.copy_all(Path::new(&target), &source, &[])?;
            let list = draft.config.entry("add_dirs").or_insert_with(|| json!([]));
            if let Value::Array(list) = list {
                list.push(json!(target));
            }
        }
        for grader in &self.graders {
            draft.graders.push(self.grader(grader)?);
        }
        if self.dir.join("mocks").is_dir() {
            suite.note(&self.name, "MCP mocks are not supported; servers of the plugin start as they are");
        }
        if draft.graders.is_empty() {
            suite.note(&self.name, "left out: it has no graders");
            return Ok(());
        }
        suite.case(draft, options);
        Ok(())
    }

    /// Converts a grader. Those that only make sense with the plugin are reported, and not part of the score.
    fn grader(&self, grader: &Value) -> Result<Value, ImportError> {
        let mut grader = grader.clone();
        let uses_skill = grader["type"] == "tool_used" && grader["tool"] == "Skill";
        if grader["arm"] == "with-only" || (uses_skill && grader["arm"].is_null()) {
            grader["arm"] = json!("with-only");
            grader["scored"] = json!(false);
        }
        let file = grader.as_object_mut().and_then(|map| map.remove("baseline_file"));
        if let Some(file) = file.as_ref().and_then(Value::as_str) {
            grader["baseline"] = json!(document::read_text(&self.dir.join(file))?);
        }
        Ok(grader)
    }
}

/// Reads `graders/*.md`: the name is that of the file, the text that of the pattern or the criteria.
fn read_graders(dir: &Path) -> Result<Vec<Value>, ImportError> {
    let Ok(entries) = fs::read_dir(dir) else { return Ok(Vec::new()) };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    files.sort();
    let mut graders = Vec::new();
    for file in files {
        let (mut grader, body) = document::read_markdown(&file)?;
        let key = match grader.get("type").and_then(Value::as_str) {
            Some("regex") => "pattern",
            Some("llm" | "baseline") => "criteria",
            Some(_) => "",
            None => return Err(ImportError::invalid(file.display().to_string(), "no `type`")),
        };
        if !key.is_empty() && !body.is_empty() && !grader.contains_key(key) {
            grader.insert(key.to_owned(), json!(body));
        }
        let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        grader.entry("name").or_insert_with(|| json!(name));
        graders.push(Value::Object(grader));
    }
    Ok(graders)
}

/// Returns the hook that runs a scaffold script. The text is encoded, so that nothing in it is expanded as a variable of the case.
fn scaffold(script: &str) -> Value {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::new();
    for chunk in script.as_bytes().chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = usize::try_from(bits >> (18 - 6 * at) & 63).unwrap_or_default();
            encoded.push(if at <= chunk.len() { char::from(DIGITS[digit]) } else { '=' });
        }
    }
    json!({ "name": "script", "config": { "command": format!("echo {encoded} | base64 -d | bash") } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaffold_script_is_encoded() {
        let hook = scaffold("echo hi\n");
        assert_eq!(hook["config"]["command"], "echo ZWNobyBoaQo= | base64 -d | bash");
    }
}
