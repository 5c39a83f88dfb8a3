//! A small deterministic generator (SplitMix64): the same seed gives the same inputs on every machine.

/// The generator.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`; 0 for an empty range.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        match u64::try_from(limit) {
            Ok(limit @ 1..) => usize::try_from(self.next() % limit).unwrap_or(0),
            _ => 0,
        }
    }

    /// Returns true once in `number` calls on average.
    pub(crate) fn one_in(&mut self, number: usize) -> bool {
        self.below(number) == 0
    }

    /// Returns a random element.
    pub(crate) fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len()))
    }

    /// Returns a random range within `length`, mostly a short one.
    pub(crate) fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        let longest = if self.one_in(4) { length } else { 16 };
        let end = start + self.below(longest.min(length - start) + 1);
        start..end
    }
}

/// Returns a seed for any text: FNV-1a.
pub(crate) fn seed_of(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
