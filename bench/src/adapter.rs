//! Overhead of the claude-code adapter over the real CLI, and cost of log normalization over parsing the lines.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use yb_engine::adapter::{
    Adapter as _, AgentConfig, ClaudeCode, ExecutionContext, Host, Isolation, Transcript,
};
use yb_tape::{MockServer, MockServerOptions, Script, Vars};

use crate::Failure;
use crate::stats::{median, ms, row};

const RUNS: usize = 15;
const SIZES_MB: [usize; 3] = [1, 10, 100];

pub(crate) fn run() -> Result<(), Failure> {
    normalize()?;
    execute()
}

/// Normalizes recorded lines of the real CLI, repeated to several sizes.
fn normalize() -> Result<(), Failure> {
    let recorded = crate::decode::recorded_lines()?;
    for size in SIZES_MB {
        let (mut lines, mut bytes) = (Vec::new(), 0);
        for line in recorded.iter().cycle() {
            if bytes >= size * 1_000_000 {
                break;
            }
            bytes += line.len();
            lines.push(line);
        }
        let (mut tree, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            let began = Instant::now();
            for line in &lines {
                black_box(serde_json::from_slice::<Value>(line)?);
            }
            tree.push(began.elapsed());
            let began = Instant::now();
            let mut transcript = Transcript::default();
            for line in &lines {
                black_box(transcript.observe_line(line));
            }
            ours.push(began.elapsed());
        }
        let ratio = median(&mut ours).as_secs_f64() / median(&mut tree).as_secs_f64();
        let what = format!("{size} MB of recorded lines into a transcript / Value");
        row(&what, &format!("{ratio:.2}"), Some(("at most 2", ratio <= 2.0)));
    }
    Ok(())
}

fn execute() -> Result<(), Failure> {
    let agents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../agents");
    let script = Script::parse("{ tape: 1, lanes: { main: [ { say: Hello. } ] } }", &Vars::new())?;
    let server = MockServer::start(script, &MockServerOptions::default())?;
    let claude = ClaudeCode;
    let runtime = tokio::runtime::Runtime::new()?;
    let mut more = Vec::new();
    for _ in 0..RUNS {
        let directory = tempfile::tempdir()?;
        let place = |name: &str| directory.path().join(name);
        for name in ["workspace", "artifacts", "private"] {
            std::fs::create_dir(place(name))?;
        }
        let host = Host::new([
            ("PATH", std::env::var("PATH")?),
            ("YB_CLAUDE", agents.to_string_lossy().into_owned()),
            ("ANTHROPIC_BASE_URL", server.base_url()),
            ("ANTHROPIC_API_KEY", "not-a-secret-loopback-only".to_owned()),
        ]);
        let mut context = ExecutionContext::new(
            place("workspace"),
            place("artifacts"),
            place("private"),
            AgentConfig::new("hi"),
            host,
        );
        context.isolation = Isolation::External;
        let began = Instant::now();
        let result = runtime.block_on(claude.execute(&context))?;
        let took = began.elapsed();
        if result.exit_code != 0 {
            return Err(format!("agent failed: {:?}", result.errors).into());
        }
        more.push(took.saturating_sub(Duration::from_millis(result.duration_ms)));
    }
    let more = median(&mut more);
    row("execute() overhead over the real CLI", &ms(more), Some(("below 30 ms", more.as_millis() < 30)));
    Ok(())
}
