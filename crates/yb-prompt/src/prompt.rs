//! A loaded prompt file, rendered with props any number of times.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::config::{
    ImageConfig, ObjectConfig, PromptConfig, PromptTool, SpeechConfig, TestSettings, TextConfig,
};
use crate::error::PromptError;
use crate::header::{self, Header, OutputKind};
use crate::loader::{Loader, relative_to};
use crate::schema;
use crate::template::{Template, normalize_source, render as render_template};

/// A prompt file.
///
/// ```
/// use yb_prompt::{MemoryLoader, Prompt, PromptConfig};
///
/// let file = "---\nname: greet\ntext_config:\n  model_name: sonnet\n---\n<User>Greet {props.name}.</User>\n";
/// let prompt = Prompt::load("greet.prompt.mdx", &MemoryLoader::new().with("greet.prompt.mdx", file))?;
/// let PromptConfig::Text(text) = prompt.render(&serde_json::json!({"name": "Ann"}))? else { panic!() };
/// assert_eq!(text.messages[0].to_json()["content"], "Greet Ann.");
/// # Ok::<(), yb_prompt::PromptError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Prompt {
    path: String,
    header: Header,
    template: Arc<Template>,
}

/// A row of a dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct DatasetRow {
    /// The line number, from 1.
    pub line: usize,
    /// The props.
    pub input: Value,
    /// The expected output.
    pub expected_output: Option<Value>,
}

impl Prompt {
    /// Loads a prompt file and its imports.
    ///
    /// # Errors
    /// Fails with [`PromptError::Template`] if a file is invalid, and with [`PromptError::Read`] if it can't be read.
    pub fn load(path: &str, loader: &dyn Loader) -> Result<Self, PromptError> {
        let text = loader.load(path).map_err(|reason| PromptError::Read { path: path.to_owned(), reason })?;
        let source = normalize_source(path, &text)?;
        let (header, from) = header::parse(&source, loader)?;
        let template = Template::parse(source, from, loader)?;
        Ok(Self { path: path.to_owned(), header, template })
    }

    /// Returns the name from the header, or else the file name without `.prompt.mdx`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.header.name.as_deref().unwrap_or_else(|| {
            let file = Path::new(&self.path).file_name().and_then(|name| name.to_str()).unwrap_or(&self.path);
            file.split('.').next().unwrap_or(file)
        })
    }

    /// Returns the path it was loaded from.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the kind of output: `text_config`, `object_config`, `image_config` or `speech_config`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.header.kind.key()
    }

    /// Returns the JSON Schema of the props.
    #[must_use]
    pub fn input_schema(&self) -> Option<&Value> {
        self.header.input_schema.as_ref()
    }

    /// Returns the test settings.
    #[must_use]
    pub fn test_settings(&self) -> &TestSettings {
        &self.header.test_settings
    }

    /// Returns the tools of a prompt for text or an object.
    #[must_use]
    pub fn tools(&self) -> &[PromptTool] {
        match &self.header.kind {
            OutputKind::Text(settings) => &settings.tools,
            OutputKind::Object(settings) => &settings.model.tools,
            OutputKind::Image(_) | OutputKind::Speech(_) => &[],
        }
    }

    /// Renders the prompt with props.
    ///
    /// # Errors
    /// Fails with [`PromptError::Props`] if the props do not match `input_schema`, and with [`PromptError::Template`] if an
    /// expression can't be evaluated.
    pub fn render(&self, props: &Value) -> Result<PromptConfig, PromptError> {
        if !props.is_object() {
            let findings = vec!["expected an object".to_owned()];
            return Err(PromptError::Props { prompt: self.name().to_owned(), findings });
        }
        if let Some(schema) = &self.header.input_schema {
            let findings = schema::findings(schema, props);
            if !findings.is_empty() {
                return Err(PromptError::Props { prompt: self.name().to_owned(), findings });
            }
        }
        let rendered = render_template(&self.template, props)?;
        let name = self.name().to_owned();
        let messages = rendered.messages;
        let empty = |what: &str| {
            let error = self.template.source.error_in_line(0, 0, format!("the prompt is empty: no {what}"));
            Err(error)
        };
        Ok(match &self.header.kind {
            OutputKind::Text(_) | OutputKind::Object(_) if messages.is_empty() => return empty("`<User>`"),
            OutputKind::Text(settings) => {
                PromptConfig::Text(TextConfig { name, messages, text_config: settings.clone() })
            }
            OutputKind::Object(settings) => {
                PromptConfig::Object(ObjectConfig { name, messages, object_config: settings.clone() })
            }
            OutputKind::Image(settings) => match rendered.media_prompt {
                Some(prompt) => {
                    PromptConfig::Image(ImageConfig { name, prompt, image_config: settings.clone() })
                }
                None => return empty("`<ImagePrompt>`"),
            },
            OutputKind::Speech(settings) => match rendered.media_prompt {
                Some(text) => {
                    PromptConfig::Speech(SpeechConfig { name, text, speech_config: settings.clone() })
                }
                None => return empty("`<SpeechPrompt>`"),
            },
        })
    }

    /// Returns the props of `test_settings`, or an empty object.
    #[must_use]
    pub fn test_props(&self) -> Value {
        self.header.test_settings.props.clone().unwrap_or_else(|| json!({}))
    }

    /// Reads the rows of a dataset, by default that of `test_settings`. Each line is an object with `input` and optionally
    /// `expected_output`.
    ///
    /// # Errors
    /// Fails if there is no dataset, or if a line is invalid.
    pub fn dataset(&self, path: Option<&str>, loader: &dyn Loader) -> Result<Vec<DatasetRow>, PromptError> {
        let path = match (path, &self.header.test_settings.dataset) {
            (Some(path), _) => path.to_owned(),
            (None, Some(path)) => relative_to(&self.path, path)
                .map_err(|reason| PromptError::Read { path: path.clone(), reason })?,
            (None, None) => {
                let error = self.template.source.error_in_line(0, 0, "the prompt has no dataset");
                return Err(error.with_hint("set `test_settings: { dataset: ./rows.jsonl }`"));
            }
        };
        let text =
            loader.load_dataset(&path).map_err(|reason| PromptError::Read { path: path.clone(), reason })?;
        let mut rows = Vec::new();
        for (number, line) in text.lines().enumerate() {
            if !line.trim().is_empty() {
                rows.push(parse_row(line, number + 1, &path)?);
            }
        }
        Ok(rows)
    }
}

fn parse_row(text: &str, line: usize, path: &str) -> Result<DatasetRow, PromptError> {
    let error_at = |column: usize, message: String| {
        let location = crate::error::SourceLocation { file: path.to_owned(), line, column };
        let hint = Some("expected `{\"input\": {…}, \"expected_output\": …}` on one line".to_owned());
        PromptError::Template { location, message, hint }
    };
    let mut value: Value = serde_json::from_str(text)
        .map_err(|error| error_at(error.column(), format!("invalid JSON: {error}")))?;
    let Some(map) = value.as_object_mut() else { return Err(error_at(1, "expected an object".to_owned())) };
    let input = map.remove("input").filter(Value::is_object);
    let Some(input) = input else { return Err(error_at(1, "expected an object: `input`".to_owned())) };
    let expected_output = map.remove("expected_output").filter(|value| !value.is_null());
    Ok(DatasetRow { line, input, expected_output })
}
