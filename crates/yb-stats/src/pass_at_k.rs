//! Unbiased estimates of pass@k (at least one of k trials passes) and pass^k (all k trials pass).

use super::distributions::ln_choose;
use super::observation::PassCount;

/// The probability that at least one of `k` trials passes, averaged over the cases with at least `k` trials:
/// 1 − C(n−c, k) / C(n, k) (Chen et al., *Evaluating large language models trained on code*, 2021).
#[must_use]
pub fn pass_at_k(cases: &[PassCount], k: u64) -> Option<f64> {
    mean(cases, k, |case| 1.0 - choose_ratio(case.of - case.passed, case.of, k))
}

/// The probability that all of `k` trials pass, averaged over the cases with at least `k` trials: C(c, k) / C(n, k) (Yao et al.,
/// *τ-bench*, 2024).
#[must_use]
pub fn pass_hat_k(cases: &[PassCount], k: u64) -> Option<f64> {
    mean(cases, k, |case| choose_ratio(case.passed, case.of, k))
}

/// C(subset, k) / C(all, k).
fn choose_ratio(subset: u64, all: u64, k: u64) -> f64 {
    if subset < k { 0.0 } else { (ln_choose(subset, k) - ln_choose(all, k)).exp() }
}

fn mean(cases: &[PassCount], k: u64, estimate: impl Fn(&PassCount) -> f64) -> Option<f64> {
    let estimates: Vec<f64> = cases.iter().filter(|case| k > 0 && case.of >= k).map(estimate).collect();
    (!estimates.is_empty()).then(|| estimates.iter().sum::<f64>() / estimates.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pass_at_k_and_pass_hat_k_match_hand_computed_values() {
        let close = |value: Option<f64>, expected: f64| {
            assert!((value.unwrap() - expected).abs() < 1e-12, "{value:?} {expected}");
        };
        let case = |passed, of| PassCount { passed, of };
        close(pass_at_k(&[case(1, 3)], 1), 1.0 / 3.0);
        close(pass_at_k(&[case(1, 3)], 2), 2.0 / 3.0);
        close(pass_at_k(&[case(1, 3)], 3), 1.0);
        close(pass_hat_k(&[case(2, 3)], 2), 1.0 / 3.0);
        close(pass_hat_k(&[case(2, 3)], 3), 0.0);
        close(pass_hat_k(&[case(3, 3), case(0, 3)], 3), 0.5);
        // A case with fewer than k trials is left out.
        close(pass_at_k(&[case(0, 5), case(1, 1)], 5), 0.0);
        assert_eq!(pass_at_k(&[case(1, 1)], 2), None);
        assert_eq!(pass_hat_k(&[], 1), None);
    }
}
