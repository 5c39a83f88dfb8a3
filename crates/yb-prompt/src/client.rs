//! The prompt client: a loader, the registries and an adapter.

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
use crate::prompt::{DatasetRow, Prompt};
use crate::tools::ToolRegistry;

/// The configuration of a client. Everything has a default.
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
    /// Loads files from the working directory, passes model names through, and has no tools.
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
    /// Creates the default configuration.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the loader.
    pub fn with_loader(mut self, loader: impl Loader + 'static) -> Self {
        self.loader = Arc::new(loader);
        self
    }

    /// Sets the model registry.
    pub fn with_models(mut self, models: ModelRegistry) -> Self {
        self.models = models;
        self
    }

    /// Sets the tool registry.
    pub fn with_tools(mut self, tools: ToolRegistry) -> Self {
        self.tools = tools;
        self
    }

    /// Sets the options of all prompts.
    pub fn with_options(mut self, options: AdapterOptions) -> Self {
        self.options = options;
        self
    }

    /// Adds hooks.
    pub fn with_hooks(mut self, hooks: Hooks) -> Self {
        self.hooks = self.hooks.and(hooks);
        self
    }

    /// Sets a callback for warnings about parts of a prompt that have no effect.
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

/// Creates a client.
#[must_use]
pub fn create_client(config: ClientConfig) -> PromptClient {
    let mut adapter =
        Adapter::new(config.models, config.tools).with_options(config.options).with_hooks(config.hooks);
    if let Some(on_warning) = config.on_warning {
        adapter = adapter.with_warning_handler(on_warning);
    }
    PromptClient { loader: config.loader, adapter }
}

/// Loads prompts and converts them to queries.
#[derive(Debug, Clone)]
pub struct PromptClient {
    loader: Arc<dyn Loader>,
    adapter: Adapter,
}

impl PromptClient {
    /// Returns the adapter.
    pub fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    /// Returns the loader.
    #[must_use]
    pub fn loader(&self) -> &dyn Loader {
        &*self.loader
    }

    /// Loads a prompt of any kind.
    ///
    /// # Errors
    /// Fails like [`Prompt::load`].
    pub fn load_prompt(&self, path: &str) -> Result<Prompt, PromptError> {
        Prompt::load(path, &*self.loader)
    }

    /// Loads a prompt for text.
    ///
    /// # Errors
    /// Fails like [`Prompt::load`], and with [`PromptError::WrongKind`].
    pub fn load_text_prompt(&self, path: &str) -> Result<TextPrompt, PromptError> {
        Ok(TextPrompt(self.load_kind(path, "text_config")?))
    }

    /// Loads a prompt for an object.
    ///
    /// # Errors
    /// Fails like [`Prompt::load`], and with [`PromptError::WrongKind`].
    pub fn load_object_prompt(&self, path: &str) -> Result<ObjectPrompt, PromptError> {
        Ok(ObjectPrompt(self.load_kind(path, "object_config")?))
    }

    fn load_kind(&self, path: &str, expected: &'static str) -> Result<LoadedPrompt, PromptError> {
        let prompt = self.load_prompt(path)?;
        check_kind(&prompt, expected)?;
        Ok(LoadedPrompt { prompt, client: self.clone() })
    }

    /// Renders a prompt and converts it to a query.
    ///
    /// # Errors
    /// Fails if the props or an option are invalid, and with [`PromptError::Unsupported`] for images and speech.
    pub fn format(
        &self,
        prompt: &Prompt,
        props: &Value,
        options: &AdaptOptions,
    ) -> Result<QueryParams, PromptError> {
        match prompt.render(props)? {
            PromptConfig::Text(config) => Ok(QueryParams::Text(self.adapter.adapt_text(&config, options)?)),
            PromptConfig::Object(config) => {
                Ok(QueryParams::Object(self.adapter.adapt_object(&config, options)?))
            }
            PromptConfig::Image(config) => match self.adapter.adapt_image(&config, options)? {},
            PromptConfig::Speech(config) => match self.adapter.adapt_speech(&config, options)? {},
        }
    }
}

/// The parameters of a query.
#[derive(Debug, Clone)]
pub enum QueryParams {
    /// For text.
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
struct LoadedPrompt {
    prompt: Prompt,
    client: PromptClient,
}

/// A loaded prompt for text.
#[derive(Debug, Clone)]
pub struct TextPrompt(LoadedPrompt);

/// A loaded prompt for an object.
#[derive(Debug, Clone)]
pub struct ObjectPrompt(LoadedPrompt);

impl TextPrompt {
    /// Returns the prompt.
    #[must_use]
    pub fn prompt(&self) -> &Prompt {
        &self.0.prompt
    }

    /// Renders the prompt with props and converts it to a query.
    ///
    /// # Errors
    /// Fails if the props or an option are invalid.
    pub fn format(&self, props: &Value) -> Result<ClaudeAgentTextParams, PromptError> {
        match self.0.prompt.render(props)? {
            PromptConfig::Text(config) => self.0.client.adapter.adapt_text(&config, &AdaptOptions::default()),
            _ => Err(check_kind(&self.0.prompt, "text_config").err().unwrap_or_else(unexpected_kind)),
        }
    }

    /// Renders the prompt with the props of `test_settings`.
    ///
    /// # Errors
    /// Fails like [`format`](Self::format).
    pub fn format_with_test_props(&self) -> Result<ClaudeAgentTextParams, PromptError> {
        self.format(&self.0.prompt.test_props())
    }

    /// Renders the prompt for each row of its dataset.
    ///
    /// # Errors
    /// Fails like [`Prompt::dataset`] and [`format`](Self::format).
    pub fn format_with_dataset(&self) -> Result<Vec<(DatasetRow, ClaudeAgentTextParams)>, PromptError> {
        let rows = self.0.prompt.dataset(None, &*self.0.client.loader)?;
        rows.into_iter().map(|row| Ok((row.clone(), self.format(&row.input)?))).collect()
    }
}

impl ObjectPrompt {
    /// Returns the prompt.
    #[must_use]
    pub fn prompt(&self) -> &Prompt {
        &self.0.prompt
    }

    /// Renders the prompt with props and converts it to a query.
    ///
    /// # Errors
    /// Fails if the props or an option are invalid.
    pub fn format<T>(&self, props: &Value) -> Result<ClaudeAgentObjectParams<T>, PromptError> {
        match self.0.prompt.render(props)? {
            PromptConfig::Object(config) => {
                self.0.client.adapter.adapt_object(&config, &AdaptOptions::default())
            }
            _ => Err(check_kind(&self.0.prompt, "object_config").err().unwrap_or_else(unexpected_kind)),
        }
    }

    /// Renders the prompt with the props of `test_settings`.
    ///
    /// # Errors
    /// Fails like [`format`](Self::format).
    pub fn format_with_test_props<T>(&self) -> Result<ClaudeAgentObjectParams<T>, PromptError> {
        self.format(&self.0.prompt.test_props())
    }

    /// Renders the prompt for each row of its dataset.
    ///
    /// # Errors
    /// Fails like [`Prompt::dataset`] and [`format`](Self::format).
    pub fn format_with_dataset<T>(
        &self,
    ) -> Result<Vec<(DatasetRow, ClaudeAgentObjectParams<T>)>, PromptError> {
        let rows = self.0.prompt.dataset(None, &*self.0.client.loader)?;
        rows.into_iter().map(|row| Ok((row.clone(), self.format(&row.input)?))).collect()
    }
}

fn unexpected_kind() -> PromptError {
    PromptError::invalid("prompt", "unexpected kind of prompt")
}
