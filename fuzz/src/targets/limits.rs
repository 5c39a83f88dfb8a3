//! A hidden target that violates every limit, for the tests of the fuzzer.

use std::hint::black_box;

use super::{Probe, Target};
use crate::corpus::Seeds;

pub(super) const TARGET: Target = Target {
    name: "limits",
    about: "inputs that violate the limits",
    // Passes; inserting its word once more fails.
    seeds: || Ok(Seeds::new().text("panic")),
    check,
};

fn check(_: &mut Probe, input: &[u8]) -> Result<(), String> {
    let has = |word: &[u8]| input.windows(word.len()).any(|window| window == word);
    if has(b"panicpanic") {
        let index = input.len();
        black_box(input[index]);
    }
    if has(b"abort!") {
        std::process::abort();
    }
    if has(b"memory!") {
        black_box(vec![1_u8; 1 << 30]);
    }
    if has(b"stack!") {
        black_box(descend(1));
    }
    while has(b"hang!") {
        black_box(());
    }
    if has(b"property!") {
        return Err("a property holds: it does not".to_owned());
    }
    Ok(())
}

#[expect(unconditional_recursion, reason = "overflows the stack")]
fn descend(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    descend(depth + 1) + frame[0]
}
