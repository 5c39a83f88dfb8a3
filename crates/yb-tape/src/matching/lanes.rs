//! Which exchanges of a tape are one conversation. Only for people and for step numbers: matching does not need it.

use super::dialogue::{Api, Dialogue, Part};
use crate::tape::{Exchange, Lane};

const OPENING_CHARS: usize = 80;

/// Gives every exchange of a conversation its lane.
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
                Some((fit(dialogue, last)?, lane))
            })
            // Of equal fits the lane that began first.
            .max_by_key(|(fit, lane)| (*fit, std::cmp::Reverse(*lane)))
            .map(|(_, lane)| lane);
        let lane = found.unwrap_or_else(|| {
            let nature = exchanges[index].record.request.nature.as_str();
            lanes.push(Lane {
                name: name(nature, &lanes),
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

/// How well a request goes on where a lane's last exchange ended.
fn fit(dialogue: &Dialogue, last: &Exchange) -> Option<u8> {
    let before = last.dialogue.as_ref()?;
    if before.opening != dialogue.opening || !dialogue.spoken.starts_with(&before.spoken) {
        return None;
    }
    let said = &dialogue.spoken[before.spoken.len()..];
    if said.is_empty() {
        // The same again: another attempt, unless the first was answered.
        return (before.new == dialogue.new && !last.is_good()).then_some(1);
    }
    let answer = String::from_utf8_lossy(&last.body);
    let echoes = said.iter().all(|part| match part {
        Part::Call { id, .. } => answer.contains(id.as_str()),
        _ => true,
    });
    (dialogue.turn > before.turn).then_some(if echoes { 3 } else { 2 })
}

fn name(nature: &str, lanes: &[Lane]) -> String {
    let kind = match nature {
        "subagent" => "subagent",
        "side" => "side",
        _ => "main",
    };
    let before = lanes.iter().filter(|lane| lane.name.split('-').next() == Some(kind)).count();
    if kind == "main" && before == 0 { kind.to_owned() } else { format!("{kind}-{}", before + 1) }
}

fn opening(dialogue: &Dialogue) -> String {
    let text = dialogue.opening.first().map(Part::text).unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= OPENING_CHARS {
        return line.to_owned();
    }
    line.chars().take(OPENING_CHARS - 1).chain(['…']).collect()
}
