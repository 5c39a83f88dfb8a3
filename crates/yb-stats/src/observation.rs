//! The trials of one case in one run, and how they count towards its pass rate.

use std::collections::BTreeMap;

use yb_model::outcome::{Outcome, PassCredit};

/// The contribution of one trial to a pass rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObservedOutcome {
    /// A pass.
    Passed,
    /// Not a pass.
    Failed,
    /// Not graded: could be a pass or a fail, so both are considered.
    Unknown,
    /// An infrastructure failure, which says nothing about the agent.
    Excluded,
}

impl ObservedOutcome {
    /// Classifies an outcome; a trial without one is excluded.
    #[must_use]
    pub fn of(outcome: Option<Outcome>) -> Self {
        match outcome.map(Outcome::pass_credit) {
            Some(PassCredit::One) => Self::Passed,
            Some(PassCredit::Zero) => Self::Failed,
            Some(PassCredit::Unknown) => Self::Unknown,
            Some(PassCredit::Excluded) | None => Self::Excluded,
        }
    }
}

/// One trial of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// Its contribution to the pass rate.
    pub outcome: ObservedOutcome,
    /// The tape that its model was replayed from: all replays of one tape are one observation.
    pub tape: Option<String>,
}

impl Observation {
    /// A trial with a live model.
    #[must_use]
    pub fn live(outcome: ObservedOutcome) -> Self {
        Self { outcome, tape: None }
    }

    /// A replay of a tape.
    #[must_use]
    pub fn replay(outcome: ObservedOutcome, tape: impl Into<String>) -> Self {
        Self { outcome, tape: Some(tape.into()) }
    }
}

/// The observations of a case, counted by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutcomeCounts {
    /// PassCount.
    pub passed: u64,
    /// Fails.
    pub failed: u64,
    /// Trials that were not graded.
    pub unknown: u64,
    /// Infrastructure failures.
    pub excluded: u64,
}

/// The number of trials, and how many of them passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "a proportion has a numerator and a denominator")]
pub struct PassCount {
    /// PassCount.
    pub passed: u64,
    /// Trials.
    pub of: u64,
}

/// How excluded trials are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExcludedTrials {
    /// They are left out: there are few of them.
    Omit,
    /// They are treated as unknown: there are too many to be left out.
    TreatAsUnknown,
}

impl OutcomeCounts {
    /// The number of trials that count towards the pass rate.
    #[must_use]
    pub fn counted(&self) -> u64 {
        self.passed + self.failed + self.unknown
    }

    /// The number of all trials.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.counted() + self.excluded
    }

    /// Whether some trials passed and others failed.
    #[must_use]
    pub fn is_flaky(&self) -> bool {
        self.passed > 0 && self.failed > 0
    }

    /// Returns the pass count with unknown trials counted as passes if `unknown_pass`, else as fails.
    #[must_use]
    pub fn passes(&self, unknown_pass: bool, excluded: ExcludedTrials) -> PassCount {
        let unknown = self.unknown
            + match excluded {
                ExcludedTrials::Omit => 0,
                ExcludedTrials::TreatAsUnknown => self.excluded,
            };
        PassCount {
            passed: self.passed + if unknown_pass { unknown } else { 0 },
            of: self.passed + self.failed + unknown,
        }
    }

    /// Adds two counts.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            unknown: self.unknown + other.unknown,
            excluded: self.excluded + other.excluded,
        }
    }
}

impl PassCount {
    /// The pass rate; `None` without trials.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        (self.of > 0).then(|| self.passed as f64 / self.of as f64)
    }
}

/// Counts the observations of one case. Replays of one tape count once, as unknown if they disagree.
#[must_use]
pub fn count_outcomes(observations: &[Observation]) -> OutcomeCounts {
    let mut tapes: BTreeMap<&str, ObservedOutcome> = BTreeMap::new();
    let mut independent = Vec::new();
    for observation in observations {
        match observation.tape.as_deref() {
            None => independent.push(observation.outcome),
            Some(tape) => {
                let merged = tapes.entry(tape).or_insert(observation.outcome);
                // An excluded replay does not contradict the others.
                *merged = match (*merged, observation.outcome) {
                    (merged, ObservedOutcome::Excluded) => merged,
                    (ObservedOutcome::Excluded, outcome) => outcome,
                    (merged, outcome) if merged == outcome => outcome,
                    _ => ObservedOutcome::Unknown,
                };
            }
        }
    }
    let mut counts = OutcomeCounts::default();
    for outcome in independent.into_iter().chain(tapes.into_values()) {
        match outcome {
            ObservedOutcome::Passed => counts.passed += 1,
            ObservedOutcome::Failed => counts.failed += 1,
            ObservedOutcome::Unknown => counts.unknown += 1,
            ObservedOutcome::Excluded => counts.excluded += 1,
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replays_of_one_tape_are_one_observation() {
        use ObservedOutcome::{Excluded, Failed, Passed};
        let replay = |outcome, tape: &str| Observation::replay(outcome, tape);
        let observations = [
            replay(Passed, "a"),
            replay(Passed, "a"),
            replay(Excluded, "a"),
            replay(Failed, "b"),
            replay(Passed, "c"),
            replay(Failed, "c"),
            Observation::live(Passed),
            Observation::live(Passed),
        ];
        assert_eq!(
            count_outcomes(&observations),
            OutcomeCounts { passed: 3, failed: 1, unknown: 1, excluded: 0 }
        );
    }

    #[test]
    fn unknown_trials_count_as_passes_or_as_fails() {
        let counts = OutcomeCounts { passed: 3, failed: 1, unknown: 2, excluded: 4 };
        assert_eq!(counts.passes(false, ExcludedTrials::Omit), PassCount { passed: 3, of: 6 });
        assert_eq!(counts.passes(true, ExcludedTrials::Omit), PassCount { passed: 5, of: 6 });
        assert_eq!(counts.passes(true, ExcludedTrials::TreatAsUnknown), PassCount { passed: 9, of: 10 });
        assert!(counts.is_flaky());
    }

    #[test]
    fn outcomes_are_classified_by_their_pass_credit() {
        for (outcome, expected) in [
            (Some(Outcome::GraderError), ObservedOutcome::Unknown),
            (Some(Outcome::Timeout), ObservedOutcome::Failed),
            (Some(Outcome::RateLimited), ObservedOutcome::Excluded),
            (None, ObservedOutcome::Excluded),
        ] {
            assert_eq!(ObservedOutcome::of(outcome), expected);
        }
    }
}
