//! Finds the recorded exchange for a request, or explains why there is none.

use std::collections::HashMap;

use super::dialogue::{Api, Dialogue, DialoguePart};
use super::divergence::{Divergence, DivergenceKind, excerpts};
use crate::replay::ReplayMode;
use crate::tape::{Exchange, Tape};

/// Identifies a turn of a conversation: its opening and all model output.
type TurnKey = (Api, Vec<DialoguePart>, Vec<DialoguePart>);

/// The exchanges of a tape and their delivery state.
#[derive(Debug)]
pub(crate) struct ExchangeIndex {
    tape: Tape,
    turns: HashMap<TurnKey, Vec<usize>>,
    delivery: Vec<DeliveryState>,
}

/// Whether a recorded response was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeliveryState {
    Pending,
    InProgress,
    /// The client disconnected before the end of the response.
    Interrupted,
    Complete,
}

/// Result of matching a request with the tape.
#[derive(Debug, PartialEq)]
pub(crate) enum MatchResult {
    Exchange {
        index: usize,
        /// The number of differing tool results.
        tolerated: usize,
        /// The kind of each place that was equal only after normalization.
        normalized: Vec<&'static str>,
    },
    Diverged(Box<Divergence>),
}

impl ExchangeIndex {
    /// Indexes the exchanges with a number below `before`.
    pub(crate) fn new(tape: &Tape, before: u64) -> Self {
        let mut turns: HashMap<TurnKey, Vec<usize>> = HashMap::new();
        for (index, exchange) in tape.exchanges().iter().enumerate() {
            if let (Some(api), Some(dialogue)) = (exchange.api, &exchange.dialogue)
                && exchange.number() < before
            {
                turns.entry(turn_key(api, dialogue)).or_default().push(index);
            }
        }
        let delivery = vec![DeliveryState::Pending; tape.exchanges().len()];
        Self { tape: tape.clone(), turns, delivery }
    }

    pub(crate) fn find(&mut self, api: Api, dialogue: &Dialogue, mode: ReplayMode) -> MatchResult {
        let Some(recorded) = self.turns.get(&turn_key(api, dialogue)) else {
            return MatchResult::Diverged(Box::new(self.unmatched(api, dialogue)));
        };
        let of = |index: &usize| &self.tape.exchanges()[*index];
        let same_mode: Vec<usize> = recorded
            .iter()
            .copied()
            .filter(|index| dialogue_of(of(index)).is_some_and(|d| d.stream == dialogue.stream))
            .collect();
        if same_mode.is_empty() {
            let part = if dialogue.stream { "request for a stream" } else { "request for one message" };
            let divergence = self.divergence(dialogue, DivergenceKind::StreamMode, of(&recorded[0]), part);
            return MatchResult::Diverged(Box::new(divergence));
        }
        let fitting: Vec<usize> = same_mode
            .iter()
            .copied()
            .filter(|index| dialogue_of(of(index)).is_some_and(|d| d.new == dialogue.new))
            .collect();
        if let Some(index) = self.next_of(&fitting) {
            let recorded = of(&index);
            let normalized = normalized_kinds(recorded, dialogue);
            if mode == ReplayMode::Exact && !normalized.is_empty() {
                return MatchResult::Diverged(Box::new(self.first_normalized(dialogue, recorded)));
            }
            self.delivery[index] = DeliveryState::InProgress;
            return MatchResult::Exchange { index, tolerated: 0, normalized };
        }
        if let Some(&index) = fitting.first() {
            if mode == ReplayMode::Lenient {
                let index = *fitting.last().unwrap_or(&index);
                return MatchResult::Exchange { index, tolerated: 0, normalized: Vec::new() };
            }
            let divergence =
                self.divergence(dialogue, DivergenceKind::RepeatedRequest, of(&index), "repeated request");
            return MatchResult::Diverged(Box::new(divergence));
        }
        // Report the difference to the next pending exchange, or else to the first.
        let index = self.next_of(&same_mode).unwrap_or(same_mode[0]);
        let recorded = of(&index);
        let expected = dialogue_of(recorded).map(|dialogue| dialogue.new.as_slice()).unwrap_or_default();
        if mode == ReplayMode::Lenient
            && let Some(tolerated) = only_results_differ(expected, &dialogue.new)
        {
            self.delivery[index] = DeliveryState::InProgress;
            return MatchResult::Exchange { index, tolerated, normalized: Vec::new() };
        }
        MatchResult::Diverged(Box::new(self.first_difference(dialogue, recorded, expected)))
    }

    /// Marks a response as sent, completely or not.
    pub(crate) fn set_delivered(&mut self, index: usize, is_complete: bool) {
        self.delivery[index] = if is_complete { DeliveryState::Complete } else { DeliveryState::Interrupted };
    }

    /// Marks a response as not sent, so that the next request gets it.
    pub(crate) fn set_pending(&mut self, index: usize) {
        self.delivery[index] = DeliveryState::Pending;
    }

    /// Counts the exchanges of conversations that were not requested.
    pub(crate) fn remaining(&self) -> usize {
        let all = self.turns.values().flatten();
        all.filter(|index| {
            self.delivery[**index] == DeliveryState::Pending
                && self.tape.exchanges()[**index].api != Some(Api::CountTokens)
        })
        .count()
    }

    /// Returns the exchange for the next of several equal requests. They come from equal lanes or from retries and get
    /// their responses in recorded order. After that, an interrupted response is sent again, or the last failure if none
    /// of them succeeded.
    fn next_of(&self, candidates: &[usize]) -> Option<usize> {
        let first_in = |wanted| candidates.iter().find(|index| self.delivery[**index] == wanted);
        let failure = || {
            let is_success = |index: &&usize| self.tape.exchanges()[**index].is_success();
            candidates.last().filter(|_| !candidates.iter().any(|index| is_success(&index)))
        };
        first_in(DeliveryState::Pending)
            .or_else(|| first_in(DeliveryState::Interrupted))
            .or_else(failure)
            .copied()
    }

    /// Describes how an unrecorded conversation differs from the most similar recorded one.
    fn unmatched(&self, api: Api, dialogue: &Dialogue) -> Divergence {
        let known = self.tape.exchanges().iter().filter(|exchange| exchange.api == Some(api));
        let mut nearest: Option<(&Exchange, &Dialogue, usize)> = None;
        for exchange in known {
            let Some(other) = dialogue_of(exchange).filter(|other| other.opening == dialogue.opening) else {
                continue;
            };
            let same =
                other.model_parts.iter().zip(&dialogue.model_parts).take_while(|(a, b)| a == b).count();
            // Of equally similar ones, take the longest.
            if nearest.is_none_or(|(_, best, most)| {
                same > most
                    || (same == most
                        && other.model_parts.len() > best.model_parts.len()
                        && other.turn <= dialogue.turn)
            }) {
                nearest = Some((exchange, other, same));
            }
        }
        let Some((exchange, other, same)) = nearest else { return self.unknown(dialogue, api) };
        if same == other.model_parts.len() {
            // All recorded model output is present. Further output is the response of the last recorded turn, or foreign.
            let response = String::from_utf8_lossy(&exchange.body);
            let foreign = dialogue.model_parts[same..].iter().find(
                |part| matches!(part, DialoguePart::ToolCall { id, .. } if !response.contains(id.as_str())),
            );
            if let Some(part) = foreign {
                let mut divergence =
                    self.divergence(dialogue, DivergenceKind::ModelOutput, exchange, &part.title());
                divergence.actual = part.text().to_owned();
                return divergence;
            }
            let mut divergence =
                self.divergence(dialogue, DivergenceKind::ExtraTurn, exchange, "additional turn");
            let new = dialogue.new.first();
            divergence.actual = new
                .map(|part| format!("{}: {}", part.title(), excerpts("", part.text()).1))
                .unwrap_or_default();
            return divergence;
        }
        let expected = &other.model_parts[same];
        let actual = dialogue.model_parts.get(same);
        let mut divergence = self.divergence(
            dialogue,
            DivergenceKind::ModelOutput,
            exchange,
            &expected.title().replace("user", "model"),
        );
        (divergence.expected, divergence.actual) =
            excerpts(expected.text(), actual.map(DialoguePart::text).unwrap_or_default());
        divergence
    }

    fn unknown(&self, dialogue: &Dialogue, api: Api) -> Divergence {
        let actual = dialogue.opening.iter().map(DialoguePart::text).collect::<Vec<_>>().join("\n");
        let openings = self.tape.exchanges().iter().filter(|exchange| exchange.api == Some(api)).filter_map(
            |exchange| {
                let dialogue = dialogue_of(exchange)?;
                Some((
                    dialogue.opening.iter().map(DialoguePart::text).collect::<Vec<_>>().join("\n"),
                    exchange,
                ))
            },
        );
        // The nearest opening has the longest common prefix.
        let common = |a: &str, b: &str| a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
        let mut nearest: Option<(usize, String)> = None;
        for (opening, _) in openings {
            let length = common(&opening, &actual);
            if nearest.as_ref().is_none_or(|(most, _)| length > *most) {
                nearest = Some((length, opening));
            }
        }
        let (expected, actual) =
            excerpts(nearest.as_ref().map(|(_, text)| text.as_str()).unwrap_or_default(), &actual);
        Divergence {
            tape: self.tape.path().to_owned(),
            lane: None,
            turn: dialogue.turn,
            kind: DivergenceKind::UnknownConversation,
            part: "opening of the conversation".to_owned(),
            expected,
            actual,
            tape_is_truncated: self.tape.truncation().is_some(),
        }
    }

    /// Describes the first place that is equal only after normalization.
    fn first_normalized(&self, dialogue: &Dialogue, recorded: &Exchange) -> Divergence {
        let mut divergence = self.divergence(dialogue, DivergenceKind::Normalized, recorded, "");
        for (expected, actual) in compared_parts(recorded, dialogue) {
            let (Some(old), Some(new)) = (expected.normalized(), actual.normalized()) else { continue };
            if let Some((kind, old, new)) = old.differences(new).next() {
                divergence.part = format!("{} in the {}", kind, actual.title());
                (divergence.expected, divergence.actual) = excerpts(old, new);
                return divergence;
            }
        }
        divergence
    }

    fn first_difference(
        &self,
        dialogue: &Dialogue,
        recorded: &Exchange,
        expected: &[DialoguePart],
    ) -> Divergence {
        let same = expected.iter().zip(&dialogue.new).take_while(|(a, b)| a == b).count();
        let (wanted, actual) = (expected.get(same), dialogue.new.get(same));
        let named = wanted.or(actual);
        let is_result = matches!(named, Some(DialoguePart::ToolResult { .. }));
        let kind = if is_result { DivergenceKind::ToolResult } else { DivergenceKind::UserMessage };
        let title = named.map(DialoguePart::title).unwrap_or_default();
        let mut divergence = self.divergence(dialogue, kind, recorded, &title);
        // Include the titles if the parts are of different types.
        let full = |part: Option<&DialoguePart>| match (
            part,
            wanted.map(DialoguePart::title) == actual.map(DialoguePart::title),
        ) {
            (None, _) => String::new(),
            (Some(part), true) => part.text().to_owned(),
            (Some(part), false) => format!("{}: {}", part.title(), part.text()),
        };
        (divergence.expected, divergence.actual) = excerpts(&full(wanted), &full(actual));
        divergence
    }

    fn divergence(
        &self,
        dialogue: &Dialogue,
        kind: DivergenceKind,
        near: &Exchange,
        part: &str,
    ) -> Divergence {
        Divergence {
            tape: self.tape.path().to_owned(),
            lane: self.tape.lane_of(near).map(|lane| lane.name.clone()),
            turn: dialogue.turn,
            kind,
            part: part.to_owned(),
            expected: String::new(),
            actual: String::new(),
            tape_is_truncated: self.tape.truncation().is_some(),
        }
    }
}

fn turn_key(api: Api, dialogue: &Dialogue) -> TurnKey {
    (api, dialogue.opening.clone(), dialogue.model_parts.clone())
}

/// Returns the parts of a request that were not in an earlier one, with the recorded ones.
fn compared_parts<'a>(
    recorded: &'a Exchange,
    dialogue: &'a Dialogue,
) -> impl Iterator<Item = (&'a DialoguePart, &'a DialoguePart)> {
    let parts = |dialogue: &'a Dialogue| if dialogue.turn == 1 { &dialogue.opening } else { &dialogue.new };
    let old = dialogue_of(recorded).map(parts).into_iter().flatten();
    old.zip(parts(dialogue))
}

/// Returns the kind of each place that is equal only after normalization.
fn normalized_kinds(recorded: &Exchange, dialogue: &Dialogue) -> Vec<&'static str> {
    // A token count repeats the content of a request.
    if recorded.api == Some(Api::CountTokens) {
        return Vec::new();
    }
    let mut kinds = Vec::new();
    for (expected, actual) in compared_parts(recorded, dialogue) {
        if let (Some(expected), Some(actual)) = (expected.normalized(), actual.normalized()) {
            kinds.extend(expected.differences(actual).map(|(kind, ..)| kind));
        }
    }
    kinds
}

fn dialogue_of(exchange: &Exchange) -> Option<&Dialogue> {
    exchange.dialogue.as_ref()
}

/// Counts the differing tool results, or returns `None` if other parts differ.
fn only_results_differ(expected: &[DialoguePart], actual: &[DialoguePart]) -> Option<usize> {
    if expected.len() != actual.len() {
        return None;
    }
    let mut differing = 0;
    for (expected, actual) in expected.iter().zip(actual) {
        match (expected, actual) {
            (a, b) if a == b => {}
            (DialoguePart::ToolResult { call: a, .. }, DialoguePart::ToolResult { call: b, .. })
                if a == b =>
            {
                differing += 1;
            }
            _ => return None,
        }
    }
    Some(differing)
}
