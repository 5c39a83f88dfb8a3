"""Recompute the values on stdin with scipy and statsmodels, and print a line for each that differs from ours."""

import itertools
import json
import math
import sys

import numpy as np
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint


def fisher(a, n, b, m):
    return stats.fisher_exact([[a, n - a], [b, m - b]]).pvalue


def stratified(cases):
    """Enumerate the permutations of all cases."""
    sums = [(0.0, 1.0)]
    for (a, n), (b, m) in cases:
        own = []
        for x in range(max(0, a + b - n), min(m, a + b) + 1):
            own.append((x / m - (a + b - x) / n, stats.hypergeom.pmf(x, n + m, a + b, m)))
        sums = [(s + d, p * q) for s, p in sums for d, q in own]
    seen = abs(sum(b / m - a / n for (a, n), (b, m) in cases))
    return sum(p for s, p in sums if abs(s) >= seen - 1e-9)


def difference(x, y, axis=-1):
    return np.mean(y, axis=axis) - np.mean(x, axis=axis)


def permutation(a, b):
    """Two-sided by absolute difference; scipy's own two-sided test doubles the smaller tail."""

    def size(x, y, axis=-1):
        return np.abs(difference(x, y, axis))

    return stats.permutation_test(
        (a, b), size, permutation_type="independent", n_resamples=np.inf, alternative="greater"
    ).pvalue


def one_sided(a, b, shift, alternative):
    b = np.array(b) - shift
    return stats.permutation_test(
        (a, b), difference, permutation_type="independent", n_resamples=np.inf, alternative=alternative
    ).pvalue


def shift_bounds(a, b, alpha, lower, upper):
    """The test rejects just outside the bounds, and not just inside."""
    small = 1e-6
    return [
        one_sided(a, b, lower - small, "greater") <= alpha + 1e-12,
        one_sided(a, b, lower + small, "greater") > alpha,
        one_sided(a, b, upper + small, "less") <= alpha + 1e-12,
        one_sided(a, b, upper - small, "less") > alpha,
    ]


def mean(x, axis=-1):
    return np.mean(x, axis=axis)


def flips(differences, shift=0.0, alternative="two-sided"):
    moved = np.array(differences) - shift
    return stats.permutation_test(
        (moved,), mean, permutation_type="samples", n_resamples=np.inf, alternative=alternative
    ).pvalue


def flip_bounds(differences, alpha, lower, upper):
    small = 1e-6
    return [
        flips(differences, lower - small, "greater") <= alpha + 1e-12,
        flips(differences, lower + small, "greater") > alpha,
        flips(differences, upper + small, "less") <= alpha + 1e-12,
        flips(differences, upper - small, "less") > alpha,
    ]


def pass_at_k(n, c, k):
    drawn = list(itertools.combinations(range(n), k))
    return sum(any(i < c for i in one) for one in drawn) / len(drawn)


def pass_hat_k(n, c, k):
    drawn = list(itertools.combinations(range(n), k))
    return sum(all(i < c for i in one) for one in drawn) / len(drawn)


REFERENCE = {
    "normal": lambda p: stats.norm.ppf(p),
    "t": lambda p, df: stats.t.ppf(p, df),
    "beta": lambda p, a, b: stats.beta.ppf(p, a, b),
    "wilson": lambda x, n, c: list(proportion_confint(x, n, alpha=1 - c, method="wilson")),
    "clopper_pearson": lambda x, n, alpha: list(proportion_confint(x, n, alpha=2 * alpha, method="beta")),
    "fisher": fisher,
    "mcnemar": lambda b, c: mcnemar([[0, b], [c, 0]], exact=True).pvalue,
    "stratified": stratified,
    "permutation": permutation,
    "shift_bounds": shift_bounds,
    "flips": flips,
    "flip_bounds": flip_bounds,
    "holm": lambda ps: list(multipletests(ps, method="holm")[1]),
    "pass_at_k": pass_at_k,
    "pass_hat_k": pass_hat_k,
}


def same(ours, theirs):
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(theirs, (bool, np.bool_)):
        return ours == bool(theirs)
    return math.isclose(ours, theirs, rel_tol=1e-7, abs_tol=1e-9)


wrong = 0
for check in json.load(sys.stdin):
    theirs = REFERENCE[check["function"]](*check["arguments"])
    if not same(check["ours"], theirs):
        wrong += 1
        print(check, "theirs:", theirs)
sys.exit(1 if wrong else 0)
