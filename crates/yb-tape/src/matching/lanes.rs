//! Groups the exchanges of a tape into lanes, for display and for turn numbers; matching does not need them.

use super::dialogue::{Api, Dialogue, DialoguePart};
use crate::tape::{Exchange, Lane};

const OPENING_CHARS: usize = 80;

/// Assigns a lane to every exchange that belongs to a conversation.
pub(crate) fn assign(exchanges: &mut [Exchange]) -> Vec<Lane> {
    let mut lanes: Vec<Lane> = Vec::new();
    for index in 0..exchanges.len() {
        let Some(dialogue) = &exchanges[index].dialogue else { continue };
        if exchanges[index].api == Some(Api::CountTokens) {
            continue;
        }
        let found = lanes
            .iter()
            .enumerate()
            .filter_map(|(lane, known)| {
                let last = &exchanges[*known.exchanges.last()?];
                Some((continuation_score(dialogue, last)?, lane))
            })
            // Prefer the earlier lane.
            .max_by_key(|(score, lane)| (*score, std::cmp::Reverse(*lane)))
            .map(|(_, lane)| lane);
        let lane = found.unwrap_or_else(|| {
            let origin = exchanges[index].record.request.origin.as_str();
            lanes.push(Lane {
                name: lane_name(origin, &lanes),
                opening: opening(dialogue),
                exchanges: Vec::new(),
            });
            lanes.len() - 1
        });
        lanes[lane].exchanges.push(index);
        exchanges[index].lane = Some(lane);
    }
    lanes
}

/// Rates how well a request continues the last exchange of a lane; `None` if it does not.
fn continuation_score(dialogue: &Dialogue, last: &Exchange) -> Option<u8> {
    let before = last.dialogue.as_ref()?;
    if before.opening != dialogue.opening || !dialogue.model_parts.starts_with(&before.model_parts) {
        return None;
    }
    let output = &dialogue.model_parts[before.model_parts.len()..];
    if output.is_empty() {
        // The same request again is a retry, unless the first attempt succeeded.
        return (before.new == dialogue.new && !last.is_success()).then_some(1);
    }
    let response = String::from_utf8_lossy(&last.body);
    let echoes = output.iter().all(|part| match part {
        DialoguePart::ToolCall { id, .. } => response.contains(id.as_str()),
        _ => true,
    });
    (dialogue.turn > before.turn).then_some(if echoes { 3 } else { 2 })
}

fn lane_name(origin: &str, lanes: &[Lane]) -> String {
    let kind = match origin {
        "subagent" => "subagent",
        "side" => "side",
        _ => "main",
    };
    let before = lanes.iter().filter(|lane| lane.name.split('-').next() == Some(kind)).count();
    if kind == "main" && before == 0 { kind.to_owned() } else { format!("{kind}-{}", before + 1) }
}

fn opening(dialogue: &Dialogue) -> String {
    let text = dialogue.opening.first().map(DialoguePart::text).unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= OPENING_CHARS {
        return line.to_owned();
    }
    line.chars().take(OPENING_CHARS - 1).chain(['…']).collect()
}
