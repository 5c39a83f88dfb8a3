//! Throughput of a child that prints as fast as it can, compared with a plain pipe.

use std::io::Write;
use std::path::Path;
use std::process::Command as Bare;
use std::time::{Duration, Instant};

use yb_supervise::{Command, Launch};

use crate::Failure;
use crate::stats::{median, row};

/// The hidden command of the supervised process, whose memory is measured separately.
pub(crate) const CHILD: &str = "__flood";

const TOTAL: usize = 2_000_000_000;
const PIECE: usize = 50_000_000;
const ROUNDS: usize = 5;

pub(crate) fn run() -> Result<(), Failure> {
    let directory = tempfile::tempdir()?;
    let source = directory.path().join("source");
    write_source(&source)?;
    let sources = vec![source; TOTAL / PIECE];
    let (mut bare, mut ours, mut peak) = (Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        let script = "out=$1; shift; cat \"$@\" | cat > \"$out\"";
        let began = Instant::now();
        Bare::new("/bin/sh")
            .args(["-c", script, "sh"])
            .arg(directory.path().join("bare"))
            .args(&sources)
            .status()?;
        bare.push(began.elapsed());
        let log = directory.path().join("ours");
        let output = Bare::new(std::env::current_exe()?).arg(CHILD).arg(&log).args(&sources).output()?;
        let text = String::from_utf8(output.stdout)?;
        let mut words = text.split_whitespace();
        let mut number = || -> Result<u64, Failure> { Ok(words.next().ok_or("no figure")?.parse()?) };
        ours.push(Duration::from_micros(number()?));
        peak = peak.max(number()?);
        if std::fs::metadata(&log)?.len() != TOTAL as u64 {
            return Err("the log is not whole".into());
        }
    }
    let (bare, ours) = (median(&mut bare), median(&mut ours));
    let rate = |time: Duration| format!("{:.2} GB/s", TOTAL as f64 / 1e9 / time.as_secs_f64());
    row("cat | cat > file", &rate(bare), None);
    row("supervised, logged, two secrets", &rate(ours), None);
    let share = bare.as_secs_f64() / ours.as_secs_f64();
    row("supervised / bare throughput", &format!("{share:.2}"), Some(("at least 0.5", share >= 0.5)));
    let peak_mb = peak as f64 / 1000.0;
    row(
        "peak resident memory of the host",
        &format!("{peak_mb:.1} MB"),
        Some(("below 40 MB", peak_mb < 40.0)),
    );
    Ok(())
}

/// Writes lines like those of an agent, so that secret redaction has realistic input.
fn write_source(path: &Path) -> Result<(), Failure> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    let mut written = 0;
    for number in 0.. {
        let line = format!(
            "{{\"type\":\"assistant\",\"n\":{number},\"text\":\"some sk words, a key, and more\"}}\n"
        );
        let line = &line.as_bytes()[..line.len().min(PIECE - written)];
        file.write_all(line)?;
        written += line.len();
        if written == PIECE {
            break;
        }
    }
    file.flush()?;
    Ok(())
}

/// The supervised process. Prints its time in microseconds and its peak resident memory in kB.
pub(crate) fn child(args: &[String]) -> Result<(), Failure> {
    let [log, sources @ ..] = args else { return Err("a log and sources".into()) };
    let runtime = tokio::runtime::Runtime::new()?;
    let began = Instant::now();
    let command =
        Command::new("cat").args(sources).launch(Launch::Contained).log_file(log).log_ceiling(4 << 30);
    let command = command.secret("KEY", "sk-test-0123456789abcdef").secret("TOKEN", "token-0123456789");
    let report = runtime.block_on(command.run());
    let took = began.elapsed();
    if !report.success() {
        return Err(report.end.to_string().into());
    }
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    println!("{} {}", took.as_micros(), peak.trim().trim_end_matches(" kB"));
    Ok(())
}
