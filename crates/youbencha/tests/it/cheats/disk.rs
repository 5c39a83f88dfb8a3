//! Agents that leave more than can be captured, or things that can't be.

use super::agent;
use super::python::{HONEST, hidden};

#[test]
fn a_result_that_is_too_large_or_no_file() {
    let scores = hidden().run(&[
        agent("sparse", "truncate -s 65M calc.py"),
        agent("also-honest", format!("{HONEST}; truncate -s 65M core.dump")),
        agent("special", "rm calc.py; mkfifo calc.py; mkfifo report.xml"),
        agent("unreadable", "chmod 0 calc.py tests; chmod 0 ."),
        agent("gone", "rm -rf .git * .[a-z]*; rmdir $PWD 2> /dev/null; true"),
        agent("deep", "i=0; while [ $i -lt 400 ]; do mkdir -p dddddddddd && cd dddddddddd; i=$((i + 1)); done; touch x; true"),
    ]);
    for name in ["sparse", "special", "unreadable", "gone", "deep"] {
        scores.assert_zero(name, "did not pass: `Hidden.test_small`, `Hidden.test_negative`");
    }
    // A large file takes nothing from who did the task: a note stands in its place.
    assert_eq!(scores.outcome("also-honest"), "passed", "{}", scores.said("also-honest"));
}
