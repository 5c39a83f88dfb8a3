//! Statistics for comparisons and gates: pure functions of numbers, each with a reference.
//!
//! Two runs can be compared in two ways ([`Estimand`]). *Suite* takes the cases as fixed: would more repeats of exactly these
//! cases show a difference? It is answered within each case ([`pass_p_value`], [`compare_suite`]). *New cases* takes the cases as a
//! sample: would other cases of the same kind show a difference? It is answered across cases ([`sign_flip`], [`compare_new_cases`]).

mod answer;
mod decision;
mod design;
mod distributions;
mod interval;
mod observation;
mod pass_at_k;
mod per_case;
mod permutation;
mod random;
mod sign_flip;

pub use answer::Answer;
pub use decision::{
    AdditionalSamples, Decision, Difference, Estimand, PValueMethod, RegressionCriteria, additional_repeats,
    compare_new_cases, compare_suite,
};
pub use design::{Factor, FactorialDesign, FractionalDesign, fractional_factorial, full_factorial};
pub use distributions::{beta_quantile, normal_quantile, t_quantile};
pub use interval::{Interval, clopper_pearson, mean_pass_rate, wilson};
pub use observation::{
    ExcludedTrials, Observation, ObservedOutcome, OutcomeCounts, PassCount, count_outcomes,
};
pub use pass_at_k::{pass_at_k, pass_hat_k};
pub use per_case::{CasePasses, CasesDecision, find_dead_cases, find_dropped_cases};
pub use permutation::{LocationShift, PassPair, ValuePair, holm, location_shift, pass_p_value};
pub use random::Random;
pub use sign_flip::{MIN_NON_ZERO, SignFlip, sign_flip};
