//! Looks a tape over, and compares two.

use std::collections::HashSet;

use super::{Exchange, Lane, Tape};
use crate::format::{Id, reduce};
use crate::matching::dialogue::Part;
use crate::matching::divergence::excerpts;

/// What a check of a tape found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verification {
    /// What is wrong, each in one line; empty for a good tape.
    pub problems: Vec<String>,
    /// What is worth knowing and does no harm.
    pub notes: Vec<String>,
}

/// Where two tapes differ.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The lane.
    pub lane: String,
    /// The turn within the lane, from 1.
    pub turn: usize,
    /// What differs.
    pub part: String,
    /// In the first tape; empty when it has nothing there.
    pub left: String,
    /// In the second tape.
    pub right: String,
}

impl Tape {
    /// Whether everything is there and is what its hash says.
    #[must_use]
    pub fn verify(&self) -> Verification {
        let mut found = Verification::default();
        if let Some(cut) = self.cut() {
            found.problems.push(format!("cut at byte {}: {}", cut.at, cut.reason));
        }
        for (id, bytes) in self.blobs() {
            if Id::of(bytes) != *id {
                found.problems.push(format!("a body is not what its hash says: {id}"));
            }
        }
        let mut numbers = HashSet::new();
        for exchange in self.exchanges() {
            if !numbers.insert(exchange.number()) {
                found.problems.push(format!("exchange {} is there twice", exchange.number()));
            }
            self.verify_exchange(exchange, &mut found);
        }
        found.problems.sort();
        found
    }

    fn verify_exchange(&self, exchange: &Exchange, found: &mut Verification) {
        let number = exchange.number();
        let parts = reduce::refers_to(&exchange.record.request.body);
        for missing in parts.into_iter().chain(&exchange.record.response.body) {
            if !self.blobs().contains_key(missing) {
                found.problems.push(format!("exchange {number} lacks a body: {missing}"));
            }
        }
        let length = exchange.pieces().iter().fold(0_u64, |sum, (_, length)| sum.saturating_add(*length));
        if usize::try_from(length) != Ok(exchange.body.len()) {
            found.problems.push(format!("exchange {number}: its pieces are not its body"));
        }
        if exchange.api.is_some() && exchange.dialogue.is_none() {
            found
                .problems
                .push(format!("exchange {number} can't be matched: its request has no conversation"));
        }
        if !exchange.is_complete() {
            found.notes.push(format!("exchange {number} has no whole answer: {}", exchange.ending()));
        }
    }

    /// The differences to another tape, lane by lane, as a replay would see them: at most one for each turn.
    #[must_use]
    pub fn diff(&self, other: &Self) -> Vec<Difference> {
        let mut found = Vec::new();
        let mut taken = HashSet::new();
        for lane in self.lanes() {
            let own = self.opening_of(lane);
            let free = || other.lanes().iter().enumerate().filter(|(number, _)| !taken.contains(number));
            // Without an equal opening the lane of the same name: its opening is then the first difference.
            let partner = free()
                .find(|(_, candidate)| other.opening_of(candidate) == own)
                .or_else(|| free().find(|(_, candidate)| candidate.name == lane.name));
            let Some((number, partner)) = partner else {
                found.push(difference(&lane.name, 1, "the lane", &lane.opening, ""));
                continue;
            };
            taken.insert(number);
            for position in 0..lane.exchanges.len().max(partner.exchanges.len()) {
                let left = lane.exchanges.get(position).map(|index| &self.exchanges()[*index]);
                let right = partner.exchanges.get(position).map(|index| &other.exchanges()[*index]);
                match (left, right) {
                    (Some(left), Some(right)) => found.extend(turn_difference(&lane.name, left, right)),
                    (Some(left), None) => {
                        found.push(difference(&lane.name, left.turn, "the turn", "there", "missing"));
                    }
                    (None, Some(right)) => {
                        found.push(difference(&lane.name, right.turn, "the turn", "missing", "there"));
                    }
                    (None, None) => {}
                }
            }
        }
        for (number, lane) in other.lanes().iter().enumerate() {
            if !taken.contains(&number) {
                found.push(difference(&lane.name, 1, "the lane", "", &lane.opening));
            }
        }
        found
    }

    fn opening_of(&self, lane: &Lane) -> Option<&[Part]> {
        let first = &self.exchanges()[*lane.exchanges.first()?];
        Some(first.dialogue.as_ref()?.opening.as_slice())
    }
}

fn turn_difference(lane: &str, left: &Exchange, right: &Exchange) -> Option<Difference> {
    let (left_parts, right_parts) = (left.new_parts(), right.new_parts());
    let parts = left_parts.len().max(right_parts.len());
    if let Some(at) = (0..parts).find(|at| left_parts.get(*at) != right_parts.get(*at)) {
        let text = |parts: &[String]| parts.get(at).cloned().unwrap_or_default();
        let (a, b) = excerpts(&text(&left_parts), &text(&right_parts));
        return Some(difference(lane, left.turn, "the request", &a, &b));
    }
    if left.status() != right.status() {
        let text =
            |status: Option<u16>| status.map_or_else(|| "none".to_owned(), |status| status.to_string());
        return Some(difference(lane, left.turn, "the status", &text(left.status()), &text(right.status())));
    }
    if left.body != right.body {
        let (a, b) = excerpts(&String::from_utf8_lossy(&left.body), &String::from_utf8_lossy(&right.body));
        return Some(difference(lane, left.turn, "the answer", &a, &b));
    }
    None
}

fn difference(lane: &str, turn: usize, part: &str, left: &str, right: &str) -> Difference {
    let [lane, part, left, right] = [lane, part, left, right].map(str::to_owned);
    Difference { lane, turn, part, left, right }
}
