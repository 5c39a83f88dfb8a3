//! The statistics behind comparisons and gates: pure functions of numbers, each with where it comes from.
//!
//! Two questions can be asked of two runs. *This suite* takes the cases as they are: would more repeats of exactly these
//! cases show a difference? *New cases* takes them as a sample: would other cases of the same kind? The first is answered
//! within each case, the second across cases. docs/concepts/statistics.md explains both to a reader who has to decide something.

mod decide;
mod interval;
mod new_cases;
mod observation;
mod passk;
mod permute;
mod random;
mod special;

pub use decide::{Decision, Difference, Estimand, Method, More, Question, more_repeats, new_cases, suite};
pub use interval::{Interval, clopper_pearson, rate_of_cases, wilson};
pub use new_cases::{MIN_NON_ZERO, SignFlip, sign_flip};
pub use observation::{Lost, Observation, Passes, Seen, Tally, tally};
pub use passk::{pass_at_k, pass_hat_k};
pub use permute::{PassPair, Shift, ValuePair, holm, pass_p_value, shift};
pub use random::Random;
pub use special::{beta_quantile, normal_quantile, t_quantile};
