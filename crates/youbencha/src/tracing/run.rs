//! The spans of a run, its trials, agents and evaluators.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use opentelemetry::trace::{SpanBuilder, Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Array, Context, KeyValue, StringValue, Value};
use yb_claude::Message;
use yb_engine::evaluate::{EvaluatorStatus, Verdict};
use yb_engine::log::{ExecutionStatus, UsageSource, YouBenchaLog};
use yb_engine::outcome::Outcome;
use yb_engine::run::{Plan, RunOutcome};
use yb_engine::trace::{AgentBegins, Begin, End, Trace, TrialEnd};
use yb_otel::{AgentSpans, AgentSpansConfig, Evaluation, Pipeline, Redactor, emit_evaluation};

use super::{names, with_pipeline_settings};

/// The maximum length of an error in a span.
const MAX_ERROR_CHARS: usize = 200;

/// The root span of a run.
#[derive(Debug, Clone)]
pub(crate) struct RunTrace(Arc<SpanNode>);

/// A span of a run, trial or evaluator.
#[derive(Debug)]
struct SpanNode {
    pipeline: Arc<Pipeline>,
    context: Context,
    /// The agent span of the trial, which verdicts refer to.
    agent: Arc<Mutex<Option<Context>>>,
}

impl SpanNode {
    fn start(pipeline: &Arc<Pipeline>, parent: &Context, name: String, attributes: Vec<KeyValue>) -> Self {
        let builder = SpanBuilder::from_name(name).with_attributes(attributes);
        let span = pipeline.tracer().build_with_context(builder, parent);
        Self { pipeline: Arc::clone(pipeline), context: parent.with_span(span), agent: Arc::default() }
    }

    fn child(&self, name: String, attributes: Vec<KeyValue>) -> Self {
        Self::start(&self.pipeline, &self.context, name, attributes)
    }

    fn set(&self, name: &'static str, value: impl Into<Value>) {
        self.context.span().set_attribute(KeyValue::new(name, value));
    }

    fn fail(&self, kind: &'static str, message: Option<&str>) {
        self.set(names::ERROR_TYPE, kind);
        self.context.span().set_status(Status::error(first_line(message.unwrap_or(kind))));
    }

    /// Ends the span, successfully unless it failed.
    fn end_span(&self, failed: bool) {
        if !failed {
            self.context.span().set_status(Status::Ok);
        }
        self.context.span().end();
    }

    fn end_trial(&self, record: &TrialEnd<'_>) {
        self.set(names::OUTCOME, record.outcome.as_str());
        if let Some(isolation) = record.isolation {
            self.set(names::ISOLATION, isolation.to_string());
        }
        if let Some(usd) = record.cost_usd {
            self.set(names::COST_USD, usd);
        }
        // A failed grade is no error of the execution.
        let failed = !matches!(record.outcome, Outcome::Passed | Outcome::Failed);
        if failed {
            self.fail(record.outcome.as_str(), record.error);
        }
        self.end_span(failed);
    }

    fn end_evaluator(&self, verdict: &Verdict) {
        let label = match verdict.status {
            EvaluatorStatus::Passed => "passed",
            EvaluatorStatus::Failed => "failed",
            EvaluatorStatus::Skipped => "skipped",
        };
        let mut evaluation = Evaluation::new(&verdict.evaluator).with_label(label);
        self.set(names::EVALUATION_LABEL, label);
        if let Some(score) = score(verdict) {
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
        let about = self.agent.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let about = about.unwrap_or_else(|| self.context.clone());
        emit_evaluation(&self.pipeline.logger(), &about, &evaluation, self.pipeline.redact());
        self.end_span(verdict.error.is_some());
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
                let node = self.child(
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
                if !trial.tags.is_empty() {
                    let tags = trial.tags.iter().map(|tag| StringValue::from(tag.clone())).collect();
                    node.set(names::TAGS, Value::Array(Array::String(tags)));
                }
                Arc::new(node)
            }
            Begin::Evaluator { name } => {
                let mut node = self.child(
                    format!("evaluate {name}"),
                    vec![
                        KeyValue::new(names::KIND, names::EVALUATOR),
                        KeyValue::new(names::EVALUATION_NAME, name.to_owned()),
                    ],
                );
                node.agent = Arc::clone(&self.agent);
                Arc::new(node)
            }
            Begin::Agent(begins) => {
                let agent = AgentNode::start(&self.pipeline, &self.context, begins);
                // Keep the agent of the trial, not a judge.
                let mut about = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
                about.get_or_insert_with(|| agent.spans.context());
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
        let stopped = tally.pending() > 0;
        if stopped {
            self.0.fail("stopped", Some("not all trials were run"));
        }
        self.0.end_span(stopped);
    }
}

/// The spans of an agent or judge.
#[derive(Debug)]
struct AgentNode {
    spans: AgentSpans,
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
        let config = with_pipeline_settings(config, pipeline, Redactor::from_values(secrets));
        let spans = AgentSpans::start(pipeline.tracers(), parent, config);
        Self { spans, has_messages: AtomicBool::new(false) }
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

    fn end(&self, how: End<'_>) {
        let End::Agent { log, outcome } = how else { return };
        if !self.has_messages.load(Ordering::Relaxed) {
            self.set_usage(log);
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
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(MAX_ERROR_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}
