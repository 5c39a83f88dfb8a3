//! The answer to "which is better?", from a confidence interval and a test.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::decision::{Difference, RegressionCriteria};

/// The answer to whether the second pass rate is better than the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The second pass rate is higher.
    Better,
    /// The second pass rate is lower.
    Worse,
    /// A difference larger than the tolerance is excluded in both directions.
    NoDifference,
    /// None of these can be told from the data.
    #[default]
    CannotTell,
}

impl Difference {
    /// Answers which pass rate is higher. A winner needs bounds that exclude zero and a two-sided p-value of at most `alpha`, so
    /// that either direction is claimed wrongly in at most `alpha` of all comparisons. No difference beyond the tolerance is
    /// claimed if both bounds, each one-sided at `alpha`, are within it: two one-sided tests (Schuirmann, *Journal of
    /// Pharmacokinetics and Biopharmaceutics* 15, 1987).
    #[must_use]
    pub fn answer(&self, criteria: &RegressionCriteria) -> Answer {
        let Some(interval) = self.interval else { return Answer::CannotTell };
        let is_significant = self.p_value.is_some_and(|p| p <= criteria.alpha);
        if is_significant && interval.lower > 0.0 {
            Answer::Better
        } else if is_significant && interval.upper < 0.0 {
            Answer::Worse
        } else if interval.lower > -criteria.tolerance && interval.upper < criteria.tolerance {
            Answer::NoDifference
        } else {
            Answer::CannotTell
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Answer, PassCount, PassPair, RegressionCriteria, compare_suite};

    fn answer(a: (u64, u64), b: (u64, u64), cases: usize) -> Answer {
        let passes = |of: (u64, u64)| PassCount { passed: of.0, of: of.1 };
        let pairs = vec![PassPair { a: passes(a), b: passes(b) }; cases];
        let criteria = RegressionCriteria::default();
        compare_suite(&pairs, &criteria).unwrap().answer(&criteria)
    }

    #[test]
    fn winner_is_named_in_both_directions() {
        assert_eq!(answer((10, 20), (17, 20), 3), Answer::Better);
        assert_eq!(answer((17, 20), (10, 20), 3), Answer::Worse);
        assert_eq!(answer((59, 59), (59, 59), 1), Answer::NoDifference);
        assert_eq!(answer((3, 3), (3, 3), 1), Answer::CannotTell);
        assert_eq!(answer((10, 20), (11, 20), 3), Answer::CannotTell);
    }

    #[test]
    fn small_but_certain_difference_has_a_winner() {
        let answer = answer((9_000, 10_000), (9_200, 10_000), 1);
        assert_eq!(answer, Answer::Better, "although it is smaller than the tolerance");
    }
}
