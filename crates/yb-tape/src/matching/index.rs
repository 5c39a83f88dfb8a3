//! Finds the recorded exchange for a request, or says why there is none. Never guesses.

use std::collections::HashMap;

use super::dialogue::{Api, Dialogue, Part};
use super::divergence::{Divergence, DivergenceKind, excerpts};
use crate::tape::{Exchange, Tape};

/// What identifies a point of a conversation: what opened it and what the model has said since.
type Key = (Api, Vec<Part>, Vec<Part>);

/// The exchanges of a tape, and which of them were given out.
#[derive(Debug)]
pub(crate) struct Index {
    tape: Tape,
    points: HashMap<Key, Vec<usize>>,
    served: Vec<Served>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Served {
    No,
    /// Its answer is on its way.
    Begun,
    /// Its answer broke off before the agent had it.
    Broken,
    Whole,
}

/// What a request gets.
#[derive(Debug, PartialEq)]
pub(crate) enum Match {
    /// This exchange, with so many tool results that differ.
    Exchange {
        index: usize,
        tolerated: usize,
    },
    None(Box<Divergence>),
}

/// How strict a comparison is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    Strict,
    /// Tool results may differ.
    Lenient,
}

impl Index {
    /// Of a tape's exchanges only those with a number below `before` are there.
    pub(crate) fn new(tape: &Tape, before: u64) -> Self {
        let mut points: HashMap<Key, Vec<usize>> = HashMap::new();
        for (index, exchange) in tape.exchanges().iter().enumerate() {
            if let (Some(api), Some(dialogue)) = (exchange.api, &exchange.dialogue)
                && exchange.number() < before
            {
                points.entry(key(api, dialogue)).or_default().push(index);
            }
        }
        let served = vec![Served::No; tape.exchanges().len()];
        Self { tape: tape.clone(), points, served }
    }

    pub(crate) fn find(&mut self, api: Api, dialogue: &Dialogue, rule: Rule) -> Match {
        let Some(here) = self.points.get(&key(api, dialogue)) else {
            return Match::None(Box::new(self.nowhere(api, dialogue)));
        };
        let of = |index: &usize| &self.tape.exchanges()[*index];
        let form: Vec<usize> = here
            .iter()
            .copied()
            .filter(|index| dialogue_of(of(index)).is_some_and(|d| d.stream == dialogue.stream))
            .collect();
        if form.is_empty() {
            let part = if dialogue.stream { "a stream is asked for" } else { "one message is asked for" };
            let divergence = self.divergence(dialogue, DivergenceKind::OtherForm, of(&here[0]), part);
            return Match::None(Box::new(divergence));
        }
        let fitting: Vec<usize> = form
            .iter()
            .copied()
            .filter(|index| dialogue_of(of(index)).is_some_and(|d| d.new == dialogue.new))
            .collect();
        if let Some(index) = self.next_of(&fitting) {
            self.served[index] = Served::Begun;
            return Match::Exchange { index, tolerated: 0 };
        }
        if let Some(&index) = fitting.first() {
            if rule == Rule::Lenient {
                return Match::Exchange { index: *fitting.last().unwrap_or(&index), tolerated: 0 };
            }
            let divergence =
                self.divergence(dialogue, DivergenceKind::AskedAgain, of(&index), "the whole request");
            return Match::None(Box::new(divergence));
        }
        // The one that is due, else the first: its difference is the one to tell.
        let index = self.next_of(&form).unwrap_or(form[0]);
        let recorded = of(&index);
        let expected = dialogue_of(recorded).map(|dialogue| dialogue.new.as_slice()).unwrap_or_default();
        if rule == Rule::Lenient
            && let Some(tolerated) = only_results_differ(expected, &dialogue.new)
        {
            self.served[index] = Served::Begun;
            return Match::Exchange { index, tolerated };
        }
        Match::None(Box::new(self.first_difference(dialogue, recorded, expected)))
    }

    /// The answer was sent to its end, or its reader went away.
    pub(crate) fn delivered(&mut self, index: usize, is_whole: bool) {
        self.served[index] = if is_whole { Served::Whole } else { Served::Broken };
    }

    /// The answer was not given after all; the next one who asks gets it.
    pub(crate) fn put_back(&mut self, index: usize) {
        self.served[index] = Served::No;
    }

    /// How many exchanges of conversations were never asked for.
    pub(crate) fn left(&self) -> usize {
        let all = self.points.values().flatten();
        all.filter(|index| {
            self.served[**index] == Served::No && self.tape.exchanges()[**index].api != Some(Api::CountTokens)
        })
        .count()
    }

    /// Equal requests get their answers in the recorded order: those of equal lanes, and those of attempts. When all
    /// are given, one that did not arrive whole is given again, and so is a failure that nothing better follows.
    fn next_of(&self, candidates: &[usize]) -> Option<usize> {
        let served = |wanted| candidates.iter().find(|index| self.served[**index] == wanted);
        let failure = || {
            let is_good = |index: &&usize| self.tape.exchanges()[**index].is_good();
            candidates.last().filter(|_| !candidates.iter().any(|index| is_good(&index)))
        };
        served(Served::No).or_else(|| served(Served::Broken)).or_else(failure).copied()
    }

    /// Says how a conversation that is nowhere on the tape differs from the one that is most like it.
    fn nowhere(&self, api: Api, dialogue: &Dialogue) -> Divergence {
        let known = self.tape.exchanges().iter().filter(|exchange| exchange.api == Some(api));
        let mut like: Option<(&Exchange, &Dialogue, usize)> = None;
        for exchange in known {
            let Some(other) = dialogue_of(exchange).filter(|other| other.opening == dialogue.opening) else {
                continue;
            };
            let same = other.spoken.iter().zip(&dialogue.spoken).take_while(|(a, b)| a == b).count();
            // Of those that are equally alike the one that goes furthest.
            if like.is_none_or(|(_, best, most)| {
                same > most
                    || (same == most && other.spoken.len() > best.spoken.len() && other.turn <= dialogue.turn)
            }) {
                like = Some((exchange, other, same));
            }
        }
        let Some((exchange, other, same)) = like else { return self.unknown(dialogue, api) };
        if same == other.spoken.len() {
            // Everything that the tape knows of it was said. What came after is an answer of the tape's last turn, or foreign.
            let answer = String::from_utf8_lossy(&exchange.body);
            let foreign = dialogue.spoken[same..]
                .iter()
                .find(|part| matches!(part, Part::Call { id, .. } if !answer.contains(id.as_str())));
            if let Some(part) = foreign {
                let mut divergence =
                    self.divergence(dialogue, DivergenceKind::OtherAnswers, exchange, &part.title());
                divergence.came = part.text().to_owned();
                return divergence;
            }
            let mut divergence = self.divergence(
                dialogue,
                DivergenceKind::ExtraTurn,
                exchange,
                "a turn more than were recorded",
            );
            let new = dialogue.new.first();
            divergence.came = new
                .map(|part| format!("{}: {}", part.title(), excerpts("", part.text()).1))
                .unwrap_or_default();
            return divergence;
        }
        let expected = &other.spoken[same];
        let came = dialogue.spoken.get(same);
        let mut divergence = self.divergence(
            dialogue,
            DivergenceKind::OtherAnswers,
            exchange,
            &expected.title().replace("the user", "the model"),
        );
        (divergence.expected, divergence.came) =
            excerpts(expected.text(), came.map(Part::text).unwrap_or_default());
        divergence
    }

    fn unknown(&self, dialogue: &Dialogue, api: Api) -> Divergence {
        let came = dialogue.opening.iter().map(Part::text).collect::<Vec<_>>().join("\n");
        let openings = self.tape.exchanges().iter().filter(|exchange| exchange.api == Some(api)).filter_map(
            |exchange| {
                let dialogue = dialogue_of(exchange)?;
                Some((dialogue.opening.iter().map(Part::text).collect::<Vec<_>>().join("\n"), exchange))
            },
        );
        // The nearest is the one with the longest common beginning; of equals the first.
        let common = |a: &str, b: &str| a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
        let mut nearest: Option<(usize, String)> = None;
        for (opening, _) in openings {
            let length = common(&opening, &came);
            if nearest.as_ref().is_none_or(|(most, _)| length > *most) {
                nearest = Some((length, opening));
            }
        }
        let (expected, came) =
            excerpts(nearest.as_ref().map(|(_, text)| text.as_str()).unwrap_or_default(), &came);
        Divergence {
            tape: self.tape.path().to_owned(),
            lane: None,
            turn: dialogue.turn,
            kind: DivergenceKind::UnknownConversation,
            part: "what opens the conversation".to_owned(),
            expected,
            came,
            tape_is_cut: self.tape.cut().is_some(),
        }
    }

    fn first_difference(&self, dialogue: &Dialogue, recorded: &Exchange, expected: &[Part]) -> Divergence {
        let same = expected.iter().zip(&dialogue.new).take_while(|(a, b)| a == b).count();
        let (wanted, came) = (expected.get(same), dialogue.new.get(same));
        let named = wanted.or(came);
        let is_result = matches!(named, Some(Part::Result { .. }));
        let kind = if is_result { DivergenceKind::ToolResult } else { DivergenceKind::UserPart };
        let title = named.map(Part::title).unwrap_or_default();
        let mut divergence = self.divergence(dialogue, kind, recorded, &title);
        // Two different parts at the same place are told by name as well.
        let full = |part: Option<&Part>| match (part, wanted.map(Part::title) == came.map(Part::title)) {
            (None, _) => String::new(),
            (Some(part), true) => part.text().to_owned(),
            (Some(part), false) => format!("{}: {}", part.title(), part.text()),
        };
        (divergence.expected, divergence.came) = excerpts(&full(wanted), &full(came));
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
            came: String::new(),
            tape_is_cut: self.tape.cut().is_some(),
        }
    }
}

fn key(api: Api, dialogue: &Dialogue) -> Key {
    (api, dialogue.opening.clone(), dialogue.spoken.clone())
}

fn dialogue_of(exchange: &Exchange) -> Option<&Dialogue> {
    exchange.dialogue.as_ref()
}

/// The number of results that differ, when nothing else does.
fn only_results_differ(expected: &[Part], came: &[Part]) -> Option<usize> {
    if expected.len() != came.len() {
        return None;
    }
    let mut differing = 0;
    for (expected, came) in expected.iter().zip(came) {
        match (expected, came) {
            (a, b) if a == b => {}
            (Part::Result { call: a, .. }, Part::Result { call: b, .. }) if a == b => differing += 1,
            _ => return None,
        }
    }
    Some(differing)
}
