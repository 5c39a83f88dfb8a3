//! The whole in one place: a loader, the registries and an adapter.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use yb_claude::sdk::Hooks;

use crate::adapter::{AdaptOptions, Adapter, ClaudeAgentObjectParams, ClaudeAgentTextParams, OnWarning};
use crate::config::PromptConfig;
use crate::error::PromptError;
use crate::loader::{FileLoader, Loader};
use crate::models::ModelRegistry;
use crate::options::AdapterOptions;
use crate::prompt::{Prompt, Row};
use crate::tools::ToolRegistry;

/// What a client is made of; every part has a default.
#[must_use]
pub struct ClientConfig {
    loader: Arc<dyn Loader>,
    models: ModelRegistry,
    tools: ToolRegistry,
    options: AdapterOptions,
    hooks: Hooks,
    on_warning: Option<OnWarning>,
}

impl Default for ClientConfig {
    /// Files of the working directory, every model by its own name, no tools.
    fn default() -> Self {
        Self {
            loader: Arc::new(FileLoader::default()),
            models: ModelRegistry::create_default(),
            tools: ToolRegistry::new(),
            options: AdapterOptions::default(),
            hooks: Hooks::new(),
            on_warning: None,
        }
    }
}

impl ClientConfig {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with files from elsewhere.
    pub fn with_loader(mut self, loader: impl Loader + 'static) -> Self {
        self.loader = Arc::new(loader);
        self
    }

    /// The same with these models.
    pub fn with_models(mut self, models: ModelRegistry) -> Self {
        self.models = models;
        self
    }

    /// The same with these functions.
    pub fn with_tools(mut self, tools: ToolRegistry) -> Self {
        self.tools = tools;
        self
    }

    /// The same with what holds for every prompt.
    pub fn with_options(mut self, options: AdapterOptions) -> Self {
        self.options = options;
        self
    }

    /// The same with these hooks beside those it has.
    pub fn with_hooks(mut self, hooks: Hooks) -> Self {
        self.hooks = self.hooks.and(hooks);
        self
    }

    /// The same with somebody who hears what of a prompt has no effect.
    pub fn with_on_warning(mut self, on_warning: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_warning = Some(Arc::new(on_warning));
        self
    }
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ClientConfig")
            .field("loader", &self.loader)
            .field("models", &self.models)
            .field("tools", &self.tools)
            .field("options", &self.options)
            .field("hooks", &self.hooks)
            .finish_non_exhaustive()
    }
}

/// A client of these parts.
#[must_use]
pub fn create_client(config: ClientConfig) -> PromptClient {
    let mut adapter =
        Adapter::new(config.models, config.tools).with_options(config.options).with_hooks(config.hooks);
    if let Some(on_warning) = config.on_warning {
        adapter = adapter.heard_by(on_warning);
    }
    PromptClient { loader: config.loader, adapter }
}

/// Reads prompts and turns them into queries.
#[derive(Debug, Clone)]
pub struct PromptClient {
    loader: Arc<dyn Loader>,
    adapter: Adapter,
}

impl PromptClient {
    /// What turns prompts into queries.
    pub fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    /// Where files come from.
    #[must_use]
    pub fn loader(&self) -> &dyn Loader {
        &*self.loader
    }

    /// A prompt of any kind.
    ///
    /// # Errors
    /// As [`Prompt::load`].
    pub fn load_prompt(&self, path: &str) -> Result<Prompt, PromptError> {
        Prompt::load(path, &*self.loader)
    }

    /// A prompt for a text.
    ///
    /// # Errors
    /// As [`Prompt::load`], and [`PromptError::WrongKind`].
    pub fn load_text_prompt(&self, path: &str) -> Result<TextPrompt, PromptError> {
        Ok(TextPrompt(self.loaded(path, "text_config")?))
    }

    /// A prompt for an object.
    ///
    /// # Errors
    /// As [`Prompt::load`], and [`PromptError::WrongKind`].
    pub fn load_object_prompt(&self, path: &str) -> Result<ObjectPrompt, PromptError> {
        Ok(ObjectPrompt(self.loaded(path, "object_config")?))
    }

    fn loaded(&self, path: &str, expected: &'static str) -> Result<Loaded, PromptError> {
        let prompt = self.load_prompt(path)?;
        check_kind(&prompt, expected)?;
        Ok(Loaded { prompt, client: self.clone() })
    }

    /// Turns a prompt with its props into a query.
    ///
    /// # Errors
    /// When the props are wrong, when a value breaks its rule, and [`PromptError::Unsupported`] for images and speech.
    pub fn format(
        &self,
        prompt: &Prompt,
        props: &Value,
        options: &AdaptOptions,
    ) -> Result<Formatted, PromptError> {
        match prompt.fill(props)? {
            PromptConfig::Text(config) => Ok(Formatted::Text(self.adapter.adapt_text(&config, options)?)),
            PromptConfig::Object(config) => {
                Ok(Formatted::Object(self.adapter.adapt_object(&config, options)?))
            }
            PromptConfig::Image(config) => match self.adapter.adapt_image(&config, options)? {},
            PromptConfig::Speech(config) => match self.adapter.adapt_speech(&config, options)? {},
        }
    }
}

/// A query of either kind.
#[derive(Debug, Clone)]
pub enum Formatted {
    /// For a text.
    Text(ClaudeAgentTextParams),
    /// For an object.
    Object(ClaudeAgentObjectParams),
}

fn check_kind(prompt: &Prompt, expected: &'static str) -> Result<(), PromptError> {
    match prompt.kind() {
        found if found == expected => Ok(()),
        found => Err(PromptError::WrongKind { prompt: prompt.name().to_owned(), expected, found }),
    }
}

#[derive(Debug, Clone)]
struct Loaded {
    prompt: Prompt,
    client: PromptClient,
}

/// A prompt for a text, ready to be filled in.
#[derive(Debug, Clone)]
pub struct TextPrompt(Loaded);

/// A prompt for an object, ready to be filled in.
#[derive(Debug, Clone)]
pub struct ObjectPrompt(Loaded);

impl TextPrompt {
    /// The prompt itself.
    #[must_use]
    pub fn prompt(&self) -> &Prompt {
        &self.0.prompt
    }

    /// The query for these props.
    ///
    /// # Errors
    /// When the props are wrong, or a value breaks its rule.
    pub fn format(&self, props: &Value) -> Result<ClaudeAgentTextParams, PromptError> {
        match self.0.prompt.fill(props)? {
            PromptConfig::Text(config) => self.0.client.adapter.adapt_text(&config, &AdaptOptions::default()),
            _ => Err(check_kind(&self.0.prompt, "text_config").err().unwrap_or_else(nothing)),
        }
    }

    /// The query for the props of `test_settings`.
    ///
    /// # Errors
    /// As [`format`](Self::format).
    pub fn format_with_test_props(&self) -> Result<ClaudeAgentTextParams, PromptError> {
        self.format(&self.0.prompt.test_props())
    }

    /// A query for each row of the prompt's dataset.
    ///
    /// # Errors
    /// As [`Prompt::dataset`] and [`format`](Self::format).
    pub fn format_with_dataset(&self) -> Result<Vec<(Row, ClaudeAgentTextParams)>, PromptError> {
        let rows = self.0.prompt.dataset(None, &*self.0.client.loader)?;
        rows.into_iter().map(|row| Ok((row.clone(), self.format(&row.input)?))).collect()
    }
}

impl ObjectPrompt {
    /// The prompt itself.
    #[must_use]
    pub fn prompt(&self) -> &Prompt {
        &self.0.prompt
    }

    /// The query for these props.
    ///
    /// # Errors
    /// When the props are wrong, or a value breaks its rule.
    pub fn format<T>(&self, props: &Value) -> Result<ClaudeAgentObjectParams<T>, PromptError> {
        match self.0.prompt.fill(props)? {
            PromptConfig::Object(config) => {
                self.0.client.adapter.adapt_object(&config, &AdaptOptions::default())
            }
            _ => Err(check_kind(&self.0.prompt, "object_config").err().unwrap_or_else(nothing)),
        }
    }

    /// The query for the props of `test_settings`.
    ///
    /// # Errors
    /// As [`format`](Self::format).
    pub fn format_with_test_props<T>(&self) -> Result<ClaudeAgentObjectParams<T>, PromptError> {
        self.format(&self.0.prompt.test_props())
    }

    /// A query for each row of the prompt's dataset.
    ///
    /// # Errors
    /// As [`Prompt::dataset`] and [`format`](Self::format).
    pub fn format_with_dataset<T>(&self) -> Result<Vec<(Row, ClaudeAgentObjectParams<T>)>, PromptError> {
        let rows = self.0.prompt.dataset(None, &*self.0.client.loader)?;
        rows.into_iter().map(|row| Ok((row.clone(), self.format(&row.input)?))).collect()
    }
}

fn nothing() -> PromptError {
    PromptError::invalid("prompt", "expected another kind")
}
