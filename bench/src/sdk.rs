//! Overhead of the Agent SDK: time to the first model request, hook latency, and memory for unread output.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use yb_claude::sdk::event::{PreToolUse, PreToolUseOutput};
use yb_claude::sdk::{Exit, HookMatcher, Hooks, Host, ScriptStep, ScriptedCli, Subprocess};
use yb_claude::{Message, Options};
use yb_testkit::{LeakCheck, RealClaude};

use crate::Failure;
use crate::stats::{median, ms, row};

/// The hidden commands of the flood: the host, whose memory is measured separately, and the CLI.
pub(crate) const FLOODED: &str = "__sdk_flooded";
pub(crate) const FLOODING: &str = "__sdk_flooding";
/// The hidden command that runs the CLI without a shim.
pub(crate) const DIRECT: &str = "__sdk_direct";

const STARTS: usize = 100;
const HOOKS: usize = 5_000;
const RUNS: usize = 200;
const FRAMES: usize = 100_000;
const FRAME_BYTES: usize = 10_000;
/// The number of frames between two hook calls of the flooding CLI.
const HOOK_EVERY: usize = 1_000;

pub(crate) fn run() -> Result<(), Failure> {
    first_request("Contained")?;
    // Also without a shim, to separate the cost of containment from that of the SDK.
    Command::new(std::env::current_exe()?).arg(DIRECT).status()?;
    hook_round_trip()?;
    flood()?;
    two_hundred_runs()
}

/// Starts a model API that refuses everything and reports when the first model request arrived.
fn refusing_api() -> Result<(String, Receiver<Instant>), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    let (sender, asked) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let sender = sender.clone();
            std::thread::spawn(move || refuse(stream, &sender));
        }
    });
    Ok((url, asked))
}

fn refuse(stream: TcpStream, asked: &Sender<Instant>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        reader.read_line(&mut head).ok().filter(|count| *count > 0)?;
        let at = Instant::now();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line.trim().is_empty() {
                break;
            }
        }
        std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink()).ok()?;
        let model = head.starts_with("POST /v1/messages");
        if model {
            asked.send(at).ok()?;
        }
        let (status, body) = if model {
            ("401 Unauthorized", r#"{"type":"error","error":{"type":"authentication_error","message":"no"}}"#)
        } else {
            ("200 OK", "{}")
        };
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        reader.get_mut().write_all(answer.as_bytes()).ok()?;
    }
}

/// Measures the time to the first model request, hand-written and with the SDK.
pub(crate) fn first_request(way: &str) -> Result<(), Failure> {
    let (url, asked) = refusing_api()?;
    let claude = RealClaude::new();
    let runtime = tokio::runtime::Runtime::new()?;
    let options = Options::default().with_cwd(claude.private()).with_model("claude-opus-5-5");
    let (args, frames) = runtime.block_on(query_input(&options))?;
    let host = Host::new(options)
        .with_transport(Subprocess::new().with_program(claude.program()).with_environment(claude.env(&url)));
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    // Cleanup after a run slows down the next one, so the order alternates.
    for round in 0..=STARTS {
        for by_us in if round % 2 == 0 { [false, true] } else { [true, false] } {
            let began = Instant::now();
            if by_us {
                if runtime.block_on(host.query("hi").text()).is_ok() {
                    return Err("the API should have refused".into());
                }
            } else {
                by_hand(&claude, &url, &args, &frames)?;
            }
            let took = asked.recv_timeout(Duration::from_secs(60))?.duration_since(began);
            while asked.try_recv().is_ok() {}
            // The first round warms the caches.
            if round > 0 {
                if by_us { &mut ours } else { &mut bare }.push(took);
            }
        }
    }
    let (bare, ours) = (median(&mut bare), median(&mut ours));
    row("to the first model request, hand-written", &ms(bare), None);
    row(&format!("to the first model request, query(), {way}"), &ms(ours), None);
    let more = ours.saturating_sub(bare);
    row(
        &format!("{way}: more than hand-written"),
        &ms(more),
        Some(("at most 10 ms", more <= Duration::from_millis(10))),
    );
    Ok(())
}

/// Returns the arguments and the two input lines of a query.
async fn query_input(options: &Options) -> Result<(Vec<String>, Vec<String>), Failure> {
    let cli = ScriptedCli::new([
        ScriptStep::Await("init".into(), json!({"request": {"subtype": "initialize"}})),
        ScriptStep::Line(json!({"type": "control_response", "response":
            {"subtype": "success", "request_id": "{{init./request_id}}"}})),
        ScriptStep::Await("prompt".into(), json!({"type": "user"})),
        ScriptStep::Line(json!({"type": "result", "subtype": "success"})),
    ]);
    Host::new(options.clone()).with_transport(cli.clone()).query("hi").result().await?;
    let invocation = cli.sessions().pop().ok_or("the CLI was not started")?;
    Ok((invocation.args, invocation.lines.iter().map(Value::to_string).collect()))
}

/// Runs the same command with the same input, hand-written.
fn by_hand(claude: &RealClaude, url: &str, args: &[String], frames: &[String]) -> Result<(), Failure> {
    let mut child = Command::new(claude.program())
        .args(args)
        .env_clear()
        .envs(claude.env(url))
        .env("CLAUDE_CODE_ENTRYPOINT", "sdk-cli")
        .env("CLAUDE_CODE_SDK_READS_SESSION_STATE", "1")
        .current_dir(claude.private())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let (mut stdin, stdout) =
        (child.stdin.take().ok_or("no stdin")?, child.stdout.take().ok_or("no stdout")?);
    let mut lines = BufReader::new(stdout).lines();
    let [initialize, prompt] = frames else { return Err("two frames".into()) };
    writeln!(stdin, "{initialize}")?;
    while !lines.next().ok_or("the CLI ended")??.contains("control_response") {}
    writeln!(stdin, "{prompt}")?;
    // Like the SDK, keep stdin open: the CLI behaves differently at the end of its input.
    while !lines.next().ok_or("the CLI ended")??.contains(r#""type":"result""#) {}
    drop(stdin);
    for line in lines {
        line?;
    }
    child.wait()?;
    Ok(())
}

/// A CLI without a process: it calls a hook, waits for the response and records the latency.
struct PingTransport {
    times: Arc<Mutex<Vec<Duration>>>,
}

struct PingInput(tokio::sync::mpsc::UnboundedSender<(Instant, Vec<u8>)>);

struct PingOutput {
    written: tokio::sync::mpsc::UnboundedReceiver<(Instant, Vec<u8>)>,
    times: Arc<Mutex<Vec<Duration>>>,
    asked: Option<Instant>,
    rounds: usize,
    state: u8,
}

#[async_trait::async_trait]
impl yb_claude::sdk::Transport for PingTransport {
    async fn open(
        &self,
        _: &yb_claude::Invocation,
    ) -> Result<yb_claude::sdk::Connection, yb_claude::sdk::Error> {
        let (sender, written) = tokio::sync::mpsc::unbounded_channel();
        let output = PingOutput { written, times: Arc::clone(&self.times), asked: None, rounds: 0, state: 0 };
        Ok(yb_claude::sdk::Connection { input: Box::new(PingInput(sender)), output: Box::new(output) })
    }
}

#[async_trait::async_trait]
impl yb_claude::sdk::TransportInput for PingInput {
    async fn write(&mut self, lines: &[u8]) -> std::io::Result<()> {
        let _ = self.0.send((Instant::now(), lines.to_vec()));
        Ok(())
    }
}

#[async_trait::async_trait]
impl yb_claude::sdk::TransportOutput for PingOutput {
    async fn next(&mut self) -> Option<yb_claude::sdk::StreamItem> {
        // Cancel-safe: a received item is handled without another await.
        if self.state == 3 {
            return None;
        }
        let (at, line) = self.written.recv().await?;
        let line: Value = serde_json::from_slice(&line).unwrap_or_default();
        let line = match self.state {
            0 => {
                self.state = 1;
                json!({"type": "control_response", "response":
                    {"subtype": "success", "request_id": line["request_id"], "response": {}}})
            }
            _ => {
                if let Some(asked) = self.asked.take() {
                    self.times.lock().unwrap_or_else(PoisonError::into_inner).push(at - asked);
                }
                self.rounds += 1;
                if self.rounds > HOOKS {
                    self.state = 3;
                    json!({"type": "result", "subtype": "success", "result": "ok"})
                } else {
                    json!({"type": "control_request", "request_id": format!("r{}", self.rounds), "request":
                        {"subtype": "hook_callback", "callback_id": "hook_0", "input":
                            {"hook_event_name": "PreToolUse", "session_id": "s", "transcript_path": "/t",
                             "cwd": "/w", "tool_name": "Bash", "tool_input": {"command": "ls -la"}}}})
                }
            }
        };
        let line = line.to_string().into_bytes();
        self.asked = Some(Instant::now());
        Some(yb_claude::sdk::StreamItem::Line(line))
    }

    fn terminate(&mut self) {}

    async fn wait(&mut self) -> Exit {
        Exit::with_code(0)
    }
}

fn hook_round_trip() -> Result<(), Failure> {
    let times = Arc::new(Mutex::new(Vec::new()));
    let hooks = Hooks::new().on(HookMatcher::any(), |_: PreToolUse, _| async { PreToolUseOutput::allow() });
    let host = Host::new(Options::default())
        .with_hooks(hooks)
        .with_transport(PingTransport { times: Arc::clone(&times) });
    tokio::runtime::Runtime::new()?.block_on(host.query("hi").text())?;
    let mut times = times.lock().unwrap_or_else(PoisonError::into_inner).split_off(1);
    let middle = median(&mut times);
    let micros = |time: Duration| format!("{:.1} µs", time.as_secs_f64() * 1e6);
    row(
        "a hook, from its line to its answer",
        &micros(middle),
        Some(("below 100 µs", middle < Duration::from_micros(100))),
    );
    Ok(())
}

fn flood() -> Result<(), Failure> {
    let output = Command::new(std::env::current_exe()?).arg(FLOODED).output()?;
    let text = String::from_utf8(output.stdout)?;
    let mut words = text.split_whitespace();
    let mut number = || -> Result<u64, Failure> {
        let words = words.next().ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        Ok(words.parse()?)
    };
    let (peak, frames, hooks) = (number()?, number()?, number()?);
    let peak = peak as f64 / 1000.0;
    row("1 GB unread: peak resident memory", &format!("{peak:.1} MB"), Some(("below 64 MB", peak < 64.0)));
    row("frames lost", &(FRAMES as u64 - frames).to_string(), Some(("none", frames == FRAMES as u64)));
    let asked = (FRAMES / HOOK_EVERY) as u64;
    row("unanswered hook calls", &(asked - hooks).to_string(), Some(("none", hooks == asked)));
    Ok(())
}

/// The host of the flood: reads nothing until every hook call is answered, then everything.
pub(crate) fn flood_host() -> Result<(), Failure> {
    let directory = tempfile::tempdir()?;
    let program = flooding_cli(directory.path())?;
    let answered = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = Arc::clone(&answered);
    let hooks = Hooks::new().on(HookMatcher::any(), move |_: PreToolUse, _| {
        count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        async { PreToolUseOutput::new() }
    });
    let host = Host::new(Options::default())
        .with_hooks(hooks)
        .with_transport(Subprocess::new().with_program(program).with_line_limit(1 << 20));
    let frames = tokio::runtime::Runtime::new()?.block_on(async {
        let mut query = host.query("hi");
        let mut frames = match query.next().await {
            Some(Ok(Message::Unknown { .. })) => 1,
            other => return Err(format!("{other:?}").into()),
        };
        while answered.load(std::sync::atomic::Ordering::SeqCst) < FRAMES / HOOK_EVERY {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        while let Some(message) = query.next().await {
            if let Message::Unknown { raw, .. } = message? {
                let value: Value = raw.parse()?;
                if value["n"] != frames {
                    return Err(format!("frame {} in place of {frames}", value["n"]).into());
                }
                frames += 1;
            }
        }
        Ok::<usize, Failure>(frames)
    })?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    let hooks = answered.load(std::sync::atomic::Ordering::SeqCst);
    println!("{} {frames} {hooks}", peak.trim().trim_end_matches(" kB"));
    Ok(())
}

fn flooding_cli(directory: &Path) -> Result<std::path::PathBuf, Failure> {
    let program = directory.join("claude");
    let script = format!("#!/bin/sh\nexec '{}' {FLOODING}\n", std::env::current_exe()?.display());
    std::fs::write(&program, script)?;
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    Ok(program)
}

/// The flooding CLI.
pub(crate) fn flood_cli() -> Result<(), Failure> {
    let mut input = std::io::stdin().lines();
    let mut next =
        || -> Result<Value, Failure> { Ok(serde_json::from_str(&input.next().ok_or("no line")??)?) };
    let mut output = std::io::BufWriter::with_capacity(1 << 20, std::io::stdout());
    let id = next()?["request_id"].clone();
    writeln!(
        output,
        "{}",
        json!({"type": "control_response", "response": {"subtype": "success", "request_id": id}})
    )?;
    output.flush()?;
    next()?;
    let filler = "x".repeat(FRAME_BYTES);
    for number in 0..FRAMES {
        writeln!(output, "{{\"type\":\"flood\",\"n\":{number},\"x\":\"{filler}\"}}")?;
        if (number + 1) % HOOK_EVERY == 0 {
            let body = json!({"subtype": "hook_callback", "callback_id": "hook_0", "input": {}});
            writeln!(
                output,
                "{}",
                json!({"type": "control_request", "request_id": number.to_string(), "request": body})
            )?;
            output.flush()?;
            next()?;
        }
    }
    writeln!(output, "{}", json!({"type": "result", "subtype": "success", "result": "ok"}))?;
    writeln!(output, "{}", json!({"type": "system", "subtype": "session_state_changed", "state": "idle"}))?;
    output.flush()?;
    Ok(())
}

/// Runs the real CLI repeatedly in one host.
fn two_hundred_runs() -> Result<(), Failure> {
    let (url, _asked) = refusing_api()?;
    let claude = RealClaude::new();
    let options = Options::default().with_cwd(claude.private());
    let host = Host::new(options)
        .with_transport(Subprocess::new().with_program(claude.program()).with_environment(claude.env(&url)));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let once = || runtime.block_on(async { host.query("hi").text().await.is_err() });
    if !once() {
        return Err("the API should have refused".into());
    }
    let leaks = LeakCheck::new();
    for _ in 0..RUNS {
        once();
    }
    let left = leaks.leaks();
    row(
        "200 runs of the real CLI: leftover processes",
        &left.len().to_string(),
        Some(("nothing", left.is_empty())),
    );
    Ok(())
}
