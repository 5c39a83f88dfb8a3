//! Model configurations by name.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use regex::Regex;

use crate::error::PromptError;

/// The configuration of a model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ModelConfig {
    /// The model name for the CLI.
    pub model: String,
    /// The maximum number of thinking tokens.
    pub max_thinking_tokens: Option<u32>,
}

impl ModelConfig {
    /// Creates a configuration with defaults.
    pub fn new(model: impl Into<String>) -> Self {
        Self { model: model.into(), max_thinking_tokens: None }
    }

    /// Sets the maximum number of thinking tokens.
    #[must_use]
    pub fn with_max_thinking_tokens(mut self, tokens: u32) -> Self {
        self.max_thinking_tokens = Some(tokens);
        self
    }
}

/// The model names that a configuration applies to.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ModelPattern {
    /// One name.
    Exact(String),
    /// Several names.
    List(Vec<String>),
    /// All names that match.
    Regex(Regex),
}

impl From<&str> for ModelPattern {
    fn from(name: &str) -> Self {
        Self::Exact(name.to_owned())
    }
}

impl From<String> for ModelPattern {
    fn from(name: String) -> Self {
        Self::Exact(name)
    }
}

impl From<Regex> for ModelPattern {
    fn from(regex: Regex) -> Self {
        Self::Regex(regex)
    }
}

impl<T: Into<String>> From<Vec<T>> for ModelPattern {
    fn from(names: Vec<T>) -> Self {
        Self::List(names.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<String>, const N: usize> From<[T; N]> for ModelPattern {
    fn from(names: [T; N]) -> Self {
        Self::List(names.into_iter().map(Into::into).collect())
    }
}

type Creator = Arc<dyn Fn(&str) -> ModelConfig + Send + Sync>;

/// Model configurations by name. Precedence: the exact name, the first matching pattern, the provider before a `/`, the
/// default.
///
/// ```
/// use regex::Regex;
/// use yb_prompt::{ModelConfig, ModelRegistry};
///
/// let models = ModelRegistry::create_default()
///     .register_models("smart", |_| ModelConfig::new("opus").with_max_thinking_tokens(8000))
///     .register_models(["fast", "cheap"], |_| ModelConfig::new("haiku"))
///     .register_models(Regex::new("^claude-").unwrap(), |name| ModelConfig::new(name))
///     .register_provider("anthropic", |name| ModelConfig::new(name));
/// assert_eq!(models.get_model_config("cheap")?.model, "haiku");
/// assert_eq!(models.get_model_config("anthropic/claude-opus-5-5")?.model, "claude-opus-5-5");
/// assert_eq!(models.get_model_config("sonnet")?.model, "sonnet");
/// # Ok::<(), yb_prompt::PromptError>(())
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct ModelRegistry {
    exact: HashMap<String, Creator>,
    patterns: Vec<(Regex, Creator)>,
    providers: HashMap<String, Creator>,
    default: Option<Creator>,
}

impl ModelRegistry {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a registry that passes all names to the CLI.
    pub fn create_default() -> Self {
        Self::new().with_default(|name| ModelConfig::new(name))
    }

    /// Adds a configuration for these names. For exact names the last registration wins, for patterns the first.
    pub fn register_models(
        mut self,
        pattern: impl Into<ModelPattern>,
        creator: impl Fn(&str) -> ModelConfig + Send + Sync + 'static,
    ) -> Self {
        let creator: Creator = Arc::new(creator);
        match pattern.into() {
            ModelPattern::Exact(name) => {
                self.exact.insert(name, creator);
            }
            ModelPattern::List(names) => {
                self.exact.extend(names.into_iter().map(|name| (name, Arc::clone(&creator))));
            }
            ModelPattern::Regex(regex) => self.patterns.push((regex, creator)),
        }
        self
    }

    /// Adds a configuration for all models of a provider. The function gets the name after `provider/`.
    pub fn register_provider(
        mut self,
        provider: impl Into<String>,
        creator: impl Fn(&str) -> ModelConfig + Send + Sync + 'static,
    ) -> Self {
        self.providers.insert(provider.into(), Arc::new(creator));
        self
    }

    /// Sets the configuration for all other names.
    pub fn with_default(mut self, creator: impl Fn(&str) -> ModelConfig + Send + Sync + 'static) -> Self {
        self.default = Some(Arc::new(creator));
        self
    }

    fn find<'n>(&self, name: &'n str) -> Option<(&Creator, &'n str)> {
        let exact = self.exact.get(name);
        let pattern =
            || self.patterns.iter().find(|(regex, _)| regex.is_match(name)).map(|(_, creator)| creator);
        if let Some(creator) = exact.or_else(pattern) {
            return Some((creator, name));
        }
        let provider = name.split_once('/').and_then(|(provider, model)| {
            Some((self.providers.get(provider)?, model)).filter(|_| !model.is_empty())
        });
        provider.or_else(|| self.default.as_ref().map(|creator| (creator, name)))
    }

    /// Returns the configuration of a model.
    ///
    /// # Errors
    /// Fails with [`PromptError::Invalid`] if the name is empty, and with [`PromptError::UnknownModel`] if it is not
    /// registered.
    pub fn get_model_config(&self, name: &str) -> Result<ModelConfig, PromptError> {
        if name.trim().is_empty() {
            return Err(PromptError::invalid("model", "expected a non-empty name"));
        }
        let Some((creator, given)) = self.find(name) else {
            return Err(PromptError::UnknownModel { name: name.to_owned() });
        };
        Ok(creator(given))
    }

    /// Returns whether there is a configuration for this name.
    #[must_use]
    pub fn has_model(&self, name: &str) -> bool {
        !name.trim().is_empty() && self.find(name).is_some()
    }
}

impl fmt::Debug for ModelRegistry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ModelRegistry")
            .field("exact", &self.exact.keys())
            .field("patterns", &self.patterns.iter().map(|(regex, _)| regex.as_str()).collect::<Vec<_>>())
            .field("providers", &self.providers.keys())
            .field("default", &self.default.is_some())
            .finish()
    }
}
