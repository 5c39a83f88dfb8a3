//! One call of one judge: through its adapter, in a folder of its own with nothing in it but a copy of the result.

use std::path::PathBuf;
use std::sync::Arc;

use super::answer::{self, Answer};
use super::data::Data;
use super::prompt;
use crate::tree::{Extras, lay_out};
use crate::{Bench, Desk, FOLDER, GradeError, Subject};
use yb_agents::trace::{self, AgentBegins, End};
use yb_agents::{
    Adapter, AdapterError, AgentConfig, AvailabilityStatus, ExecutionContext, ExecutionResult, Host, Intent,
    Isolation, agent_host, secrets_of, without_secrets,
};
use yb_case::{Judge, Panelist};
use yb_model::log::{ExecutionStatus, FILE_NAME, UsageSource};
use yb_model::nonce;

/// The folder with the judged files, in the judge's. They are not its working directory itself, so that nothing in them is
/// taken for the judge's own: no instructions, no settings, no definition of an agent.
pub(super) const RESULT: &str = "result";
const PERMISSIONS: &str = "dontAsk";

/// What one call came to.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) agent: String,
    pub(super) model: Option<String>,
    /// The answer, or why it can't be used.
    pub(super) answer: Result<Answer, String>,
    /// What it cost, also if it can't be used.
    pub(super) cost_usd: Option<f64>,
    pub(super) tokens: u64,
    /// The judge's log, below the artifacts.
    pub(super) log: Option<String>,
}

impl Default for Asked {
    fn default() -> Self {
        let answer = Err("it was not asked".to_owned());
        Self { agent: String::new(), model: None, answer, cost_usd: None, tokens: 0, log: None }
    }
}

/// Why a judge of a case can't be used.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    /// The judge is of a type that does not exist.
    #[error("unknown agent: `{agent}`")]
    UnknownAgent {
        /// The type.
        agent: String,
    },
    /// An environment variable that the judge needs is not set.
    #[error("environment variable is not set: `{name}`")]
    NoVariable {
        /// The name of the variable.
        name: String,
    },
    /// The judge is not installed or not authenticated.
    #[error("{message}")]
    Unavailable {
        /// The problem.
        message: String,
        /// The ways out.
        hints: Vec<String>,
    },
    /// The configuration of the judge is invalid.
    #[error(transparent)]
    Agent(#[from] AdapterError),
    /// The environment of the judge can't be prepared.
    #[error("failed to grade: {reason}")]
    Grading {
        /// The cause.
        reason: String,
    },
}

/// Asks once. Whatever goes wrong is an answer that can't be used.
pub(super) async fn ask(
    judge: &Judge,
    who: &Panelist,
    number: usize,
    data: &Arc<Data>,
    subject: &Subject,
    desk: &Desk,
) -> Asked {
    let mut asked = Asked { agent: who.agent.clone(), model: who.model.clone(), ..Asked::default() };
    if let Err(error) = try_ask(judge, who, number, data, subject, desk, &mut asked).await {
        asked.answer = Err(error.to_string());
    }
    asked
}

async fn try_ask(
    judge: &Judge,
    who: &Panelist,
    number: usize,
    data: &Data,
    subject: &Subject,
    desk: &Desk,
    asked: &mut Asked,
) -> Result<(), GradeError> {
    let failed = |error: AdapterError| GradeError::other(format!("the judge could not be asked: {error}"));
    let adapters = &subject.bench.adapters;
    let known = adapters
        .get(&who.agent)
        .ok_or_else(|| GradeError::other(format!("no such agent as a judge: `{}`", who.agent)))?;
    let nonce = nonce();
    let mut config = config(judge, who, known);
    config.prompt = Some(prompt::of(judge, who, data, &nonce));
    let mut host = host(judge, known, &subject.bench)?;
    let name = format!("judge-{number}");
    let (work, private) = (desk.scratch.join(&name), desk.scratch.join(format!("{name}-private")));
    let artifacts = desk.folder().join(&name);
    for folder in [&work, &private, &artifacts] {
        std::fs::create_dir_all(folder).map_err(GradeError::io(folder))?;
    }
    lay_out(subject, &work.join(RESULT), Extras { hidden: &[], restore: Some(&[]) }).await?;
    let mut secrets = secrets_of(&host);
    secrets.extend(subject.secrets.iter().cloned());
    let begins = AgentBegins {
        agent: known.spec().name,
        model: config.model.as_deref(),
        prompt: config.prompt.as_deref(),
        secrets: &secrets,
    };
    let trace = trace::begin_agent(desk.trace.as_ref(), &begins, &mut host);
    let mut context = ExecutionContext::new(&work, &artifacts, &private, config, host);
    context.trace.clone_from(&trace);
    context.search_roots = roots(judge);
    context.timeout = judge.timeout;
    context.isolation = subject.bench.isolation;
    context.limits = subject.bench.limits;
    context.hidden.clone_from(&subject.bench.hidden);
    context.cancellation = subject.bench.cancel.clone();
    context.pause = subject.bench.pause.clone();
    let result = known.execute(&context).await.map_err(failed)?;
    let log = known.normalize_log(&result, &context);
    if let Some(trace) = &trace {
        trace.end(End::Agent { log: &log, outcome: result.outcome });
    }
    if log.usage.source != UsageSource::Unreported {
        asked.cost_usd = log.usage.estimated_cost_usd;
        asked.tokens = log.usage.total_tokens;
    }
    if log.model_info.name != "unknown" {
        asked.model = Some(log.model_info.name.clone());
    }
    log.write(&artifacts).map_err(|error| GradeError::other(error.to_string()))?;
    asked.log = Some(format!("{FOLDER}/{}/{name}/{FILE_NAME}", desk.name));
    let clean = |text: String| without_secrets(&text, secrets.iter().cloned());
    asked.answer = read(judge, &result, &nonce).map_err(clean);
    if let Ok(answer) = &mut asked.answer {
        answer.message = clean(std::mem::take(&mut answer.message));
    }
    Ok(())
}

/// The answer in what a judge left behind.
fn read(judge: &Judge, result: &ExecutionResult, nonce: &str) -> Result<Answer, String> {
    match result.status {
        ExecutionStatus::Success => {}
        ExecutionStatus::Timeout => return Err("Agent execution timed out".to_owned()),
        ExecutionStatus::Failed => {
            let why = result.errors.first().map_or("it gave no reason", |error| error.message.as_str());
            return Err(format!("Agent execution failed: {why}"));
        }
    }
    let spoken = result.transcript.as_ref().filter(|transcript| transcript.spoke());
    let ended = spoken.and_then(|transcript| transcript.summary().last_result());
    let structured =
        ended.and_then(|result| result.structured_output.as_ref()).and_then(|raw| raw.to_value().ok());
    let value = match structured {
        Some(value) => value,
        None => {
            let words = spoken.map_or(result.output.as_str(), |transcript| transcript.summary().final_text());
            answer::find(words, nonce)?
        }
    };
    answer::read(&value, &judge.assertions)
}

/// The configuration of a judge, which may read files only.
fn config(judge: &Judge, who: &Panelist, adapter: &dyn Adapter) -> AgentConfig {
    let mut config = AgentConfig::default();
    config.model.clone_from(&who.model);
    config.agent_name.clone_from(&who.agent_name);
    config.tools = adapter.spec().read_tools();
    config.permission_mode = Some(PERMISSIONS.to_owned());
    config.max_budget_usd = judge.max_budget_usd;
    config.answer_schema = Some(answer::schema(&judge.assertions));
    config.section.clone_from(&who.command);
    config
}

/// What a judge is given: its agent's credentials, and what its own configuration names; nothing that is the judged one's.
fn host(judge: &Judge, adapter: &dyn Adapter, bench: &Bench) -> Result<Host, GradeError> {
    let mut host = agent_host(adapter.spec(), &bench.env);
    let own = bench.variables(&judge.env)?;
    host.env.extend(own.into_iter().map(|(name, value)| (name.into(), value.into())));
    Ok(match &bench.shim {
        Some(shim) => host.with_shim(shim),
        None => host,
    })
}

/// Where the definition of a judge may be: beside the case, or where `yb` was started; never in what is judged.
fn roots(judge: &Judge) -> Vec<PathBuf> {
    std::iter::once(judge.dir.clone()).chain(std::env::current_dir()).collect()
}

/// Whether a case's judges can be, as far as that is known before anything starts.
pub fn check(judge: &Judge, isolation: Isolation, bench: &Bench) -> Result<(), JudgeError> {
    for who in &judge.panel {
        let known = bench.adapters.get(&who.agent);
        let known = known.ok_or_else(|| JudgeError::UnknownAgent { agent: who.agent.clone() })?;
        let unset = judge.env.iter().find(|one| one.value.is_none() && !bench.env.contains_key(&one.name));
        if let Some(unset) = unset {
            return Err(JudgeError::NoVariable { name: unset.name.clone() });
        }
        let mut config = config(judge, who, known);
        config.prompt = Some("x".to_owned());
        let host =
            host(judge, known, bench).map_err(|error| JudgeError::Grading { reason: error.to_string() })?;
        known.validate(&Intent::new(&config, &host, isolation, &roots(judge)))?;
    }
    Ok(())
}

/// Whether the judges are installed and may ask their models.
pub async fn available(judge: &Judge, bench: &Bench) -> Result<(), JudgeError> {
    for who in &judge.panel {
        let Some(known) = bench.adapters.get(&who.agent) else { continue };
        let host =
            host(judge, known, bench).map_err(|error| JudgeError::Grading { reason: error.to_string() })?;
        let found = known.check_availability(&config(judge, who, known), &host).await;
        if found.status != AvailabilityStatus::Ready {
            let message = format!("the judge can't be asked: {}", found.message);
            return Err(JudgeError::Unavailable { message, hints: found.hints });
        }
    }
    Ok(())
}
