//! Suites: several cases and agent configurations in one file, combined, merged and checked before anything starts.
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

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::gates::Gates;
use crate::{Case, LoadOptions, files};
use yb_yaml::diagnostic::{Diagnostic, Findings};
use yb_yaml::{Format, Node};

pub use schema::schema;

/// What the only variant is called where a file names none.
pub const DEFAULT_VARIANT: &str = "default";
const DEFAULT_RETRIES: u32 = 2;

/// What came of a file.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The suite, unless something is wrong with it.
    pub suite: Option<Suite>,
    /// All that is wrong or doubtful: in the suite's own file first, then case by case.
    pub diagnostics: Vec<Diagnostic>,
}

/// What is to be run: every case with every variant that it is combined with.
#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    /// Its name; none for a plain case file.
    pub name: Option<String>,
    /// The file that was named.
    pub file: PathBuf,
    /// Every file that was read, by its absolute path, sorted.
    pub files: Vec<SourceFile>,
    /// Case by case, and variant by variant, in the order of the file.
    pub combinations: Vec<Combination>,
    /// How often each combination runs.
    pub repeats: u32,
    /// How many trials of an adapter run at once, where the file says it.
    pub concurrency: BTreeMap<String, u32>,
    /// How often a trial is tried again that the machine or the API failed.
    pub retries: u32,
    /// No trial is started when the others have cost this much.
    pub max_cost_usd: Option<f64>,
    /// What the results have to hold.
    pub gates: Gates,
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct SourceFile {
    /// Where it is, absolute and with all links followed.
    pub path: PathBuf,
    /// The BLAKE3 digest of its bytes, in hexadecimal.
    pub digest: String,
}

/// A case with one variant merged over it.
#[derive(Debug, Clone, PartialEq)]
pub struct Combination {
    /// The case's name.
    pub case_name: String,
    /// The variant's name.
    pub variant: String,
    /// The case's tags.
    pub tags: Vec<String>,
    /// The merged case.
    pub case: Arc<Case>,
    /// The version of the agent's program, where the case or the variant says it.
    pub agent_version: Option<String>,
}

impl Suite {
    /// How many trials there are.
    #[must_use]
    pub fn trials(&self) -> u64 {
        self.combinations.len() as u64 * u64::from(self.repeats)
    }
}

/// Reads a suite file, or a plain case file as a suite of one case. Nothing is started, and nothing but files is looked at.
#[must_use]
pub fn load(path: &Path, options: &LoadOptions) -> Loaded {
    let (mut loaded, recording) = files::recorded(|| match crate::read(path) {
        Ok(bytes) => parse(path, &bytes, options),
        Err(diagnostics) => Loaded { suite: None, diagnostics },
    });
    match sources(recording) {
        Ok(files) => {
            if let Some(suite) = &mut loaded.suite {
                suite.files = files;
            }
        }
        Err(file) => {
            let mut found = Findings::new(&file, "");
            found
                .error(yb_yaml::Span::WHOLE, "", "the file changed while it was read")
                .hint("try again when nobody writes it");
            loaded.diagnostics.append(&mut found.into_vec());
            loaded.suite = None;
        }
    }
    loaded
}

fn parse(path: &Path, bytes: &[u8], options: &LoadOptions) -> Loaded {
    if let Ok(text) = yb_yaml::decode(bytes) {
        let mut found = Findings::new(path, text);
        let root = yb_yaml::parse(text, Format::of(path), &mut found);
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
    });
    Loaded { suite, diagnostics }
}

/// Neither key means anything in a case.
fn is_suite(root: &Node) -> bool {
    ["cases", "variants"].iter().any(|key| root.entry(key).is_some())
}

/// Each file once, or one that was read with two contents.
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
