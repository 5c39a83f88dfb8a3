//! Decodes the YAML of a script.

use std::sync::Arc;

use super::{Block, LaneMatcher, MAIN, Reply, Script, ScriptLane, ScriptedUsage, StreamPacing, fault, units};
use crate::cursor::{Cursor, Fields, ScriptSource};
use crate::error::ScriptError;
use crate::vars::Vars;
use crate::yaml::{self, Key, Value};

/// The supported format version.
const VERSION: u64 = 1;

const SCRIPT_KEYS: &[&str] = &["tape", "model", "lanes"];
const LANE_KEYS: &[&str] = &["match", "replies"];
const MATCH_KEYS: &[&str] = &["prompt", "system"];
const REPLY_KEYS: &[&str] = &["say", "think", "tools", "blocks", "stop", "usage", "pace", "fault"];
const USAGE_KEYS: &[&str] = &["input", "output", "cache_read", "cache_write", "cache_write_1h"];
const PACE_KEYS: &[&str] = &["delay", "between", "chunk"];
const STOPS: [&str; 7] = [
    "end_turn",
    "tool_use",
    "max_tokens",
    "stop_sequence",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
];

pub(super) fn read_script(text: &str, file: &str, vars: &Vars) -> Result<Script, ScriptError> {
    let node = yaml::parse(text, file)?;
    let source = ScriptSource::new(file, vars);
    let root = source.root(&node);
    check_version(&root)?;
    let fields = root.fields(SCRIPT_KEYS)?;
    let lanes = fields.get("lanes").ok_or_else(|| {
        fields
            .error("missing key")
            .found("`lanes`")
            .with_hint("add `lanes:` with a list of replies under `main:`")
    })?;
    let lanes = lanes
        .entries("a mapping of lane names to replies")?
        .into_iter()
        .map(|(name, at)| lane(&lanes, name, &at))
        .collect::<Result<Vec<_>, _>>()?;
    if lanes.is_empty() {
        return Err(fields.error("no lanes").with_hint("add a list of replies under `lanes.main`"));
    }
    Ok(Script { model: fields.get("model").map(|m| m.text()).transpose()?, lanes })
}

/// Checks the version first, since a newer format may contain unknown keys.
fn check_version(root: &Cursor<'_>) -> Result<(), ScriptError> {
    let Value::Map(_) = root.value() else {
        return Err(root.wrong("a mapping with the keys `tape` and `lanes`"));
    };
    let version = root.entries("a mapping")?.into_iter().find(|(key, _)| key.name == "tape");
    let Some((_, version)) = version else {
        return Err(root
            .error("missing key")
            .found("`tape`")
            .with_hint(format!("start the script with `tape: {VERSION}`")));
    };
    match version.count()? {
        VERSION => Ok(()),
        0 => Err(version.wrong(format!("the format version, `{VERSION}`"))),
        newer => Err(version
            .error("unsupported format version")
            .expected(format!("`{VERSION}`"))
            .found(format!("`{newer}`"))
            .with_hint("the script requires a newer version; update youbencha")),
    }
}

fn lane(lanes: &Cursor<'_>, key: &Key, at: &Cursor<'_>) -> Result<ScriptLane, ScriptError> {
    let name = key.name.as_str();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 40 || !name.chars().all(plain) {
        return Err(lanes
            .key_error(key, "invalid lane name")
            .expected("1 to 40 letters, digits, `-` or `_`"));
    }
    let (matcher, replies) = if let Value::List(_) = at.value() {
        (None, at.clone())
    } else if let Value::Map(_) = at.value() {
        let fields = at.fields(LANE_KEYS)?;
        let replies = fields.get("replies").ok_or_else(|| fields.error("missing key").found("`replies`"))?;
        (fields.get("match").map(|m| matcher(&m)).transpose()?, replies)
    } else {
        return Err(at.wrong("a list of replies, or a mapping with the keys `match` and `replies`"));
    };
    if matcher.is_none() && name != MAIN {
        return Err(at.error("missing key").found("`match`").with_hint(
            "add `match: TEXT` with a text from the first prompt of the conversation; only `main` can omit it",
        ));
    }
    let replies = replies
        .items("a list of replies")?
        .iter()
        .map(|at| reply(at).map(Arc::new))
        .collect::<Result<Vec<_>, _>>()?;
    if replies.is_empty() {
        return Err(at.error("no replies").with_hint("add at least one reply, such as `- say: Done.`"));
    }
    Ok(ScriptLane { name: name.to_owned(), matcher, replies })
}

fn matcher(at: &Cursor<'_>) -> Result<LaneMatcher, ScriptError> {
    let part = |at: &Cursor<'_>| {
        let text = at.text()?;
        if text.trim().is_empty() { Err(at.wrong("a non-blank string")) } else { Ok(text) }
    };
    if let Value::Map(_) = at.value() {
        let fields = at.fields(MATCH_KEYS)?;
        let matcher = LaneMatcher {
            prompt: fields.get("prompt").map(|p| part(&p)).transpose()?,
            system: fields.get("system").map(|s| part(&s)).transpose()?,
        };
        if matcher.prompt.is_none() && matcher.system.is_none() {
            return Err(at.error("nothing to match").expected("`prompt`, `system` or both"));
        }
        return Ok(matcher);
    }
    Ok(LaneMatcher { prompt: Some(part(at)?), system: None })
}

fn reply(at: &Cursor<'_>) -> Result<Reply, ScriptError> {
    let fields = at.fields(REPLY_KEYS)?;
    let fault = fields.get("fault").map(|f| fault::read_fault(&f)).transpose()?;
    let blocks = blocks(&fields)?;
    if blocks.is_empty() && !fault.as_ref().is_some_and(fault::Fault::replaces_reply) {
        let error = fields.error("empty reply").expected("`say`, `think`, `tools` or `blocks`");
        return Err(if fault.is_some() {
            error.with_hint("this fault needs a reply to interrupt, or to send afterwards")
        } else {
            error
        });
    }
    let calls_tool = blocks.iter().any(|block| matches!(block, Block::Tool { .. }));
    let stop = match fields.get("stop") {
        Some(stop) => stop.word(&STOPS)?,
        None if calls_tool => "tool_use",
        None => "end_turn",
    };
    Ok(Reply {
        blocks,
        stop,
        usage: fields.get("usage").map(|u| usage(&u)).transpose()?.unwrap_or_default(),
        pacing: fields.get("pace").map(|p| pacing(&p)).transpose()?.unwrap_or_default(),
        fault,
    })
}

/// Decodes the blocks of a reply: either thinking, text and tools in this order, or `blocks` in any order.
fn blocks(fields: &Fields<'_>) -> Result<Vec<Block>, ScriptError> {
    let mut blocks = Vec::new();
    if let Some(think) = fields.get("think") {
        blocks.push(Block::Thinking(think.text()?));
    }
    if let Some(say) = fields.get("say") {
        blocks.push(Block::Text(say.text()?));
    }
    if let Some(tools) = fields.get("tools") {
        for item in tools.items("a list of tool calls")? {
            blocks.push(tool(&item)?);
        }
    }
    let Some(ordered) = fields.get("blocks") else { return Ok(blocks) };
    if !blocks.is_empty() {
        return Err(ordered.error("conflicting keys").expected("either `blocks` or `say`, `think`, `tools`"));
    }
    ordered.items("a list of blocks")?.iter().map(block).collect()
}

fn block(at: &Cursor<'_>) -> Result<Block, ScriptError> {
    const EXPECTED: &str = "one of `say`, `think`, `tool`";
    let (kind, value) = at.only_entry(EXPECTED)?;
    match kind.name.as_str() {
        "say" => Ok(Block::Text(value.text()?)),
        "think" => Ok(Block::Thinking(value.text()?)),
        "tool" => tool(&value),
        _ => Err(at.key_error(kind, "unknown block type").expected(EXPECTED)),
    }
}

fn tool(at: &Cursor<'_>) -> Result<Block, ScriptError> {
    let (key, input) = at.only_entry("a tool name with its input, such as `Bash: { command: ls }`")?;
    let name = key.name.as_str();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 128 || !name.chars().all(plain) {
        return Err(at.key_error(key, "invalid tool name").expected("letters, digits, `-` or `_`"));
    }
    let input = match input.json()? {
        serde_json::Value::Object(input) => input,
        serde_json::Value::Null => serde_json::Map::new(),
        _ => return Err(input.wrong("the tool input as a mapping")),
    };
    Ok(Block::Tool { name: name.to_owned(), input })
}

fn usage(at: &Cursor<'_>) -> Result<ScriptedUsage, ScriptError> {
    let fields = at.fields(USAGE_KEYS)?;
    let default = ScriptedUsage::default();
    let count = |key: &str, default: u64| fields.get(key).map_or(Ok(default), |value| value.count());
    let cache_write = count("cache_write", default.cache_write)?;
    let cache_write_1h = count("cache_write_1h", default.cache_write_1h)?;
    if let Some(value) = fields.get("cache_write_1h").filter(|_| cache_write_1h > cache_write) {
        return Err(value.wrong("at most `cache_write`"));
    }
    Ok(ScriptedUsage {
        input: count("input", default.input)?,
        output: count("output", default.output)?,
        cache_read: count("cache_read", default.cache_read)?,
        cache_write,
        cache_write_1h,
    })
}

fn pacing(at: &Cursor<'_>) -> Result<StreamPacing, ScriptError> {
    let fields = at.fields(PACE_KEYS)?;
    let default = StreamPacing::default();
    let chunk = match fields.get("chunk") {
        None => default.chunk,
        Some(chunk) => usize::try_from(chunk.count()?)
            .ok()
            .filter(|size| *size > 0)
            .ok_or_else(|| chunk.wrong("the number of characters per delta, at least 1"))?,
    };
    Ok(StreamPacing {
        delay: fields.get("delay").map(|d| units::duration(&d)).transpose()?.unwrap_or(default.delay),
        between: fields.get("between").map(|b| units::duration(&b)).transpose()?.unwrap_or(default.between),
        chunk,
    })
}
