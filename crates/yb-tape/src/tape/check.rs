//! Verifies tapes and compares them.

use std::collections::HashSet;

use super::{Exchange, Lane, Tape};
use crate::format::reduce;
use crate::matching::dialogue::DialoguePart;
use crate::matching::divergence::excerpts;

/// Result of [`Tape::verify`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TapeVerification {
    /// Problems, one line each; empty for a valid tape.
    pub problems: Vec<String>,
    /// Remarks that are not problems.
    pub notes: Vec<String>,
}

/// A difference between two tapes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TapeDifference {
    /// The lane.
    pub lane: String,
    /// The turn within the lane, from 1.
    pub turn: usize,
    /// The part that differs.
    pub part: String,
    /// Content in the first tape; empty if there is none.
    pub left: String,
    /// Content in the second tape.
    pub right: String,
}

impl Tape {
    /// Checks that the tape is complete and unchanged: blobs match their hashes, frames their seals.
    #[must_use]
    pub fn verify(&self) -> TapeVerification {
        let mut found = TapeVerification::default();
        if let Some(truncation) = self.truncation() {
            found.problems.push(format!("truncated at byte {}: {}", truncation.at, truncation.reason));
        }
        found.problems.extend(self.changes().iter().cloned());
        if !self.is_sealed() {
            found.notes.push(
                "not sealed: an older version recorded it, so that not every change is noticed".to_owned(),
            );
        }
        let mut numbers = HashSet::new();
        for exchange in self.exchanges() {
            if !numbers.insert(exchange.number()) {
                found.problems.push(format!("duplicate exchange: {}", exchange.number()));
            }
            self.verify_exchange(exchange, &mut found);
        }
        found.problems.sort();
        found
    }

    fn verify_exchange(&self, exchange: &Exchange, found: &mut TapeVerification) {
        let number = exchange.number();
        let parts = reduce::referenced_blobs(&exchange.record.request.body);
        for missing in parts.into_iter().chain(&exchange.record.response.body) {
            if !self.blobs().contains_key(missing) {
                found.problems.push(format!("missing blob in exchange {number}: {missing}"));
            }
        }
        let length = exchange.chunks().iter().fold(0_u64, |sum, (_, length)| sum.saturating_add(*length));
        if usize::try_from(length) != Ok(exchange.body.len()) {
            found.problems.push(format!("chunk lengths do not add up to the body in exchange {number}"));
        }
        if exchange.api.is_some() && exchange.dialogue.is_none() {
            found.problems.push(format!("no conversation in the request of exchange {number}"));
        }
        if !exchange.is_complete() {
            found.notes.push(format!("incomplete response in exchange {number}: {}", exchange.ending()));
        }
    }

    /// Compares with another tape, lane by lane, by the rules of a replay; returns at most one difference per turn.
    #[must_use]
    pub fn diff(&self, other: &Self) -> Vec<TapeDifference> {
        let mut found = Vec::new();
        let mut taken = HashSet::new();
        for lane in self.lanes() {
            let own = self.opening_of(lane);
            let free = || other.lanes().iter().enumerate().filter(|(number, _)| !taken.contains(number));
            // Without an equal opening, compare with the lane of the same name.
            let partner = free()
                .find(|(_, candidate)| other.opening_of(candidate) == own)
                .or_else(|| free().find(|(_, candidate)| candidate.name == lane.name));
            let Some((number, partner)) = partner else {
                found.push(difference(&lane.name, 1, "lane", &lane.opening, ""));
                continue;
            };
            taken.insert(number);
            for position in 0..lane.exchanges.len().max(partner.exchanges.len()) {
                let left = lane.exchanges.get(position).map(|index| &self.exchanges()[*index]);
                let right = partner.exchanges.get(position).map(|index| &other.exchanges()[*index]);
                match (left, right) {
                    (Some(left), Some(right)) => found.extend(turn_difference(&lane.name, left, right)),
                    (Some(left), None) => {
                        found.push(difference(&lane.name, left.turn, "turn", "present", "missing"));
                    }
                    (None, Some(right)) => {
                        found.push(difference(&lane.name, right.turn, "turn", "missing", "present"));
                    }
                    (None, None) => {}
                }
            }
        }
        for (number, lane) in other.lanes().iter().enumerate() {
            if !taken.contains(&number) {
                found.push(difference(&lane.name, 1, "lane", "", &lane.opening));
            }
        }
        found
    }

    fn opening_of(&self, lane: &Lane) -> Option<&[DialoguePart]> {
        let first = &self.exchanges()[*lane.exchanges.first()?];
        Some(first.dialogue.as_ref()?.opening.as_slice())
    }
}

fn turn_difference(lane: &str, left: &Exchange, right: &Exchange) -> Option<TapeDifference> {
    let (left_parts, right_parts) = (left.new_parts(), right.new_parts());
    let parts = left_parts.len().max(right_parts.len());
    if let Some(at) = (0..parts).find(|at| left_parts.get(*at) != right_parts.get(*at)) {
        let text = |parts: &[String]| parts.get(at).cloned().unwrap_or_default();
        let (a, b) = excerpts(&text(&left_parts), &text(&right_parts));
        return Some(difference(lane, left.turn, "request", &a, &b));
    }
    if left.status() != right.status() {
        let text =
            |status: Option<u16>| status.map_or_else(|| "none".to_owned(), |status| status.to_string());
        return Some(difference(lane, left.turn, "status", &text(left.status()), &text(right.status())));
    }
    if left.body != right.body {
        let (a, b) = excerpts(&String::from_utf8_lossy(&left.body), &String::from_utf8_lossy(&right.body));
        return Some(difference(lane, left.turn, "response", &a, &b));
    }
    None
}

fn difference(lane: &str, turn: usize, part: &str, left: &str, right: &str) -> TapeDifference {
    let [lane, part, left, right] = [lane, part, left, right].map(str::to_owned);
    TapeDifference { lane, turn, part, left, right }
}
