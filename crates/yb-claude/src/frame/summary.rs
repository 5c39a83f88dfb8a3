//! What a run came to, gathered message by message.

mod failure;
mod spent;
mod tools;

use super::block::Block;
use super::message::{AssistantMessage, Message, SYNTHETIC};
use super::result::{ModelUsage, PermissionDenial, ResultMessage, ResultSubtype};
use super::system::{ApiRetry, System};
pub use failure::{ApiFailure, ApiFailureKind};
pub use spent::{Baseline, SessionTotals, Spent, Tokens, UsageSource};
pub use tools::{ToolCall, ToolOutcome};

/// A fold over the messages of one run of the CLI.
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
    partial: Partial,
    tools: tools::Tools,
    denials: Vec<PermissionDenial>,
    fault: Option<failure::Fault>,
    retries: u64,
    pending_retry: Option<ApiRetry>,
}

/// What the main thread said in the turn that is going on, or that ended last.
#[derive(Debug, Clone, Default)]
struct Partial {
    text: String,
    /// The answer that the last words belong to.
    answer: Option<String>,
    turn_ended: bool,
}

/// A model, and how it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelName<'a> {
    /// The name.
    pub name: &'a str,
    /// Where it stood.
    pub source: ModelSource,
}

/// Where the model was named, the most trustworthy place first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelSource {
    /// In `system/init`, the last one.
    Init,
    /// The most expensive model of `modelUsage`.
    ModelUsage,
    /// In an answer of the main thread.
    Assistant,
    /// In the result itself.
    Result,
}

impl RunSummary {
    /// Of a run that has not begun.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next message into account.
    pub fn observe(&mut self, message: &Message) {
        // Some messages carry an empty id before the session has one.
        if let Some(id) = message.session_id().filter(|id| !id.is_empty()) {
            self.session_id.get_or_insert_default().replace_range(.., id);
        }
        match message {
            Message::System(system) => self.observe_system(system),
            Message::Assistant(assistant) => self.observe_assistant(assistant),
            Message::User(user) => self.tools.take_results(user.message.content.blocks()),
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

    fn observe_system(&mut self, system: &System) {
        match system {
            System::Init(init) => {
                self.partial.begin_turn();
                keep(&mut self.cli_version, init.claude_code_version.as_deref());
                keep(&mut self.init_model, init.model.as_deref());
            }
            System::ApiRetry(retry) => {
                self.retries += 1;
                self.pending_retry = Some(ApiRetry::clone(retry));
            }
            System::ModelFallback(fallback) | System::ModelRefusalFallback(fallback) => {
                keep(&mut self.fallback_model, fallback.fallback_model.as_deref());
            }
            System::PermissionDenied(denied) => self.deny(&PermissionDenial {
                tool_name: denied.tool_name.clone(),
                tool_use_id: denied.tool_use_id.clone(),
                tool_input: None,
            }),
            _ => {}
        }
    }

    fn observe_assistant(&mut self, assistant: &AssistantMessage) {
        self.tools.take_calls(assistant);
        self.pending_retry = None;
        if assistant.parent_tool_use_id.is_some() {
            return;
        }
        self.fault = failure::Fault::of(assistant);
        if assistant.is_synthetic() {
            return;
        }
        keep(&mut self.assistant_model, assistant.message.model.as_deref());
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

    /// The model: of the last `init`, else the most expensive of `modelUsage`, else of an answer, else of the result.
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

    /// By cost rather than by tokens: helpers are cheap models that may read a lot.
    fn largest_model(&self) -> Option<&str> {
        let result = self.last_result()?;
        let usages = [&result.model_usage_since_last_result, &result.model_usage];
        let models = usages.into_iter().flatten().find(|models| !models.is_empty())?;
        let size =
            |usage: &ModelUsage| (usage.cost_usd.unwrap_or_default(), Tokens::from(usage).with_cache());
        let larger = |left: &ModelUsage, right: &ModelUsage| {
            let (left, right) = (size(left), size(right));
            left.0.total_cmp(&right.0).then(left.1.cmp(&right.1))
        };
        models.iter().max_by(|left, right| larger(left.1, right.1)).map(|(name, _)| name.as_str())
    }

    /// The model that took over, if one did.
    #[must_use]
    pub fn fallback_model(&self) -> Option<&str> {
        self.fallback_model.as_deref()
    }

    /// The session, to resume it.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// The version of the CLI.
    #[must_use]
    pub fn cli_version(&self) -> Option<&str> {
        self.cli_version.as_deref()
    }

    /// The ends of all turns; more than one when work in the background came back.
    #[must_use]
    pub fn results(&self) -> &[ResultMessage] {
        &self.results
    }

    /// The result that counts.
    #[must_use]
    pub fn last_result(&self) -> Option<&ResultMessage> {
        self.results.last()
    }

    /// How the last turn ended; none when the output ended before it did.
    #[must_use]
    pub fn ending(&self) -> Option<&ResultSubtype> {
        self.last_result().map(|result| &result.subtype)
    }

    /// The answer; or, when a limit or an end from outside left none, what the main thread had said by then.
    #[must_use]
    pub fn final_text(&self) -> &str {
        match self.last_result() {
            Some(ResultMessage { subtype: ResultSubtype::Success, result: Some(text), .. }) => text,
            Some(ResultMessage { result: Some(text), .. }) if !text.is_empty() => text,
            _ => self.partial_text(),
        }
    }

    /// What the main thread said in the last turn, the words between its tool calls included.
    #[must_use]
    pub fn partial_text(&self) -> &str {
        &self.partial.text
    }

    /// How many turns the last result counts.
    #[must_use]
    pub fn num_turns(&self) -> Option<u64> {
        self.last_result()?.num_turns
    }

    /// Why the model stopped.
    #[must_use]
    pub fn stop_reason(&self) -> Option<&str> {
        self.last_result()?.stop_reason.as_deref()
    }

    /// The tools that were called, by the main thread and by subagents, in order.
    #[must_use]
    pub fn tools(&self) -> &[ToolCall] {
        self.tools.calls()
    }

    /// The calls that were not allowed.
    #[must_use]
    pub fn permission_denials(&self) -> &[PermissionDenial] {
        &self.denials
    }

    /// How often the CLI asked the API again.
    #[must_use]
    pub fn api_retries(&self) -> u64 {
        self.retries
    }

    /// The API error that ended the run, if one did.
    #[must_use]
    pub fn api_failure(&self) -> Option<ApiFailure> {
        failure::of_run(self.last_result(), self.fault.as_ref())
    }

    /// The API error that the CLI had not got over when its output ended: what a run that was stopped waited for.
    #[must_use]
    pub fn pending_failure(&self) -> Option<ApiFailure> {
        self.pending_retry.as_ref().map(failure::of_retry)
    }

    /// What the session has used, to be the [`Baseline`] of a run that resumes it.
    #[must_use]
    pub fn session_totals(&self) -> Option<SessionTotals> {
        self.last_result().and_then(SessionTotals::of)
    }

    /// What this run used; none when the CLI reported nothing.
    #[must_use]
    pub fn spent(&self, baseline: Baseline<'_>) -> Option<Spent> {
        spent::of_run(&self.results, baseline)
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

impl Partial {
    fn begin_turn(&mut self) {
        if self.turn_ended {
            *self = Self::default();
        }
    }

    fn add(&mut self, assistant: &AssistantMessage) {
        self.begin_turn();
        let same_answer = assistant.message.id.is_some() && assistant.message.id == self.answer;
        if !self.text.is_empty() && !same_answer {
            self.text.push_str("\n\n");
        }
        self.text.push_str(&assistant.text());
        self.answer.clone_from(&assistant.message.id);
    }
}

/// Replaces what is known by what is new and not empty.
fn keep(known: &mut Option<String>, new: Option<&str>) {
    if let Some(new) = new.filter(|new| !new.is_empty()) {
        *known = Some(new.to_owned());
    }
}
