//! pass@k (at least one of k tries passes) and pass^k (all of k do), without the bias of plugging in a rate.

use super::observation::Passes;
use super::special::ln_choose;

/// The chance that at least one of `k` tries passes, averaged over the cases that were tried at least `k` times:
/// 1 − C(n−c, k) / C(n, k) (Chen et al., *Evaluating large language models trained on code*, 2021).
#[must_use]
pub fn pass_at_k(cases: &[Passes], k: u64) -> Option<f64> {
    mean(cases, k, |case| 1.0 - chosen(case.of - case.passed, case.of, k))
}

/// The chance that all of `k` tries pass, averaged likewise: C(c, k) / C(n, k) (Yao et al., *τ-bench*, 2024).
#[must_use]
pub fn pass_hat_k(cases: &[Passes], k: u64) -> Option<f64> {
    mean(cases, k, |case| chosen(case.passed, case.of, k))
}

/// C(some, k) / C(all, k).
fn chosen(some: u64, all: u64, k: u64) -> f64 {
    if some < k { 0.0 } else { (ln_choose(some, k) - ln_choose(all, k)).exp() }
}

fn mean(cases: &[Passes], k: u64, of: impl Fn(&Passes) -> f64) -> Option<f64> {
    let enough: Vec<f64> = cases.iter().filter(|case| k > 0 && case.of >= k).map(of).collect();
    (!enough.is_empty()).then(|| enough.iter().sum::<f64>() / enough.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_by_hand() {
        let close = |value: Option<f64>, expected: f64| {
            assert!((value.unwrap() - expected).abs() < 1e-12, "{value:?} {expected}");
        };
        let case = |passed, of| Passes { passed, of };
        close(pass_at_k(&[case(1, 3)], 1), 1.0 / 3.0);
        close(pass_at_k(&[case(1, 3)], 2), 2.0 / 3.0);
        close(pass_at_k(&[case(1, 3)], 3), 1.0);
        close(pass_hat_k(&[case(2, 3)], 2), 1.0 / 3.0);
        close(pass_hat_k(&[case(2, 3)], 3), 0.0);
        close(pass_hat_k(&[case(3, 3), case(0, 3)], 3), 0.5);
        // A case with too few tries says nothing.
        close(pass_at_k(&[case(0, 5), case(1, 1)], 5), 0.0);
        assert_eq!(pass_at_k(&[case(1, 1)], 2), None);
        assert_eq!(pass_hat_k(&[], 1), None);
    }
}
