//! `agentic-judge`: which agents judge, what they are told, and which score each assertion needs.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value as Json};

use super::super::agent_spec::AgentSpec;
use super::super::build::environment;
use super::super::check::{Checker, join};
use super::super::time::milliseconds;
use super::super::types::EnvVar;
use super::{Context, number};
use yb_yaml::diagnostic::quoted;
use yb_yaml::{Node, Value};

/// The score that an assertion needs, unless the case says another.
const THRESHOLD: f64 = 0.7;
/// The most calls of one evaluator.
const MOST_CALLS: usize = 100;

/// Agents that judge.
#[derive(Debug, Clone, PartialEq)]
pub struct Judge {
    /// Who judges: at least one.
    pub panel: Vec<Panelist>,
    /// How often each is asked.
    pub repeat: u32,
    /// The time of each call.
    pub timeout: Duration,
    /// What a call may cost.
    pub max_budget_usd: Option<f64>,
    /// What it is told besides the assertions, also from a `prompt_file`.
    pub prompt: Option<String>,
    /// The template of its whole prompt.
    pub instructions: Option<String>,
    /// What must hold.
    pub assertions: Vec<JudgeAssertion>,
    /// The score that everything needs that has no threshold of its own.
    pub threshold: f64,
    /// Variables that a judge is given.
    pub env: Vec<EnvVar>,
    /// Where definitions of agents are looked for: the case's directory.
    pub dir: PathBuf,
}

/// One of those who judge.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Panelist {
    /// Which agent.
    pub agent: String,
    /// Its own definition to run as.
    pub agent_name: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// The program, for the `command` adapter.
    pub command: Map<String, Json>,
}

/// Something that a judge gives a score for.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgeAssertion {
    /// Its name; `assertion_1` and so on in a list.
    pub name: String,
    /// What must hold.
    pub text: String,
    /// The score that it needs.
    pub threshold: f64,
    /// Whether the case names it.
    pub named: bool,
}

pub(super) fn read(
    config: &Node,
    path: &str,
    context: &Context<'_>,
    checker: &mut Checker<'_, '_>,
) -> Option<Judge> {
    let text = |key: &str| config.get(key).and_then(Node::text).map(str::to_owned);
    if let (Some(_), Some(file)) = (config.get("prompt"), config.entry("prompt_file")) {
        let message = "two prompts: `prompt` and `prompt_file`";
        checker.found.error(file.key.span, join(path, "prompt_file"), message).hint("use only one of them");
    }
    let mut from_file = |key: &str| {
        let node = config.get(key)?;
        let text = node.text()?;
        match super::super::prompt::read_file(context.dir, text) {
            Ok((_, text)) => Some(text),
            Err(error) => {
                let message = format!("failed to read `{key}` ({error}): {}", quoted(text));
                checker
                    .found
                    .error(node.span, join(path, key), message)
                    .hint("the path starts at the directory of the case file, and stays below it");
                None
            }
        }
    };
    let prompt = from_file("prompt_file");
    let instructions = from_file("instructions-file");
    let threshold = config.get("threshold").and_then(number).unwrap_or(THRESHOLD);
    let base = panelist(config, &Panelist { agent: text("type")?, ..Panelist::default() });
    let others = config.get("panel").map(Node::items).unwrap_or_default();
    let panel: Vec<Panelist> = if others.is_empty() {
        vec![base]
    } else {
        others.iter().map(|node| panelist(node, &base)).collect()
    };
    let repeat = match config.get("repeat").map(|node| &node.value) {
        Some(Value::Int(times)) => u32::try_from(*times).unwrap_or(1),
        _ => 1,
    };
    if panel.len() * repeat as usize > MOST_CALLS {
        let message = format!("too many calls of judges: {}", panel.len() * repeat as usize);
        let at = config.get("repeat").or_else(|| config.get("panel")).map_or(config.span, |node| node.span);
        checker.found.error(at, join(path, "repeat"), message).expected(format!("at most {MOST_CALLS}"));
    }
    for (at, one) in panel.iter().enumerate() {
        let spec = checker.agents.get(&one.agent);
        if spec.is_some_and(AgentSpec::runs_any_program) && one.command.is_empty() {
            let message = format!("a judge without a program: number {}", at + 1);
            checker
                .found
                .error(config.span, join(path, "command"), message)
                .expected("`command: { argv: [program, argument, …] }`");
        }
    }
    let key = if config.get("assertions").is_some() { "assertions" } else { "criteria" };
    Some(Judge {
        panel,
        repeat: repeat.max(1),
        timeout: Duration::from_millis(config.get("timeout").and_then(milliseconds).unwrap_or(300_000)),
        max_budget_usd: config.get("max_budget_usd").and_then(number),
        prompt: text("prompt").or(prompt),
        instructions,
        assertions: assertions(config.get(key), &join(path, key), threshold, checker),
        threshold,
        env: environment(config.get("env")),
        dir: context.dir.to_owned(),
    })
}

/// One who judges; what a member of a panel does not say is as for all.
fn panelist(node: &Node, base: &Panelist) -> Panelist {
    let text = |key: &str| node.get(key).and_then(Node::text).map(str::to_owned);
    let command = match node.get("command").map(Node::to_json) {
        Some(Json::Object(command)) => command,
        _ => base.command.clone(),
    };
    Panelist {
        agent: text("type").unwrap_or_else(|| base.agent.clone()),
        agent_name: text("agent_name").or_else(|| base.agent_name.clone()),
        model: text("model").or_else(|| base.model.clone()),
        command,
    }
}

fn assertions(
    node: Option<&Node>,
    path: &str,
    usual: f64,
    checker: &mut Checker<'_, '_>,
) -> Vec<JudgeAssertion> {
    let Some(node) = node else { return Vec::new() };
    let mut all = Vec::new();
    for (at, item) in node.items().iter().enumerate() {
        if let Some(text) = item.text() {
            let name = format!("assertion_{}", at + 1);
            all.push(JudgeAssertion { name, text: text.to_owned(), threshold: usual, named: false });
        }
    }
    for entry in node.entries() {
        let (name, path) = (entry.key.name.clone(), join(path, &entry.key.name));
        let threshold = entry.node.get("threshold");
        if let Some(wanted) = threshold
            && !number(wanted).is_some_and(|score| (0.0..=1.0).contains(&score))
        {
            let message = format!("wrong value: {}", wanted.describe());
            checker
                .found
                .error(wanted.span, join(&path, "threshold"), message)
                .expected("a number from 0 to 1");
        }
        let text = match (entry.node.text(), entry.node.get("text").and_then(Node::text)) {
            (Some(text), _) | (None, Some(text)) => text.to_owned(),
            (None, None) if threshold.is_some() => {
                let message = format!("an assertion without a text: {}", quoted(&name));
                checker
                    .found
                    .error(entry.node.span, &path, message)
                    .expected("`{ text: …, threshold: 0.8 }`");
                continue;
            }
            (None, None) => entry.node.to_json().to_string(),
        };
        let threshold = threshold.and_then(number).unwrap_or(usual);
        all.push(JudgeAssertion { name, text, threshold, named: true });
    }
    all
}
