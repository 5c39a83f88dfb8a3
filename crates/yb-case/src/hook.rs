//! Hooks that run before the agent and after grading.

use std::time::Duration;

use super::check::{Checker, join};
use super::fields_hook::{BOTH, DATABASE, SCRIPT, WEBHOOK, config_of};
use super::format::Format;
use super::shape::formatted;
use super::time::milliseconds;
use yb_yaml::{Node, Value};

/// The default timeout of `prepare` commands, which may install packages.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(600);

/// A shell command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The command.
    pub command: String,
    /// The arguments.
    pub args: Vec<String>,
    /// Environment variables, with unexpanded `${ENV:NAME}` in their values.
    pub env: Vec<(String, String)>,
    /// The timeout.
    pub timeout: Duration,
    /// The working directory, if set.
    pub working_dir: Option<String>,
}

/// A hook that runs after grading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PostHook {
    /// A shell command.
    Script(Script),
    /// An HTTP request with the results.
    Webhook(Webhook),
    /// A line in a JSON Lines file.
    Database(Database),
}

/// An HTTP request with the results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// The URL, with unexpanded `${ENV:NAME}`.
    pub url: String,
    /// `POST`, `PUT` or `PATCH`.
    pub method: String,
    /// Headers, with unexpanded `${ENV:NAME}` in their values.
    pub headers: Vec<(String, String)>,
    /// Whether to send the path of the artifacts.
    pub include_artifacts: bool,
    /// Whether to retry after a failure.
    pub retry_on_failure: bool,
    /// The timeout.
    pub timeout: Duration,
}

/// A line in a JSON Lines file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Database {
    /// The file.
    pub output_path: String,
    /// Whether to write the complete results instead of a summary.
    pub include_full_bundle: bool,
    /// Whether to append to the file instead of replacing it.
    pub append: bool,
}

impl Script {
    /// Iterates over the texts in which `${ENV:NAME}` is replaced.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let words = std::iter::once(self.command.as_str()).chain(self.args.iter().map(String::as_str));
        words.chain(self.env.iter().map(|(_, value)| value.as_str()))
    }
}

/// Words that a shell runs itself.
const SHELL_WORDS: &[&str] = &[
    "alias", "bg", "break", "case", "cd", "command", "continue", "do", "done", "echo", "eval", "exec",
    "exit", "export", "false", "fg", "for", "function", "getopts", "hash", "if", "kill", "local", "printf",
    "pwd", "read", "readonly", "return", "select", "set", "shift", "source", "test", "time", "times", "trap",
    "true", "type", "ulimit", "umask", "unalias", "unset", "until", "wait", "while",
];

/// Returns the program that a shell line starts with, if the line can't succeed without it: a single command, or several
/// that depend on each other.
#[must_use]
pub fn required_program(line: &str) -> Option<&str> {
    let line = line.trim();
    let word = line.split([' ', '\t']).next()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    let is_program = word.chars().all(plain) && word.starts_with(|c: char| c.is_ascii_alphanumeric());
    let alone = !line.replace("&&", "").contains(['\n', ';', '|', '&', '(', '{']);
    (is_program && alone && !SHELL_WORDS.contains(&word)).then_some(word)
}

impl PostHook {
    pub(crate) fn texts(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match self {
            Self::Script(script) => Box::new(script.texts()),
            Self::Webhook(hook) => {
                let headers = hook.headers.iter().map(|(_, value)| value.as_str());
                Box::new(std::iter::once(hook.url.as_str()).chain(headers))
            }
            Self::Database(hook) => Box::new(std::iter::once(hook.output_path.as_str())),
        }
    }
}

/// Validates the configuration of each hook.
pub(crate) fn check(node: Option<&Node>, path: &str, checker: &mut Checker<'_, '_>) {
    for (at, hook) in node.map(Node::items).unwrap_or_default().iter().enumerate() {
        let path = join(path, &format!("[{at}].config"));
        let name = hook.get("name").and_then(Node::text);
        let (Some(object), Some(config)) = (name.and_then(config_of), hook.get("config")) else { continue };
        if matches!(config.value, Value::Map(_)) {
            checker.object(config, object, &path);
        }
        if name != Some(WEBHOOK) {
            continue;
        }
        if let Some(url) = config.get("url") {
            let text = url.text().unwrap_or_default();
            if !text.is_empty() && !text.contains("${") && !Format::HttpUrl.accepts(text) {
                checker.wrong(url, &formatted(usize::MAX, Format::HttpUrl), &join(&path, "url"));
            }
        }
    }
}

pub(crate) fn scripts(node: Option<&Node>) -> Vec<Script> {
    post_hooks(node)
        .into_iter()
        .filter_map(|hook| if let PostHook::Script(script) = hook { Some(script) } else { None })
        .collect()
}

/// Reads the commands of `prepare` for the agent too.
pub(crate) fn prepare_for_agent(node: Option<&Node>) -> Vec<Script> {
    let items = node.map(Node::items).unwrap_or_default().iter();
    prepare_commands(items.filter(|item| item.get("for").and_then(Node::text) == Some(BOTH)))
}

/// Reads the commands of `prepare`: strings or mappings.
pub(crate) fn prepare(node: Option<&Node>) -> Vec<Script> {
    prepare_commands(node.map(Node::items).unwrap_or_default().iter())
}

fn prepare_commands<'n>(items: impl Iterator<Item = &'n Node>) -> Vec<Script> {
    items
        .filter_map(|item| {
            let Some(line) = item.text() else {
                let Some(PostHook::Script(mut script)) = read(SCRIPT, item) else { return None };
                if item.get("timeout_ms").is_none() {
                    script.timeout = PREPARE_TIMEOUT;
                }
                return Some(script);
            };
            Some(command_line(line))
        })
        .collect()
}

/// Returns a shell command with the timeout of `prepare`.
pub(crate) fn command_line(line: &str) -> Script {
    let (args, env) = (Vec::new(), Vec::new());
    Script { command: line.to_owned(), args, env, timeout: PREPARE_TIMEOUT, working_dir: None }
}

/// Reads validated hooks.
pub(crate) fn post_hooks(node: Option<&Node>) -> Vec<PostHook> {
    let hooks = node.map(Node::items).unwrap_or_default().iter();
    hooks.filter_map(|hook| Some(read(hook.get("name")?.text()?, hook.get("config")?))).flatten().collect()
}

fn read(name: &str, config: &Node) -> Option<PostHook> {
    let text = |key: &str| config.get(key).and_then(Node::text).map(str::to_owned);
    let flag = |key: &str, default| match config.get(key).map(|node| &node.value) {
        Some(Value::Bool(value)) => *value,
        _ => default,
    };
    let time = |default| {
        let given = config.get("timeout_ms").and_then(milliseconds);
        Duration::from_millis(given.unwrap_or(default))
    };
    let pairs = |key: &str| {
        let entries = config.get(key).map(Node::entries).unwrap_or_default().iter();
        entries.filter_map(|entry| Some((entry.key.name.clone(), entry.node.text()?.to_owned()))).collect()
    };
    match name {
        SCRIPT => Some(PostHook::Script(Script {
            command: text("command")?,
            args: texts(config.get("args")),
            env: pairs("env"),
            timeout: time(30_000),
            working_dir: text("working_dir"),
        })),
        WEBHOOK => Some(PostHook::Webhook(Webhook {
            url: text("url")?,
            method: text("method").unwrap_or_else(|| "POST".to_owned()),
            headers: pairs("headers"),
            include_artifacts: flag("include_artifacts", false),
            retry_on_failure: flag("retry_on_failure", true),
            timeout: time(5_000),
        })),
        DATABASE => Some(PostHook::Database(Database {
            output_path: text("output_path")?,
            include_full_bundle: flag("include_full_bundle", true),
            append: flag("append", true),
        })),
        _ => None,
    }
}

/// Returns the strings of a list.
pub(crate) fn texts(node: Option<&Node>) -> Vec<String> {
    let items = node.map(Node::items).unwrap_or_default().iter();
    items.filter_map(|item| item.text().map(str::to_owned)).collect()
}
