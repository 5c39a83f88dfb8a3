//! What graders read of a trial, collected once.

use std::collections::BTreeMap;
use std::io::Read as _;

use super::grader::{Grader, GraderKind, Target};
use crate::recorded_calls::{for_each_call, last_message};
use crate::{GradeError, Subject};
use yb_model::AddOnKind;
use yb_model::frames;
use yb_model::log::{LogMessage, Role};
use yb_repo::diff::ChangeKind;

/// The most of a trace, and of a file, that is searched.
const MAX_BYTES: u64 = 16 << 20;

/// A tool call.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) name: String,
    /// The input as JSON without spaces.
    pub(super) input: String,
}

/// The parts of a trial that graders read.
#[derive(Debug, Default)]
pub(super) struct Material {
    pub(super) last_message: String,
    pub(super) trace: Option<Result<String, String>>,
    pub(super) calls: Vec<Call>,
    /// The paths of created files, sorted.
    pub(super) created: Vec<String>,
    created_text: String,
    files: BTreeMap<String, Result<String, String>>,
    /// Whether the variant declares a plugin or skill.
    pub(super) has_add_ons: bool,
    pub(super) cost_usd: Option<f64>,
    pub(super) seconds: f64,
}

impl Material {
    /// Collects what these graders read.
    pub(super) async fn collect(subject: &Subject, graders: &[Grader]) -> Result<Self, GradeError> {
        let log = &subject.log;
        let mut material = Self {
            has_add_ons: log
                .add_ons
                .iter()
                .any(|add_on| matches!(add_on.kind, AddOnKind::Plugin | AddOnKind::Skill)),
            cost_usd: log.usage.estimated_cost_usd,
            seconds: log.execution.duration_ms as f64 / 1000.0,
            ..Self::default()
        };
        let own = |message: &LogMessage| {
            let is_own = message.role == Role::Assistant && message.parent_tool_call_id.is_none();
            is_own && !message.content.trim().is_empty()
        };
        let frames = subject.frames.as_deref();
        if let Some(message) = last_message(log, frames, &own)? {
            material.last_message = message.content;
        }
        for_each_call(log, frames, &mut |call| {
            let compact = serde_json::from_str::<&serde_json::value::RawValue>(&call.arguments)
                .map_or_else(|_| call.arguments.clone(), |raw| raw.get().to_owned());
            material.calls.push(Call { name: call.name.clone(), input: compact });
        })?;
        let created = subject
            .diff
            .files
            .iter()
            .filter(|file| matches!(file.kind, ChangeKind::Added | ChangeKind::Renamed { .. }));
        material.created = created.map(|file| String::from_utf8_lossy(&file.path).into_owned()).collect();
        material.created.sort();
        material.created_text = material.created.join("\n");
        let targets: Vec<&Target> = graders.iter().filter_map(|grader| grader.kind.target()).collect();
        if targets.contains(&&Target::Trace) {
            material.trace = Some(read_trace(subject));
        }
        for target in targets {
            if let Target::File(path) = target {
                material.files.insert(path.clone(), read_file(subject, path).await?);
            }
        }
        Ok(material)
    }

    /// Returns the text of a target, or why there is none.
    pub(super) fn text(&self, target: &Target) -> Result<&str, String> {
        match target {
            Target::LastMessage => Ok(&self.last_message),
            Target::Trace => match &self.trace {
                Some(Ok(trace)) => Ok(trace),
                Some(Err(reason)) => Err(reason.clone()),
                None => Ok(""),
            },
            Target::Files => Ok(&self.created_text),
            Target::File(path) => match self.files.get(path) {
                Some(Ok(text)) => Ok(text),
                Some(Err(reason)) => Err(reason.clone()),
                None => Err(format!("path {path:?} does not exist")),
            },
        }
    }
}

impl GraderKind {
    fn target(&self) -> Option<&Target> {
        match self {
            Self::Regex { target, .. } | Self::Json { target } => Some(target),
            _ => None,
        }
    }
}

/// Returns the messages of the agent, one line of JSON each: as it wrote them, or those of the log.
fn read_trace(subject: &Subject) -> Result<String, String> {
    let Some(path) = subject.frames.as_deref().filter(|path| path.exists()) else {
        let lines = subject.log.messages.iter().filter_map(|message| serde_json::to_string(message).ok());
        return Ok(lines.collect::<Vec<_>>().join("\n"));
    };
    let mut text = Vec::new();
    let read = frames::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut text));
    read.map_err(|error| format!("failed to read the trace: {error}"))?;
    if text.len() as u64 > MAX_BYTES {
        return Err("the trace is larger than 16 MiB".to_owned());
    }
    let text = String::from_utf8_lossy(&text);
    Ok(text.lines().filter(|line| !is_progress(line)).collect::<Vec<_>>().join("\n"))
}

/// Whether a line only reports the progress of a message that another line has as a whole.
fn is_progress(line: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Head<'a> {
        #[serde(rename = "type", borrow)]
        kind: Option<std::borrow::Cow<'a, str>>,
        #[serde(borrow)]
        subtype: Option<std::borrow::Cow<'a, str>>,
    }
    let Ok(head) = serde_json::from_str::<Head<'_>>(line) else { return false };
    match head.kind.as_deref() {
        Some("stream_event") => true,
        Some("system") => head.subtype.as_deref() == Some("status"),
        _ => false,
    }
}

/// Reads a file of the end tree; symbolic links are not followed.
async fn read_file(subject: &Subject, path: &str) -> Result<Result<String, String>, GradeError> {
    let name = path.trim_start_matches("./");
    let file = subject.files().await?.iter().find(|file| file.path == name.as_bytes() && !file.is_link());
    let Some(file) = file else { return Ok(Err(format!("path {path:?} does not exist"))) };
    if file.size > MAX_BYTES {
        return Ok(Err(format!("path {path:?} is larger than 16 MiB")));
    }
    let contents = subject.store.contents(&[file]).await?;
    let bytes = contents.into_iter().next().unwrap_or_default();
    Ok(Ok(String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::is_progress;

    #[test]
    fn progress_is_not_part_of_a_trace() {
        assert!(is_progress(r#"{"event":{},"type":"stream_event"}"#));
        assert!(is_progress(r#"{"type":"system","subtype":"status"}"#));
        assert!(!is_progress(r#"{"type":"system","subtype":"init"}"#));
        assert!(!is_progress(r#"{"type":"assistant"}"#));
        assert!(!is_progress("text"));
    }
}
