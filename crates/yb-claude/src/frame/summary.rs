//! Aggregates the messages of a run.

mod failure;
mod tools;
mod usage;

use super::block::Block;
use super::message::{AssistantMessage, Message, SYNTHETIC};
use super::result::{ModelUsage, PermissionDenial, ResultMessage, ResultSubtype};
use super::system::{ApiRetry, SystemMessage};
pub use failure::{ApiFailure, ApiFailureKind};
pub use tools::{ToolCall, ToolOutcome};
pub use usage::{RunUsage, SessionTotals, Tokens, UsageBaseline, UsageSource};

/// The aggregated messages of one run of the CLI.
///
/// ```
/// let output = br#"{"type":"system","subtype":"init","model":"claude-opus-5-5","session_id":"s"}
/// {"type":"result","subtype":"success","result":"done","num_turns":1}"#;
/// let mut summary = yb_claude::RunSummary::new();
/// for frame in yb_claude::read_stream(output) {
///     if let Some(message) = frame.into_message() {
///         summary.observe(&message);
///     }
/// }
/// assert_eq!(summary.final_text(), "done");
/// assert_eq!(summary.model().unwrap().name, "claude-opus-5-5");
/// ```
#[derive(Debug, Clone, Default)]
pub struct RunSummary {
    session_id: Option<String>,
    cli_version: Option<String>,
    init_model: Option<String>,
    assistant_model: Option<String>,
    fallback_model: Option<String>,
    results: Vec<ResultMessage>,
    partial: PartialText,
    tools: tools::ToolCalls,
    denials: Vec<PermissionDenial>,
    assistant_error: Option<failure::AssistantError>,
    retries: u64,
    pending_retry: Option<ApiRetry>,
}

/// The text of the main thread in the current or last turn.
#[derive(Debug, Clone, Default)]
struct PartialText {
    text: String,
    /// The ID of the response that the last text belongs to.
    response: Option<String>,
    turn_ended: bool,
}

/// A model name and its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelName<'a> {
    /// The name.
    pub name: &'a str,
    /// The source of the name.
    pub source: ModelSource,
}

/// The source of a model name, most reliable first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelSource {
    /// The last `system/init` message.
    Init,
    /// The most expensive model of `modelUsage`.
    ModelUsage,
    /// A response of the main thread.
    Assistant,
    /// The result message.
    Result,
}

impl RunSummary {
    /// Creates an empty summary.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message.
    pub fn observe(&mut self, message: &Message) {
        // Some messages carry an empty ID before the session has one.
        if let Some(id) = message.session_id().filter(|id| !id.is_empty()) {
            self.session_id.get_or_insert_default().replace_range(.., id);
        }
        match message {
            Message::System(system) => self.observe_system(system),
            Message::Assistant(assistant) => self.observe_assistant(assistant),
            Message::User(user) => self.tools.add_results(user.message.content.blocks()),
            Message::StreamEvent(_) => self.pending_retry = None,
            Message::Result(result) => {
                for denial in &result.permission_denials {
                    self.deny(denial);
                }
                self.partial.turn_ended = true;
                self.results.push(ResultMessage::clone(result));
            }
            _ => {}
        }
    }

    fn observe_system(&mut self, system: &SystemMessage) {
        match system {
            SystemMessage::Init(init) => {
                self.partial.begin_turn();
                update(&mut self.cli_version, init.claude_code_version.as_deref());
                update(&mut self.init_model, init.model.as_deref());
            }
            SystemMessage::ApiRetry(retry) => {
                self.retries += 1;
                self.pending_retry = Some(ApiRetry::clone(retry));
            }
            SystemMessage::ModelFallback(fallback) | SystemMessage::ModelRefusalFallback(fallback) => {
                update(&mut self.fallback_model, fallback.fallback_model.as_deref());
            }
            SystemMessage::PermissionDenied(denied) => self.deny(&PermissionDenial {
                tool_name: denied.tool_name.clone(),
                tool_use_id: denied.tool_use_id.clone(),
                tool_input: None,
            }),
            _ => {}
        }
    }

    fn observe_assistant(&mut self, assistant: &AssistantMessage) {
        self.tools.add_calls(assistant);
        self.pending_retry = None;
        if assistant.parent_tool_use_id.is_some() {
            return;
        }
        self.assistant_error = failure::AssistantError::from_message(assistant);
        if assistant.is_synthetic() {
            return;
        }
        update(&mut self.assistant_model, assistant.message.model.as_deref());
        if assistant.message.content.iter().any(|block| matches!(block, Block::Text(_))) {
            self.partial.add(assistant);
        }
    }

    fn deny(&mut self, denial: &PermissionDenial) {
        let id = &denial.tool_use_id;
        match self.denials.iter_mut().find(|known| !id.is_empty() && known.tool_use_id == *id) {
            Some(known) if denial.tool_input.is_some() => known.clone_from(denial),
            Some(_) => {}
            None => self.denials.push(denial.clone()),
        }
    }

    /// Returns the model from the first available [`ModelSource`].
    #[must_use]
    pub fn model(&self) -> Option<ModelName<'_>> {
        let named =
            |name: Option<&'_ str>| name.filter(|name| !name.is_empty() && *name != SYNTHETIC).is_some();
        let candidates = [
            (self.init_model.as_deref(), ModelSource::Init),
            (self.largest_model(), ModelSource::ModelUsage),
            (self.assistant_model.as_deref(), ModelSource::Assistant),
            (self.last_result().and_then(|result| result.model.as_deref()), ModelSource::Result),
        ];
        let (name, source) = candidates.into_iter().find(|(name, _)| named(*name))?;
        Some(ModelName { name: name?, source })
    }

    /// Compares by cost rather than by tokens: helper models are cheap but may read many tokens.
    fn largest_model(&self) -> Option<&str> {
        let result = self.last_result()?;
        let usages = [&result.model_usage_since_last_result, &result.model_usage];
        let models = usages.into_iter().flatten().find(|models| !models.is_empty())?;
        let size =
            |usage: &ModelUsage| (usage.cost_usd.unwrap_or_default(), Tokens::from(usage).total_with_cache());
        let larger = |left: &ModelUsage, right: &ModelUsage| {
            let (left, right) = (size(left), size(right));
            left.0.total_cmp(&right.0).then(left.1.cmp(&right.1))
        };
        models.iter().max_by(|left, right| larger(left.1, right.1)).map(|(name, _)| name.as_str())
    }

    /// Returns the fallback model, if one was used.
    #[must_use]
    pub fn fallback_model(&self) -> Option<&str> {
        self.fallback_model.as_deref()
    }

    /// Returns the session ID, for resuming the session.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// Returns the version of the CLI.
    #[must_use]
    pub fn cli_version(&self) -> Option<&str> {
        self.cli_version.as_deref()
    }

    /// Returns the results of all turns; more than one if background work reported back.
    #[must_use]
    pub fn results(&self) -> &[ResultMessage] {
        &self.results
    }

    /// Returns the last result.
    #[must_use]
    pub fn last_result(&self) -> Option<&ResultMessage> {
        self.results.last()
    }

    /// Returns how the last turn ended; `None` if the output ended earlier.
    #[must_use]
    pub fn result_subtype(&self) -> Option<&ResultSubtype> {
        self.last_result().map(|result| &result.subtype)
    }

    /// Returns the final text, or the partial text if the run ended without one.
    #[must_use]
    pub fn final_text(&self) -> &str {
        match self.last_result() {
            Some(ResultMessage { subtype: ResultSubtype::Success, result: Some(text), .. }) => text,
            Some(ResultMessage { result: Some(text), .. }) if !text.is_empty() => text,
            _ => self.partial_text(),
        }
    }

    /// Returns the text of the main thread in the last turn, including text between tool calls.
    #[must_use]
    pub fn partial_text(&self) -> &str {
        &self.partial.text
    }

    /// Returns the turn count of the last result.
    #[must_use]
    pub fn num_turns(&self) -> Option<u64> {
        self.last_result()?.num_turns
    }

    /// Returns why the model stopped.
    #[must_use]
    pub fn stop_reason(&self) -> Option<&str> {
        self.last_result()?.stop_reason.as_deref()
    }

    /// Returns the tool calls of the main thread and of subagents, in order.
    #[must_use]
    pub fn tools(&self) -> &[ToolCall] {
        self.tools.calls()
    }

    /// Returns the denied tool calls.
    #[must_use]
    pub fn permission_denials(&self) -> &[PermissionDenial] {
        &self.denials
    }

    /// Returns the number of API retries.
    #[must_use]
    pub fn api_retries(&self) -> u64 {
        self.retries
    }

    /// Returns the API error that ended the run, if any.
    #[must_use]
    pub fn api_failure(&self) -> Option<ApiFailure> {
        failure::of_run(self.last_result(), self.assistant_error.as_ref())
    }

    /// Returns the API error that the CLI was retrying when its output ended.
    #[must_use]
    pub fn pending_failure(&self) -> Option<ApiFailure> {
        self.pending_retry.as_ref().map(failure::of_retry)
    }

    /// Returns the usage of the whole session, as the [`UsageBaseline`] of a run that resumes it.
    #[must_use]
    pub fn session_totals(&self) -> Option<SessionTotals> {
        self.last_result().and_then(SessionTotals::of)
    }

    /// Returns the usage of this run; `None` if the CLI reported none.
    #[must_use]
    pub fn usage(&self, baseline: UsageBaseline<'_>) -> Option<RunUsage> {
        usage::of_run(&self.results, baseline)
    }
}

impl<'a> Extend<&'a Message> for RunSummary {
    fn extend<I: IntoIterator<Item = &'a Message>>(&mut self, messages: I) {
        messages.into_iter().for_each(|message| self.observe(message));
    }
}

impl<'a> FromIterator<&'a Message> for RunSummary {
    fn from_iter<I: IntoIterator<Item = &'a Message>>(messages: I) -> Self {
        let mut summary = Self::new();
        summary.extend(messages);
        summary
    }
}

impl PartialText {
    fn begin_turn(&mut self) {
        if self.turn_ended {
            *self = Self::default();
        }
    }

    fn add(&mut self, assistant: &AssistantMessage) {
        self.begin_turn();
        let same_response = assistant.message.id.is_some() && assistant.message.id == self.response;
        if !self.text.is_empty() && !same_response {
            self.text.push_str("\n\n");
        }
        self.text.push_str(&assistant.text());
        self.response.clone_from(&assistant.message.id);
    }
}

/// Replaces the value unless the new one is absent or empty.
fn update(value: &mut Option<String>, new: Option<&str>) {
    if let Some(new) = new.filter(|new| !new.is_empty()) {
        *value = Some(new.to_owned());
    }
}
