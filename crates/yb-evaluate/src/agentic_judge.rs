//! `agentic-judge`: agents score assertions, and the scores decide, whatever status a judge reports.
//!
//! A judge works in the sandbox, in a directory with a copy of the end tree. Everything that the judged agent wrote is
//! passed as quoted data: see `evidence`. An invalid response means no verdict, and never a pass.

mod call;
mod evidence;
mod prompt;
mod response;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::{
    Artifact, Assertion, Evaluator, EvaluatorContext, EvaluatorError, EvaluatorStatus, GradeError, GraderEnv,
    PreflightError, Subject, Verdict, into_config,
};
use call::JudgeCall;
use evidence::Evidence;
use response::JudgeResponse;
use yb_case::config_reader::number;
use yb_case::format::Format;
use yb_case::shape::{
    ENVIRONMENT, FREE, Field, Kind, MILLISECONDS, Object, RELATIVE_PATH, SHARE, TEXT, formatted,
};
use yb_case::{AgentSpec, ConfigReader, EnvVar, EvaluatorConfig, EvaluatorInput, EvaluatorSpec};
use yb_yaml::diagnostic::quoted;
use yb_yaml::{Node, Value as Yaml};

/// The default score that an assertion needs.
const DEFAULT_THRESHOLD: f64 = 0.7;
/// The limit for calls of one evaluator.
const MAX_CALLS: usize = 100;

pub(crate) static SPEC: EvaluatorSpec = EvaluatorSpec {
    name: "agentic-judge",
    summary: "scores that another agent gives to each assertion",
    input: EvaluatorInput::Tree,
    config: &CONFIG,
    read,
};

const ASSERTIONS: Kind =
    Kind::Either(&[Kind::List { of: &TEXT, min: 0 }, Kind::Map { names: Format::Any, of: &Kind::Any }]);

static CONFIG: Object = Object {
    name: "agenticJudge",
    fields: &[
        Field::new("type", Kind::AgentType, "Agent type of the judge.").required(),
        Field::new("agent_name", formatted(100, Format::Name), "Agent definition of the judge."),
        Field::new("model", formatted(200, Format::Model), "Model of the judge."),
        Field::new("timeout", MILLISECONDS, "Timeout in milliseconds.").default("300000"),
        Field::new("prompt", TEXT, "Further prompt in addition to the assertions."),
        Field::new("prompt_file", RELATIVE_PATH, "File with the further prompt."),
        Field::new(
            "instructions-file",
            RELATIVE_PATH,
            "File with a template of the complete prompt, with `{{ASSERTIONS}}`.",
        ),
        Field::new(
            "assertions",
            ASSERTIONS,
            "Assertions: a list of texts, or a map of names to texts or `{ text, threshold }`.",
        ),
        Field::new("criteria", ASSERTIONS, "Alias of `assertions`."),
        Field::new("threshold", SHARE, "Minimum score of each assertion, from 0 to 1.").default("0.7"),
        Field::new("repeat", Kind::Whole { min: 1, max: 100 }, "Number of calls per judge.").default("1"),
        Field::new(
            "panel",
            Kind::List { of: &Kind::Object(&PANELIST), min: 1 },
            "Panel of judges; missing keys are inherited.",
        ),
        Field::new("command", FREE, "Program for `type: command`: `argv`, `prompt_via`, `output`."),
        Field::new("env", ENVIRONMENT, "Environment variables of the judge."),
        Field::new(
            "max_budget_usd",
            Kind::Number { min: 0.0, max: f64::MAX, above: true },
            "Stops a call of a judge when its cost reaches this amount.",
        ),
    ],
};

static PANELIST: Object = Object {
    name: "judge",
    fields: &[
        Field::new("type", Kind::AgentType, "Agent type of the judge."),
        Field::new("agent_name", formatted(100, Format::Name), "Agent definition of the judge."),
        Field::new("model", formatted(200, Format::Model), "Model of the judge."),
        Field::new("command", FREE, "Program for `type: command`."),
    ],
};

/// A panel of judges and the assertions that they score.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AgenticJudge {
    /// The judges; at least one.
    pub(crate) panel: Vec<Panelist>,
    /// How often each judge is called.
    pub(crate) repeat: u32,
    /// The timeout of each call.
    pub(crate) timeout: Duration,
    /// The cost limit of each call.
    pub(crate) max_budget_usd: Option<f64>,
    /// Text in the prompt besides the assertions, inline or from `prompt_file`.
    pub(crate) prompt: Option<String>,
    /// The template of the whole prompt.
    pub(crate) instructions: Option<String>,
    pub(crate) assertions: Vec<JudgeAssertion>,
    /// The score that assertions without their own threshold need.
    pub(crate) threshold: f64,
    pub(crate) env: Vec<EnvVar>,
    /// The case's directory, where definitions of agents are looked up.
    pub(crate) dir: PathBuf,
}

/// A judge of the panel.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Panelist {
    /// The name of the agent.
    pub(crate) agent: String,
    /// The agent definition to run as.
    pub(crate) agent_name: Option<String>,
    pub(crate) model: Option<String>,
    /// The program, for the `command` adapter.
    pub(crate) command: Map<String, Value>,
}

/// An assertion that judges score.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JudgeAssertion {
    /// Its name; `assertion_1` and so on in a list.
    pub(crate) name: String,
    pub(crate) text: String,
    /// The score that it needs.
    pub(crate) threshold: f64,
    /// Whether the case names it.
    pub(crate) named: bool,
}

fn read(reader: &mut ConfigReader<'_, '_>) -> Option<Arc<dyn EvaluatorConfig>> {
    let config = reader.config();
    if let (Some(_), Some(file)) = (config.get("prompt"), config.entry("prompt_file")) {
        let message = "two prompts: `prompt` and `prompt_file`";
        reader.error(file.key.span, "prompt_file", message).hint("use only one of them");
    }
    let prompt_file = read_text_file(reader, "prompt_file");
    let instructions = read_text_file(reader, "instructions-file");
    let threshold = reader.number("threshold").unwrap_or(DEFAULT_THRESHOLD);
    let base = panelist(config, &Panelist { agent: reader.text("type")?, ..Panelist::default() });
    let others = reader.get("panel").map(Node::items).unwrap_or_default();
    let panel: Vec<Panelist> = if others.is_empty() {
        vec![base]
    } else {
        others.iter().map(|node| panelist(node, &base)).collect()
    };
    let repeat = match reader.get("repeat").map(|node| &node.value) {
        Some(Yaml::Int(times)) => u32::try_from(*times).unwrap_or(1),
        _ => 1,
    };
    let calls = panel.len() * repeat as usize;
    if calls > MAX_CALLS {
        let at = reader.get("repeat").or_else(|| reader.get("panel")).map_or(config.span, |node| node.span);
        reader
            .error(at, "repeat", format!("too many calls of judges: {calls}"))
            .expected(format!("at most {MAX_CALLS}"));
    }
    for (index, judge) in panel.iter().enumerate() {
        let runs_any_program = reader.agents().get(&judge.agent).is_some_and(AgentSpec::runs_any_program);
        if runs_any_program && judge.command.is_empty() {
            let message = format!("judge {} has no program", index + 1);
            reader
                .error(config.span, "command", message)
                .expected("`command: { argv: [program, argument, …] }`");
        }
    }
    let key = if config.get("assertions").is_some() { "assertions" } else { "criteria" };
    let assertions = read_assertions(reader, key, threshold);
    Some(into_config(AgenticJudge {
        panel,
        repeat: repeat.max(1),
        timeout: reader.duration("timeout").unwrap_or(Duration::from_secs(300)),
        max_budget_usd: reader.number("max_budget_usd"),
        prompt: reader.text("prompt").or(prompt_file),
        instructions,
        assertions,
        threshold,
        env: reader.environment("env"),
        dir: reader.dir().to_owned(),
    }))
}

fn read_text_file(reader: &mut ConfigReader<'_, '_>, key: &str) -> Option<String> {
    let node = reader.get(key)?;
    let path = node.text()?;
    match reader.read_prompt_file(path) {
        Ok(text) => Some(text),
        Err(error) => {
            let message = format!("failed to read `{key}` ({error}): {}", quoted(path));
            reader
                .error(node.span, key, message)
                .hint("use a path in or below the directory of the case file");
            None
        }
    }
}

/// Reads a judge; keys that it does not have are those of `base`.
fn panelist(node: &Node, base: &Panelist) -> Panelist {
    let text = |key: &str| node.get(key).and_then(Node::text).map(str::to_owned);
    let command = match node.get("command").map(Node::to_json) {
        Some(Value::Object(command)) => command,
        _ => base.command.clone(),
    };
    Panelist {
        agent: text("type").unwrap_or_else(|| base.agent.clone()),
        agent_name: text("agent_name").or_else(|| base.agent_name.clone()),
        model: text("model").or_else(|| base.model.clone()),
        command,
    }
}

fn read_assertions(reader: &mut ConfigReader<'_, '_>, key: &str, default: f64) -> Vec<JudgeAssertion> {
    let Some(node) = reader.get(key) else { return Vec::new() };
    let mut assertions = Vec::new();
    for (index, item) in node.items().iter().enumerate() {
        if let Some(text) = item.text() {
            let name = format!("assertion_{}", index + 1);
            assertions.push(JudgeAssertion { name, text: text.to_owned(), threshold: default, named: false });
        }
    }
    for entry in node.entries() {
        let name = entry.key.name.clone();
        let threshold = entry.node.get("threshold");
        if let Some(node) = threshold
            && !number(node).is_some_and(|score| (0.0..=1.0).contains(&score))
        {
            let message = format!("wrong value: {}", node.describe());
            reader
                .error(node.span, &format!("{key}.{name}.threshold"), message)
                .expected("a number from 0 to 1");
        }
        let text = match (entry.node.text(), entry.node.get("text").and_then(Node::text)) {
            (Some(text), _) | (None, Some(text)) => text.to_owned(),
            (None, None) if threshold.is_some() => {
                let message = format!("assertion without a text: {}", quoted(&name));
                reader
                    .error(entry.node.span, &format!("{key}.{name}"), message)
                    .expected("`{ text: …, threshold: 0.8 }`");
                continue;
            }
            (None, None) => entry.node.to_json().to_string(),
        };
        let threshold = threshold.and_then(number).unwrap_or(default);
        assertions.push(JudgeAssertion { name, text, threshold, named: true });
    }
    assertions
}

/// How many judges of one trial run at the same time.
const CONCURRENT_CALLS: usize = 4;
/// The tolerance for comparing scores: the mean of equal numbers is not always exactly that number.
const TOLERANCE: f64 = 1e-9;

#[async_trait]
impl Evaluator for AgenticJudge {
    fn is_vacuous(&self) -> bool {
        self.assertions.is_empty()
    }

    fn timeout(&self, _default: Duration) -> Duration {
        let rounds = (self.panel.len() * self.repeat as usize).div_ceil(CONCURRENT_CALLS);
        self.timeout * u32::try_from(rounds).unwrap_or(u32::MAX)
    }

    fn awaits_a_service(&self) -> bool {
        true
    }

    fn check(&self, env: &GraderEnv) -> Result<(), PreflightError> {
        call::check(self, env)
    }

    async fn check_availability(&self, env: &GraderEnv) -> Result<(), PreflightError> {
        call::check_availability(self, env).await
    }

    async fn evaluate(&self, subject: &Subject, context: &EvaluatorContext) -> Result<Verdict, GradeError> {
        let evidence = Arc::new(Evidence::collect(subject, context).await?);
        let permits = Arc::new(Semaphore::new(CONCURRENT_CALLS));
        let mut tasks = JoinSet::new();
        let judges = self.panel.iter().flat_map(|judge| (0..self.repeat).map(move |_| judge));
        for (index, panelist) in judges.enumerate() {
            let (judge, panelist, evidence) = (self.clone(), panelist.clone(), Arc::clone(&evidence));
            let (subject, context, permits) = (subject.clone(), context.clone(), Arc::clone(&permits));
            tasks.spawn(async move {
                let _permit = permits.acquire().await;
                (index, call::run(&judge, &panelist, index + 1, &evidence, &subject, &context).await)
            });
        }
        let mut calls = Vec::new();
        while let Some(finished) = tasks.join_next().await {
            calls.push(finished.map_err(|_| GradeError::other("a judge panicked; this is a bug"))?);
        }
        calls.sort_by_key(|(index, _)| *index);
        let calls: Vec<JudgeCall> = calls.into_iter().map(|(_, call)| call).collect();
        Ok(verdict(self, &calls))
    }
}

/// Combines all calls into a verdict.
fn verdict(judge: &AgenticJudge, calls: &[JudgeCall]) -> Verdict {
    let mut responses = Vec::new();
    let mut errors = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        match &call.response {
            Ok(response) => responses.push(response),
            Err(error) if calls.len() == 1 => errors.push(error.clone()),
            Err(error) => errors.push(format!("judge {}: {error}", index + 1)),
        }
    }
    let mut verdict = if errors.is_empty() {
        scored(judge, &responses)
    } else {
        let message = errors.join("; ");
        Verdict {
            status: EvaluatorStatus::Skipped,
            message: message.clone(),
            error: Some(EvaluatorError { message }),
            ..Verdict::from_checks(Vec::new())
        }
    };
    let agents: Vec<&str> = calls.iter().map(|call| call.agent.as_str()).collect();
    let same = agents.windows(2).all(|pair| pair[0] == pair[1]);
    let agent_type = if same { json!(agents.first()) } else { json!(agents) };
    let models: Vec<Option<&str>> = calls.iter().map(|call| call.model.as_deref()).collect();
    verdict = verdict
        .metric("agent_type", agent_type)
        .metric("judges", calls.len())
        .metric("models", json!(models))
        .metric("tokens", calls.iter().map(|call| call.tokens).sum::<u64>());
    let costs: Vec<f64> = calls.iter().filter_map(|call| call.cost_usd).collect();
    verdict.cost_usd = (!costs.is_empty()).then(|| costs.iter().sum());
    verdict.artifacts = calls
        .iter()
        .filter_map(|call| call.log.as_ref())
        .map(|path| Artifact::new("log", path.as_str(), "the log of the judge"))
        .collect();
    verdict
}

/// Returns the verdict by scores and thresholds. The status that judges report is only a metric.
fn scored(judge: &AgenticJudge, responses: &[&JudgeResponse]) -> Verdict {
    // Without assertions, the judge's own definition decides what it scores.
    let assertions: Vec<(String, f64)> = if judge.assertions.is_empty() {
        let names = responses.iter().flat_map(|response| response.scores.keys().cloned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names.dedup();
        names.into_iter().map(|name| (name, judge.threshold)).collect()
    } else {
        judge.assertions.iter().map(|one| (one.name.clone(), one.threshold)).collect()
    };
    let (mut checks, mut scores, mut agreement) = (Vec::new(), Map::new(), Vec::new());
    for (name, threshold) in &assertions {
        let given: Vec<f64> = responses.iter().map(|response| response.score(name).unwrap_or(0.0)).collect();
        let mean = given.iter().sum::<f64>() / given.len().max(1) as f64;
        let passes = |score: f64| score >= threshold - TOLERANCE;
        let passing = given.iter().filter(|score| passes(**score)).count();
        agreement.push(passing.max(given.len() - passing) as f64 / given.len().max(1) as f64);
        let check = Assertion::new(name, passes(mean)).with_values(mean, *threshold);
        let check = Assertion { score: mean, threshold: *threshold, ..check };
        checks.push(check.with_message(|| format!("{name} ({mean:.2}) below its threshold ({threshold})")));
        scores.insert(name.clone(), json!(given));
    }
    let total = checks.len();
    let mut verdict = Verdict::from_checks(checks);
    verdict.assertions = verdict.checks.iter().map(|one| (one.name.clone(), json!(one.score))).collect();
    let passed = total - verdict.failed_checks().count();
    let statuses: Vec<Value> = responses.iter().map(|response| json!(response.status)).collect();
    let messages: Vec<&str> = responses.iter().map(|response| response.message.as_str()).collect();
    verdict = verdict.metric("judge_said", statuses).metric("judge_messages", json!(messages));
    if responses.len() > 1 {
        let least = agreement.iter().copied().fold(1.0, f64::min);
        verdict = verdict.metric("agreement", least).metric("scores", scores);
    }
    verdict.with_summary(&format!("{passed} of {total} assertions passed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(thresholds: &[(&str, f64)]) -> AgenticJudge {
        let assertion = |(name, threshold): &(&str, f64)| JudgeAssertion {
            name: (*name).to_owned(),
            text: "x".to_owned(),
            threshold: *threshold,
            named: true,
        };
        AgenticJudge {
            panel: vec![Panelist::default()],
            repeat: 1,
            timeout: Duration::from_secs(1),
            max_budget_usd: None,
            prompt: None,
            instructions: None,
            assertions: thresholds.iter().map(assertion).collect(),
            threshold: 0.7,
            env: Vec::new(),
            dir: PathBuf::new(),
        }
    }

    fn call(status: &str, scores: &[(&str, f64)]) -> JudgeCall {
        let scores = scores.iter().map(|(name, score)| ((*name).to_owned(), *score)).collect();
        let response =
            JudgeResponse { status: Some(status.to_owned()), scores, message: "because".to_owned() };
        JudgeCall { response: Ok(response), cost_usd: Some(0.25), tokens: 10, ..JudgeCall::default() }
    }

    #[test]
    fn scores_decide_over_the_reported_status() {
        let judge = judge(&[("a", 0.7), ("b", 0.9)]);
        let passed = verdict(&judge, &[call("failed", &[("a", 0.7), ("b", 0.9)])]);
        assert_eq!(passed.status, EvaluatorStatus::Passed);
        assert_eq!(passed.metrics["judge_said"], json!(["failed"]));
        let failed = verdict(&judge, &[call("passed", &[("a", 1.0), ("b", 0.89)])]);
        assert_eq!(failed.status, EvaluatorStatus::Failed);
        assert_eq!(failed.message, "✗ 1 of 2 assertions passed | b (0.89) below its threshold (0.9)");
        assert_eq!(failed.assertions["b"], json!(0.89));
        assert_eq!(failed.cost_usd, Some(0.25));
    }

    #[test]
    fn scores_of_several_judges_are_averaged_with_agreement() {
        let judge = judge(&[("a", 0.6)]);
        let all = verdict(
            &judge,
            &[call("passed", &[("a", 1.0)]), call("passed", &[("a", 0.9)]), call("failed", &[("a", 0.2)])],
        );
        assert_eq!(all.status, EvaluatorStatus::Passed);
        assert!((all.checks[0].score - 0.7).abs() < 1e-9);
        assert!((all.metrics["agreement"].as_f64().unwrap() - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!(all.metrics["scores"]["a"], json!([1.0, 0.9, 0.2]));
        assert_eq!(all.cost_usd, Some(0.75));
    }

    #[test]
    fn invalid_response_skips_the_verdict_and_still_costs() {
        let judge = judge(&[("a", 0.6)]);
        let failed =
            JudgeCall { response: Err("no answer".to_owned()), cost_usd: Some(0.5), ..JudgeCall::default() };
        let all = verdict(&judge, &[call("passed", &[("a", 1.0)]), failed]);
        assert_eq!(all.status, EvaluatorStatus::Skipped);
        assert_eq!(all.error.unwrap().message, "judge 2: no answer");
        assert_eq!(all.cost_usd, Some(0.75));
    }

    #[test]
    fn every_score_counts_without_assertions() {
        let judge = judge(&[]);
        let failed = verdict(&judge, &[call("passed", &[("x", 0.9), ("y", 0.1)])]);
        assert_eq!(failed.status, EvaluatorStatus::Failed);
        assert_eq!(failed.checks.len(), 2);
    }
}
