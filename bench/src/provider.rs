//! What `Provider::complete` adds to a hand-written run of the same command.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use yb_claude::{ClaudeCodeProvider, Context, InvocationTarget, Options, Prompt, Provider};

use crate::Failure;
use crate::stats::{median, ms, row};

const ROUNDS: usize = 200;

/// A program that answers at once, so that only what is ours is measured: it reads its input and prints a result.
const STAND_IN: &str = r#"#!/bin/sh
cat > /dev/null
echo '{"type":"system","subtype":"init","session_id":"s","model":"claude-x"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"ok","session_id":"s","num_turns":1}'
"#;

pub(crate) fn run() -> Result<(), Failure> {
    let directory = tempfile::tempdir()?;
    let program = stand_in(directory.path())?;
    let runtime = tokio::runtime::Runtime::new()?;
    let provider = ClaudeCodeProvider::new().with_program(&program);
    let context = Context::new("hi");
    let options = Options::default().with_max_turns(10).with_allowed_tools(["Bash", "Read", "Write", "Edit"]);
    let target = InvocationTarget::new(directory.path().join("files"));
    let invocation = options.invocation(&Prompt::text(context.to_prompt_string()), &target)?;
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let mut child = Command::new(&program)
            .args(&invocation.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(&invocation.stdin)?;
        }
        let output = child.wait_with_output()?;
        let last = output.stdout.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        let result: serde_json::Value = serde_json::from_slice(last)?;
        bare.push(began.elapsed());
        let began = Instant::now();
        let answer = runtime.block_on(provider.complete(&context))?;
        ours.push(began.elapsed());
        if result["result"] != answer.text {
            return Err(format!("not the same answer: {}", answer.text).into());
        }
    }
    let (bare, ours) = (median(&mut bare), median(&mut ours));
    row("a hand-written spawn of the same command", &ms(bare), None);
    row("Provider::complete", &ms(ours), None);
    let more = ours.saturating_sub(bare);
    row("more than hand-written", &ms(more), Some(("at most 10 ms", more <= Duration::from_millis(10))));
    Ok(())
}

fn stand_in(directory: &Path) -> Result<PathBuf, Failure> {
    let program = directory.join("claude");
    std::fs::write(&program, STAND_IN)?;
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    Ok(program)
}
