//! All tool calls and messages of a trial: those of its log, and those that the log leaves out, which are read from the recorded frames.

use std::path::Path;

use super::GradeError;
use yb_agents::{OmittedItem, for_each_omitted};
use yb_model::frames;
use yb_model::log::{LogMessage, ToolCallRecord, YouBenchaLog};

/// The parts of a list around what the log leaves out.
fn around<T>(items: &[T], before: u64) -> (&[T], &[T]) {
    items.split_at(usize::try_from(before).unwrap_or(usize::MAX).min(items.len()))
}

/// Visits all tool calls, in order.
pub(crate) fn for_each_call(
    log: &YouBenchaLog,
    file: Option<&Path>,
    visit: &mut dyn FnMut(&ToolCallRecord),
) -> Result<(), GradeError> {
    let omitted = log.omitted.as_ref().filter(|omitted| omitted.tool_calls > 0);
    let before = omitted.map_or(u64::MAX, |omitted| omitted.tool_calls_before);
    let (first, last) = around(&log.tool_calls, before);
    first.iter().for_each(&mut *visit);
    if let Some(omitted) = omitted {
        let mut found = 0;
        for_each_in_frames(log, file, &mut |item| {
            if let OmittedItem::ToolCall(call) = item {
                found += 1;
                visit(&call);
            }
        })?;
        if found != omitted.tool_calls {
            return Err(GradeError::other(format!(
                "the frames have {found} of the {} tool calls that the log leaves out",
                omitted.tool_calls
            )));
        }
    }
    last.iter().for_each(visit);
    Ok(())
}

/// Returns the last message that satisfies a condition.
pub(crate) fn last_message(
    log: &YouBenchaLog,
    file: Option<&Path>,
    is_wanted: &dyn Fn(&LogMessage) -> bool,
) -> Result<Option<LogMessage>, GradeError> {
    let omitted = log.omitted.as_ref().filter(|omitted| omitted.messages > 0);
    let before = omitted.map_or(0, |omitted| omitted.messages_before);
    let (first, last) = around(&log.messages, before);
    let mut found = last.iter().rev().find(|message| is_wanted(message)).cloned();
    if found.is_none() && omitted.is_some() {
        for_each_in_frames(log, file, &mut |item| {
            if let OmittedItem::Message(message) = item
                && is_wanted(&message)
            {
                found = Some(message);
            }
        })?;
    }
    Ok(found.or_else(|| first.iter().rev().find(|message| is_wanted(message)).cloned()))
}

fn for_each_in_frames(
    log: &YouBenchaLog,
    file: Option<&Path>,
    visit: &mut dyn FnMut(OmittedItem),
) -> Result<(), GradeError> {
    let file = file.ok_or_else(|| GradeError::other("the log leaves out a part, and there are no frames"))?;
    let mut input = frames::open(file).map_err(GradeError::io(file))?;
    for_each_omitted(log, &mut input, visit).map_err(GradeError::io(file))
}
