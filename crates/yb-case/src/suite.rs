//! Suites: cases combined with agent configurations. All combinations are merged and validated before a run.
//!
//! ```
//! use yb_agents::Adapters;
//! use yb_case::{LoadOptions, suite};
//!
//! let dir = std::env::temp_dir();
//! let options = LoadOptions::new(Adapters::builtin().specs(), yb_evaluate::builtin_evaluators());
//! let loaded = suite::load(&dir.join("no-such-suite.yaml"), &options);
//! assert!(loaded.suite.is_none());
//! assert_eq!(loaded.diagnostics.len(), 1);
//! ```

mod cases;
mod combine;
mod digest;
mod factors;
mod fields;
mod gates;
mod glob;
mod guard;
mod merge;
mod names;
mod read;
mod schema;
mod select;
mod tally;
mod variant;
mod vary;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::gates::Gates;
use crate::{Case, LoadOptions, files};
use yb_yaml::Node;
use yb_yaml::diagnostic::{Diagnostic, Diagnostics};

pub use schema::schema;

/// The name of the variant of a suite without variants.
pub const DEFAULT_VARIANT: &str = "default";
const DEFAULT_RETRIES: u32 = 2;

/// The result of loading a suite file.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The suite, unless it has errors.
    pub suite: Option<Suite>,
    /// All errors and warnings: those of the suite file first, then case by case.
    pub diagnostics: Vec<Diagnostic>,
    /// All files that were read, sorted by path, also if the suite has errors.
    pub files: Vec<SourceFile>,
}

/// A suite: the selected combinations of cases and variants.
#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    /// The name; none for a plain case file.
    pub name: Option<String>,
    /// The suite or case file.
    pub file: PathBuf,
    /// All files that were read, sorted by path.
    pub files: Vec<SourceFile>,
    /// The combinations, by case and then by variant, in file order.
    pub combinations: Vec<Combination>,
    /// The number of trials per combination.
    pub repeats: u32,
    /// The maximum number of concurrent trials by agent, if set.
    pub concurrency: BTreeMap<String, u32>,
    /// The number of retries after an infrastructure or API failure.
    pub retries: u32,
    /// The budget; no more trials are started when it is exceeded.
    pub max_cost_usd: Option<f64>,
    /// The gates.
    pub gates: Gates,
    /// The design, if the variants are combinations of factor levels.
    pub design: Option<yb_stats::FactorialDesign>,
    /// What variants may differ in; empty if it is not declared.
    pub vary: Vec<String>,
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct SourceFile {
    /// The absolute path, with symbolic links resolved.
    pub path: PathBuf,
    /// The BLAKE3 digest, in hexadecimal.
    pub digest: String,
}

/// A case with one variant merged over it.
#[derive(Debug, Clone, PartialEq)]
pub struct Combination {
    /// The name of the case.
    pub case_name: String,
    /// The name of the variant.
    pub variant: String,
    /// The tags of the case.
    pub tags: Vec<String>,
    /// The merged case.
    pub case: Arc<Case>,
    /// The version of the agent program, if set.
    pub agent_version: Option<String>,
}

impl Suite {
    /// Returns the number of trials.
    #[must_use]
    pub fn trials(&self) -> u64 {
        self.combinations.len() as u64 * u64::from(self.repeats)
    }
}

/// Loads a suite file, or a plain case file as a suite with one case. Only files are read; no process is started.
#[must_use]
pub fn load(path: &Path, options: &LoadOptions) -> Loaded {
    let path = &crate::harbor::file_of(path);
    let (mut loaded, recording) = files::recorded(|| match crate::read_case(path, options) {
        Ok(bytes) => parse(path, &bytes, options),
        Err(diagnostics) => Loaded { suite: None, diagnostics, files: Vec::new() },
    });
    match sources(recording) {
        Ok(files) => {
            if let Some(suite) = &mut loaded.suite {
                suite.files.clone_from(&files);
            }
            loaded.files = files;
        }
        Err(file) => {
            let mut found = Diagnostics::new(&file, "");
            found
                .error(yb_yaml::Span::WHOLE, "", "the file changed while it was being read")
                .hint("try again when no other program writes to it");
            loaded.diagnostics.append(&mut found.into_vec());
            loaded.suite = None;
        }
    }
    loaded
}

fn parse(path: &Path, bytes: &[u8], options: &LoadOptions) -> Loaded {
    if let Ok(text) = yb_yaml::decode(bytes) {
        let mut found = Diagnostics::new(path, text);
        let root = crate::parse_tree(text, path, &mut found);
        if let Some(root) = root.filter(is_suite) {
            return combine::load(path, text, root, options, found);
        }
    }
    let crate::Loaded { case, diagnostics } = crate::parse(path, bytes, options);
    let suite = case.map(|case| Suite {
        name: None,
        file: path.to_owned(),
        files: Vec::new(),
        combinations: vec![Combination {
            case_name: case.name.clone(),
            variant: DEFAULT_VARIANT.to_owned(),
            tags: case.tags.clone(),
            agent_version: case.agent.version.clone(),
            case,
        }],
        repeats: 1,
        concurrency: BTreeMap::new(),
        retries: DEFAULT_RETRIES,
        max_cost_usd: None,
        gates: Gates::default(),
        design: None,
        vary: Vec::new(),
    });
    Loaded { suite, diagnostics, files: Vec::new() }
}

/// Returns whether a tree is a suite; cases have none of these keys.
fn is_suite(root: &Node) -> bool {
    ["cases", "variants", "factors"].iter().any(|key| root.entry(key).is_some())
}

/// Deduplicates the files. Fails with a file that was read with different contents.
fn sources(recording: files::Recording) -> Result<Vec<SourceFile>, PathBuf> {
    let mut all = BTreeMap::new();
    for (path, digest) in recording {
        let path = path.canonicalize().or_else(|_| std::path::absolute(&path)).unwrap_or(path);
        match all.insert(path.clone(), digest.clone()) {
            Some(earlier) if earlier != digest => return Err(path),
            _ => {}
        }
    }
    Ok(all.into_iter().map(|(path, digest)| SourceFile { path, digest }).collect())
}
