//! `yb tape serve`: a scripted model on loopback, for as long as someone wants it.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use yb_claude::{env_vars as vars, hermetic};
use yb_tape::{
    LoggedRequest, MockServer, MockServerOptions, ReplayOptions, ReplayServer, Script, Tape, Vars, WatchEvent,
};

use crate::args::ServeArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::{Printer, plural};
use crate::signals::Signals;

/// A user keeps their own home and temporary files, and decides alone that a machine is a sandbox.
const LEFT_TO_THE_USER: [&str; 4] = [vars::HOME, vars::CLAUDE_CONFIG_DIR, vars::TMPDIR, vars::IS_SANDBOX];

/// How every recorded tape begins: the first bytes of zstd.
const RECORDED: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

pub(crate) fn run(args: &ServeArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let mut magic = [0; 4];
    let read = std::fs::File::open(&args.script).and_then(|mut file| file.read_exact(&mut magic));
    if read.is_ok() && magic == RECORDED {
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
        // Before the address is known to anyone, so that nobody's signal comes too early.
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
        printer.line("\nStop with Ctrl-C. Requests:");
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

/// A recorded tape, until Ctrl-C or until something is asked that is not on it.
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
            .map(|lane| format!("{}: {}", lane.name, plural(lane.exchanges.len() as u64, "exchange")));
        printer.line(format_args!(
            "tape: {} ({})",
            args.script.display(),
            lanes.collect::<Vec<_>>().join(", ")
        ));
        printer.line("\nStop with Ctrl-C.");
        tokio::select! {
            () = signals.stop() => {}
            divergence = replayer.diverged() => {
                let error = CliError::new(ErrorKind::Failed, divergence.to_string());
                printer.error(&error.hint(divergence.hint()));
                // Whoever asked is still to get that answer.
                signals.stop().await;
            }
        }
        let outcome = replayer.shutdown().await;
        printer.line(format_args!(
            "stopped: {} answered, {} left",
            plural(outcome.served, "request"),
            outcome.remaining
        ));
        Ok(ExitCode::Interrupted)
    })
}

fn describe(script: &Script) -> String {
    let lanes = script.lanes().map(|(name, count)| {
        let noun = if count == 1 { "reply" } else { "replies" };
        format!("{name}: {count} {noun}")
    });
    lanes.collect::<Vec<_>>().join(", ")
}

/// Number, status, who was asked and what was answered.
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
