//! A prompt file: read once, filled in with props as often as one likes.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::config::{ImageConfig, ObjectConfig, PromptConfig, SpeechConfig, TestSettings, TextConfig};
use crate::error::PromptError;
use crate::header::{self, Header, Kind};
use crate::loader::{Loader, beside};
use crate::schema;
use crate::template::{Template, render, source_of};

/// A prompt file.
///
/// ```
/// use yb_prompt::{MemoryLoader, Prompt, PromptConfig};
///
/// let file = "---\nname: greet\ntext_config:\n  model_name: sonnet\n---\n<User>Greet {props.name}.</User>\n";
/// let prompt = Prompt::load("greet.prompt.mdx", &MemoryLoader::new().with("greet.prompt.mdx", file))?;
/// let PromptConfig::Text(text) = prompt.fill(&serde_json::json!({"name": "Ann"}))? else { panic!() };
/// assert_eq!(text.messages[0].to_json()["content"], "Greet Ann.");
/// # Ok::<(), yb_prompt::PromptError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Prompt {
    path: String,
    header: Header,
    template: Arc<Template>,
}

/// One row of a dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The line that it stands in, from 1.
    pub line: usize,
    /// The props.
    pub input: Value,
    /// What the answer should be.
    pub expected_output: Option<Value>,
}

impl Prompt {
    /// Reads a prompt file and what it imports.
    ///
    /// # Errors
    /// [`PromptError::Template`] with the place of what is wrong, [`PromptError::Read`] when there is no such file.
    pub fn load(path: &str, loader: &dyn Loader) -> Result<Self, PromptError> {
        let text = loader.load(path).map_err(|reason| PromptError::Read { path: path.to_owned(), reason })?;
        let source = source_of(path, &text)?;
        let (header, from) = header::read(&source, loader)?;
        let template = Template::parse(source, from, loader)?;
        Ok(Self { path: path.to_owned(), header, template })
    }

    /// Its name: what the header says, else the file's without `.prompt.mdx`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.header.name.as_deref().unwrap_or_else(|| {
            let file = Path::new(&self.path).file_name().and_then(|name| name.to_str()).unwrap_or(&self.path);
            file.split('.').next().unwrap_or(file)
        })
    }

    /// Where it came from.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What it makes: `text_config`, `object_config`, `image_config` or `speech_config`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.header.kind.key()
    }

    /// The JSON Schema of its props.
    #[must_use]
    pub fn input_schema(&self) -> Option<&Value> {
        self.header.input_schema.as_ref()
    }

    /// How it is tested.
    #[must_use]
    pub fn test_settings(&self) -> &TestSettings {
        &self.header.test_settings
    }

    /// Fills it in.
    ///
    /// # Errors
    /// [`PromptError::Props`] when the props do not satisfy its `input_schema`, and [`PromptError::Template`] when an expression
    /// can't be computed with them.
    pub fn fill(&self, props: &Value) -> Result<PromptConfig, PromptError> {
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
        let rendered = render(&self.template, props)?;
        let name = self.name().to_owned();
        let messages = rendered.messages;
        let nothing = |what: &str| {
            let error =
                self.template.source.error_in_line(0, 0, format!("the prompt says nothing: no {what}"));
            Err(error)
        };
        Ok(match &self.header.kind {
            Kind::Text(_) | Kind::Object(_) if messages.is_empty() => return nothing("`<User>`"),
            Kind::Text(settings) => {
                PromptConfig::Text(TextConfig { name, messages, text_config: settings.clone() })
            }
            Kind::Object(settings) => {
                PromptConfig::Object(ObjectConfig { name, messages, object_config: settings.clone() })
            }
            Kind::Image(settings) => match rendered.spoken {
                Some(prompt) => {
                    PromptConfig::Image(ImageConfig { name, prompt, image_config: settings.clone() })
                }
                None => return nothing("`<ImagePrompt>`"),
            },
            Kind::Speech(settings) => match rendered.spoken {
                Some(text) => {
                    PromptConfig::Speech(SpeechConfig { name, text, speech_config: settings.clone() })
                }
                None => return nothing("`<SpeechPrompt>`"),
            },
        })
    }

    /// The props of `test_settings`, or none.
    #[must_use]
    pub fn test_props(&self) -> Value {
        self.header.test_settings.props.clone().unwrap_or_else(|| json!({}))
    }

    /// The rows of a dataset, by default that of `test_settings`. Each line is an object with `input` and, where something is
    /// expected, `expected_output`.
    ///
    /// # Errors
    /// When there is none, or a line is no such object.
    pub fn dataset(&self, path: Option<&str>, loader: &dyn Loader) -> Result<Vec<Row>, PromptError> {
        let path = match (path, &self.header.test_settings.dataset) {
            (Some(path), _) => path.to_owned(),
            (None, Some(path)) => {
                beside(&self.path, path).map_err(|reason| PromptError::Read { path: path.clone(), reason })?
            }
            (None, None) => {
                let error = self.template.source.error_in_line(0, 0, "the prompt has no dataset");
                return Err(error.with_hint("name one: `test_settings: { dataset: ./rows.jsonl }`"));
            }
        };
        let text =
            loader.load_dataset(&path).map_err(|reason| PromptError::Read { path: path.clone(), reason })?;
        let mut rows = Vec::new();
        for (number, line) in text.lines().enumerate() {
            if !line.trim().is_empty() {
                rows.push(row(line, number + 1, &path)?);
            }
        }
        Ok(rows)
    }
}

fn row(text: &str, line: usize, path: &str) -> Result<Row, PromptError> {
    let wrong = |column: usize, message: String| {
        let place = crate::error::Place { file: path.to_owned(), line, column };
        let hint = Some("a row is `{\"input\": {…}, \"expected_output\": …}`, in one line".to_owned());
        PromptError::Template { place, message, hint }
    };
    let mut value: Value =
        serde_json::from_str(text).map_err(|error| wrong(error.column(), format!("not JSON: {error}")))?;
    let Some(map) = value.as_object_mut() else { return Err(wrong(1, "expected an object".to_owned())) };
    let input = map.remove("input").filter(Value::is_object);
    let Some(input) = input else { return Err(wrong(1, "expected an object: `input`".to_owned())) };
    let expected_output = map.remove("expected_output").filter(|value| !value.is_null());
    Ok(Row { line, input, expected_output })
}
