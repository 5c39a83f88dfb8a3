//! The spans of a run, its trials, agents and evaluators.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use opentelemetry::trace::{SpanBuilder, Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Array, Context, KeyValue, StringValue, Value};
use yb_claude::Message;
use yb_engine::adapter::SubagentCall;
use yb_engine::evaluate::{EvaluatorStatus, Verdict};
use yb_engine::log::{ExecutionStatus, UsageSource, YouBenchaLog};
use yb_engine::outcome::Outcome;
use yb_engine::run::{Plan, RunOutcome};
use yb_engine::trace::{AgentBegins, Begin, End, Trace, TrialEnd};
use yb_otel::{AgentSpans, AgentSpansConfig, Evaluation, Pipeline, Redactor, emit_evaluation};

use super::{names, with_pipeline_settings};

/// The maximum length of an error in a span.
const MAX_ERROR_CHARS: usize = 200;
/// The maximum length of a prompt in the span of a run or trial. The agent's span has all of it.
const MAX_PROMPT_CHARS: usize = 4000;

/// The root span of a run.
#[derive(Debug, Clone)]
pub(crate) struct RunTrace(Arc<SpanNode>);

/// A span of a run, trial or evaluator.
#[derive(Debug)]
struct SpanNode {
    pipeline: Arc<Pipeline>,
    context: Context,
    /// The results of the operations below it.
    results: Arc<Mutex<NodeResults>>,
    /// Those of its parent, to which its own result is added.
    parent: Option<Arc<Mutex<NodeResults>>>,
    /// The trial's name.
    trial: Option<String>,
}

/// The results below a run or a trial.
#[derive(Debug, Default)]
struct NodeResults {
    /// The agent span of the trial, which verdicts refer to.
    agent: Option<Context>,
    /// The prompt, if content is recorded.
    prompt: Option<String>,
    /// The verdicts of evaluators, or the outcomes of trials, by name. An attempt replaces the one before.
    verdicts: BTreeMap<String, NodeVerdict>,
}

/// The verdict of an evaluator, or the outcome of a trial.
#[derive(Debug, Clone)]
struct NodeVerdict {
    label: &'static str,
    score: Option<f64>,
    /// The explanation, if content is recorded.
    message: Option<String>,
}

impl NodeResults {
    /// Returns the mean of all scores.
    fn score(&self) -> Option<f64> {
        let scores: Vec<f64> = self.verdicts.values().filter_map(|verdict| verdict.score).collect();
        (!scores.is_empty()).then(|| scores.iter().sum::<f64>() / scores.len() as f64)
    }

    /// Formats the result and its parts.
    fn summary(&self, label: &str) -> String {
        let mut text = match self.score() {
            Some(score) => format!("{label}, score {score:.2}"),
            None => label.to_owned(),
        };
        for (name, verdict) in &self.verdicts {
            text.push_str(&format!("\n{name}: {}", verdict.label));
            if let Some(message) = verdict.message.as_deref().filter(|message| !message.is_empty()) {
                text.push_str(&format!(": {}", first_line(message)));
            }
        }
        text
    }
}

impl SpanNode {
    fn start(pipeline: &Arc<Pipeline>, parent: &Context, name: String, attributes: Vec<KeyValue>) -> Self {
        let builder = SpanBuilder::from_name(name).with_attributes(attributes);
        let span = pipeline.tracer().build_with_context(builder, parent);
        Self {
            pipeline: Arc::clone(pipeline),
            context: parent.with_span(span),
            results: Arc::default(),
            parent: None,
            trial: None,
        }
    }

    fn child(&self, name: String, attributes: Vec<KeyValue>) -> Self {
        let mut child = Self::start(&self.pipeline, &self.context, name, attributes);
        child.parent = Some(Arc::clone(&self.results));
        child
    }

    fn results(&self) -> MutexGuard<'_, NodeResults> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the result of this node to its parent's.
    fn report(&self, name: &str, verdict: NodeVerdict) {
        if let Some(parent) = &self.parent {
            let mut parent = parent.lock().unwrap_or_else(PoisonError::into_inner);
            parent.prompt = parent.prompt.take().or_else(|| self.results().prompt.clone());
            parent.verdicts.insert(name.to_owned(), verdict);
        }
    }

    /// Sets the verdict of a run or trial, its score, and its input and output if content is recorded. Returns the score.
    fn set_verdict(&self, label: &str) -> Option<f64> {
        let results = self.results();
        let score = results.score();
        self.set(names::OUTCOME, label.to_owned());
        if let Some(score) = score {
            self.set(names::SCORE, score);
        }
        if self.pipeline.content() {
            self.set(names::OUTPUT_VALUE, results.summary(label));
            if let Some(prompt) = &results.prompt {
                self.set(names::INPUT_VALUE, prompt.clone());
            }
        }
        score
    }

    fn set(&self, name: &'static str, value: impl Into<Value>) {
        self.context.span().set_attribute(KeyValue::new(name, value));
    }

    fn fail(&self, kind: &'static str, message: Option<&str>) {
        self.set(names::ERROR_TYPE, kind);
        self.context.span().set_status(Status::error(first_line(message.unwrap_or(kind))));
    }

    fn end_trial(&self, record: &TrialEnd<'_>) {
        let label = record.outcome.as_str();
        let score = self.set_verdict(label);
        if let Some(isolation) = record.isolation {
            self.set(names::ISOLATION, isolation.to_string());
        }
        if let Some(usd) = record.cost_usd {
            self.set(names::COST_USD, usd);
        }
        if record.outcome != Outcome::Passed {
            self.fail(label, record.error);
        }
        if let Some(name) = &self.trial {
            let mut evaluation = Evaluation::new(name).with_label(label);
            evaluation.score = score;
            self.emit(&evaluation, &self.context);
            self.report(name, NodeVerdict { label, score, message: None });
        }
        self.context.span().end();
    }

    /// Emits a result as an event for the span that it is about, and as an event of this span, because many receivers accept traces
    /// only.
    fn emit(&self, evaluation: &Evaluation, about: &Context) {
        emit_evaluation(&self.pipeline.logger(), about, evaluation, self.pipeline.redact());
        let mut attributes = vec![KeyValue::new(names::EVALUATION_NAME, evaluation.name.clone())];
        attributes
            .extend(evaluation.label.clone().map(|label| KeyValue::new(names::EVALUATION_LABEL, label)));
        attributes.extend(evaluation.score.map(|score| KeyValue::new(names::EVALUATION_SCORE, score)));
        let explanation = evaluation.explanation.clone();
        attributes.extend(explanation.map(|text| KeyValue::new(names::EVALUATION_EXPLANATION, text)));
        self.context.span().add_event(names::EVALUATION_EVENT, attributes);
    }

    fn end_evaluator(&self, verdict: &Verdict) {
        let label = match verdict.status {
            EvaluatorStatus::Passed => "passed",
            EvaluatorStatus::Failed => "failed",
            EvaluatorStatus::Skipped => "skipped",
        };
        let mut evaluation = Evaluation::new(&verdict.evaluator).with_label(label);
        self.set(names::EVALUATION_LABEL, label);
        let score = score(verdict);
        if let Some(score) = score {
            evaluation = evaluation.with_score(score);
            self.set(names::EVALUATION_SCORE, score);
        }
        // Messages may quote the agent.
        if self.pipeline.content() {
            evaluation = evaluation.with_explanation(&verdict.message);
            self.set(names::EVALUATION_EXPLANATION, verdict.message.clone());
        }
        if let Some(what) = &verdict.cheating {
            self.set(names::CHEATING, what.clone());
        }
        if let Some(usd) = verdict.cost_usd {
            self.set(names::COST_USD, usd);
        }
        if let Some(error) = &verdict.error {
            self.fail("grader_error", Some(&error.message));
        }
        let of_trial = |trial: &Arc<Mutex<NodeResults>>| {
            trial.lock().unwrap_or_else(PoisonError::into_inner).agent.clone()
        };
        let about = self.parent.as_ref().and_then(of_trial).unwrap_or_else(|| self.context.clone());
        self.emit(&evaluation, &about);
        let message = Some(verdict.message.clone()).filter(|_| self.pipeline.content());
        self.report(&verdict.evaluator, NodeVerdict { label, score, message });
        self.context.span().end();
    }
}

/// Marks an unfinished span as aborted.
impl Drop for SpanNode {
    fn drop(&mut self) {
        if self.context.span().is_recording() {
            self.fail("aborted", None);
            self.context.span().end();
        }
    }
}

impl Trace for SpanNode {
    fn begin(&self, what: Begin<'_>) -> Arc<dyn Trace> {
        match what {
            Begin::Trial(trial) => {
                let mut node = self.child(
                    format!("trial {}", trial.folder),
                    vec![
                        KeyValue::new(names::KIND, names::CHAIN),
                        KeyValue::new(names::TRIAL, trial.folder.to_owned()),
                        KeyValue::new(names::CASE, trial.case.to_owned()),
                        KeyValue::new(names::VARIANT, trial.variant.to_owned()),
                        KeyValue::new(names::REPEAT, i64::from(trial.repeat)),
                        KeyValue::new(names::ATTEMPT, i64::from(trial.attempt)),
                        KeyValue::new(names::AGENT, trial.agent.to_owned()),
                    ],
                );
                node.trial = Some(trial.folder.to_owned());
                if !trial.tags.is_empty() {
                    let tags = trial.tags.iter().map(|tag| StringValue::from(tag.clone())).collect();
                    node.set(names::TAGS, Value::Array(Array::String(tags)));
                }
                Arc::new(node)
            }
            Begin::Evaluator { name } => Arc::new(self.child(
                format!("evaluate {name}"),
                vec![
                    KeyValue::new(names::KIND, names::EVALUATOR),
                    KeyValue::new(names::EVALUATION_NAME, name.to_owned()),
                ],
            )),
            Begin::Agent(begins) => {
                let agent = AgentNode::start(&self.pipeline, &self.context, begins);
                // Keep the agent of the trial, not a judge.
                if self.trial.is_some() {
                    let mut results = self.results();
                    results.agent = Some(agent.spans.context());
                    results.prompt = agent.prompt.clone();
                }
                Arc::new(agent)
            }
        }
    }

    fn parent(&self) -> Option<String> {
        Some(yb_otel::traceparent(&self.context)).filter(|line| !line.is_empty())
    }

    fn end(&self, how: End<'_>) {
        match how {
            End::Trial(record) => self.end_trial(record),
            End::Evaluator(verdict) => self.end_evaluator(verdict),
            _ => {}
        }
    }
}

impl RunTrace {
    pub(super) fn start(pipeline: &Arc<Pipeline>, parent: &Context, plan: &Plan) -> Self {
        let attributes = vec![
            KeyValue::new(names::KIND, names::CHAIN),
            KeyValue::new(names::RUN_ID, plan.run.clone()),
            KeyValue::new(names::RUN_NAME, plan.name.clone()),
        ];
        Self(Arc::new(SpanNode::start(pipeline, parent, format!("run {}", plan.name), attributes)))
    }

    /// Returns the trace for the engine.
    pub(crate) fn node(&self) -> Arc<dyn Trace> {
        Arc::clone(&self.0) as Arc<dyn Trace>
    }

    /// Ends the span of the run.
    pub(crate) fn end(&self, outcome: &RunOutcome) {
        let tally = outcome.state.tally();
        for (outcome, count) in &tally.outcomes {
            let name = format!("{}.{outcome}", names::TRIALS);
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            self.0.context.span().set_attribute(KeyValue::new(name, count));
        }
        if let Some(usd) = tally.spend.total() {
            self.0.set(names::COST_USD, usd);
        }
        let passed = tally.outcomes.get(&Outcome::Passed).copied().unwrap_or_default();
        let label = match () {
            () if tally.pending() > 0 => "stopped",
            () if passed == tally.done => Outcome::Passed.as_str(),
            () => Outcome::Failed.as_str(),
        };
        self.0.set_verdict(label);
        if label != Outcome::Passed.as_str() {
            let total = tally.done + tally.pending();
            self.0.fail(label, Some(&format!("{passed} of {total} trials passed")));
        }
        self.0.context.span().end();
    }
}

/// The root span of a grading without an agent.
#[derive(Debug, Clone)]
pub(crate) struct GradingTrace(Arc<SpanNode>);

impl GradingTrace {
    pub(super) fn start(pipeline: &Arc<Pipeline>, parent: &Context, name: &str) -> Self {
        let attributes = vec![KeyValue::new(names::KIND, names::CHAIN)];
        Self(Arc::new(SpanNode::start(pipeline, parent, format!("eval {name}"), attributes)))
    }

    /// Returns the trace for the engine.
    pub(crate) fn node(&self) -> Arc<dyn Trace> {
        Arc::clone(&self.0) as Arc<dyn Trace>
    }

    /// Ends the span with the outcomes of the graded directory or trials.
    pub(crate) fn end(&self, outcomes: impl IntoIterator<Item = Outcome>) {
        let failed = outcomes.into_iter().find(|outcome| *outcome != Outcome::Passed);
        let label = failed.unwrap_or(Outcome::Passed).as_str();
        self.0.set_verdict(label);
        if failed.is_some() {
            self.0.fail(label, None);
        }
        self.0.context.span().end();
    }
}

/// The spans of an agent or judge.
#[derive(Debug)]
struct AgentNode {
    spans: AgentSpans,
    /// The prompt without secrets, if content is recorded.
    prompt: Option<String>,
    /// Whether it sent messages, from which spans are created.
    has_messages: AtomicBool,
}

impl AgentNode {
    fn start(pipeline: &Arc<Pipeline>, parent: &Context, begins: &AgentBegins<'_>) -> Self {
        let mut config = AgentSpansConfig::new(begins.agent);
        config.model = begins.model.map(str::to_owned);
        config.prompt = begins.prompt.filter(|_| pipeline.content()).map(str::to_owned);
        let secrets = begins.secrets.iter();
        let secrets = secrets.map(|(name, value)| (name.clone(), String::from_utf8_lossy(value)));
        let redact = Redactor::from_values(secrets);
        let prompt = config.prompt.clone().map(|prompt| shortened(&redact.apply(prompt), MAX_PROMPT_CHARS));
        let config = with_pipeline_settings(config, pipeline, redact);
        let spans = AgentSpans::start(pipeline.tracers(), parent, config);
        Self { spans, prompt, has_messages: AtomicBool::new(false) }
    }

    /// Sets the usage of an agent without messages from its log.
    fn set_usage(&self, log: &YouBenchaLog) {
        let context = self.spans.context();
        let span = context.span();
        let set = |name: &'static str, value: Value| span.set_attribute(KeyValue::new(name, value));
        let count = |count: u64| Value::I64(i64::try_from(count).unwrap_or(i64::MAX));
        if log.model_info.name != "unknown" {
            set(names::RESPONSE_MODEL, log.model_info.name.clone().into());
        }
        if log.usage.source != UsageSource::Unreported {
            set(names::INPUT_TOKENS, count(log.usage.input_tokens));
            set(names::OUTPUT_TOKENS, count(log.usage.output_tokens));
        }
    }
}

impl Trace for AgentNode {
    fn begin(&self, _: Begin<'_>) -> Arc<dyn Trace> {
        Arc::new(NoopTrace)
    }

    fn parent(&self) -> Option<String> {
        Some(yb_otel::traceparent(&self.spans.context())).filter(|line| !line.is_empty())
    }

    fn message(&self, message: &Message) {
        self.has_messages.store(true, Ordering::Relaxed);
        self.spans.observe(message, SystemTime::now());
    }

    fn subagent_call(&self, call: &SubagentCall) {
        self.spans.record_subagent_call(&call.agent, &call.response, call.at);
    }

    fn end(&self, how: End<'_>) {
        let End::Agent { log, outcome } = how else { return };
        if !self.has_messages.load(Ordering::Relaxed) {
            self.set_usage(log);
        }
        if log.agent.version != "unknown" {
            self.spans.set_agent_version(&log.agent.version);
        }
        let why = log.errors.first().map_or("", |error| error.message.as_str());
        self.spans.end(match (log.execution.status, outcome) {
            (_, Some(Outcome::Cancelled)) => yb_otel::AgentOutcome::Aborted,
            (ExecutionStatus::Success, _) => yb_otel::AgentOutcome::Ok,
            (ExecutionStatus::Timeout, _) => yb_otel::AgentOutcome::error("timeout", first_line(why)),
            (_, outcome) => {
                yb_otel::AgentOutcome::error(outcome.unwrap_or(Outcome::AgentError).as_str(), first_line(why))
            }
        });
    }
}

/// The trace below an agent, where the engine starts no spans.
struct NoopTrace;

impl Trace for NoopTrace {
    fn begin(&self, _: Begin<'_>) -> Arc<dyn Trace> {
        Arc::new(Self)
    }

    fn end(&self, _: End<'_>) {}
}

/// Returns the mean score of the checks; `None` for a skipped evaluator.
fn score(verdict: &Verdict) -> Option<f64> {
    let checks = &verdict.checks;
    match verdict.status {
        EvaluatorStatus::Skipped => None,
        _ if !checks.is_empty() => {
            Some(checks.iter().map(|check| check.score).sum::<f64>() / checks.len() as f64)
        }
        EvaluatorStatus::Passed => Some(1.0),
        EvaluatorStatus::Failed => Some(0.0),
    }
}

/// Returns the first line, shortened.
fn first_line(text: &str) -> String {
    shortened(text.lines().next().unwrap_or_default(), MAX_ERROR_CHARS)
}

fn shortened(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
