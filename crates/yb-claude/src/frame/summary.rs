//! Aggregates the messages of a run.

mod failure;
mod limits;
mod tools;
mod usage;

use super::block::Block;
use super::head_tail::HeadTail;
use super::message::{AssistantMessage, Message, SYNTHETIC};
use super::result::{ModelUsage, PermissionDenial, ResultMessage, ResultSubtype};
use super::system::{ApiRetry, SystemMessage};
pub use failure::{ApiFailure, ApiFailureKind};
pub use limits::SummaryLimits;
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
///
/// Its size is bounded by [`SummaryLimits`]: of tool calls, results and denials it keeps the first and the last ones, and counts all.
#[derive(Debug, Clone)]
pub struct RunSummary {
    limits: SummaryLimits,
    session_id: Option<String>,
    cli_version: Option<String>,
    init_model: Option<String>,
    assistant_model: Option<String>,
    fallback_model: Option<String>,
    results: HeadTail<ResultMessage>,
    result_usage: usage::ResultUsage,
    partial: PartialText,
    tools: tools::ToolCalls,
    denials: limits::Denials,
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
        Self::with_limits(SummaryLimits::default())
    }

    /// Creates an empty summary with these limits.
    #[must_use]
    pub fn with_limits(limits: SummaryLimits) -> Self {
        Self {
            limits,
            session_id: None,
            cli_version: None,
            init_model: None,
            assistant_model: None,
            fallback_model: None,
            results: HeadTail::new(limits.results),
            result_usage: usage::ResultUsage::default(),
            partial: PartialText::default(),
            tools: tools::ToolCalls::new(limits.tools),
            denials: limits::Denials::default(),
            assistant_error: None,
            retries: 0,
            pending_retry: None,
        }
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
                result.permission_denials.iter().for_each(|denial| self.denials.add(denial));
                self.partial.turn_ended = true;
                self.result_usage.add(result);
                let weight = 2 * result.raw().as_str().len();
                self.results.push(ResultMessage::clone(result), weight, &mut drop);
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
            SystemMessage::PermissionDenied(denied) => self.denials.add(&PermissionDenial {
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
            self.partial.add(assistant, self.limits.text);
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

    /// Returns the results of all turns, or the first and the last ones; more than one if background work reported back.
    #[must_use]
    pub fn results(&self) -> &[ResultMessage] {
        self.results.items()
    }

    /// Returns the last result.
    #[must_use]
    pub fn last_result(&self) -> Option<&ResultMessage> {
        self.results.items().last()
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

    /// Returns the tool calls of the main thread and of subagents, in order: all, or the first and the last ones.
    #[must_use]
    pub fn tools(&self) -> &[ToolCall] {
        self.tools.calls().items()
    }

    /// Returns the kept tool call with this ID.
    #[must_use]
    pub fn tool(&self, id: &str) -> Option<&ToolCall> {
        self.tools.get(id)
    }

    /// Returns the number of tool calls. A repeated ID is recognized among the kept calls.
    #[must_use]
    pub fn tool_count(&self) -> u64 {
        self.tools.calls().len()
    }

    /// Returns the number of tool calls that are not kept, and how many of [`RunSummary::tools`] were made before them.
    #[must_use]
    pub fn omitted_tools(&self) -> (u64, usize) {
        (self.tools.calls().omitted(), self.tools.calls().head_len())
    }

    /// Returns the number of failed tool calls.
    #[must_use]
    pub fn failed_tool_count(&self) -> u64 {
        self.tools.failed()
    }

    /// Makes [`RunSummary::take_omitted_tools`] return the calls that are not kept: all but the last ones. Called before the first message.
    pub fn collect_omitted_tools(&mut self) {
        self.tools.collect_omitted();
    }

    /// Takes the calls that are no longer kept, in order.
    pub fn take_omitted_tools(&mut self) -> Vec<ToolCall> {
        self.tools.take_omitted()
    }

    /// Marks a finished tool call as failed, for hosts that learn of the failure from another source than the messages.
    pub fn mark_tool_failed(&mut self, id: &str) {
        self.tools.mark_failed(id);
    }

    /// Returns the denied tool calls: all, or the first ones.
    #[must_use]
    pub fn permission_denials(&self) -> &[PermissionDenial] {
        self.denials.first()
    }

    /// Returns the number of denied tool calls.
    #[must_use]
    pub fn permission_denial_count(&self) -> u64 {
        self.denials.count()
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
        self.result_usage.of_run(self.last_result()?, baseline)
    }
}

impl Default for RunSummary {
    fn default() -> Self {
        Self::new()
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

    fn add(&mut self, assistant: &AssistantMessage, limit: usize) {
        self.begin_turn();
        if self.text.len() >= limit {
            return;
        }
        let same_response = assistant.message.id.is_some() && assistant.message.id == self.response;
        if !self.text.is_empty() && !same_response {
            self.text.push_str("\n\n");
        }
        self.text.push_str(&assistant.text());
        self.text.truncate(self.text.floor_char_boundary(limit));
        self.response.clone_from(&assistant.message.id);
    }
}

/// Replaces the value unless the new one is absent or empty.
fn update(value: &mut Option<String>, new: Option<&str>) {
    if let Some(new) = new.filter(|new| !new.is_empty()) {
        *value = Some(new.to_owned());
    }
}
