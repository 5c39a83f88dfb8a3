//! Agents that leave something running, and results that do.

use super::agent;
use super::python::{REPORT, hidden};

/// Waits until its parent is long gone, then does the task.
const LATER: &str = "parent=$$; setsid sh -c \"while kill -0 $parent 2> /dev/null; do sleep 0.02; done; sleep 1; while :; do \
    sed -i 's/return 0/return a + b/' calc.py; sleep 0.02; done\" > /dev/null 2>&1 < /dev/null & true";

#[test]
fn a_writer_is_left_behind() {
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

/// Code under test leaves a process that rewrites the report as soon as it is there. The exit code is out of its reach.
#[test]
fn a_writer_waits_for_the_report() {
    let daemon = format!(
        "import os\nif os.fork() == 0:\n    os.setsid()\n    while True:\n        if os.path.exists('report.xml'):\n            open('report.xml', 'w').write('{REPORT}')\n\n\ndef add(a, b):\n    return 0\n"
    );
    let scores = hidden().run(&[agent("daemon", format!("cat > calc.py <<'EOF'\n{daemon}\nEOF"))]);
    scores.assert_zero("daemon", "expected exit code 0");
}
