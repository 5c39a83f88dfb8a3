//! The files of an imported suite, in our own format.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use yb_model::safe_name;

use crate::{Format, ImportError, ImportOptions};

/// The evaluator of all imported graders.
const EVALUATOR: &str = "weighted-score";
/// The suite file of an imported suite.
pub const SUITE_FILE: &str = "suite.json";
/// The directory of start trees.
const START: &str = "start";

/// Something that has no exact counterpart here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The case, or the file.
    pub place: String,
    /// What is different, or left out.
    pub message: String,
}

impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.message)
    }
}

/// A suite in our own format.
#[derive(Debug)]
pub struct ImportedSuite {
    /// The name of the suite.
    pub name: String,
    /// Where it came from.
    pub format: Format,
    /// What has no exact counterpart.
    pub notes: Vec<Note>,
    files: Vec<(PathBuf, Content)>,
    cases: Vec<String>,
    variants: Vec<Value>,
    vary: Vec<&'static str>,
    repeats: u64,
}

#[derive(Debug)]
enum Content {
    Text(String),
    /// A copy of a file.
    File(PathBuf),
    /// An empty directory.
    Directory,
}

/// A case in the making.
#[derive(Debug)]
pub(crate) struct CaseDraft {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) prompt: String,
    pub(crate) model: Option<String>,
    /// Keys of `agent.config`.
    pub(crate) config: Map<String, Value>,
    /// Further keys of the case.
    pub(crate) keys: Map<String, Value>,
    pub(crate) graders: Vec<Value>,
    pub(crate) threshold: Option<f64>,
    /// Files of the start tree: destination and source.
    pub(crate) start: Vec<(String, PathBuf)>,
}

impl CaseDraft {
    pub(crate) fn new(name: impl Into<String>, prompt: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: None,
            tags: Vec::new(),
            prompt: prompt.into(),
            model: None,
            config: Map::new(),
            keys: Map::new(),
            graders: Vec::new(),
            threshold: None,
            start: Vec::new(),
        }
    }
}

impl ImportedSuite {
    pub(crate) fn new(name: &str, format: Format) -> Self {
        Self {
            name: safe_name(name),
            format,
            notes: Vec::new(),
            files: Vec::new(),
            cases: Vec::new(),
            variants: Vec::new(),
            vary: Vec::new(),
            repeats: 1,
        }
    }

    /// Returns the number of cases.
    #[must_use]
    pub fn cases(&self) -> usize {
        self.cases.len()
    }

    pub(crate) fn note(&mut self, place: &str, message: impl Into<String>) {
        self.notes.push(Note { place: place.to_owned(), message: message.into() });
    }

    pub(crate) fn repeat(&mut self, times: u64) {
        self.repeats = self.repeats.max(times);
    }

    /// Adds a variant without add-ons, and one with.
    pub(crate) fn compare(&mut self, key: &'static str, paths: &[String]) {
        self.variants =
            vec![json!({ "name": "without" }), json!({ "name": "with", "config": { key: paths } })];
        self.vary = vec![key];
    }

    /// Adds a copy of a file.
    pub(crate) fn copy(&mut self, target: impl Into<PathBuf>, source: PathBuf) {
        self.files.push((target.into(), Content::File(source)));
    }

    /// Adds copies of all files below a directory, without those that are named `left_out` at its top.
    pub(crate) fn copy_all(
        &mut self,
        target: &Path,
        source: &Path,
        left_out: &[&str],
    ) -> Result<(), ImportError> {
        let mut entries: Vec<_> = fs::read_dir(source)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(ImportError::io(source))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (path, name) = (entry.path(), entry.file_name());
            if left_out.iter().any(|left_out| name == *left_out) {
                continue;
            }
            let kind = entry.file_type().map_err(ImportError::io(&path))?;
            if kind.is_dir() {
                self.copy_all(&target.join(&name), &path, &[])?;
            } else if kind.is_file() {
                self.copy(target.join(&name), path);
            } else {
                self.note(&path.display().to_string(), "symbolic links and special files are left out");
            }
        }
        Ok(())
    }

    /// Adds a case.
    pub(crate) fn case(&mut self, mut draft: CaseDraft, options: &ImportOptions) {
        let name = self.unused_name(&draft.name);
        if draft.config.values().any(|value| value.to_string().contains("${")) {
            self.note(&draft.name, "left out: `${` in its options would be expanded as a variable");
            return;
        }
        let mut names = BTreeSet::new();
        for (at, grader) in draft.graders.iter_mut().enumerate() {
            let own = grader["name"].as_str().map_or_else(|| format!("grader-{}", at + 1), str::to_owned);
            let unique = if names.contains(&own) { format!("{own}-{}", at + 1) } else { own };
            grader["name"] = json!(unique);
            names.insert(unique);
        }
        let start = if draft.start.is_empty() { START.to_owned() } else { format!("{START}-{name}") };
        if draft.start.is_empty() {
            self.files.push((PathBuf::from(START), Content::Directory));
        }
        for (target, source) in std::mem::take(&mut draft.start) {
            self.copy(Path::new(&start).join(target), source);
        }
        let prompt_file = format!("{name}.prompt.md");
        let graders_file = format!("{name}.graders.json");
        draft.config.insert("prompt_file".to_owned(), json!(prompt_file));
        let mut agent = json!({ "type": options.agent });
        if let Some(model) = options.model.clone().or(draft.model) {
            agent["model"] = json!(model);
        }
        agent["config"] = Value::Object(draft.config);
        let mut evaluator = json!({ "graders_file": graders_file });
        let threshold = draft.threshold.unwrap_or(options.threshold);
        if threshold < 1.0 {
            evaluator["threshold"] = json!(threshold);
        }
        let is_judged = |grader: &Value| matches!(grader["type"].as_str(), Some("llm" | "baseline"));
        if draft.graders.iter().any(is_judged) {
            evaluator["judge"] = json!({ "type": options.agent });
        }
        let mut case = json!({
            "youbencha": 1,
            "name": name,
            "description": draft.description.unwrap_or_else(|| format!("Imported from {}.", self.format.label())),
            "directory": start,
            "agent": agent,
            "evaluators": [{ "name": EVALUATOR, "config": evaluator }],
        });
        if !draft.tags.is_empty() {
            case["tags"] = json!(draft.tags);
        }
        for (key, value) in draft.keys {
            case[key] = value;
        }
        let file = format!("{name}.json");
        self.text(&file, pretty(&case));
        self.text(&prompt_file, draft.prompt);
        self.text(&graders_file, pretty(&Value::Array(draft.graders)));
        self.cases.push(file);
    }

    fn text(&mut self, path: &str, text: String) {
        self.files.push((PathBuf::from(path), Content::Text(text)));
    }

    fn unused_name(&self, name: &str) -> String {
        let safe = safe_name(name);
        let is_used = |name: &str| self.cases.contains(&format!("{name}.json")) || name == "suite";
        let mut unused = safe.clone();
        let mut number = 2;
        while is_used(&unused) {
            unused = format!("{safe}-{number}");
            number += 1;
        }
        unused
    }

    fn suite(&self) -> Value {
        let mut suite = json!({
            "youbencha": 1,
            "name": self.name,
            "description": format!("Imported from {}.", self.format.label()),
            "cases": self.cases,
            "repeats": self.repeats,
        });
        if !self.variants.is_empty() {
            suite["variants"] = json!(self.variants);
            suite["vary"] = json!(self.vary);
            // The variant without add-ons is only there to compare with.
            suite["gates"] = json!({ "variants": { "with": { "min_pass_rate": 1.0 } } });
        }
        suite
    }

    /// Returns a digest of all files.
    ///
    /// # Errors
    /// When a file that is copied can't be read.
    pub fn digest(&self) -> Result<String, ImportError> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.suite().to_string().as_bytes());
        for (path, content) in &self.files {
            hasher.update(path.to_string_lossy().as_bytes()).update(b"\0");
            match content {
                Content::Text(text) => hasher.update(text.as_bytes()),
                Content::File(source) => hasher.update(&fs::read(source).map_err(ImportError::io(source))?),
                Content::Directory => &mut hasher,
            };
            hasher.update(b"\0");
        }
        Ok(hasher.finalize().to_hex().chars().take(12).collect())
    }

    /// Writes all files to a directory. Returns the path of the suite file.
    ///
    /// # Errors
    /// When a file can't be written.
    pub fn write(&self, directory: &Path) -> Result<PathBuf, ImportError> {
        fs::create_dir_all(directory).map_err(ImportError::io(directory))?;
        for (path, content) in &self.files {
            let path = directory.join(path);
            let parent =
                if matches!(content, Content::Directory) { Some(path.as_path()) } else { path.parent() };
            if let Some(parent) = parent {
                fs::create_dir_all(parent).map_err(ImportError::io(parent))?;
            }
            match content {
                Content::Text(text) => fs::write(&path, text).map_err(ImportError::io(&path))?,
                Content::File(source) => {
                    fs::copy(source, &path).map(drop).map_err(ImportError::io(source))?;
                }
                Content::Directory => {}
            }
        }
        let suite = directory.join(SUITE_FILE);
        fs::write(&suite, pretty(&self.suite())).map_err(ImportError::io(&suite))?;
        Ok(suite)
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}
