//! The fuzzer notices every kind of failure, and its inputs follow from the seed.
#![expect(clippy::disallowed_methods, reason = "the fuzzer is run as its users do")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Output};

fn fuzz(arguments: &[&str]) -> (Output, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_fuzz")).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

fn replay(directory: &Path, input: &str) -> (Option<i32>, String) {
    let file = directory.join("input");
    std::fs::write(&file, input).unwrap();
    let (output, text) = fuzz(&["limits", "--cpu-seconds=1", "--replay", file.to_str().unwrap()]);
    (output.status.code(), text)
}

#[test]
fn every_kind_of_failure_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(replay(directory.path(), "fine"), (Some(0), "limits: passed\n".to_owned()));
    for (input, expected) in [
        ("panicpanic", "panic at fuzz/src/targets/limits.rs:"),
        ("abort!", "no abort: signal 6"),
        ("memory!", "an input takes at most 512 MiB: signal 6"),
        ("stack!", "an input takes at most 2 MiB of stack: signal 6"),
        ("hang!", "an input takes too much CPU time"),
        ("property!", "a property holds: it does not"),
    ] {
        let (code, text) = replay(directory.path(), input);
        assert_eq!(code, Some(1), "{input}: {text}");
        assert!(text.contains(expected), "{input}: {text}");
    }
}

#[test]
fn failure_is_minimized_and_named_with_its_command() {
    let directory = tempfile::tempdir().unwrap();
    let failures = directory.path().join("failures");
    let (output, text) =
        fuzz(&["limits", "--seconds=8", "--seed=1", "--failures", failures.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("--replay") && text.contains("FAILED"), "{text}");
    let kept: Vec<Vec<u8>> = std::fs::read_dir(&failures)
        .unwrap()
        .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
        .collect();
    assert!(kept.contains(&b"panicpanic".to_vec()), "{kept:?}");
}
