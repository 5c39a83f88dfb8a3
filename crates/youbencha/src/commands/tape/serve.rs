//! `yb tape serve`: serves a scripted model or a tape on loopback.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use yb_claude::{env_vars as vars, hermetic};
use yb_figures::{counted, plural};
use yb_tape::{
    LoggedRequest, MockServer, MockServerOptions, ReplayOptions, ReplayServer, Script, Tape, Vars, WatchEvent,
};

use crate::args::ServeArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::signals::Signals;

/// Variables that are not suggested: home, temporary files and the sandbox flag.
const LEFT_TO_THE_USER: [&str; 4] = [vars::HOME, vars::CLAUDE_CONFIG_DIR, vars::TMPDIR, vars::IS_SANDBOX];

/// The magic bytes of a tape (zstd).
const TAPE_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

pub(crate) fn run(args: &ServeArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let mut magic = [0; 4];
    let read = std::fs::File::open(&args.script).and_then(|mut file| file.read_exact(&mut magic));
    if read.is_ok() && magic == TAPE_MAGIC {
        return replay(args, printer);
    }
    let vars: Vars = args.vars.iter().cloned().collect();
    let script = Script::load(&args.script, &vars)?;
    let lanes = describe(&script);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::failed_to("start the tape"))?;
    runtime.block_on(async {
        // Before the address is printed, so that no signal is missed.
        let mut signals = Signals::listen().map_err(CliError::failed_to("start the tape"))?;
        let server = MockServer::start(script, &MockServerOptions::default().port(args.port))?;
        let mut requests = server.watch();
        printer.line(format_args!("listening: {}", server.base_url()));
        printer.line(format_args!("script: {} ({lanes})", args.script.display()));
        printer.line("\nFor Claude Code, in another terminal:");
        for (name, value) in hermetic::environment(&server.base_url(), Path::new("")) {
            if !LEFT_TO_THE_USER.contains(&name) {
                printer.line(format_args!("  export {name}={}", value.display()));
            }
        }
        printer.line("\nPress Ctrl-C to stop. Requests:");
        loop {
            tokio::select! {
                () = signals.stop() => break,
                watched = requests.next() => match watched {
                    Some(WatchEvent::Request(seen)) => printer.line(line(&seen)),
                    Some(WatchEvent::Missed(count)) => printer.line(format_args!("      … {count} more")),
                    None => break,
                },
            }
        }
        let count = server.requests().len() as u64 + server.dropped();
        let unscripted = server.unscripted().len();
        server.shutdown().await;
        printer.line(format_args!("stopped: {}, {unscripted} unscripted", plural(count, "request")));
        Ok(ExitCode::Interrupted)
    })
}

/// Replays a tape until Ctrl-C.
fn replay(args: &ServeArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let tape = Tape::open(&args.script)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::failed_to("start the tape"))?;
    runtime.block_on(async {
        let mut signals = Signals::listen().map_err(CliError::failed_to("start the tape"))?;
        let mut options = ReplayOptions::default();
        options.port = args.port;
        for (name, path) in &args.vars {
            options = options.directory(name, path);
        }
        let replayer = ReplayServer::start(&tape, options)?;
        printer.line(format_args!("listening: {}", replayer.base_url()));
        let lanes = tape
            .lanes()
            .iter()
            .map(|lane| format!("{}: {}", lane.name, plural(lane.exchanges.len(), "exchange")));
        printer.line(format_args!(
            "tape: {} ({})",
            args.script.display(),
            lanes.collect::<Vec<_>>().join(", ")
        ));
        printer.line("\nPress Ctrl-C to stop.");
        tokio::select! {
            () = signals.stop() => {}
            divergence = replayer.diverged() => {
                let error = CliError::new(ErrorKind::Failed, divergence.to_string());
                printer.error(&error.hint(divergence.hint()));
                // Keep serving, so that the client receives the error.
                signals.stop().await;
            }
        }
        let outcome = replayer.shutdown().await;
        printer.line(format_args!(
            "stopped: {} served, {} not requested",
            plural(outcome.served, "request"),
            outcome.remaining
        ));
        Ok(ExitCode::Interrupted)
    })
}

fn describe(script: &Script) -> String {
    let lanes = script.lanes().map(|(name, count)| format!("{name}: {}", counted(count, "reply", "replies")));
    lanes.collect::<Vec<_>>().join(", ")
}

/// Formats number, status, lane, turn and answer of a request.
fn line(seen: &Arc<LoggedRequest>) -> String {
    let status = seen.status.map_or_else(|| "---".to_owned(), |status| status.to_string());
    let who = match (&seen.lane, seen.turn) {
        (Some(lane), Some(turn)) if seen.attempt > 1 => {
            format!("{lane}, turn {turn} (attempt {})", seen.attempt)
        }
        (Some(lane), Some(turn)) => format!("{lane}, turn {turn}"),
        _ => format!("{} {}", seen.method, seen.path),
    };
    format!("{:>4}  {status}  {who}: {}", seen.number, seen.response)
}
