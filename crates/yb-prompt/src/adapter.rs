//! From a filled-in prompt to a query of the Claude Agent SDK.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use serde::de::DeserializeOwned;
use serde_json::Value;
use yb_claude::sdk::{Hooks, Host, Query};

use crate::config::{ImageConfig, ModelSettings, ObjectConfig, SpeechConfig, TextConfig};
use crate::error::{PromptError, Unsupported};
use crate::message::{self, RichChatMessage};
use crate::models::ModelRegistry;
use crate::options::{
    AdapterOptions, ClaudeAgentQueryOptions, McpServerConfig, OutputFormat, SystemPromptConfig, check_budget,
    check_turns,
};
use crate::schema;
use crate::tools::{self, TOOL_SERVER, ToolRegistry};

/// The name that an adapter of the Claude Agent SDK has.
pub const ADAPTER_NAME: &str = "claude-agent-sdk";

pub(crate) type OnWarning = Arc<dyn Fn(&str) + Send + Sync>;

/// What is said of one call of an adapter alone.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct AdaptOptions {
    /// Hooks of this query, after those of the adapter.
    pub hooks: Hooks,
}

impl AdaptOptions {
    /// The same with these hooks beside those it has.
    #[must_use]
    pub fn with_hooks(mut self, hooks: Hooks) -> Self {
        self.hooks = self.hooks.and(hooks);
        self
    }
}

/// Turns prompts into queries.
#[derive(Clone)]
#[must_use]
pub struct Adapter {
    models: ModelRegistry,
    tools: ToolRegistry,
    options: AdapterOptions,
    hooks: Hooks,
    on_warning: Option<OnWarning>,
    /// What was warned about already: of each prompt every name once.
    warned: Arc<Mutex<BTreeSet<String>>>,
}

impl Adapter {
    /// An adapter with these registries.
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
    pub fn with_on_warning(self, on_warning: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.heard_by(Arc::new(on_warning))
    }

    pub(crate) fn heard_by(mut self, on_warning: OnWarning) -> Self {
        self.on_warning = Some(on_warning);
        self
    }

    /// The models that it knows.
    pub fn model_registry(&self) -> &ModelRegistry {
        &self.models
    }

    /// The functions that it serves.
    pub fn tool_registry(&self) -> &ToolRegistry {
        &self.tools
    }

    /// What holds for every prompt.
    #[must_use]
    pub fn options(&self) -> &AdapterOptions {
        &self.options
    }

    /// Its hooks.
    pub fn hooks(&self) -> &Hooks {
        &self.hooks
    }

    /// A query for a text.
    ///
    /// # Errors
    /// When the model is unknown, or a value breaks its rule.
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

    /// A query for an object.
    ///
    /// # Errors
    /// As [`adapt_text`](Self::adapt_text), and when the schema is none.
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

    /// Never a picture: the Claude Agent SDK makes none.
    ///
    /// # Errors
    /// Always [`PromptError::Unsupported`].
    pub fn adapt_image(
        &self,
        config: &ImageConfig,
        _options: &AdaptOptions,
    ) -> Result<Infallible, PromptError> {
        Err(PromptError::Unsupported { what: Unsupported::Images, prompt: config.name.clone() })
    }

    /// Never spoken words: the Claude Agent SDK speaks none.
    ///
    /// # Errors
    /// Always [`PromptError::Unsupported`].
    pub fn adapt_speech(
        &self,
        config: &SpeechConfig,
        _options: &AdaptOptions,
    ) -> Result<Infallible, PromptError> {
        Err(PromptError::Unsupported { what: Unsupported::Speech, prompt: config.name.clone() })
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
        let offered = tools::offer(&settings.tools, &self.tools)?;
        // The most specific wins: what the prompt says, then what the adapter does.
        let max_turns = settings.max_calls.or(self.options.max_turns);
        check_turns(settings.max_calls)?;
        check_turns(self.options.max_turns)?;
        check_budget(self.options.max_budget_usd)?;
        let others: Vec<&str> = settings.other.keys().map(String::as_str).collect();
        self.warn(name, &others, |names| {
            format!("the Claude Agent SDK has no use for these options of `{key}` in `{name}`: {names}")
        });
        let missing: Vec<&str> = offered.missing.iter().map(String::as_str).collect();
        self.warn(name, &missing, |names| {
            format!("tools of `{name}` that nobody registered are not offered: {names}")
        });
        let system = message::system(messages);
        let system_prompt = if self.options.system_prompt_preset {
            Some(SystemPromptConfig::Preset { append: system })
        } else {
            system.map(SystemPromptConfig::Text)
        };
        let allowed = [self.options.allowed_tools.clone().unwrap_or_default(), offered.allowed].concat();
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
        if let Some(server) = offered.server {
            query.mcp_servers.insert(TOOL_SERVER.to_owned(), McpServerConfig::InProcess(server));
        }
        Ok(query)
    }

    /// One warning for all names that were not in one before.
    fn warn(&self, prompt: &str, names: &[&str], say: impl FnOnce(&str) -> String) {
        let Some(on_warning) = &self.on_warning else { return };
        let new: Vec<String> = {
            let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
            let fresh = |name: &&&str| warned.insert(format!("{prompt}\0{name}"));
            names.iter().filter(fresh).map(|name| format!("`{name}`")).collect()
        };
        if !new.is_empty() {
            on_warning(&say(&new.join(", ")));
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

/// A query for a text.
#[derive(Debug, Clone)]
pub struct ClaudeAgentTextParams {
    /// What the agent is asked.
    pub prompt: String,
    /// With what.
    pub options: ClaudeAgentQueryOptions,
    /// The messages that it was made of.
    pub messages: Vec<RichChatMessage>,
}

impl ClaudeAgentTextParams {
    /// Asks, with the installed CLI.
    pub fn query(&self) -> Query {
        self.query_on(self.options.host())
    }

    /// Asks a host, which may have more than the options say.
    pub fn query_on(&self, host: Host) -> Query {
        yb_claude::sdk::query(self.prompt.as_str(), host)
    }
}

/// A query for an object of type `T`.
#[derive(Debug, Clone)]
pub struct ClaudeAgentObjectParams<T = Value> {
    /// What the agent is asked.
    pub prompt: String,
    /// With what, the schema of the object included.
    pub options: ClaudeAgentQueryOptions,
    /// The messages that it was made of.
    pub messages: Vec<RichChatMessage>,
    output_type: PhantomData<fn() -> T>,
}

impl<T> ClaudeAgentObjectParams<T> {
    /// Asks, with the installed CLI.
    pub fn query(&self) -> Query {
        self.query_on(self.options.host())
    }

    /// Asks a host, which may have more than the options say.
    pub fn query_on(&self, host: Host) -> Query {
        yb_claude::sdk::query(self.prompt.as_str(), host)
    }

    /// Whether an answer satisfies the schema.
    ///
    /// # Errors
    /// [`PromptError::Answer`] with everything that does not.
    pub fn check(&self, answer: &Value) -> Result<(), PromptError> {
        let Some(format) = &self.options.output_format else { return Ok(()) };
        let findings = schema::findings(&format.schema, answer);
        if findings.is_empty() { Ok(()) } else { Err(PromptError::Answer { findings }) }
    }
}

impl<T: DeserializeOwned> ClaudeAgentObjectParams<T> {
    /// Asks a host and reads to the end: the object, which satisfies the schema.
    ///
    /// # Errors
    /// When the conversation fails, and when the answer has another shape.
    pub async fn object_on(&self, host: Host) -> Result<T, PromptError> {
        let result = self.query_on(host).result().await?;
        let Some(raw) = &result.structured_output else {
            return Err(yb_claude::sdk::Error::NoStructuredOutput(Box::new(result)).into());
        };
        let value =
            raw.to_value().map_err(|error| PromptError::Answer { findings: vec![error.to_string()] })?;
        self.check(&value)?;
        serde_json::from_value(value)
            .map_err(|error| PromptError::Answer { findings: vec![error.to_string()] })
    }
}
