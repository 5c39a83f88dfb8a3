//! Cases: a file becomes a [`Case`], or a list of everything that is wrong with it.
//!
//! ```
//! use yb_agents::Adapters;
//! use yb_case::LoadOptions;
//!
//! let text = "
//! youbencha: 1
//! name: greeting
//! description: The script greets by name.
//! repo: https://github.com/example/greeter.git
//! agent: { type: claude-code, config: { prompt: Make greet.sh greet by name. } }
//! evaluators: [{ name: git-diff, config: { assertions: { max_files_changed: 1 } } }]
//! ";
//! let options = LoadOptions::new(Adapters::builtin().specs(), yb_evaluate::builtin_evaluators());
//! let loaded = yb_case::parse("case.yaml".as_ref(), text.as_bytes(), &options);
//! assert!(loaded.diagnostics.is_empty());
//! assert_eq!(loaded.case.map(|case| case.name.clone()).as_deref(), Some("greeting"));
//! ```

mod add_on;
mod agent;
pub mod agent_spec;
mod agent_tools;
mod build;
pub mod check;
pub mod config;
mod eval;
mod evaluator;
mod expected;
pub mod fields;
pub mod fields_agent;
pub mod fields_evaluator;
mod fields_hook;
pub mod files;
pub mod format;
pub mod gates;
mod guard;
mod harbor;
mod hook;
mod overlay;
pub mod programs;
pub mod prompt;
pub mod schema;
pub mod shape;
mod solution;
mod start;
pub mod suite;
mod tape;
mod task_environment;
pub mod time;
mod types;
pub mod variables;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use yb_yaml::diagnostic::{Diagnostic, Diagnostics};
use yb_yaml::{DecodeError, Node, ParseOptions, Span, Syntax, Value};

use check::Mode;

use fields::VERSION;

pub use add_on::{AddOn, Instructions};
pub use agent_spec::{
    AgentProgram, AgentSpec, AgentSpecs, Capabilities, ConfigKeys, Credentials, ModelApi, ModelRule,
    NpmProgram, PROXY_VARIABLES,
};
pub use agent_tools::{AgentTool, ToolNameError, ToolPurpose};
pub use build::{CaseInput, build, dir_of, environment};

pub use eval::MANUAL;
pub use eval::{EvalFile, LoadedEval, is_eval_file, is_eval_of_directory, load_eval};
pub use evaluator::reader::{self as config_reader, ConfigReader};
pub use evaluator::{ConfiguredEvaluator, EvaluatorConfig, EvaluatorInput, EvaluatorSpec, EvaluatorSpecs};
pub use expected::{Expected, ExpectedFiles};
pub use guard::{Network, TrialLimits};
pub use hook::{Database, PostHook, Script, Webhook, required_program};
pub use overlay::{Overlay, OverlayFile, OverlayLayer};
pub use schema::{eval_schema, schema};
pub use solution::Solution;
pub use start::{LocalSources, PrivateHosts};
pub use tape::{Tape, TapeMode, TapeSource, TapeSpeed};
pub use task_environment::{RootSource, TaskEnvironment};
pub use types::{AddedDir, Agent, AgentConfig, Case, EnvVar, Isolation, Prompt, Start, Timeouts};
pub use variables::{environment_names, with_environment};
pub use yb_model::NetworkMode;

/// Options of loading a case, a suite or an eval file.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// The agents that a file may name.
    pub agents: AgentSpecs,
    /// The evaluators that a file may name.
    pub evaluators: EvaluatorSpecs,
    /// The values of `${NAME}`.
    pub variables: BTreeMap<String, String>,
    /// Whether hosts in private networks may be named.
    pub private_hosts: PrivateHosts,
    /// Which local repositories and directories may be named.
    pub local_sources: LocalSources,
}

impl LoadOptions {
    /// Options with these agents and evaluators, without variables and without private hosts.
    #[must_use]
    pub fn new(agents: AgentSpecs, evaluators: EvaluatorSpecs) -> Self {
        Self {
            agents,
            evaluators,
            variables: BTreeMap::new(),
            private_hosts: PrivateHosts::default(),
            local_sources: LocalSources::default(),
        }
    }

    /// Sets the variables.
    #[must_use]
    pub fn with_variables(mut self, variables: BTreeMap<String, String>) -> Self {
        self.variables = variables;
        self
    }

    /// Sets the rule for local repositories and directories.
    #[must_use]
    pub fn with_local_sources(mut self, sources: LocalSources) -> Self {
        self.local_sources = sources;
        self
    }

    /// Sets the rule for hosts in private networks.
    #[must_use]
    pub fn with_private_hosts(mut self, hosts: PrivateHosts) -> Self {
        self.private_hosts = hosts;
        self
    }
}

/// The result of loading a case file.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The case, unless it has errors.
    pub case: Option<Arc<Case>>,
    /// All errors and warnings: those of the file in its order, then those of referenced files.
    pub diagnostics: Vec<Diagnostic>,
}

/// Loads a case file. Only files are read; no process is started.
#[must_use]
pub fn load(path: &Path, options: &LoadOptions) -> Loaded {
    let path = &harbor::file_of(path);
    match read_case(path, options) {
        Ok(bytes) => parse(path, &bytes, options),
        Err(diagnostics) => Loaded { case: None, diagnostics },
    }
}

/// Reads the bytes of a case or suite, or converts a Harbor task to one.
pub(crate) fn read_case(path: &Path, options: &LoadOptions) -> Result<Vec<u8>, Vec<Diagnostic>> {
    harbor::read(path, &options.agents).unwrap_or_else(|| read(path))
}

/// Reads the bytes of a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Vec<Diagnostic>> {
    files::read(path, yb_yaml::MAX_BYTES).map_err(|error| {
        let mut found = Diagnostics::new(path, "");
        if let files::FileError::TooLarge = error {
            report_decode_error(DecodeError::TooLarge, &mut found);
        } else {
            found.error(Span::WHOLE, "", format!("failed to read case: {error}"));
        }
        found.into_vec()
    })
}

/// Parses the tree of a case, suite or eval file.
pub(crate) fn parse_tree(text: &str, path: &Path, found: &mut Diagnostics<'_>) -> Option<Node> {
    let options = ParseOptions::new(Syntax::from_path(path))
        .with_empty_hint("`yb schema` prints the JSON Schema of the file");
    yb_yaml::parse_with(text, &options, found)
}

pub(crate) fn report_decode_error(error: DecodeError, found: &mut Diagnostics<'_>) {
    let diagnostic = error.report(found);
    if error == DecodeError::TooLarge {
        diagnostic.hint("put long prompts into separate files, with `prompt_file`");
    }
}

/// Parses a case from the content of a file; the extension of the path determines the syntax.
#[must_use]
pub fn parse(path: &Path, bytes: &[u8], options: &LoadOptions) -> Loaded {
    let decoded = yb_yaml::decode(bytes);
    let mut found = Diagnostics::new(path, decoded.unwrap_or_default());
    let mut elsewhere = Vec::new();
    let case = match decoded {
        Err(bad) => {
            report_decode_error(bad, &mut found);
            None
        }
        Ok(text) => parse_tree(text, path, &mut found).and_then(|mut root| {
            let mode = prepare(&mut root, options, &mut found)?;
            build(&CaseInput::new(path, mode), &root, options, &mut found, &mut elsewhere)
        }),
    };
    let mut diagnostics = found.into_vec();
    diagnostics.append(&mut elsewhere);
    let sound = !diagnostics.iter().any(Diagnostic::is_error);
    Loaded { case: case.filter(|_| sound).map(Arc::new), diagnostics }
}

/// Checks that a tree is a mapping with a supported version, and expands its variables.
pub(crate) fn prepare(root: &mut Node, options: &LoadOptions, found: &mut Diagnostics<'_>) -> Option<Mode> {
    if !matches!(root.value, Value::Map(_)) {
        let message = format!("wrong value: {}", root.describe());
        found
            .error(root.span, "", message)
            .expected("a mapping with `name`, `description`, `repo`, `agent` and `evaluators`");
        return None;
    }
    let mode = mode(root, found)?;
    variables::substitute(root, &options.variables, found);
    Some(mode)
}

/// Checks the version first, since a newer format may contain unknown keys.
pub(crate) fn mode(root: &Node, found: &mut Diagnostics<'_>) -> Option<Mode> {
    match root.entry("youbencha").map(|entry| &entry.node) {
        None => Some(Mode::Lenient),
        Some(Node { value: Value::Int(version), span }) if *version > VERSION => {
            found
                .error(*span, "youbencha", format!("unsupported format version: `{version}`"))
                .expected(format!("`{VERSION}`"))
                .hint("the file requires a newer version; update youbencha");
            None
        }
        // An invalid version is reported by the validation of the fields.
        Some(_) => Some(Mode::Strict),
    }
}

/// Returns the default name of a case: the file name without extension.
pub(crate) fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}
