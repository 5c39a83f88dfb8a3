//! Factorial designs: which combinations of factor levels to run.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The generators of two-level fractions, by number of factors: each further factor is the product of some of the first ones. For
/// each number of factors, from the smallest fraction to the largest (Box, Hunter and Hunter, *Statistics for Experimenters*, 2nd
/// ed. 2005, table 6.22; NIST/SEMATECH *e-Handbook of Statistical Methods*, 5.3.3.4.7).
const FRACTIONS: &[(usize, &[&str])] = &[
    (3, &["AB"]),
    (4, &["ABC"]),
    (5, &["AB", "AC"]),
    (5, &["ABCD"]),
    (6, &["AB", "AC", "BC"]),
    (6, &["ABC", "BCD"]),
    (6, &["ABCDE"]),
    (7, &["AB", "AC", "BC", "ABC"]),
    (7, &["ABC", "BCD", "ACD"]),
    (7, &["ABCDEF"]),
    (8, &["BCD", "ACD", "ABC", "ABD"]),
    (8, &["ABCD", "ABEF"]),
    (9, &["ABC", "BCD", "ACD", "ABD", "ABCD"]),
    (9, &["BCDE", "ACDE", "ABDE", "ABCE"]),
    (9, &["ACDFG", "BCEFG"]),
    (10, &["ABC", "BCD", "ACD", "ABD", "ABCD", "AB"]),
    (10, &["ABCD", "ABCE", "ABDE", "ACDE", "BCDE"]),
    (10, &["ABCG", "BCDE", "ACDF"]),
];

/// A factor of a design.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Factor {
    /// The name.
    pub name: String,
    /// The names of the levels; the first is the reference.
    pub levels: Vec<String>,
}

/// The factorial design of a suite.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct FactorialDesign {
    /// The factors, in file order.
    pub factors: Vec<Factor>,
    /// Resolution of a fraction; absent if all combinations of levels run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<u32>,
    /// Generators of a fraction, such as `D=ABC`, in which `A` is the first factor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub generators: Vec<String>,
    /// The levels of each variant, in the order of the factors.
    pub variants: BTreeMap<String, Vec<String>>,
}

/// Says how many combinations run, and what main effects of a fraction are confounded with.
impl fmt::Display for FactorialDesign {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: usize = self.factors.iter().map(|factor| factor.levels.len()).product();
        let (count, run) = (self.factors.len(), self.variants.len());
        let factors = if count == 1 { "factor" } else { "factors" };
        match self.resolution {
            None => write!(formatter, "all {all} combinations of {count} {factors}"),
            Some(resolution) => write!(
                formatter,
                "{run} of {all} combinations of {count} {factors}, resolution {resolution} ({}): main effects are confounded \
                 with interactions of {} and more factors",
                self.generators.join(", "),
                resolution - 1
            ),
        }
    }
}

/// A fraction of a two-level factorial design.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FractionalDesign {
    /// The level of each factor, 0 or 1, by combination.
    pub combinations: Vec<Vec<usize>>,
    /// The generators, such as `D=ABC`.
    pub generators: Vec<String>,
    /// The length of the shortest word of the defining relation. Main effects are confounded with interactions of
    /// `resolution - 1` factors and more.
    pub resolution: u32,
}

/// Returns all combinations of levels; the last factor changes fastest.
#[must_use]
pub fn full_factorial(levels: &[usize]) -> Vec<Vec<usize>> {
    levels.iter().fold(vec![Vec::new()], |combinations, count| {
        let longer = |combination: &Vec<usize>| {
            (0..*count).map(|level| [combination.as_slice(), &[level]].concat()).collect::<Vec<_>>()
        };
        combinations.iter().flat_map(longer).collect()
    })
}

/// Returns the smallest fraction of a two-level design with at least this resolution; `None` if there is none in the table.
#[must_use]
pub fn fractional_factorial(factors: usize, resolution: u32) -> Option<FractionalDesign> {
    let mut known = FRACTIONS.iter().filter(|(count, _)| *count == factors);
    known.find_map(|(_, words)| {
        let words: Vec<u32> = words.iter().map(|word| bits(word)).collect();
        let found = resolution_of(factors - words.len(), &words);
        (found >= resolution).then(|| fraction(factors, &words, found))
    })
}

/// Returns the factors of a word as bits.
fn bits(word: &str) -> u32 {
    word.bytes().map(|letter| 1 << (letter - b'A')).sum()
}

/// Returns the length of the shortest product of defining words (Box and Hunter, *Technometrics* 3, 1961).
fn resolution_of(basic: usize, words: &[u32]) -> u32 {
    let defining: Vec<u32> = words.iter().enumerate().map(|(at, word)| word | 1 << (basic + at)).collect();
    let products = (1_u32..1 << defining.len()).map(|chosen| {
        let chosen = defining.iter().enumerate().filter(|(at, _)| chosen & (1 << at) != 0);
        chosen.fold(0, |product, (_, word)| product ^ word).count_ones()
    });
    products.min().unwrap_or(0)
}

fn fraction(factors: usize, words: &[u32], resolution: u32) -> FractionalDesign {
    let basic = factors - words.len();
    let combinations = full_factorial(&vec![2; basic])
        .into_iter()
        .map(|mut levels| {
            for word in words {
                // With levels -1 and +1 the product is +1 if the number of low levels is even.
                let low =
                    (0..basic).filter(|factor| word & (1 << factor) != 0 && levels[*factor] == 0).count();
                levels.push(usize::from(low % 2 == 0));
            }
            levels
        })
        .collect();
    let letter = |factor: usize| char::from(b'A' + u8::try_from(factor).unwrap_or(0));
    let generators = words
        .iter()
        .enumerate()
        .map(|(at, word)| {
            let product: String = (0..basic).filter(|factor| word & (1 << factor) != 0).map(letter).collect();
            format!("{}={product}", letter(basic + at))
        })
        .collect();
    FractionalDesign { combinations, generators, resolution }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_design_has_all_combinations_once() {
        let all = full_factorial(&[2, 3]);
        assert_eq!(all, [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]].map(|one| one.to_vec()));
        assert_eq!(full_factorial(&[]).len(), 1);
    }

    #[test]
    fn resolutions_are_those_of_the_tables() {
        let found = FRACTIONS.iter().map(|(factors, words)| {
            let bits: Vec<u32> = words.iter().map(|word| bits(word)).collect();
            format!("{factors}-{}: {}", words.len(), resolution_of(factors - words.len(), &bits))
        });
        let expected = "3-1: 3, 4-1: 4, 5-2: 3, 5-1: 5, 6-3: 3, 6-2: 4, 6-1: 6, 7-4: 3, 7-3: 4, 7-1: 7, 8-4: 4, \
            8-2: 5, 9-5: 3, 9-4: 4, 9-2: 6, 10-6: 3, 10-5: 4, 10-3: 5";
        assert_eq!(found.collect::<Vec<_>>().join(", "), expected);
    }

    #[test]
    fn fractions_are_balanced_and_orthogonal() {
        for (factors, resolution) in
            [(3, 3), (4, 4), (5, 3), (5, 5), (6, 4), (7, 3), (7, 4), (8, 4), (9, 3), (10, 5)]
        {
            let design = fractional_factorial(factors, resolution).unwrap();
            assert!(design.resolution >= resolution);
            let runs = design.combinations.len();
            assert!(runs < 1 << factors, "{factors} factors in {runs} runs");
            for one in 0..factors {
                let count = |level: usize| design.combinations.iter().filter(|run| run[one] == level).count();
                assert_eq!((count(0), count(1)), (runs / 2, runs / 2));
                for two in 0..one {
                    let both = design.combinations.iter().filter(|run| run[one] == 1 && run[two] == 1);
                    assert_eq!(both.count(), runs / 4, "factors {one} and {two} of {factors}");
                }
            }
        }
        assert_eq!(fractional_factorial(4, 4).unwrap().generators, ["D=ABC"]);
        assert_eq!(fractional_factorial(4, 5), None);
        assert_eq!(fractional_factorial(2, 3), None);
    }
}
