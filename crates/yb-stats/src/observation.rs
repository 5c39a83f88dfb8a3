//! What was seen of one case in one run, and how it is counted.

use std::collections::BTreeMap;

use yb_model::outcome::{Counts, Outcome};

/// What one trial says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// A pass.
    Passed,
    /// No pass.
    Failed,
    /// Nobody knows: both are tried.
    Either,
    /// Nothing about the agent.
    Lost,
}

impl Seen {
    /// What an outcome says; a trial without one was lost.
    #[must_use]
    pub fn of(outcome: Option<Outcome>) -> Self {
        match outcome.map(Outcome::counts_as) {
            Some(Counts::One) => Self::Passed,
            Some(Counts::Zero) => Self::Failed,
            Some(Counts::Either) => Self::Either,
            Some(Counts::LeftOut) | None => Self::Lost,
        }
    }
}

/// One trial of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// What it says.
    pub seen: Seen,
    /// The tape that its model was replayed from: replays of one tape are one observation, however often they ran.
    pub tape: Option<String>,
}

impl Observation {
    /// A trial that asked a model.
    #[must_use]
    pub fn live(seen: Seen) -> Self {
        Self { seen, tape: None }
    }

    /// A replay of a tape.
    #[must_use]
    pub fn replay(seen: Seen, tape: impl Into<String>) -> Self {
        Self { seen, tape: Some(tape.into()) }
    }
}

/// The observations of a case, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Passes.
    pub passed: u64,
    /// Those that are no pass.
    pub failed: u64,
    /// Of which nobody knows.
    pub either: u64,
    /// That say nothing.
    pub lost: u64,
}

/// How many tries passed, of how many that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "two numbers, and there will be no third")]
pub struct Passes {
    /// Passes.
    pub passed: u64,
    /// Tries.
    pub of: u64,
}

/// What is done with trials that were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// They are left out: there are few.
    LeftOut,
    /// They are tried as passes and as fails, like those of which nobody knows: there are too many to be left out.
    Either,
}

impl Tally {
    /// Trials that count.
    #[must_use]
    pub fn counted(&self) -> u64 {
        self.passed + self.failed + self.either
    }

    /// All trials.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.counted() + self.lost
    }

    /// Whether it passes at one time and fails at another.
    #[must_use]
    pub fn is_flaky(&self) -> bool {
        self.passed > 0 && self.failed > 0
    }

    /// With those of which nobody knows as passes, or as fails.
    #[must_use]
    pub fn passes(&self, unknown_pass: bool, lost: Lost) -> Passes {
        let unknown = self.either + if lost == Lost::Either { self.lost } else { 0 };
        Passes {
            passed: self.passed + if unknown_pass { unknown } else { 0 },
            of: self.passed + self.failed + unknown,
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            either: self.either + other.either,
            lost: self.lost + other.lost,
        }
    }
}

impl Passes {
    /// The rate; none without a try.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        (self.of > 0).then(|| self.passed as f64 / self.of as f64)
    }
}

/// Counts the observations of one case. Replays of one tape are one; where they disagree, nobody knows.
#[must_use]
pub fn tally(observations: &[Observation]) -> Tally {
    let mut tapes: BTreeMap<&str, Seen> = BTreeMap::new();
    let mut all = Vec::new();
    for one in observations {
        match one.tape.as_deref() {
            None => all.push(one.seen),
            Some(tape) => {
                let known = tapes.entry(tape).or_insert(one.seen);
                // A replay that was lost says nothing against one that was not.
                *known = match (*known, one.seen) {
                    (known, Seen::Lost) => known,
                    (Seen::Lost, seen) => seen,
                    (known, seen) if known == seen => seen,
                    _ => Seen::Either,
                };
            }
        }
    }
    let mut tally = Tally::default();
    for seen in all.into_iter().chain(tapes.into_values()) {
        match seen {
            Seen::Passed => tally.passed += 1,
            Seen::Failed => tally.failed += 1,
            Seen::Either => tally.either += 1,
            Seen::Lost => tally.lost += 1,
        }
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replays_of_one_tape_are_one_observation() {
        let replay = |seen, tape: &str| Observation::replay(seen, tape);
        let all = [
            replay(Seen::Passed, "a"),
            replay(Seen::Passed, "a"),
            replay(Seen::Lost, "a"),
            replay(Seen::Failed, "b"),
            replay(Seen::Passed, "c"),
            replay(Seen::Failed, "c"),
            Observation::live(Seen::Passed),
            Observation::live(Seen::Passed),
        ];
        assert_eq!(tally(&all), Tally { passed: 3, failed: 1, either: 1, lost: 0 });
    }

    #[test]
    fn what_nobody_knows_is_tried_both_ways() {
        let counted = Tally { passed: 3, failed: 1, either: 2, lost: 4 };
        assert_eq!(counted.passes(false, Lost::LeftOut), Passes { passed: 3, of: 6 });
        assert_eq!(counted.passes(true, Lost::LeftOut), Passes { passed: 5, of: 6 });
        assert_eq!(counted.passes(true, Lost::Either), Passes { passed: 9, of: 10 });
        assert!(counted.is_flaky());
        assert_eq!(Seen::of(Some(Outcome::GraderError)), Seen::Either);
        assert_eq!(Seen::of(Some(Outcome::Timeout)), Seen::Failed);
        assert_eq!(Seen::of(Some(Outcome::RateLimited)), Seen::Lost);
        assert_eq!(Seen::of(None), Seen::Lost);
    }
}
