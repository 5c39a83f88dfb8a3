//! The spans of a run: the run, its trials, their agents, and the evaluators beside them.

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
use yb_otel::{AgentSpans, AgentSpansConfig, Evaluation, Pipeline, Redact, evaluation_result};

use super::{dressed, names};

/// How much of an error goes into a span.
const TOLD: usize = 200;

/// The span of a run, and the beginning of all that are below it.
#[derive(Debug, Clone)]
pub(crate) struct RunTrace(Arc<Node>);

/// One span that is not an agent's.
#[derive(Debug)]
struct Node {
    pipeline: Arc<Pipeline>,
    context: Context,
    /// The agent of the trial that this is or belongs to, once there was one: what verdicts are about.
    agent: Arc<Mutex<Option<Context>>>,
}

impl Node {
    fn start(pipeline: &Arc<Pipeline>, parent: &Context, name: String, attributes: Vec<KeyValue>) -> Self {
        let builder = SpanBuilder::from_name(name).with_attributes(attributes);
        let span = pipeline.tracer().build_with_context(builder, parent);
        Self { pipeline: Arc::clone(pipeline), context: parent.with_span(span), agent: Arc::default() }
    }

    fn below(&self, name: String, attributes: Vec<KeyValue>) -> Self {
        Self::start(&self.pipeline, &self.context, name, attributes)
    }

    fn set(&self, name: &'static str, value: impl Into<Value>) {
        self.context.span().set_attribute(KeyValue::new(name, value));
    }

    fn fail(&self, kind: &'static str, message: Option<&str>) {
        self.set(names::ERROR_TYPE, kind);
        self.context.span().set_status(Status::error(first_line(message.unwrap_or(kind))));
    }

    /// It is over, and well unless it was said to have failed.
    fn over(&self, failed: bool) {
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
        // That something was graded and did not pass is no error of whoever ran it.
        let failed = !matches!(record.outcome, Outcome::Passed | Outcome::Failed);
        if failed {
            self.fail(record.outcome.as_str(), record.error);
        }
        self.over(failed);
    }

    fn end_evaluator(&self, verdict: &Verdict) {
        let label = match verdict.status {
            EvaluatorStatus::Passed => "passed",
            EvaluatorStatus::Failed => "failed",
            EvaluatorStatus::Skipped => "skipped",
        };
        let mut told = Evaluation::new(&verdict.evaluator).with_label(label);
        self.set(names::EVALUATION_LABEL, label);
        if let Some(score) = score(verdict) {
            told = told.with_score(score);
            self.set(names::EVALUATION_SCORE, score);
        }
        // Reasons quote what agents wrote.
        if self.pipeline.content() {
            told = told.with_explanation(&verdict.message);
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
        evaluation_result(&self.pipeline.logger(), &about, &told, self.pipeline.redact());
        self.over(verdict.error.is_some());
    }
}

/// What was given up is no success.
impl Drop for Node {
    fn drop(&mut self) {
        if self.context.span().is_recording() {
            self.fail("aborted", None);
            self.context.span().end();
        }
    }
}

impl Trace for Node {
    fn begin(&self, what: Begin<'_>) -> Arc<dyn Trace> {
        match what {
            Begin::Trial(trial) => {
                let node = self.below(
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
                let mut node = self.below(
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
                let agent = Agent::start(&self.pipeline, &self.context, begins);
                // A judge is not what its verdict is about.
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
        Self(Arc::new(Node::start(pipeline, parent, format!("run {}", plan.name), attributes)))
    }

    /// For the engine.
    pub(crate) fn node(&self) -> Arc<dyn Trace> {
        Arc::clone(&self.0) as Arc<dyn Trace>
    }

    /// The run is over.
    pub(crate) fn end(&self, over: &RunOutcome) {
        let tally = over.state.tally();
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
            self.0.fail("stopped", Some("not every trial was run"));
        }
        self.0.over(stopped);
    }
}

/// An agent, of a trial or of a judge.
#[derive(Debug)]
struct Agent {
    spans: AgentSpans,
    /// Whether it printed messages, from which its spans are made.
    spoke: AtomicBool,
}

impl Agent {
    fn start(pipeline: &Arc<Pipeline>, parent: &Context, begins: &AgentBegins<'_>) -> Self {
        let mut config = AgentSpansConfig::new(begins.agent);
        config.model = begins.model.map(str::to_owned);
        config.prompt = begins.prompt.filter(|_| pipeline.content()).map(str::to_owned);
        let secrets = begins.secrets.iter();
        let secrets = secrets.map(|(name, value)| (name.clone(), String::from_utf8_lossy(value)));
        let config = dressed(config, pipeline, Redact::values(secrets));
        let spans = AgentSpans::start(pipeline.tracers(), parent, config);
        Self { spans, spoke: AtomicBool::new(false) }
    }

    /// An agent that prints no messages tells what it used at its end, if at all.
    fn used(&self, log: &YouBenchaLog) {
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

impl Trace for Agent {
    fn begin(&self, _: Begin<'_>) -> Arc<dyn Trace> {
        Arc::new(Nothing)
    }

    fn parent(&self) -> Option<String> {
        Some(yb_otel::traceparent(&self.spans.context())).filter(|line| !line.is_empty())
    }

    fn message(&self, message: &Message) {
        self.spoke.store(true, Ordering::Relaxed);
        self.spans.frame(message, SystemTime::now());
    }

    fn end(&self, how: End<'_>) {
        let End::Agent { log, outcome } = how else { return };
        if !self.spoke.load(Ordering::Relaxed) {
            self.used(log);
        }
        let why = log.errors.first().map_or("", |error| error.message.as_str());
        self.spans.end(match (log.execution.status, outcome) {
            (_, Some(Outcome::Cancelled)) => yb_otel::End::Aborted,
            (ExecutionStatus::Success, _) => yb_otel::End::Ok,
            (ExecutionStatus::Timeout, _) => yb_otel::End::error("timeout", first_line(why)),
            (_, outcome) => {
                yb_otel::End::error(outcome.unwrap_or(Outcome::AgentError).as_str(), first_line(why))
            }
        });
    }
}

/// Below an agent nothing begins that the engine knows of.
struct Nothing;

impl Trace for Nothing {
    fn begin(&self, _: Begin<'_>) -> Arc<dyn Trace> {
        Arc::new(Self)
    }

    fn end(&self, _: End<'_>) {}
}

/// The mean of what each check scored; an evaluator that could not look has none.
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

/// Enough to know what went wrong; the log has all of it.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(TOLD) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}
