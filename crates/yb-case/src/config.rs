//! The configuration of `yb`, in layers. Each value has its source.
//!
//! default < user (`.youbencharc` at home) < project (`.youbencharc` in the working directory) < case < environment <
//! command line.

pub mod edit;
mod fields;
mod keys;
mod layer;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::{Case, Isolation, NetworkMode, TrialLimits};
use yb_yaml::diagnostic::Diagnostic;

pub use fields::environment_name;
pub use keys::{KeyError, KnownKey, ValueError, check_key, known_keys, value_from_text};
pub use layer::FILE_NAMES;

/// The source of a value, in order of precedence; later ones win.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigSource {
    /// The default value.
    Default,
    /// The file in the home directory.
    User(PathBuf),
    /// The file in the working directory.
    Project(PathBuf),
    /// The case.
    Case(PathBuf),
    /// An environment variable.
    Environment(String),
    /// A command line argument.
    CommandLine,
}

impl ConfigSource {
    fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::User(_) => 1,
            Self::Project(_) => 2,
            Self::Case(_) => 3,
            Self::Environment(_) => 4,
            Self::CommandLine => 5,
        }
    }
}

impl fmt::Display for ConfigSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::User(file) | Self::Project(file) | Self::Case(file) => {
                write!(formatter, "{}", file.display())
            }
            Self::Environment(name) => write!(formatter, "environment variable {name}"),
            Self::CommandLine => formatter.write_str("command line"),
        }
    }
}

/// Returns the configuration file of a directory, if there is one.
#[must_use]
pub fn file_in(directory: &Path) -> Option<PathBuf> {
    layer::find(directory)
}

/// Reads the values of a file by dotted key, with all errors and warnings.
#[must_use]
pub fn read_file(file: &Path) -> (BTreeMap<String, Value>, Vec<Diagnostic>) {
    let (values, found) = layer::read(file);
    (values.into_iter().collect(), found)
}

/// A value with its source.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The value.
    pub value: Value,
    /// The source.
    pub source: ConfigSource,
}

/// The effective settings by dotted key, such as `agent.timeout_ms` or `variables.NAME`.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    values: BTreeMap<String, Setting>,
}

/// The effective timeouts of a case; zero means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResolvedTimeouts {
    /// For fetching the repository.
    pub clone: Duration,
    /// For the agent.
    pub agent: Duration,
    /// For each evaluator.
    pub evaluators: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let mut settings = Self { values: BTreeMap::new() };
        for (key, value) in fields::defaults() {
            settings.put(key, value, ConfigSource::Default);
        }
        settings
    }
}

impl Settings {
    /// Loads the defaults, the user file, the project file and the environment variables of this process, with all errors and
    /// warnings.
    #[must_use]
    pub fn load(home: Option<&Path>, project: &Path) -> (Self, Vec<Diagnostic>) {
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        });
        let (settings, mut diagnostics) = Self::from_files(home, project);
        let (settings, mut found) = settings.with_environment(variables);
        diagnostics.append(&mut found);
        (settings, diagnostics)
    }

    /// Loads the defaults, the user file and the project file.
    #[must_use]
    pub fn from_files(home: Option<&Path>, project: &Path) -> (Self, Vec<Diagnostic>) {
        let mut settings = Self::default();
        let mut diagnostics = Vec::new();
        let same = home.is_some_and(|home| home == project);
        let user = home.filter(|_| !same).and_then(layer::find);
        for (file, source) in [
            user.map(|file| (file.clone(), ConfigSource::User(file))),
            layer::find(project).map(|file| (file.clone(), ConfigSource::Project(file))),
        ]
        .into_iter()
        .flatten()
        {
            let (values, mut found) = layer::read(&file);
            diagnostics.append(&mut found);
            for (key, value) in values {
                settings.put(key, value, source.clone());
            }
        }
        (settings, diagnostics)
    }

    /// Applies the settings of a case.
    #[must_use]
    pub fn with_case(mut self, case: &Case) -> Self {
        let source = ConfigSource::Case(case.file.clone());
        if let Some(dir) = &case.workspace_dir {
            self.put("workspace_dir", dir.to_string_lossy().into(), source.clone());
        }
        let times = case.timeouts;
        for (key, time) in [
            ("timeouts.clone", times.clone),
            ("timeouts.agent", times.agent),
            ("timeouts.evaluators", times.evaluators),
        ] {
            if let Some(time) = time {
                let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
                self.put(key, milliseconds.into(), source.clone());
            }
        }
        if let Some(model) = &case.agent.model {
            self.put("agent.model", model.as_str().into(), source.clone());
        }
        // `auto` is the default and does not override other layers.
        if case.isolation != Isolation::Auto {
            self.put("isolation", case.isolation.as_str().into(), source.clone());
        }
        if let Some(network) = &case.network {
            self.put("network", network.mode.as_str().into(), source.clone());
        }
        for (name, limit) in case.limits.iter() {
            if let Some(limit) = limit {
                self.put(format!("limits.{name}"), limit.into(), source.clone());
            }
        }
        self
    }

    /// Applies environment variables, named by [`environment_name`].
    #[must_use]
    pub fn with_environment(
        mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> (Self, Vec<Diagnostic>) {
        let mut diagnostics = Vec::new();
        for (name, text) in variables {
            let Some((key, kind)) = fields::by_environment_name(&name) else { continue };
            match layer::from_text(&text, kind, &name) {
                Ok(value) => self.put(key, value, ConfigSource::Environment(name)),
                Err(mut found) => diagnostics.append(&mut found),
            }
        }
        (self, diagnostics)
    }

    /// Applies a value from the command line.
    #[must_use]
    pub fn with_argument(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.put(key, value.into(), ConfigSource::CommandLine);
        self
    }

    fn put(&mut self, key: impl Into<String>, value: Value, source: ConfigSource) {
        let key = key.into();
        let weaker = self.values.get(&key).is_none_or(|old| old.source.rank() <= source.rank());
        if weaker {
            self.values.insert(key, Setting { value, source });
        }
    }

    /// Returns the setting of a dotted key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Setting> {
        self.values.get(key)
    }

    /// Returns the source of the value of a key.
    #[must_use]
    pub fn source_of(&self, key: &str) -> Option<&ConfigSource> {
        self.get(key).map(|setting| &setting.source)
    }

    /// Returns all settings, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.values.iter().map(|(key, setting)| (key.as_str(), setting))
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(|setting| setting.value.as_str())
    }

    /// Returns the directory for runs.
    #[must_use]
    pub fn workspace_dir(&self) -> PathBuf {
        self.text("workspace_dir").unwrap_or(fields::WORKSPACE_DIR).into()
    }

    /// Returns the directory for the results of `yb eval`.
    #[must_use]
    pub fn output_dir(&self) -> PathBuf {
        self.text("output_dir").unwrap_or(fields::OUTPUT_DIR).into()
    }

    /// Returns whether a proxy observes failures of the model API.
    #[must_use]
    pub fn observe_api(&self) -> bool {
        self.get("observe_api").and_then(|setting| setting.value.as_bool()).unwrap_or(true)
    }

    /// Returns whether workspaces are kept after a run.
    #[must_use]
    pub fn keep_workspace(&self) -> bool {
        self.get("keep_workspace").and_then(|setting| setting.value.as_bool()).unwrap_or(true)
    }

    /// Returns the maximum number of concurrent evaluators.
    #[must_use]
    pub fn max_concurrent_evaluators(&self) -> usize {
        let given = self.get("evaluators.max_concurrent").and_then(|setting| setting.value.as_u64());
        given.and_then(|number| usize::try_from(number).ok()).unwrap_or(4)
    }

    /// Returns the model, if set.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        self.text("agent.model")
    }

    /// Returns the sandbox for agents.
    #[must_use]
    pub fn isolation(&self) -> Isolation {
        self.text("isolation").map(Isolation::read).unwrap_or_default()
    }

    /// Returns the network access of agents.
    #[must_use]
    pub fn network(&self) -> NetworkMode {
        self.text("network").and_then(NetworkMode::parse).unwrap_or_default()
    }

    /// Returns the resource limits of a trial, without those set to 0 (no limit).
    #[must_use]
    pub fn limits(&self) -> TrialLimits {
        let mut limits = TrialLimits::default();
        for name in TrialLimits::names() {
            let value = self.get(&format!("limits.{name}")).and_then(|setting| setting.value.as_u64());
            if let Some(value) = value.filter(|value| *value > 0) {
                limits.set(name, value);
            }
        }
        limits
    }

    /// Returns the OTLP endpoint for traces, if set.
    #[must_use]
    pub fn otel_endpoint(&self) -> Option<&str> {
        self.text("otel.endpoint")
    }

    /// Returns the file for traces, if set.
    #[must_use]
    pub fn otel_file(&self) -> Option<PathBuf> {
        self.text("otel.file").map(PathBuf::from)
    }

    /// Returns the vocabulary of traces, if set.
    #[must_use]
    pub fn otel_vocabulary(&self) -> Option<&str> {
        self.text("otel.vocabulary")
    }

    /// Returns whether traces include prompts and responses.
    #[must_use]
    pub fn otel_content(&self) -> bool {
        self.get("otel.content").and_then(|setting| setting.value.as_bool()).unwrap_or(false)
    }

    /// Returns the log level: `debug`, `info`, `warn` or `error`.
    #[must_use]
    pub fn log_level(&self) -> &str {
        self.text("log_level").unwrap_or("info")
    }

    /// Returns the values for `${NAME}` in cases.
    #[must_use]
    pub fn variables(&self) -> BTreeMap<String, String> {
        let named = self.iter().filter_map(|(key, setting)| Some((key.strip_prefix("variables.")?, setting)));
        named
            .filter_map(|(name, setting)| Some((name.to_owned(), setting.value.as_str()?.to_owned())))
            .collect()
    }

    /// Returns the effective timeouts. Of several keys, the layer with the highest precedence wins, then the most specific key.
    #[must_use]
    pub fn timeouts(&self) -> ResolvedTimeouts {
        let time = |keys: &[&str]| {
            let given = keys.iter().rev().filter_map(|key| self.get(key));
            let strongest = given.max_by_key(|setting| setting.source.rank());
            let milliseconds = strongest.and_then(|setting| setting.value.as_u64());
            Duration::from_millis(milliseconds.unwrap_or(fields::TIMEOUT_MS))
        };
        ResolvedTimeouts {
            clone: time(&["timeouts.clone", "timeout_ms"]),
            agent: time(&["timeouts.agent", "agent.timeout_ms", "timeout_ms"]),
            evaluators: time(&["timeouts.evaluators", "timeout_ms"]),
        }
    }
}
