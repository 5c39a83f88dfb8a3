//! Selects lane and turn from the request alone, so that a retry gets the same reply.

use std::sync::Arc;

use crate::conversation::{Conversation, RequestOrigin};
use crate::script::{MAIN, Reply, Script, ScriptLane};
use crate::yaml::shorten;

/// How to respond to a request.
#[derive(Debug, PartialEq)]
pub(crate) enum ReplySelection {
    /// Reply of a lane; `lane` and `turn` are zero-based indices.
    Reply { lane: usize, turn: usize, reply: Arc<Reply> },
    /// Placeholder response to a side request, outside of all lanes.
    Placeholder,
    /// No scripted reply. `lane` is set when the lane has run out of replies; `turn` is zero-based.
    NoReply { lane: Option<usize>, turn: usize, message: String },
}

pub(crate) fn select_reply(script: &Script, conversation: &Conversation<'_>) -> ReplySelection {
    let origin = conversation.origin();
    // A side request may contain a whole conversation as input. Its last user message identifies it, and it has
    // one turn.
    let (prompt, turn) = match origin {
        RequestOrigin::SideRequest => (conversation.last_user_message(), 0),
        _ => (conversation.opening(), conversation.replies()),
    };
    let system = conversation.system();
    let claimed = script.lanes.iter().position(|lane| {
        // The prompt of the main thread also opens a subagent that inherits its context.
        (origin != RequestOrigin::Subagent || lane.name != MAIN) && claims(lane, &prompt, &system)
    });
    let fallback = || script.lanes.iter().position(|lane| lane.name == MAIN && lane.matcher.is_none());
    let lane = match (claimed, origin) {
        (Some(lane), _) => lane,
        (None, RequestOrigin::SideRequest | RequestOrigin::PossibleSideRequest) => {
            return ReplySelection::Placeholder;
        }
        (None, RequestOrigin::Subagent) => return no_lane("this subagent", turn, &prompt),
        (None, RequestOrigin::AgentLoop) => match fallback() {
            Some(lane) => lane,
            None => return no_lane("this conversation", turn, &prompt),
        },
    };
    let ScriptLane { name, replies, .. } = &script.lanes[lane];
    match replies.get(turn) {
        Some(reply) => ReplySelection::Reply { lane, turn, reply: Arc::clone(reply) },
        None => ReplySelection::NoReply {
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

fn claims(lane: &ScriptLane, prompt: &str, system: &str) -> bool {
    let Some(matcher) = &lane.matcher else { return false };
    matcher.prompt.as_ref().is_none_or(|part| prompt.contains(part))
        && matcher.system.as_ref().is_none_or(|part| system.contains(part))
}

fn no_lane(subject: &str, turn: usize, prompt: &str) -> ReplySelection {
    let message = format!(
        "no lane of the script matches {subject}, turn {}; its prompt starts with: `{}`",
        turn + 1,
        shorten(prompt)
    );
    ReplySelection::NoReply { lane: None, turn, message }
}
