//! Agents that leave too much, or files that can't be captured.

use serde_json::json;

use super::agent;
use super::python::{HONEST, hidden};

#[test]
fn oversized_or_special_results_are_handled() {
    let scores = hidden().run(&[
        agent("sparse", "truncate -s 65M calc.py"),
        agent("also-honest", format!("{HONEST}; truncate -s 65M core.dump")),
        agent("special", "rm calc.py; mkfifo calc.py; mkfifo report.xml"),
        agent("unreadable", "chmod 0 calc.py tests; chmod 0 ."),
        agent("gone", "rm -rf .git * .[a-z]*; rmdir $PWD 2> /dev/null; true"),
        agent("deep", "i=0; while [ $i -lt 400 ]; do mkdir -p dddddddddd && cd dddddddddd; i=$((i + 1)); done; touch x; true"),
    ]);
    for name in ["sparse", "special", "unreadable", "gone"] {
        scores.assert_zero(name, "did not pass: `Hidden.test_small`, `Hidden.test_negative`");
    }
    assert_eq!(scores.outcome("deep"), "over_quota", "{}", scores.said("deep"));
    // A large file does not fail an honest agent: it is replaced by a note.
    assert_eq!(scores.outcome("also-honest"), "passed", "{}", scores.said("also-honest"));
}

/// An agent that writes without end is stopped and fails.
#[test]
fn filling_the_disk_is_over_quota() {
    let mut task = hidden();
    task.case["limits"] = json!({ "disk_mb": 20 });
    let fill = "for n in $(seq 500); do head -c 1000000 /dev/zero > f$n; sleep 0.01; done; sleep 60";
    let scores = task.run(&[agent("fill", format!("{HONEST}; {fill}"))]);
    assert_eq!(scores.outcome("fill"), "over_quota", "{}", scores.printed);
}
