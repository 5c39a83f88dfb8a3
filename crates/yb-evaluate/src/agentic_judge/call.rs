//! One call of one judge through its adapter, in its own directory with a copy of the end tree.

use std::path::PathBuf;
use std::sync::Arc;

use super::evidence::Evidence;
use super::response::{self, JudgeResponse};
use super::{AgenticJudge, Panelist, prompt};
use crate::protect::ChangePolicy;
use crate::tree::{TreeOptions, check_out};
use crate::{EvaluatorContext, FOLDER, GradeError, GraderEnv, PreflightError, Subject};
use yb_agents::trace::{self, AgentBegins, End};
use yb_agents::{
    Adapter, AdapterError, AgentConfig, AvailabilityStatus, ExecutionContext, ExecutionResult, Host, Intent,
    ProcessRole, agent_host, secrets_of, without_secrets,
};
use yb_model::log::{ExecutionStatus, FILE_NAME, ToolCallRecord, UsageSource};
use yb_model::nonce;

/// The directory with the judged files, below the judge's working directory. They are not in the working directory itself,
/// so that the judge's agent loads no instructions, settings or agent definitions from them.
pub(super) const RESULT_DIR: &str = "result";
const PERMISSIONS: &str = "dontAsk";

/// The outcome of one call.
#[derive(Debug)]
pub(super) struct JudgeCall {
    pub(super) agent: String,
    pub(super) model: Option<String>,
    /// The response, or why it is invalid.
    pub(super) response: Result<JudgeResponse, String>,
    /// The cost, also of an invalid response.
    pub(super) cost_usd: Option<f64>,
    pub(super) tokens: u64,
    /// The judge's log, below the artifacts.
    pub(super) log: Option<String>,
}

impl Default for JudgeCall {
    fn default() -> Self {
        let response = Err("the judge was not called".to_owned());
        Self { agent: String::new(), model: None, response, cost_usd: None, tokens: 0, log: None }
    }
}

/// Calls a judge once. A failure is an invalid response.
pub(super) async fn run(
    judge: &AgenticJudge,
    panelist: &Panelist,
    number: usize,
    evidence: &Arc<Evidence>,
    subject: &Subject,
    context: &EvaluatorContext,
) -> JudgeCall {
    let (agent, model) = (panelist.agent.clone(), panelist.model.clone());
    let mut call = JudgeCall { agent, model, ..JudgeCall::default() };
    if let Err(error) = try_run(judge, panelist, number, evidence, subject, context, &mut call).await {
        call.response = Err(error.to_string());
    }
    call
}

async fn try_run(
    judge: &AgenticJudge,
    panelist: &Panelist,
    number: usize,
    evidence: &Evidence,
    subject: &Subject,
    context: &EvaluatorContext,
    call: &mut JudgeCall,
) -> Result<(), GradeError> {
    let failed = |error: AdapterError| GradeError::other(format!("failed to call the judge: {error}"));
    let adapter = subject
        .grader_env
        .adapters
        .get(&panelist.agent)
        .ok_or_else(|| GradeError::other(format!("unknown agent: `{}`", panelist.agent)))?;
    let nonce = nonce();
    let mut config = agent_config(judge, panelist, adapter);
    config.prompt = Some(prompt::render(judge, panelist, evidence, &nonce));
    let mut host = judge_host(judge, adapter, &subject.grader_env)?;
    let name = format!("judge-{number}");
    let (work, private) = (context.scratch.join(&name), context.scratch.join(format!("{name}-private")));
    let artifacts = context.artifact_dir().join(&name);
    for folder in [&work, &private, &artifacts] {
        std::fs::create_dir_all(folder).map_err(GradeError::io(folder))?;
    }
    // A judge sees all changes of the agent.
    let all = ["**".to_owned()];
    let policy = ChangePolicy { may_change: Some(&all), ..ChangePolicy::default() };
    check_out(subject, &work.join(RESULT_DIR), TreeOptions { hidden: &[], policy }).await?;
    let mut secrets = secrets_of(&host);
    secrets.extend(subject.secrets.iter().cloned());
    let begins = AgentBegins {
        agent: adapter.spec().name,
        model: config.model.as_deref(),
        prompt: config.prompt.as_deref(),
        secrets: &secrets,
    };
    let trace = trace::begin_agent(context.trace.as_ref(), &begins, &mut host);
    let mut execution = ExecutionContext::new(&work, &artifacts, &private, config, host);
    let env = &subject.grader_env;
    execution.trace.clone_from(&trace);
    execution.search_roots = search_roots(judge);
    execution.timeout = judge.timeout;
    execution.isolation = env.isolation;
    execution.limits = env.limits;
    execution.hidden.clone_from(&env.hidden);
    execution.cancellation = env.cancel.clone();
    execution.pause = env.pause.clone();
    execution.start_recorder = env.start_recorder.clone().map(|recorder| (ProcessRole::Judge, recorder));
    let result = adapter.execute(&execution).await.map_err(failed)?;
    let log = adapter.normalize_log(&result, &execution);
    if let Some(trace) = &trace {
        trace.end(End::Agent { log: &log, outcome: result.outcome });
    }
    if log.usage.source != UsageSource::Unreported {
        call.cost_usd = log.usage.estimated_cost_usd;
        call.tokens = log.usage.total_tokens;
    }
    if log.model_info.name != "unknown" {
        call.model = Some(log.model_info.name.clone());
    }
    log.write(&artifacts).map_err(|error| GradeError::other(error.to_string()))?;
    call.log = Some(format!("{FOLDER}/{}/{name}/{FILE_NAME}", context.name));
    let clean = |text: String| without_secrets(&text, secrets.iter().cloned());
    call.response = match refused_tool(&log.tool_calls) {
        Some(refused) => Err(clean(refused)),
        None => read_response(judge, &result, &nonce).map_err(clean),
    };
    if let Ok(response) = &mut call.response {
        response.message = clean(std::mem::take(&mut response.message));
    }
    Ok(())
}

/// Describes a call that the judge's own agent refused: a tool that it does not have or may not use. A judge without its tools
/// scores what it has not seen. Other failures, such as a file that does not exist or has no read permission, are caused by the
/// judged files.
fn refused_tool(calls: &[ToolCallRecord]) -> Option<String> {
    let refused = calls.iter().filter(|call| call.is_error == Some(true)).find_map(|call| {
        let reason = call.result.as_deref().unwrap_or_default();
        is_refusal(reason).then_some((call, reason))
    });
    refused.map(|(call, reason)| format!("the judge could not use its tool `{}`: {reason}", call.name))
}

/// Whether a result is the answer of an agent to a call of a tool that is not available or not permitted. Measured with each CLI; Codex
/// reports no refused calls.
fn is_refusal(result: &str) -> bool {
    let text = result.trim();
    let is_unknown = |quote: char, end: &str| {
        let name = text.strip_prefix("Tool ").and_then(|rest| rest.strip_prefix(quote)?.split_once(quote));
        name.is_some_and(|(_, rest)| rest.starts_with(end))
    };
    const BEGINNINGS: [&str; 6] = [
        // Claude Code
        "<tool_use_error>Error: No such tool available: ",
        "Error: No such tool available: ",
        "Permission to use ",
        // Copilot
        "Permission denied because no interactive user response was available",
        // opencode
        "Model tried to call unavailable tool ",
        "The user has specified a rule which prevents you from using this specific tool call",
    ];
    BEGINNINGS.iter().any(|beginning| text.starts_with(beginning))
        // Copilot, and the Gemini CLI
        || is_unknown('\'', " does not exist.")
        || is_unknown('"', " not found.")
}

/// Reads the response from the result of a judge.
fn read_response(
    judge: &AgenticJudge,
    result: &ExecutionResult,
    nonce: &str,
) -> Result<JudgeResponse, String> {
    match result.status {
        ExecutionStatus::Success => {}
        ExecutionStatus::Timeout => return Err("Agent execution timed out".to_owned()),
        ExecutionStatus::Failed => {
            let reason = result.errors.first().map_or("unknown reason", |error| error.message.as_str());
            return Err(format!("Agent execution failed: {reason}"));
        }
    }
    let transcript = result.transcript.as_ref().filter(|transcript| transcript.spoke());
    let last = transcript.and_then(|transcript| transcript.summary().last_result());
    let structured =
        last.and_then(|result| result.structured_output.as_ref()).and_then(|raw| raw.to_value().ok());
    let value = match structured {
        Some(value) => value,
        None => {
            let text =
                transcript.map_or(result.output.as_str(), |transcript| transcript.summary().final_text());
            response::find(text, nonce)?
        }
    };
    response::parse(&value, &judge.assertions)
}

fn agent_config(judge: &AgenticJudge, panelist: &Panelist, adapter: &dyn Adapter) -> AgentConfig {
    let mut config = AgentConfig::default();
    config.model.clone_from(&panelist.model);
    config.agent_name.clone_from(&panelist.agent_name);
    config.tools = adapter.spec().read_tools();
    config.permission_mode = Some(PERMISSIONS.to_owned());
    config.max_budget_usd = judge.max_budget_usd;
    config.answer_schema = Some(response::schema(&judge.assertions));
    config.section.clone_from(&panelist.command);
    config
}

/// Returns the environment of a judge: its agent's credentials and the variables in its own configuration, nothing of the
/// judged agent.
fn judge_host(judge: &AgenticJudge, adapter: &dyn Adapter, env: &GraderEnv) -> Result<Host, GradeError> {
    let mut host = agent_host(adapter.spec(), &env.env);
    let own = env.variables(&judge.env)?;
    host.env.extend(own.into_iter().map(|(name, value)| (name.into(), value.into())));
    Ok(match &env.shim {
        Some(shim) => host.with_shim(shim),
        None => host,
    })
}

/// Returns where definitions of agents are looked up: beside the case and in the working directory of `yb`, never in the
/// judged files.
fn search_roots(judge: &AgenticJudge) -> Vec<PathBuf> {
    std::iter::once(judge.dir.clone()).chain(std::env::current_dir()).collect()
}

/// Checks the configuration of the judges, without starting a process.
pub(super) fn check(judge: &AgenticJudge, env: &GraderEnv) -> Result<(), PreflightError> {
    for panelist in &judge.panel {
        let adapter = env
            .adapters
            .get(&panelist.agent)
            .ok_or_else(|| PreflightError::UnknownAgent { agent: panelist.agent.clone() })?;
        let unset = judge.env.iter().find(|one| one.value.is_none() && !env.env.contains_key(&one.name));
        if let Some(unset) = unset {
            return Err(PreflightError::NoVariable { name: unset.name.clone() });
        }
        let mut config = agent_config(judge, panelist, adapter);
        config.prompt = Some("x".to_owned());
        let host = judge_host(judge, adapter, env)
            .map_err(|error| PreflightError::Grading { reason: error.to_string() })?;
        adapter.validate(&Intent::new(&config, &host, env.isolation, &search_roots(judge)))?;
    }
    Ok(())
}

/// Checks whether the agents of the judges are installed and authenticated.
pub(super) async fn check_availability(judge: &AgenticJudge, env: &GraderEnv) -> Result<(), PreflightError> {
    for panelist in &judge.panel {
        let Some(adapter) = env.adapters.get(&panelist.agent) else { continue };
        let host = judge_host(judge, adapter, env)
            .map_err(|error| PreflightError::Grading { reason: error.to_string() })?;
        let availability = adapter.check_availability(&agent_config(judge, panelist, adapter), &host).await;
        if availability.status != AvailabilityStatus::Ready {
            let message = format!("the judge is not available: {}", availability.message);
            return Err(PreflightError::Unavailable { message, hints: availability.hints });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(result: &str, is_error: bool) -> ToolCallRecord {
        ToolCallRecord {
            id: None,
            name: "view".to_owned(),
            arguments: "{}".to_owned(),
            result: Some(result.to_owned()),
            result_bytes: None,
            is_error: Some(is_error),
            started_at: None,
            completed_at: None,
            parent_tool_call_id: None,
        }
    }

    /// A file that the judged agent removed must not make its trial ungradable.
    #[test]
    fn refused_tool_is_an_error_and_a_missing_file_is_not() {
        let refused = refused_tool(&[call("text", false), call("Error: No such tool available: view", true)]);
        assert_eq!(
            refused.unwrap(),
            "the judge could not use its tool `view`: Error: No such tool available: view"
        );
        assert_eq!(refused_tool(&[call("File does not exist.", true)]), None);
        assert_eq!(refused_tool(&[call("the text says: no such tool", false)]), None);
        for measured in [
            "<tool_use_error>Error: No such tool available: Bash. Bash is disabled for this session.</tool_use_error>",
            "Permission to use Read has been denied because Claude Code is running in don't ask mode.",
            "Tool 'bash' does not exist.",
            "Permission denied because no interactive user response was available. Retry.",
            "Tool \"write_file\" not found. Did you mean one of: \"read_file\", \"glob\"?",
            "Model tried to call unavailable tool 'invalid'. Available tools: glob, grep, read.",
        ] {
            assert!(refused_tool(&[call(measured, true)]).is_some(), "{measured}");
        }
        // The judged agent can make files unreadable.
        for caused in
            ["EACCES: permission denied, open 'a'", "cat: a: Permission denied", "Tool \"x\" said no"]
        {
            assert_eq!(refused_tool(&[call(caused, true)]), None, "{caused}");
        }
    }
}
