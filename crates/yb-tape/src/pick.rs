//! Chooses lane and turn for a request, from the request alone: a retry gets what the first attempt got.

use std::sync::Arc;

use crate::conversation::{Conversation, Nature};
use crate::script::{Lane, MAIN, Reply, Script};
use crate::yaml::shorten;

/// Who answers.
#[derive(Debug, PartialEq)]
pub(crate) enum Pick {
    /// This reply of this lane. `lane` and `turn` are indices, from 0.
    Reply { lane: usize, turn: usize, reply: Arc<Reply> },
    /// No reply, but a polite answer outside of all lanes.
    Side,
    /// Nobody; the lane is known when it only ran out of replies. `turn` counts from 0.
    Nobody { lane: Option<usize>, turn: usize, message: String },
}

pub(crate) fn pick(script: &Script, conversation: &Conversation<'_>) -> Pick {
    let nature = conversation.nature();
    // A side question may carry a whole conversation as its material; it is known by its own last words and
    // is over after one answer.
    let (prompt, turn) = match nature {
        Nature::Side => (conversation.last_words(), 0),
        _ => (conversation.opening(), conversation.replies()),
    };
    let system = conversation.system();
    let claimed = script.lanes.iter().position(|lane| {
        // The main thread's own words also open a subagent that inherits its context.
        (nature != Nature::Subagent || lane.name != MAIN) && claims(lane, &prompt, &system)
    });
    let rest = || script.lanes.iter().position(|lane| lane.name == MAIN && lane.matcher.is_none());
    let lane = match (claimed, nature) {
        (Some(lane), _) => lane,
        (None, Nature::Side | Nature::MaybeSide) => return Pick::Side,
        (None, Nature::Subagent) => return unknown("this subagent", turn, &prompt),
        (None, Nature::Loop) => match rest() {
            Some(lane) => lane,
            None => return unknown("this conversation", turn, &prompt),
        },
    };
    let Lane { name, replies, .. } = &script.lanes[lane];
    match replies.get(turn) {
        Some(reply) => Pick::Reply { lane, turn, reply: Arc::clone(reply) },
        None => Pick::Nobody {
            lane: Some(lane),
            turn,
            message: format!(
                "no reply scripted for lane `{name}`, turn {} (the script has {})",
                turn + 1,
                replies.len()
            ),
        },
    }
}

fn claims(lane: &Lane, prompt: &str, system: &str) -> bool {
    let Some(matcher) = &lane.matcher else { return false };
    matcher.prompt.as_ref().is_none_or(|part| prompt.contains(part))
        && matcher.system.as_ref().is_none_or(|part| system.contains(part))
}

fn unknown(who: &str, turn: usize, prompt: &str) -> Pick {
    let message = format!(
        "no lane of the script matches {who}, turn {}; its prompt starts with: `{}`",
        turn + 1,
        shorten(prompt)
    );
    Pick::Nobody { lane: None, turn, message }
}
