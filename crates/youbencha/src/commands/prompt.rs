//! `yb prompt`: renders, runs and tests prompt files.

mod render;
mod run;
mod suite;
mod test;
mod tool_commands;
mod tool_host;

use std::io::Read as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use yb_engine::Extensions;

use serde_json::Value;
use yb_claude::sdk;
use yb_prompt::{
    AdaptOptions, AdapterOptions, ClientConfig, ModelConfig, ModelRegistry, Prompt, PromptClient,
    PromptError, QueryParams, ToolRegistry, create_client,
};

use crate::args::{FilledArgs, PromptCommand, QueryArgs};
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;

pub(super) fn run(
    command: &PromptCommand,
    extensions: &Extensions,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    match command {
        PromptCommand::Render(args) => render::run(args, printer),
        PromptCommand::Run(args) => run::run(args, printer),
        PromptCommand::Test(args) => test::run(args, extensions, printer),
    }
}

/// A prompt client and its warnings.
struct PromptSession {
    client: PromptClient,
    options: AdapterOptions,
    warnings: Arc<Mutex<Vec<String>>>,
}

impl PromptSession {
    fn new(args: &QueryArgs) -> Self {
        let mut options = AdapterOptions::default();
        options.max_turns = args.max_turns;
        options.max_budget_usd = args.max_budget_usd;
        options.permission_mode = args.permission_mode;
        options.system_prompt_preset = args.preset;
        options.allowed_tools = (!args.allowed_tools.is_empty()).then(|| args.allowed_tools.clone());
        options.disallowed_tools = (!args.disallowed_tools.is_empty()).then(|| args.disallowed_tools.clone());
        let warnings = Arc::<Mutex<Vec<String>>>::default();
        let client = client(&options, ToolRegistry::new(), &warnings);
        Self { client, options, warnings }
    }

    fn load(&self, file: &Path) -> Result<Prompt, CliError> {
        let path = file.to_str().ok_or_else(|| {
            CliError::new(ErrorKind::Usage, format!("path is not UTF-8: `{}`", file.display()))
        })?;
        Ok(self.client.load_prompt(path)?)
    }

    fn format(&self, prompt: &Prompt, props: &Value) -> Result<QueryParams, CliError> {
        Ok(self.client.format(prompt, props, &AdaptOptions::default())?)
    }

    /// Prints the collected warnings.
    fn warn(&self, printer: &mut Printer) {
        for text in self.warnings.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            printer.note(format_args!("warning: {text}"));
        }
    }

    /// Loads a prompt. Its tools are the commands that it declares.
    fn load_with_tools(&mut self, file: &Path) -> Result<Prompt, CliError> {
        let prompt = self.load(file)?;
        let tools = tool_commands::registry(&prompt, file.parent());
        self.client = client(&self.options, tools, &self.warnings);
        Ok(prompt)
    }

    /// Loads a prompt and formats it with the given props.
    fn load_formatted(&mut self, args: &FilledArgs) -> Result<(Prompt, QueryParams), CliError> {
        let prompt = self.load_with_tools(&args.file)?;
        let props = props(args)?.unwrap_or_else(|| prompt.test_props());
        let formatted = self.format(&prompt, &props)?;
        Ok((prompt, formatted))
    }
}

fn client(options: &AdapterOptions, tools: ToolRegistry, warnings: &Arc<Mutex<Vec<String>>>) -> PromptClient {
    let collected = Arc::clone(warnings);
    // The CLI has no provider before the name of a model.
    let models =
        ModelRegistry::create_default().register_provider("anthropic", |name| ModelConfig::new(name));
    let config = ClientConfig::new().with_options(options.clone()).with_tools(tools).with_models(models);
    create_client(config.with_on_warning(move |text| {
        collected.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
    }))
}

/// Reads the props of the command line.
fn props(args: &FilledArgs) -> Result<Option<Value>, CliError> {
    let text = match (&args.props, &args.props_file) {
        (Some(text), _) => text.clone(),
        (None, Some(file)) => {
            let read = if file == Path::new("-") {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text).map(|_| text)
            } else {
                std::fs::read_to_string(file)
            };
            read.map_err(|error| {
                let message = format!("failed to read the props: `{}`", file.display());
                CliError::new(ErrorKind::Usage, message).caused_by(error)
            })?
        }
        (None, None) => return Ok(None),
    };
    let value: Value = serde_json::from_str(&text).map_err(|error| {
        CliError::new(ErrorKind::Usage, "props are not valid JSON")
            .caused_by(error)
            .hint("example: `--props '{\"name\": \"Ann\"}'`")
    })?;
    Ok(Some(value))
}

impl From<PromptError> for CliError {
    fn from(error: PromptError) -> Self {
        let kind = match &error {
            PromptError::Query(sdk::Error::Invalid(_)) => ErrorKind::Usage,
            PromptError::Query(sdk::Error::CliNotFound(_) | sdk::Error::Spawn { .. }) => ErrorKind::Agent,
            PromptError::Query(error) => match error.api_failure() {
                Some(failure) if failure.kind == yb_claude::ApiFailureKind::Unauthenticated => {
                    ErrorKind::Agent
                }
                Some(failure) if failure.retryable => ErrorKind::Infrastructure,
                _ => ErrorKind::Failed,
            },
            PromptError::Output { .. } => ErrorKind::Failed,
            _ => ErrorKind::Usage,
        };
        let hints = error.hints();
        hints.into_iter().fold(Self::new(kind, error.to_string()), Self::hint)
    }
}
