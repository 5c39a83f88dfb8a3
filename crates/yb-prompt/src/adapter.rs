//! Converts rendered prompts to queries of the Claude Agent SDK.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use serde::de::DeserializeOwned;
use serde_json::Value;
use yb_claude::sdk::{Hooks, Host, Query};

use crate::config::{ImageConfig, ModelSettings, ObjectConfig, SpeechConfig, TextConfig};
use crate::error::{PromptError, UnsupportedOutput};
use crate::message::{self, RichChatMessage};
use crate::models::ModelRegistry;
use crate::options::{
    AdapterOptions, ClaudeAgentQueryOptions, McpServerConfig, OutputFormat, SystemPromptConfig, check_budget,
    check_turns,
};
use crate::schema;
use crate::tools::{self, TOOL_SERVER, ToolRegistry};

/// The name of the adapter.
pub const ADAPTER_NAME: &str = "claude-agent-sdk";

pub(crate) type OnWarning = Arc<dyn Fn(&str) + Send + Sync>;

/// Options of a single query.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct AdaptOptions {
    /// Hooks of the query, called after those of the adapter.
    pub hooks: Hooks,
}

impl AdaptOptions {
    /// Adds hooks.
    #[must_use]
    pub fn with_hooks(mut self, hooks: Hooks) -> Self {
        self.hooks = self.hooks.and(hooks);
        self
    }
}

/// Converts rendered prompts to queries.
#[derive(Clone)]
#[must_use]
pub struct Adapter {
    models: ModelRegistry,
    tools: ToolRegistry,
    options: AdapterOptions,
    hooks: Hooks,
    on_warning: Option<OnWarning>,
    /// Names already warned about, by prompt.
    warned: Arc<Mutex<BTreeSet<String>>>,
}

impl Adapter {
    /// Creates an adapter with these registries.
    pub fn new(models: ModelRegistry, tools: ToolRegistry) -> Self {
        Self {
            models,
            tools,
            options: AdapterOptions::default(),
            hooks: Hooks::new(),
            on_warning: None,
            warned: Arc::default(),
        }
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
    pub fn with_on_warning(self, on_warning: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.with_warning_handler(Arc::new(on_warning))
    }

    pub(crate) fn with_warning_handler(mut self, on_warning: OnWarning) -> Self {
        self.on_warning = Some(on_warning);
        self
    }

    /// Returns the model registry.
    pub fn model_registry(&self) -> &ModelRegistry {
        &self.models
    }

    /// Returns the tool registry.
    pub fn tool_registry(&self) -> &ToolRegistry {
        &self.tools
    }

    /// Returns the options of all prompts.
    #[must_use]
    pub fn options(&self) -> &AdapterOptions {
        &self.options
    }

    /// Returns the hooks.
    pub fn hooks(&self) -> &Hooks {
        &self.hooks
    }

    /// Converts a prompt for text to a query.
    ///
    /// # Errors
    /// Fails if the model is unknown, or if an option is invalid.
    pub fn adapt_text(
        &self,
        config: &TextConfig,
        options: &AdaptOptions,
    ) -> Result<ClaudeAgentTextParams, PromptError> {
        let settings = &config.text_config;
        let query = self.query(&config.name, "text_config", &config.messages, settings, options)?;
        query.validate()?;
        Ok(ClaudeAgentTextParams {
            prompt: message::flatten(&config.messages),
            options: query,
            messages: config.messages.clone(),
        })
    }

    /// Converts a prompt for an object to a query.
    ///
    /// # Errors
    /// Fails like [`adapt_text`](Self::adapt_text), and if the schema is invalid.
    pub fn adapt_object<T>(
        &self,
        config: &ObjectConfig,
        options: &AdaptOptions,
    ) -> Result<ClaudeAgentObjectParams<T>, PromptError> {
        let settings = &config.object_config;
        let mut query =
            self.query(&config.name, "object_config", &config.messages, &settings.model, options)?;
        query.output_format = Some(OutputFormat { schema: settings.schema.clone() });
        query.validate()?;
        Ok(ClaudeAgentObjectParams {
            prompt: message::flatten(&config.messages),
            options: query,
            messages: config.messages.clone(),
            output_type: PhantomData,
        })
    }

    /// Fails, because the Claude Agent SDK does not generate images.
    ///
    /// # Errors
    /// Always fails with [`PromptError::Unsupported`].
    pub fn adapt_image(
        &self,
        config: &ImageConfig,
        _options: &AdaptOptions,
    ) -> Result<Infallible, PromptError> {
        Err(PromptError::Unsupported { what: UnsupportedOutput::Images, prompt: config.name.clone() })
    }

    /// Fails, because the Claude Agent SDK does not generate speech.
    ///
    /// # Errors
    /// Always fails with [`PromptError::Unsupported`].
    pub fn adapt_speech(
        &self,
        config: &SpeechConfig,
        _options: &AdaptOptions,
    ) -> Result<Infallible, PromptError> {
        Err(PromptError::Unsupported { what: UnsupportedOutput::Speech, prompt: config.name.clone() })
    }

    fn query(
        &self,
        name: &str,
        key: &str,
        messages: &[RichChatMessage],
        settings: &ModelSettings,
        options: &AdaptOptions,
    ) -> Result<ClaudeAgentQueryOptions, PromptError> {
        let model = self.models.get_model_config(&settings.model_name)?;
        let selection = tools::select_tools(&settings.tools, &self.tools)?;
        // The prompt takes precedence over the adapter.
        let max_turns = settings.max_calls.or(self.options.max_turns);
        check_turns(settings.max_calls)?;
        check_turns(self.options.max_turns)?;
        check_budget(self.options.max_budget_usd)?;
        let others: Vec<&str> = settings.other.keys().map(String::as_str).collect();
        self.warn(name, &others, |names| {
            format!("options of `{key}` in `{name}` are not supported by the Claude Agent SDK and ignored: {names}")
        });
        let missing: Vec<&str> = selection.missing.iter().map(String::as_str).collect();
        self.warn(name, &missing, |names| {
            format!("tools of `{name}` are not registered and ignored: {names}")
        });
        let system = message::system(messages);
        let system_prompt = if self.options.system_prompt_preset {
            Some(SystemPromptConfig::Preset { append: system })
        } else {
            system.map(SystemPromptConfig::Text)
        };
        let allowed = [self.options.allowed_tools.clone().unwrap_or_default(), selection.allowed].concat();
        let mut query = ClaudeAgentQueryOptions {
            model: Some(model.model),
            max_thinking_tokens: model.max_thinking_tokens,
            max_turns,
            max_budget_usd: self.options.max_budget_usd,
            permission_mode: Some(self.options.permission_mode.unwrap_or(yb_claude::PermissionMode::Default)),
            cwd: self.options.cwd.clone(),
            system_prompt,
            allowed_tools: (!allowed.is_empty() || self.options.allowed_tools.is_some()).then_some(allowed),
            disallowed_tools: self.options.disallowed_tools.clone(),
            hooks: self.hooks.clone().and(options.hooks.clone()),
            ..ClaudeAgentQueryOptions::default()
        };
        for (name, server) in &settings.mcp_servers {
            query.mcp_servers.insert(name.clone(), McpServerConfig::External(server.clone()));
        }
        if let Some(server) = selection.server {
            query.mcp_servers.insert(TOOL_SERVER.to_owned(), McpServerConfig::InProcess(server));
        }
        Ok(query)
    }

    /// Emits one warning for all names that were not warned about before.
    fn warn(&self, prompt: &str, names: &[&str], message: impl FnOnce(&str) -> String) {
        let Some(on_warning) = &self.on_warning else { return };
        let new: Vec<String> = {
            let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
            let fresh = |name: &&&str| warned.insert(format!("{prompt}\0{name}"));
            names.iter().filter(fresh).map(|name| format!("`{name}`")).collect()
        };
        if !new.is_empty() {
            on_warning(&message(&new.join(", ")));
        }
    }
}

impl fmt::Debug for Adapter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Adapter")
            .field("name", &ADAPTER_NAME)
            .field("models", &self.models)
            .field("tools", &self.tools)
            .field("options", &self.options)
            .field("hooks", &self.hooks)
            .finish_non_exhaustive()
    }
}

/// A query for text.
#[derive(Debug, Clone)]
pub struct ClaudeAgentTextParams {
    /// The prompt.
    pub prompt: String,
    /// The query options.
    pub options: ClaudeAgentQueryOptions,
    /// The messages of the prompt.
    pub messages: Vec<RichChatMessage>,
}

impl ClaudeAgentTextParams {
    /// Sends the query with the installed CLI.
    pub fn query(&self) -> Query {
        self.query_on(self.options.host())
    }

    /// Sends the query with a host, which may have additional options.
    pub fn query_on(&self, host: Host) -> Query {
        yb_claude::sdk::query(self.prompt.as_str(), host)
    }
}

/// A query for an object of type `T`.
#[derive(Debug, Clone)]
pub struct ClaudeAgentObjectParams<T = Value> {
    /// The prompt.
    pub prompt: String,
    /// The query options, with the schema of the object.
    pub options: ClaudeAgentQueryOptions,
    /// The messages of the prompt.
    pub messages: Vec<RichChatMessage>,
    output_type: PhantomData<fn() -> T>,
}

impl<T> ClaudeAgentObjectParams<T> {
    /// Sends the query with the installed CLI.
    pub fn query(&self) -> Query {
        self.query_on(self.options.host())
    }

    /// Sends the query with a host, which may have additional options.
    pub fn query_on(&self, host: Host) -> Query {
        yb_claude::sdk::query(self.prompt.as_str(), host)
    }

    /// Validates an output against the schema.
    ///
    /// # Errors
    /// Fails with [`PromptError::Output`] and all validation errors.
    pub fn check(&self, answer: &Value) -> Result<(), PromptError> {
        let Some(format) = &self.options.output_format else { return Ok(()) };
        let findings = schema::findings(&format.schema, answer);
        if findings.is_empty() { Ok(()) } else { Err(PromptError::Output { findings }) }
    }
}

impl<T: DeserializeOwned> ClaudeAgentObjectParams<T> {
    /// Sends the query with a host and returns the validated object.
    ///
    /// # Errors
    /// Fails if the query fails, or if the output does not match the schema.
    pub async fn object_on(&self, host: Host) -> Result<T, PromptError> {
        let result = self.query_on(host).result().await?;
        let Some(raw) = &result.structured_output else {
            return Err(yb_claude::sdk::Error::NoStructuredOutput(Box::new(result)).into());
        };
        let value =
            raw.to_value().map_err(|error| PromptError::Output { findings: vec![error.to_string()] })?;
        self.check(&value)?;
        serde_json::from_value(value)
            .map_err(|error| PromptError::Output { findings: vec![error.to_string()] })
    }
}
