//! Resident memory of `yb` for agents that print many small frames, and large ones.

use std::fs;

use serde_json::json;

use crate::Failure;
use crate::runs::World;
use crate::stats::row;

const LIMIT_MB: f64 = 64.0;
const SMALL: &str = r#"{"type":"assistant","message":{"id":"m&","content":[{"type":"tool_use","id":"t&","name":"Bash","input":{"n":&}}]}}"#;
const LARGE: (&str, &str) = (
    r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":""#,
    r#""}]}}"#,
);

pub(crate) fn run() -> Result<(), Failure> {
    // About 125 bytes each.
    let small = format!("seq 1 800000 | sed 's/.*/{SMALL}/'");
    // 128 frames of 8 MB.
    let large = format!(
        "for n in $(seq 1 128); do printf '%s' '{}'; head -c 8000000 /dev/zero | tr '\\0' x; echo '{}'; done",
        LARGE.0, LARGE.1
    );
    for (name, script) in [("100 MB of tool calls", small), ("1 GB of large results", large)] {
        let world = World::new("true", 1)?;
        let case = json!({ "name": "flood", "description": "An agent prints without end.", "directory": "tree",
            "agent": { "type": "command", "config": { "prompt": "Print.",
                "command": { "argv": ["sh", "-c", script], "output": "claude-stream-json" } } },
            "evaluators": [{ "name": "trajectory", "config": { "assertions": { "tools_forbidden": ["Write"] } } }] });
        let suite = json!({ "youbencha": 1, "name": "flood", "cases": [case] });
        fs::write(world.path().join("suite.yaml"), suite.to_string())?;
        let used = world.start(&["-c", "suite.yaml", "--isolation", "none"])?.measured()?;
        let megabytes = used.peak_rss as f64 / 1e6;
        row(name, &format!("{megabytes:.1} MB"), Some(("below 64 MB", megabytes < LIMIT_MB)));
        row(&format!("{name}, CPU of yb"), &format!("{:.1} s", used.cpu.as_secs_f64()), None);
        let run = world.run()?.ok_or("no run")?;
        let disk: u64 = walk(&run)?;
        row(&format!("{name}, disk of the run"), &format!("{:.1} MB", disk as f64 / 1e6), None);
    }
    Ok(())
}

/// The size of all files below a directory.
fn walk(folder: &std::path::Path) -> Result<u64, Failure> {
    let mut size = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.metadata()?;
        size += if kind.is_dir() { walk(&entry.path())? } else { kind.len() };
    }
    Ok(size)
}
