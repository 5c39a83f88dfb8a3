//! Eval suites of other tools as cases and suites of youBencha.
//!
//! Each format has a module that converts its files to a [`ImportedSuite`]: our own files, and notes about everything that has no
//! counterpart. Nothing is run and nothing is written while converting.

mod agentv;
mod assertions;
mod document;
mod output;
mod plugin_eval;
mod promptfoo;
mod skill_eval;

use std::path::{Path, PathBuf};

pub use output::{ImportedSuite, Note, SUITE_FILE};

/// A format of another tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A plugin with `evals/`, as `claude plugin eval` runs it.
    PluginEval,
    /// A skill with `evals/evals.json`.
    SkillEval,
    /// An eval file of AgentV.
    AgentV,
    /// A configuration of promptfoo.
    Promptfoo,
}

impl Format {
    /// The name in messages.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::PluginEval => "plugin evals",
            Self::SkillEval => "skill evals",
            Self::AgentV => "AgentV",
            Self::Promptfoo => "promptfoo",
        }
    }
}

/// The agent of an imported suite.
#[derive(Debug, Clone)]
pub struct ImportOptions {
    /// The type of the agent and of the judge.
    pub agent: String,
    /// The model of the agent, in place of that of the suite.
    pub model: Option<String>,
    /// The score from which a trial passes.
    pub threshold: f64,
}

/// Why a suite can't be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file can't be read or written.
    #[error("failed to access `{}`: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file is invalid.
    #[error("{place}: {reason}")]
    Invalid {
        /// The file, with a position if it is known.
        place: String,
        /// The reason.
        reason: String,
    },
    /// Nothing in the suite can be run.
    #[error("`{}` has no case that can be run", path.display())]
    Empty {
        /// The path of the suite.
        path: PathBuf,
        /// What was left out.
        notes: Vec<Note>,
    },
}

impl ImportError {
    fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    fn invalid(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Invalid { place: place.into(), reason: reason.into() }
    }
}

/// Returns the format of a suite of another tool; `None` for our own files and anything unknown.
#[must_use]
pub fn detect(path: &Path) -> Option<Format> {
    if path.is_dir() {
        let has_skill_evals = path.join(skill_eval::EVALS_FILE).is_file();
        return match (path.join("SKILL.md").is_file(), has_skill_evals) {
            (true, true) => Some(Format::SkillEval),
            _ if plugin_eval::has_cases(path) => Some(Format::PluginEval),
            (false, true) => Some(Format::SkillEval),
            _ => None,
        };
    }
    let name = path.file_name()?.to_str()?;
    if name == "evals.json" {
        return Some(Format::SkillEval);
    }
    let document = document::read(path).ok()?;
    let has = |key: &str| document.get(key).is_some();
    if has("youbencha") || has("cases") || (has("agent") && has("evaluators")) {
        return None;
    }
    if name.starts_with("promptfooconfig") || (has("prompts") && has("providers") && !has("default_test")) {
        return Some(Format::Promptfoo);
    }
    (has("tests") || has("eval_cases")).then_some(Format::AgentV)
}

/// Converts a suite of another tool.
///
/// # Errors
/// When a file can't be read or is invalid, or no case can be run.
pub fn import(path: &Path, format: Format, options: &ImportOptions) -> Result<ImportedSuite, ImportError> {
    let suite = match format {
        Format::PluginEval => plugin_eval::import(path, options)?,
        Format::SkillEval => skill_eval::import(path, options)?,
        Format::AgentV => agentv::import(path, options)?,
        Format::Promptfoo => promptfoo::import(path, options)?,
    };
    if suite.cases() == 0 {
        return Err(ImportError::Empty { path: path.to_owned(), notes: suite.notes });
    }
    Ok(suite)
}
