//! The tape: how late an event comes through the recorder, and what a replayed exchange costs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use yb_tape::{
    MockServer, MockServerOptions, RecordingOptions, RecordingProxy, ReplayOptions, ReplayServer, Script,
    Tape, Upstream, Vars,
};

use crate::Failure;
use crate::stats::{ms, row};

const STREAMS: usize = 100;
const EVENTS: usize = 400;
const BETWEEN: Duration = Duration::from_micros(12_500);
const ADDED: Duration = Duration::from_millis(2);

const TRIALS: usize = 1_000;
const TURNS: usize = 12;
/// As much as a coding agent sends with each request, besides the conversation.
const OWN_WORDS: usize = 80_000;

/// 100 paced streams at once, directly and through the recorder. Each event says when it was sent.
pub(crate) fn proxy() -> Result<(), Failure> {
    let clock = Instant::now();
    let model = paced_model(clock)?;
    let direct = delays(model, clock)?;
    let directory = tempfile::tempdir()?;
    let upstream = Upstream::new(&format!("http://{model}"))?;
    let recorder =
        RecordingProxy::start(RecordingOptions::new(upstream, directory.path().join("bench.tape")))?;
    let through = delays(recorder.address(), clock)?;
    let recorded = recorder.finish()?;
    let tape = Tape::open(&recorded.tape)?;
    let is_whole =
        tape.exchanges().len() == STREAMS && tape.exchanges().iter().all(yb_tape::Exchange::is_complete);
    let percentile = |delays: &[Duration], of: usize| delays[(delays.len() - 1) * of / 100];
    for of in [50, 99] {
        row(&format!("p{of} of an event's delay, direct"), &ms(percentile(&direct, of)), None);
        let added = percentile(&through, of).saturating_sub(percentile(&direct, of));
        let bound = (of == 99).then_some(("below 2 ms more", added < ADDED));
        row(&format!("p{of} of an event's delay, recorded"), &ms(percentile(&through, of)), None);
        row(&format!("p{of}, added by the recorder"), &ms(added), bound);
    }
    row("streams on the tape", &tape.exchanges().len().to_string(), Some(("all, whole", is_whole)));
    Ok(())
}

/// A model that answers every request with events at a fixed pace; a thread for each, so that none waits for another.
fn paced_model(clock: Instant) -> Result<SocketAddr, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || drop(pace(&stream, clock)));
        }
    });
    Ok(address)
}

fn pace(mut stream: &TcpStream, clock: Instant) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    read_request(stream)?;
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n")?;
    let began = Instant::now();
    for event in 0..EVENTS {
        let due = began + BETWEEN * u32::try_from(event).unwrap_or(u32::MAX);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let data = format!("event: e\ndata: {{\"sent\":{}}}\n\n", clock.elapsed().as_nanos());
        stream.write_all(format!("{:x}\r\n{data}\r\n", data.len()).as_bytes())?;
    }
    stream.write_all(b"0\r\n\r\n")
}

fn read_request(stream: &TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    reader.read_exact(&mut vec![0; length])
}

/// How long after it was sent each event was read, sorted.
fn delays(address: SocketAddr, clock: Instant) -> Result<Vec<Duration>, Failure> {
    let together = Arc::new(Barrier::new(STREAMS));
    let readers: Vec<_> = (0..STREAMS)
        .map(|number| {
            let together = Arc::clone(&together);
            thread::spawn(move || -> std::io::Result<Vec<Duration>> {
                together.wait();
                // Streams that nobody has tuned to each other, and that don't all begin at once.
                thread::sleep(Duration::from_micros(10_125) * u32::try_from(number).unwrap_or(0));
                let body = json!({ "stream": true, "messages": [{ "role": "user", "content": number.to_string() }] });
                let mut stream = TcpStream::connect(address)?;
                write!(stream, "{}", post(&body))?;
                let mut delays = Vec::with_capacity(EVENTS);
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    let now = clock.elapsed();
                    if let Some(sent) = line.strip_prefix("data: {\"sent\":").and_then(|rest| rest.strip_suffix('}')) {
                        let sent = Duration::from_nanos(sent.parse().unwrap_or(u64::MAX));
                        delays.push(now.saturating_sub(sent));
                    }
                }
                Ok(delays)
            })
        })
        .collect();
    let mut all = Vec::with_capacity(STREAMS * EVENTS);
    for reader in readers {
        all.extend(reader.join().map_err(|_| "a reader failed")??);
    }
    if all.len() != STREAMS * EVENTS {
        return Err(format!("{} of {} events came", all.len(), STREAMS * EVENTS).into());
    }
    all.sort_unstable();
    Ok(all)
}

fn post(body: &Value) -> String {
    let body = body.to_string();
    format!(
        "POST /v1/messages HTTP/1.1\r\nhost: bench\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// 1,000 replayed runs of twelve turns, each by a client that costs next to nothing; its CPU is counted as the tape's.
pub(crate) fn replay() -> Result<(), Failure> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("bench.tape");
    let replies: String =
        (0..TURNS).map(|_| "    - { say: Next., tools: [{ Bash: { command: 'true' } }] }\n").collect();
    let script = Script::parse(&format!("tape: 1\nlanes:\n  main:\n{replies}"), &Vars::new())?;
    let model = MockServer::start(script, &MockServerOptions::default())?;
    let requests: Vec<String> = (0..TURNS).map(|turn| post(&conversation(turn))).collect();
    let recorder = RecordingProxy::start(RecordingOptions::new(Upstream::new(&model.base_url())?, &path))?;
    for request in &requests {
        ask(recorder.address(), request)?;
    }
    recorder.finish()?;
    drop(model);
    let tape = Tape::open(&path)?;
    let before = cpu()?;
    let began = Instant::now();
    for _ in 0..TRIALS {
        let replayer = ReplayServer::start(&tape, ReplayOptions::default())?;
        for request in &requests {
            ask(replayer.address(), request)?;
        }
        let outcome = replayer.outcome();
        if outcome.served != TURNS as u64 || outcome.divergence.is_some() || outcome.remaining != 0 {
            return Err(format!("not replayed: {outcome:?}").into());
        }
    }
    let exchanges = u32::try_from(TRIALS * TURNS)?;
    let each = (cpu()?.saturating_sub(before)) / exchanges;
    row("replayed exchanges", &exchanges.to_string(), None);
    row("a request", &format!("{} KB", requests[TURNS - 1].len() / 1000), None);
    row("time for each", &ms(began.elapsed() / exchanges), None);
    let bound = ("below 2 ms", each < Duration::from_millis(2));
    row("CPU for each, tape and client", &ms(each), Some(bound));
    Ok(())
}

fn conversation(turn: usize) -> Value {
    let own = "You are careful. ".repeat(OWN_WORDS / 17);
    let mut messages = vec![json!({ "role": "user", "content": "Make the test pass." })];
    for before in 1..=turn {
        let id = format!("toolu_main_{before}_2");
        messages.push(json!({ "role": "assistant", "content": [{ "type": "text", "text": "Next." }, { "type": "tool_use", "id": id, "name": "Bash", "input": { "command": "true" } }] }));
        let output = format!("line of output in 0.{before}s\n").repeat(40);
        messages.push(json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": id, "content": output }] }));
    }
    json!({ "model": "m", "stream": true, "system": own, "messages": messages })
}

fn ask(address: SocketAddr, request: &str) -> Result<(), Failure> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    if answer.starts_with(b"HTTP/1.1 200") { Ok(()) } else { Err(String::from_utf8_lossy(&answer).into()) }
}

/// The CPU time of this process, all its threads together.
fn cpu() -> Result<Duration, Failure> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit_once(')').ok_or("no stat")?.1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
}
