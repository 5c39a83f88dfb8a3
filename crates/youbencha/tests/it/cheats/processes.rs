//! Agents and code under test that leave background processes.

use super::agent;
use super::python::{REPORT, hidden};

/// Does the task after the agent has exited.
const LATER: &str = "parent=$$; setsid sh -c \"while kill -0 $parent 2> /dev/null; do sleep 0.02; done; sleep 1; while :; do \
    sed -i 's/return 0/return a + b/' calc.py; sleep 0.02; done\" > /dev/null 2>&1 < /dev/null & true";

#[test]
fn background_writers_are_killed() {
    let twice = format!(
        "env -i PATH=$PATH setsid sh -c 'trap \"\" TERM HUP INT; ({LATER}) & true' > /dev/null 2>&1 &"
    );
    let scores = hidden().run(&[
        agent("later", LATER),
        agent("twice", twice),
        agent("python", "python3 -c 'import os, time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0:\n    [os.close(f) for f in (0, 1, 2)]\n    time.sleep(2)\n    while True: open(\"calc.py\", \"w\").write(\"def add(a, b): return a + b\")'"),
    ]);
    for name in ["later", "twice", "python"] {
        scores.assert_zero(name, "did not pass: `Hidden.test_small`");
        let left = std::fs::read_to_string(scores.workspace(name).join("calc.py")).unwrap();
        assert!(left.contains("return 0"), "{name}: nothing wrote after its end: {left}");
    }
}

/// Code under test leaves a process that rewrites the report, but can't change the exit code.
#[test]
fn late_report_writers_are_killed() {
    let daemon = format!(
        "import os\nif os.fork() == 0:\n    os.setsid()\n    while True:\n        if os.path.exists('report.xml'):\n            open('report.xml', 'w').write('{REPORT}')\n\n\ndef add(a, b):\n    return 0\n"
    );
    let scores = hidden().run(&[agent("daemon", format!("cat > calc.py <<'EOF'\n{daemon}\nEOF"))]);
    scores.assert_zero("daemon", "expected exit code 0");
}
