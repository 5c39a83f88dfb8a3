//! `yb compare` of two runs of 1,000 trials, with all metrics.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use crate::Failure;
use crate::runs::World;
use crate::stats::{median, ms, row};

const CASES: usize = 50;
const REPEATS: usize = 20;
const TIMES: usize = 9;

/// An agent that reports cost, tokens and turns, with small differences between trials.
const AGENT: &str = r#"echo more >> a.txt; n=$(($$ % 97)); echo "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"x\",\"total_cost_usd\":0.$((100 + n)),\"num_turns\":$((n % 7 + 1)),\"usage\":{\"input_tokens\":$((n + 1)),\"output_tokens\":1}}""#;

pub(crate) fn run() -> Result<(), Failure> {
    let world = World::new(AGENT, 1)?;
    let cases: Vec<Value> = (0..CASES)
        .map(|case| {
            json!({ "name": format!("case-{case}"), "description": "One file changes.", "directory": "tree",
            "isolation": "none", "agent": { "type": "command", "config": { "prompt": "Change one file.",
                "command": { "argv": ["sh", "-c", AGENT], "output": "claude-stream-json" } } },
            "evaluators": [{ "name": "git-diff", "config": { "assertions": { "max_files_changed": 1 } } }] })
        })
        .collect();
    let suite = json!({ "youbencha": 1, "name": "bench", "cases": cases, "repeats": REPEATS });
    fs::write(world.path().join("suite.yaml"), suite.to_string())?;
    let mut runs = Vec::new();
    for _ in 0..2 {
        world.start(&["-c", "suite.yaml"])?.measured()?;
        runs.push(world.run()?.ok_or("no run")?);
    }
    for (what, more) in [("this suite", "suite"), ("new cases", "new-cases")] {
        let mut times = Vec::new();
        for _ in 0..TIMES {
            let began = Instant::now();
            let status = Command::new(world.yb())
                .arg("compare")
                .args(&runs)
                .args(["--estimand", more])
                .current_dir(world.path())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()?;
            times.push(began.elapsed());
            if !matches!(status.code(), Some(0 | 5)) {
                return Err(format!("exit code {:?}", status.code()).into());
            }
        }
        let median = median(&mut times);
        let name = format!("yb compare, {} trials each, {what}", CASES * REPEATS);
        row(&name, &ms(median), Some(("below 1 s", median.as_secs_f64() < 1.0)));
    }
    Ok(())
}
