//! Any text as plain output: no panic, and no escape sequences are left.
#![no_main]

use libfuzzer_sys::fuzz_target;
use yb_claude::TextOutput;

fuzz_target!(|text: &str| {
    let output = TextOutput::parse(text);
    assert!(!output.clean.contains('\u{1b}'));
    if let Some(usage) = output.usage {
        assert!(usage.total_tokens >= usage.input_tokens);
    }
    let _ = output.outcome();
});
