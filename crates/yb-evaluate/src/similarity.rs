//! Similarity of two files: 1 − Levenshtein distance / length of the longer one. The distance is exact if that is affordable,
//! and else computed by lines. The budget is counted in steps, not in time, so that the result is deterministic.

use std::collections::{HashMap, HashSet};

/// The budget of all comparisons of a trial, in steps of 64 cells; a step takes about a nanosecond.
pub(crate) const BUDGET: u64 = 1 << 29;
/// The budget of one exact comparison.
const MAX_STEPS: u64 = 1 << 26;
/// The limit for the bit table of one exact comparison, in words.
const MAX_TABLE_WORDS: usize = 1 << 22;
/// A file with more lines is split into blocks.
const MAX_LINES: usize = 2 << 20;
/// The block size for files without line breaks, in bytes.
const BLOCK: usize = 256;

/// Returns the similarity of two files, from 0 to 1.
pub(crate) fn similarity(one: &[u8], two: &[u8], budget: &mut u64) -> f64 {
    if one == two {
        return 1.0;
    }
    match (text(one), text(two)) {
        (Some(one_text), Some(two_text)) => {
            let longer = one_text.chars().count().max(two_text.chars().count());
            ratio(distance(one, two, true, budget), longer)
        }
        _ => ratio(distance(one, two, false, budget), one.len().max(two.len())),
    }
}

fn ratio(distance: u64, longer: usize) -> f64 {
    if longer == 0 { 1.0 } else { (1.0 - distance as f64 / longer as f64).clamp(0.0, 1.0) }
}

/// Returns the content as text if it is UTF-8 without NUL. Such files are compared by characters, others by bytes.
fn text(content: &[u8]) -> Option<&str> {
    if memchr::memchr(0, content).is_some() { None } else { std::str::from_utf8(content).ok() }
}

fn distance(one: &[u8], two: &[u8], characters: bool, budget: &mut u64) -> u64 {
    if let Some(exact) = exact(one, two, characters, budget) {
        return exact;
    }
    by_lines(one, two, characters, budget)
}

/// Returns the exact distance, if the budget allows it.
fn exact(one: &[u8], two: &[u8], characters: bool, budget: &mut u64) -> Option<u64> {
    let (one, two) = without_common_ends(one, two, characters);
    // A character has at most four bytes: content that is too long in any case is not decoded.
    let widest = if characters { 4 } else { 1 };
    let least = (one.len() / widest / 64).saturating_mul(two.len() / widest) as u64;
    if !one.is_empty() && !two.is_empty() && least > MAX_STEPS {
        return None;
    }
    let (one, two) = (units(one, characters), units(two, characters));
    let (short, long) = if one.len() <= two.len() { (&one, &two) } else { (&two, &one) };
    if short.is_empty() {
        return Some(long.len() as u64);
    }
    let steps = (short.len().div_ceil(64) as u64).saturating_mul(long.len() as u64);
    let distinct = short.iter().collect::<HashSet<_>>().len();
    if steps > MAX_STEPS || steps > *budget || distinct * short.len().div_ceil(64) > MAX_TABLE_WORDS {
        return None;
    }
    *budget -= steps;
    Some(levenshtein(short, long))
}

fn units(content: &[u8], characters: bool) -> Vec<u32> {
    match std::str::from_utf8(content) {
        Ok(text) if characters => text.chars().map(u32::from).collect(),
        _ => content.iter().copied().map(u32::from).collect(),
    }
}

/// Strips the common prefix and suffix, at character boundaries.
fn without_common_ends<'a>(one: &'a [u8], two: &'a [u8], characters: bool) -> (&'a [u8], &'a [u8]) {
    let inside = |byte: Option<&u8>| characters && byte.is_some_and(|byte| byte & 0xC0 == 0x80);
    let mut front = one.iter().zip(two).take_while(|(a, b)| a == b).count();
    while front > 0 && (inside(one.get(front)) || inside(two.get(front))) {
        front -= 1;
    }
    let (one, two) = (&one[front..], &two[front..]);
    let mut back = one.iter().rev().zip(two.iter().rev()).take_while(|(a, b)| a == b).count();
    while back > 0 && inside(one.get(one.len() - back)) {
        back -= 1;
    }
    (&one[..one.len() - back], &two[..two.len() - back])
}

/// Computes the distance by Myers' bit-parallel algorithm, in blocks of 64 rows.
fn levenshtein(pattern: &[u32], text: &[u32]) -> u64 {
    let blocks = pattern.len().div_ceil(64);
    let last_bit = (pattern.len() - 1) % 64;
    let mut equal: HashMap<u32, Vec<u64>> = HashMap::new();
    for (at, unit) in pattern.iter().enumerate() {
        equal.entry(*unit).or_insert_with(|| vec![0; blocks])[at / 64] |= 1 << (at % 64);
    }
    let nowhere = vec![0_u64; blocks];
    let (mut plus, mut minus) = (vec![u64::MAX; blocks], vec![0_u64; blocks]);
    let mut score = pattern.len() as u64;
    for unit in text {
        let matches = equal.get(unit).unwrap_or(&nowhere);
        let (mut plus_in, mut minus_in) = (1_u64, 0_u64);
        for block in 0..blocks {
            let (up, down) = (plus[block], minus[block]);
            let vertical = matches[block] | down;
            let hit = matches[block] | minus_in;
            let horizontal = ((hit & up).wrapping_add(up) ^ up) | hit;
            let mut right = down | !(horizontal | up);
            let mut left = up & horizontal;
            if block + 1 == blocks {
                score += right >> last_bit & 1;
                score -= left >> last_bit & 1;
            }
            let (plus_out, minus_out) = (right >> 63, left >> 63);
            right = right << 1 | plus_in;
            left = left << 1 | minus_in;
            plus[block] = left | !(vertical | right);
            minus[block] = right & vertical;
            (plus_in, minus_in) = (plus_out, minus_out);
        }
    }
    score
}

/// Estimates the distance by lines. Lines that are unique in both files and in the same order are anchors; the gaps between
/// them are compared exactly if they are small enough, and else as multisets of lines.
fn by_lines(one: &[u8], two: &[u8], characters: bool, budget: &mut u64) -> u64 {
    let (one, two) = (lines(one), lines(two));
    let mut sum = 0;
    let (mut from_one, mut from_two) = (0, 0);
    let mut anchors = anchors(&one, &two);
    anchors.push((one.len(), two.len()));
    for (at_one, at_two) in anchors {
        let (gap_one, gap_two) = (&one[from_one..at_one], &two[from_two..at_two]);
        sum += gap_distance(gap_one, gap_two, characters, budget);
        (from_one, from_two) = (at_one + 1, at_two + 1);
    }
    sum
}

fn gap_distance(one: &[&[u8]], two: &[&[u8]], characters: bool, budget: &mut u64) -> u64 {
    if let Some(exact) = exact(&one.concat(), &two.concat(), characters, budget) {
        return exact;
    }
    let mut left: HashMap<&[u8], u64> = HashMap::new();
    for line in one {
        *left.entry(line).or_default() += 1;
    }
    let mut common = 0;
    for line in two {
        if let Some(count) = left.get_mut(line).filter(|count| **count > 0) {
            *count -= 1;
            common += length(line, characters);
        }
    }
    let all = |lines: &[&[u8]]| lines.iter().map(|line| length(line, characters)).sum::<u64>();
    all(one).max(all(two)).saturating_sub(common)
}

fn length(line: &[u8], characters: bool) -> u64 {
    match std::str::from_utf8(line) {
        Ok(text) if characters => text.chars().count() as u64,
        _ => line.len() as u64,
    }
}

/// Splits content into lines with their line breaks; long lines, and files with too many lines, into blocks.
fn lines(content: &[u8]) -> Vec<&[u8]> {
    if memchr::memchr_iter(b'\n', content).nth(MAX_LINES).is_some() {
        return content.chunks(BLOCK).collect();
    }
    let whole = content.split_inclusive(|byte| *byte == b'\n');
    whole
        .flat_map(|line| line.chunks(if line.len() > 16 * BLOCK { BLOCK } else { line.len().max(1) }))
        .collect()
}

/// Returns the positions of lines that are unique in both files: the longest series with the same order.
fn anchors(one: &[&[u8]], two: &[&[u8]]) -> Vec<(usize, usize)> {
    let (in_one, in_two) = (unique_positions(one), unique_positions(two));
    let both = one.iter().enumerate().filter_map(|(at, line)| {
        let first = in_one.get(line).copied().flatten().filter(|place| *place == at)?;
        Some((first, in_two.get(line).copied().flatten()?))
    });
    longest_increasing(&both.collect::<Vec<_>>())
}

/// Returns the position of each line, or `None` if it is not unique.
fn unique_positions<'a>(lines: &[&'a [u8]]) -> HashMap<&'a [u8], Option<usize>> {
    let mut places = HashMap::new();
    for (at, line) in lines.iter().enumerate() {
        places.entry(*line).and_modify(|place| *place = None).or_insert(Some(at));
    }
    places
}

/// Returns the longest series with increasing second numbers; the first ones are increasing already.
fn longest_increasing(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut tails: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (at, (_, second)) in pairs.iter().enumerate() {
        let place = tails.partition_point(|tail| pairs[*tail].1 < *second);
        before.push(place.checked_sub(1).map(|place| tails[place]));
        if place == tails.len() {
            tails.push(at);
        } else {
            tails[place] = at;
        }
    }
    let mut series = Vec::new();
    let mut at = tails.last().copied();
    while let Some(place) = at {
        series.push(pairs[place]);
        at = before[place];
    }
    series.reverse();
    series
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(one: &str, two: &str) -> f64 {
        similarity(one.as_bytes(), two.as_bytes(), &mut BUDGET.clone())
    }

    #[test]
    fn similarity_is_one_minus_relative_distance() {
        for (one, two, expected) in [
            ("", "", 1.0),
            ("abc", "", 0.0),
            ("kitten", "sitting", 1.0 - 3.0 / 7.0),
            ("äöü", "äou", 1.0 - 2.0 / 3.0),
            ("same\n", "same\n", 1.0),
        ] {
            assert!((whole(one, two) - expected).abs() < 1e-12, "{one} {two}: {}", whole(one, two));
        }
        assert!((similarity(b"\0\x01\x02", b"\0\x01\x03", &mut BUDGET.clone()) - 2.0 / 3.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn exact_distance_is_levenshtein(one in "[ab]{0,200}", two in "[abc]{0,200}") {
            let (a, b) = (units(one.as_bytes(), true), units(two.as_bytes(), true));
            if !a.is_empty() && !b.is_empty() {
                prop_assert_eq!(levenshtein(&a, &b), strsim::levenshtein(&one, &two) as u64);
            }
            prop_assert_eq!(exact(one.as_bytes(), two.as_bytes(), true, &mut BUDGET.clone()), Some(strsim::levenshtein(&one, &two) as u64));
        }

        #[test]
        fn distance_by_lines_is_an_upper_bound(one in "([abc]{0,3}\n){0,12}", two in "([abc]{0,3}\n){0,12}") {
            let found = by_lines(one.as_bytes(), two.as_bytes(), true, &mut BUDGET.clone());
            prop_assert!(found >= strsim::levenshtein(&one, &two) as u64);
        }

        #[test]
        fn similarity_of_any_bytes_is_in_range(one in proptest::collection::vec(any::<u8>(), 0..300), two in proptest::collection::vec(any::<u8>(), 0..300), budget in 0_u64..100) {
            let found = similarity(&one, &two, &mut budget.clone());
            prop_assert!((0.0..=1.0).contains(&found));
        }
    }

    #[test]
    fn large_files_are_compared_by_lines() {
        let line =
            |n: usize| format!("line {n} of a file that is much larger than can be compared as a whole\n");
        let one: String = (0..140_000).map(line).collect();
        assert!(one.len() > 9_000_000);
        let two = one.replacen("line 70000 of", "line 70000 OF", 1) + "one more\n";
        let mut budget = BUDGET;
        let found = similarity(one.as_bytes(), two.as_bytes(), &mut budget);
        let expected = 1.0 - 11.0 / two.len() as f64;
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        assert!(budget > BUDGET / 2, "{budget}");
    }

    #[test]
    fn large_files_without_unique_lines_are_compared() {
        let (one, two) = (b"a\n".repeat(4_000_000), b"b\n".repeat(4_000_000));
        assert!(similarity(&one, &two, &mut BUDGET.clone()) < 0.01);
        let half = [b"a\n".repeat(2_000_000), b"b\n".repeat(2_000_000)].concat();
        let found = similarity(&one, &half, &mut BUDGET.clone());
        assert!((found - 0.5).abs() < 0.01, "{found}");
        let (zeros, ones) = (vec![0_u8; 6_000_000], vec![1_u8; 6_000_000]);
        assert!(similarity(&zeros, &ones, &mut BUDGET.clone()) < 0.01);
    }
}
