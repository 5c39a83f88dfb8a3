//! Meters the usage of a running agent from its messages: for observers, and for the log of an agent that was stopped before it
//! reported its usage.
//!
//! The precision depends on the output of the agent. A line of an answer has the usage at the start of the answer: all input tokens
//! and one output token. The rest comes at the end of the answer, which is printed for the main thread with
//! `--include-partial-messages` (set if there is an observer), and for a subagent with its last answer only. Internal calls, such as
//! the compaction of the context, are not printed. Until the agent reports its usage, every number is a lower bound.

mod totals;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use yb_claude::frame::{
    ApiEvent, ApiMessage, ResultMessage, StreamEvent, SystemMessage, Tokens, Usage, UserMessage,
};
use yb_claude::{Block, Message, MessageContent, strip_ansi};
use yb_model::edit::relative_paths;

use super::bounds::RecentMap;
use super::prices::{self, TokenCounts};
use totals::{Totals, saturated};

/// The longest id or model name, in bytes.
const MAX_ID: usize = 256;
/// The most characters of a tool's input in a summary.
const MAX_SUMMARY: usize = 60;
/// Arguments that summarize a call, the best first.
const SUMMARY_ARGUMENTS: [&str; 10] =
    ["command", "file_path", "filePath", "path", "pattern", "url", "query", "description", "prompt", "skill"];

/// A snapshot of the progress of a running agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Live {
    /// Answers of the main thread so far.
    pub turns: u32,
    /// The last tool call of the main thread or a subagent: `Bash: cargo test`.
    pub last_tool: Option<String>,
    /// The cost of the main thread: a lower bound until the agent reports it, then exact and with internal calls.
    pub agent_usd: Option<f64>,
    /// The cost of subagents, a lower bound; none without subagents.
    pub subagents_usd: Option<f64>,
    /// Input tokens of all threads, without cached ones.
    pub input_tokens: u64,
    /// Output tokens of all threads.
    pub output_tokens: u64,
    /// The retry that the agent waits for.
    pub api_retry: Option<ApiRetry>,
}

impl Live {
    /// The total cost, a lower bound.
    #[must_use]
    pub fn usd(&self) -> Option<f64> {
        match (self.agent_usd, self.subagents_usd) {
            (None, None) => None,
            (agent, subagents) => Some(agent.unwrap_or_default() + subagents.unwrap_or_default()),
        }
    }
}

/// A failed request that is to be retried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ApiRetry {
    /// The HTTP status, if the API was reached.
    pub status: Option<u16>,
    /// The delay before the retry.
    pub retry_after: Option<Duration>,
}

/// Observes a running agent. Called from the task that reads the agent's output, so it must not block.
pub trait Observer: Send + Sync {
    /// The progress changed.
    fn changed(&self, live: &Live);
}

impl fmt::Debug for dyn Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// A fold over the messages of one execution.
#[derive(Debug, Clone, Default)]
pub(super) struct Meter {
    live: Live,
    /// Files in it are named without it.
    workspace: String,
    /// By the answer's id.
    calls: RecentMap<Call>,
    /// The sums over all calls, by model: those of calls that are remembered change with them.
    totals: Totals,
    /// The unfinished answer of the main thread (an empty name) and of subagents.
    open: RecentMap<String>,
    /// The last answer of each subagent, by the call that started it.
    last_of: RecentMap<String>,
    /// The usage that the agent reported, until a later call.
    reported: Option<ReportedTotal>,
}

/// One call of the API.
#[derive(Debug, Clone, Default)]
struct Call {
    model: String,
    by_subagent: bool,
    used: TokenCounts,
}

#[derive(Debug, Clone, Copy)]
struct ReportedTotal {
    usd: f64,
    tokens: Option<(u64, u64)>,
}

/// The usage of one model.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Metered {
    pub(super) used: TokenCounts,
    pub(super) usd: f64,
}

impl Meter {
    pub(super) fn in_workspace(workspace: &Path) -> Self {
        Self { workspace: workspace.to_string_lossy().into_owned(), ..Self::default() }
    }

    pub(super) fn live(&self) -> &Live {
        &self.live
    }

    #[cfg(test)]
    pub(super) fn kept_calls(&self) -> usize {
        self.calls.values().count()
    }

    /// The usage by model, as far as messages show it.
    pub(super) fn by_model(&self) -> BTreeMap<&str, Metered> {
        let mut models = self.totals.by_model();
        for call in self.calls.values() {
            let sum = models.entry(&call.model).or_default();
            sum.used.add(&call.used);
            sum.usd += call.usd();
        }
        models
    }

    /// Observes a message.
    pub(super) fn observe(&mut self, message: &Message) {
        match message {
            Message::StreamEvent(event) => self.take_event(event),
            Message::Assistant(said) if !said.is_synthetic() => {
                self.live.api_retry = None;
                self.take_answer(&said.message, said.parent_tool_use_id.as_deref());
                for block in &said.message.content {
                    if let Block::ToolUse(call) | Block::ServerToolUse(call) = block {
                        self.live.last_tool =
                            Some(call_summary(&call.name, call.input.as_str(), &self.workspace));
                    }
                }
            }
            Message::Assistant(_) => self.live.api_retry = None,
            Message::User(user) => self.take_end_of_subagent(user),
            Message::System(SystemMessage::ApiRetry(retry)) => {
                self.live.api_retry = Some(ApiRetry {
                    status: retry.error_status,
                    retry_after: retry.retry_delay_ms.map(Duration::from_millis),
                });
            }
            Message::Result(result) => self.take_result(result),
            _ => {}
        }
    }

    fn take_event(&mut self, event: &StreamEvent) {
        match &event.event {
            ApiEvent::MessageStart(answer) => {
                self.live.api_retry = None;
                if let Some(id) = self.take_answer(answer, event.parent_tool_use_id.as_deref()) {
                    self.open.insert(event.parent_tool_use_id.as_deref().unwrap_or_default(), id);
                }
            }
            ApiEvent::MessageDelta { usage: Some(usage), .. } => {
                let open = self.open.remove(event.parent_tool_use_id.as_deref().unwrap_or_default());
                if let Some(id) = open.filter(|id| self.calls.contains(id)) {
                    self.update(&id, |call| call.raise(used(usage)));
                    self.count();
                }
            }
            _ => {}
        }
    }

    /// Counts an answer or a part of it; the parts of an answer share its id.
    fn take_answer(&mut self, answer: &ApiMessage, subagent: Option<&str>) -> Option<String> {
        let (id, usage) = (answer.id.clone()?, answer.usage.as_ref()?);
        // A very long id is not one.
        let id = id.get(..id.floor_char_boundary(MAX_ID)).map(str::to_owned)?;
        if let Some(subagent) = subagent {
            self.last_of.insert(subagent, id.clone());
        }
        let before = self.calls.get(&id).map(|call| call.used);
        let now = self.update(&id, |call| {
            call.by_subagent = subagent.is_some();
            if let Some(model) = &answer.model {
                call.set_model(model);
            }
            call.raise(used(usage));
        });
        if before != Some(now) {
            self.count();
        }
        Some(id)
    }

    /// Counts the last answer of a subagent, which is printed with its usage as the result of the call that started it.
    fn take_end_of_subagent(&mut self, user: &UserMessage) {
        let Some(outcome) = &user.tool_use_result else { return };
        let MessageContent::Blocks(blocks) = &user.message.content else { return };
        let started_by = blocks.iter().find_map(|block| match block {
            Block::ToolResult(result) => Some(result.tool_use_id.as_str()),
            _ => None,
        });
        let Some((started_by, outcome)) = started_by.zip(SubagentResult::of(outcome.as_str())) else {
            return;
        };
        let id = match self.last_of.get(started_by) {
            // The result has no id of the answer, so the answer is identified by its input tokens.
            Some(last) if self.calls.get(last).is_some_and(|call| call.read_the_same(outcome.used)) => {
                last.clone()
            }
            _ => format!("the end of {started_by}"),
        };
        self.update(&id, |call| {
            call.by_subagent = true;
            if let Some(model) = &outcome.model {
                call.set_model(model);
            }
            call.raise(outcome.used);
        });
        self.count();
    }

    /// Changes a call, and the sums with it. Returns the usage of the call.
    fn update(&mut self, id: &str, change: impl FnOnce(&mut Call)) -> TokenCounts {
        let mut call = self.calls.get(id).cloned().unwrap_or_default();
        if self.calls.contains(id) {
            self.totals.live.subtract(&call);
        }
        change(&mut call);
        self.totals.live.add(&call);
        let used = call.used;
        match self.calls.get_mut(id) {
            Some(known) => *known = call,
            None => {
                if let Some(forgotten) = self.calls.insert(id, call) {
                    self.totals.settle(&forgotten);
                }
            }
        }
        used
    }

    fn take_result(&mut self, result: &ResultMessage) {
        self.live.api_retry = None;
        let Some(usd) = result.total_cost_usd.filter(|usd| usd.is_finite() && *usd >= 0.0) else { return };
        let tokens = result.model_usage.as_ref().map(|models| {
            models.values().map(Tokens::from).fold((0, 0), |sum: (u64, u64), tokens| {
                (sum.0.saturating_add(tokens.input), sum.1.saturating_add(tokens.output))
            })
        });
        self.count();
        self.reported = Some(ReportedTotal { usd, tokens });
        self.settle();
    }

    /// Sums up all calls.
    fn count(&mut self) {
        self.reported = None;
        let sums = &self.totals.live;
        let live = &mut self.live;
        (live.agent_usd, live.subagents_usd) = (sums.agent.usd(), sums.subagents.usd());
        live.turns = u32::try_from(sums.agent.calls).unwrap_or(u32::MAX);
        (live.input_tokens, live.output_tokens) = (saturated(sums.input), saturated(sums.output));
    }

    /// Takes the total that the agent reports. The part that no message showed is assigned to subagents if there were any, because
    /// their answers are printed incompletely.
    fn settle(&mut self) {
        let Some(ReportedTotal { usd, tokens }) = self.reported else { return };
        let live = &mut self.live;
        match live.subagents_usd {
            Some(_) => {
                let agent = live.agent_usd.unwrap_or_default().min(usd);
                (live.agent_usd, live.subagents_usd) = (Some(agent), Some(usd - agent));
            }
            None => live.agent_usd = Some(usd),
        }
        if let Some((input, output)) = tokens {
            (live.input_tokens, live.output_tokens) = (input, output);
        }
    }
}

impl Call {
    fn set_model(&mut self, model: &str) {
        let name = model.get(..model.floor_char_boundary(MAX_ID)).unwrap_or_default();
        name.clone_into(&mut self.model);
    }

    fn usd(&self) -> f64 {
        prices::of(&self.model).cost(&self.used)
    }

    /// Raises the counts: they only grow while an answer is written, and its end need not repeat the input tokens.
    fn raise(&mut self, now: TokenCounts) {
        let used = &mut self.used;
        used.input = used.input.max(now.input);
        used.output = used.output.max(now.output);
        used.cache_write = used.cache_write.max(now.cache_write);
        used.cache_write_1h = used.cache_write_1h.max(now.cache_write_1h);
        used.cache_read = used.cache_read.max(now.cache_read);
    }

    fn read_the_same(&self, other: TokenCounts) -> bool {
        TokenCounts { output: 0, ..self.used } == TokenCounts { output: 0, ..other }
    }
}

/// The cost of one call in US dollars, from the price list.
#[must_use]
pub fn call_cost(model: &str, usage: &Usage) -> f64 {
    prices::of(model).cost(&used(usage))
}

fn used(usage: &Usage) -> TokenCounts {
    let hour = usage.cache_creation.as_ref().map_or(0, |kept| kept.ephemeral_1h_input_tokens);
    TokenCounts {
        input: usage.input_tokens,
        output: usage.output_tokens,
        cache_write: usage.cache_creation_input_tokens.saturating_sub(hour),
        cache_write_1h: hour,
        cache_read: usage.cache_read_input_tokens,
    }
}

/// The result of a finished subagent.
struct SubagentResult {
    model: Option<String>,
    used: TokenCounts,
}

impl SubagentResult {
    /// `None` for the results of other tools.
    fn of(outcome: &str) -> Option<Self> {
        let outcome: Value =
            serde_json::from_str(Some(outcome).filter(|text| text.contains("\"agentId\""))?).ok()?;
        outcome.get("agentId")?.as_str()?;
        let usage = outcome.get("usage")?.as_object()?;
        let count = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or_default();
        let kept = usage.get("cache_creation").and_then(|kept| kept.get("ephemeral_1h_input_tokens"));
        let hour = kept.and_then(Value::as_u64).unwrap_or_default();
        let used = TokenCounts {
            input: count("input_tokens"),
            output: count("output_tokens"),
            cache_write: count("cache_creation_input_tokens").saturating_sub(hour),
            cache_write_1h: hour,
            cache_read: count("cache_read_input_tokens"),
        };
        Some(Self { model: outcome.get("resolvedModel").and_then(Value::as_str).map(str::to_owned), used })
    }
}

/// A one-line summary of a call.
fn call_summary(name: &str, input: &str, workspace: &str) -> String {
    let input: Value = serde_json::from_str(input).unwrap_or_default();
    let text = SUMMARY_ARGUMENTS.iter().find_map(|key| input.get(key)?.as_str()).unwrap_or_default();
    let clean = relative_paths(&strip_ansi(text), workspace);
    let words = clean.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = words.take(MAX_SUMMARY).collect::<Vec<_>>().join(" ");
    let name = name.get(..name.floor_char_boundary(MAX_SUMMARY)).unwrap_or_default();
    match line.char_indices().nth(MAX_SUMMARY) {
        _ if line.is_empty() => name.to_owned(),
        Some((end, _)) => format!("{name}: {}…", line.get(..end).unwrap_or_default().trim_end()),
        None => format!("{name}: {line}"),
    }
}

#[cfg(test)]
mod tests;
