//! Distribution functions and quantiles, to ten digits; a test compares them with scipy.

/// Logarithm of the gamma function for positive numbers: Lanczos' approximation with g = 7 and nine coefficients.
fn ln_gamma(x: f64) -> f64 {
    const G: f64 = 7.0;
    const COEFFICIENTS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        // The reflection formula.
        return (std::f64::consts::PI / (std::f64::consts::PI * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let sum = COEFFICIENTS
        .iter()
        .enumerate()
        .skip(1)
        .fold(COEFFICIENTS[0], |sum, (index, coefficient)| sum + coefficient / (x + index as f64));
    let t = x + G + 0.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// Logarithm of a binomial coefficient.
pub(super) fn ln_choose(n: u64, k: u64) -> f64 {
    let (n, k) = (n as f64, k as f64);
    ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0)
}

/// The regularized incomplete beta function: the continued fraction by Lentz's method (Press et al., *Numerical Recipes*,
/// 3rd ed., 6.4).
pub(super) fn beta_cdf(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    // The continued fraction converges fast only on one side of the mean.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(x, a, b) / a
    } else {
        1.0 - front * beta_fraction(1.0 - x, b, a) / b
    }
}

fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let not_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / not_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut result = d;
    for step in 1..10_000 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / not_zero(1.0 + even * d);
        c = not_zero(1.0 + even / c);
        result *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / not_zero(1.0 + odd * d);
        c = not_zero(1.0 + odd / c);
        let delta = d * c;
        result *= delta;
        if (delta - 1.0).abs() < 1e-14 {
            break;
        }
    }
    result
}

/// Inverts an increasing function between `low` and `high` by bisection, which always converges and is fast enough here.
fn bisect(function: impl Fn(f64) -> f64, value: f64, mut low: f64, mut high: f64) -> f64 {
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if high - low <= 1e-14 * middle.abs() {
            break;
        }
        if function(middle) < value {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// The quantile of a beta distribution: Newton's method, with bisection where a step would leave the bracket.
#[must_use]
pub fn beta_quantile(probability: f64, a: f64, b: f64) -> f64 {
    let front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b);
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    let mut x = a / (a + b);
    for _ in 0..200 {
        let over = beta_cdf(x, a, b) - probability;
        if over < 0.0 {
            low = x;
        } else {
            high = x;
        }
        let density = (front + (a - 1.0) * x.ln() + (b - 1.0) * (1.0 - x).ln()).exp();
        let newton = x - over / density;
        let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
        if (next - x).abs() <= 1e-14 * x || high - low <= 1e-15 * x {
            return next;
        }
        x = next;
    }
    x
}

/// The quantile of Student's t distribution; infinite degrees of freedom give the normal distribution.
#[must_use]
pub fn t_quantile(probability: f64, degrees: f64) -> f64 {
    if probability < 0.5 {
        return -t_quantile(1.0 - probability, degrees);
    }
    // Beyond this the distributions do not differ in the digits shown, and the continued fraction is slow.
    if degrees > 1e6 {
        return normal_quantile(probability);
    }
    let cdf = |t: f64| 1.0 - 0.5 * beta_cdf(degrees / (degrees + t * t), 0.5 * degrees, 0.5);
    bisect(cdf, probability, 0.0, 1e8)
}

/// The quantile of the standard normal distribution: Wichura's algorithm AS 241, PPND16 (*Applied Statistics* 37, 1988).
#[must_use]
pub fn normal_quantile(probability: f64) -> f64 {
    let q = probability - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * evaluate_ratio(r, &CENTER);
    }
    let r = (-if q < 0.0 { probability } else { 1.0 - probability }.ln()).sqrt();
    let magnitude = if r <= 5.0 { evaluate_ratio(r - 1.6, &MIDDLE) } else { evaluate_ratio(r - 5.0, &TAIL) };
    if q < 0.0 { -magnitude } else { magnitude }
}

/// A rational function: the coefficients of two polynomials, lowest power first.
type RationalFunction = ([f64; 8], [f64; 8]);

fn evaluate_ratio(x: f64, (numerator, denominator): &RationalFunction) -> f64 {
    let horner =
        |polynomial: &[f64; 8]| polynomial.iter().rev().fold(0.0, |sum, coefficient| sum * x + coefficient);
    horner(numerator) / horner(denominator)
}

#[rustfmt::skip]
const CENTER: RationalFunction = (
    [3.387_132_872_796_366_5, 133.141_667_891_784_38, 1_971.590_950_306_551_3, 13_731.693_765_509_46,
     45_921.953_931_549_87, 67_265.770_927_008_7, 33_430.575_583_588_13, 2_509.080_928_730_122_7],
    [1.0, 42.313_330_701_600_91, 687.187_007_492_057_9, 5_394.196_021_424_751,
     21_213.794_301_586_597, 39_307.895_800_092_71, 28_729.085_735_721_943, 5_226.495_278_852_545],
);
#[rustfmt::skip]
const MIDDLE: RationalFunction = (
    [1.423_437_110_749_683_5, 4.630_337_846_156_546, 5.769_497_221_460_691, 3.647_848_324_763_204_5,
     1.270_458_252_452_368_4, 0.241_780_725_177_450_6, 0.022_723_844_989_269_184, 7.745_450_142_783_414e-4],
    [1.0, 2.053_191_626_637_759, 1.676_384_830_183_803_8, 0.689_767_334_985_1,
     0.148_103_976_427_480_08, 0.015_198_666_563_616_457, 5.475_938_084_995_345e-4, 1.050_750_071_644_416_9e-9],
);
#[rustfmt::skip]
const TAIL: RationalFunction = (
    [6.657_904_643_501_103, 5.463_784_911_164_114, 1.784_826_539_917_291_3, 0.296_560_571_828_504_87,
     0.026_532_189_526_576_124, 0.001_242_660_947_388_078_4, 2.711_555_568_743_487_6e-5, 2.010_334_399_292_288_1e-7],
    [1.0, 0.599_832_206_555_888, 0.136_929_880_922_735_8, 0.014_875_361_290_850_615,
     7.868_691_311_456_133e-4, 1.846_318_317_510_054_7e-5, 1.421_511_758_316_446e-7, 2.044_263_103_389_939_8e-15],
);
