//! Which model a prompt's name of one means, and how it is asked.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use regex::Regex;

use crate::error::PromptError;

/// How a model is asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ModelConfig {
    /// The model, as the CLI knows it.
    pub model: String,
    /// How many tokens it may think.
    pub max_thinking_tokens: Option<u32>,
}

impl ModelConfig {
    /// A model as it is.
    pub fn new(model: impl Into<String>) -> Self {
        Self { model: model.into(), max_thinking_tokens: None }
    }

    /// The same with this many tokens to think.
    #[must_use]
    pub fn with_max_thinking_tokens(mut self, tokens: u32) -> Self {
        self.max_thinking_tokens = Some(tokens);
        self
    }
}

/// Which names a configuration is for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ModelPattern {
    /// This name.
    Exact(String),
    /// Each of these names.
    List(Vec<String>),
    /// Names in which this matches.
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

/// Configurations of models by name. The name itself counts first, then the first pattern that matches, then the provider
/// before a `/`, then the default.
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
    /// A registry that knows no model.
    pub fn new() -> Self {
        Self::default()
    }

    /// A registry that takes every name for the CLI's own.
    pub fn create_default() -> Self {
        Self::new().with_default(|name| ModelConfig::new(name))
    }

    /// The same with a configuration for these names. Of those for the same name the last counts, of patterns the first.
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

    /// The same with a configuration for all models of a provider, which is given what follows `provider/`.
    pub fn register_provider(
        mut self,
        provider: impl Into<String>,
        creator: impl Fn(&str) -> ModelConfig + Send + Sync + 'static,
    ) -> Self {
        self.providers.insert(provider.into(), Arc::new(creator));
        self
    }

    /// The same with a configuration for every other name.
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

    /// How the model of this name is asked.
    ///
    /// # Errors
    /// [`PromptError::Invalid`] when the name is empty, [`PromptError::UnknownModel`] when nothing is registered for it.
    pub fn get_model_config(&self, name: &str) -> Result<ModelConfig, PromptError> {
        if name.trim().is_empty() {
            return Err(PromptError::invalid("model", "expected a name that is not empty"));
        }
        let Some((creator, given)) = self.find(name) else {
            return Err(PromptError::UnknownModel { name: name.to_owned() });
        };
        Ok(creator(given))
    }

    /// Whether there is a configuration for this name.
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
