//! `yb tape show`, `diff`, `verify` and `redact`.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use yb_figures::{count, duration, plural};
use yb_tape::{Exchange, Secrets, Tape};

use super::response;
use crate::agents;
use crate::args::{TapeDiffArgs, TapeRedactArgs, TapeShowArgs, TapeVerifyArgs};
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;

/// The maximum length of a shortened text.
const LINE: usize = 100;

pub(super) fn show(args: &TapeShowArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let tape = Tape::open(&args.tape)?;
    if let Some(name) = &args.lane
        && tape.lanes().iter().all(|lane| lane.name != *name)
    {
        let known: Vec<&str> = tape.lanes().iter().map(|lane| lane.name.as_str()).collect();
        let message = format!("no such lane in `{}`: `{name}`", args.tape.display());
        return Err(CliError::new(ErrorKind::Usage, message)
            .hint(format!("lanes of the tape: `{}`", known.join("`, `"))));
    }
    if args.json {
        printer.json(&tape_json(&tape, args.lane.as_deref()));
        return Ok(ExitCode::Passed);
    }
    let total = tape.observed().total();
    printer.line(format_args!("tape: {}", args.tape.display()));
    printer.line(format_args!("upstream: {}", tape.upstream()));
    let exchanges = tape.exchanges().len();
    printer.line(format_args!(
        "{}, {} input tokens, {} output tokens",
        plural(exchanges, "exchange"),
        count(total.input),
        count(total.output)
    ));
    if let Some(cut) = tape.truncation() {
        printer.line(format_args!("truncated at byte {}: {}", cut.at, cut.reason));
    }
    for lane in tape.lanes() {
        if args.lane.as_ref().is_some_and(|name| *name != lane.name) {
            continue;
        }
        printer.line(format_args!("\n{}: {}", lane.name, line(&lane.opening)));
        for exchange in lane.exchanges.iter().filter_map(|at| tape.exchanges().get(*at)) {
            show_exchange(exchange, args.full, printer);
        }
    }
    let alone = tape.exchanges().iter().filter(|exchange| tape.lane_of(exchange).is_none());
    let alone: Vec<&Exchange> = alone.collect();
    if !alone.is_empty() && args.lane.is_none() {
        printer.line("\nother requests:");
        for exchange in alone {
            let status =
                exchange.status().map_or_else(|| exchange.ending().to_owned(), |status| status.to_string());
            printer.line(format_args!(
                "  {:>3}  {status}  {} {}",
                exchange.number(),
                exchange.method(),
                exchange.path()
            ));
        }
    }
    Ok(ExitCode::Passed)
}

/// Prints a turn: new request parts and the response.
fn show_exchange(exchange: &Exchange, full: bool, printer: &mut Printer) {
    let status = exchange.status().map_or_else(|| "---".to_owned(), |status| status.to_string());
    let ending = if exchange.is_complete() { String::new() } else { format!(", {}", exchange.ending()) };
    let usage = exchange
        .usage()
        .map(|usage| format!(", {} input tokens, {} output tokens", count(usage.input), count(usage.output)));
    printer.line(format_args!(
        "  turn {}: {status}{ending}, {}{}",
        exchange.turn(),
        duration(exchange.duration()),
        usage.unwrap_or_default()
    ));
    let shown = |text: &str| if full { text.to_owned() } else { line(text) };
    for part in exchange.new_parts() {
        printer.line(format_args!("    > {}", shown(&part)));
    }
    for part in response::parts(exchange.response_body()) {
        printer.line(format_args!("    < {}", shown(&part)));
    }
}

/// Shortens a text to one line.
fn line(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = text.chars().take(LINE).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("{short}{more}")
}

fn tape_json(tape: &Tape, lane: Option<&str>) -> Value {
    let exchange = |exchange: &Exchange| {
        json!({
            "number": exchange.number(),
            "turn": exchange.turn(),
            "method": exchange.method(),
            "path": exchange.path(),
            "status": exchange.status(),
            "ending": exchange.ending(),
            "at_ms": u64::try_from(exchange.start_offset().as_millis()).unwrap_or(u64::MAX),
            "took_ms": u64::try_from(exchange.duration().as_millis()).unwrap_or(u64::MAX),
            "model": exchange.model(),
            "usage": exchange.usage(),
            "asked": exchange.new_parts(),
            "answered": response::parts(exchange.response_body()),
        })
    };
    let lanes: Vec<Value> = tape
        .lanes()
        .iter()
        .filter(|one| lane.is_none_or(|name| name == one.name))
        .map(|lane| {
            let exchanges = lane.exchanges.iter().filter_map(|at| tape.exchanges().get(*at));
            json!({ "name": lane.name, "opening": lane.opening, "exchanges": exchanges.map(exchange).collect::<Vec<_>>() })
        })
        .collect();
    json!({
        "tape": tape.path(),
        "upstream": tape.upstream(),
        "created_ms": tape.created_ms(),
        "full_requests": tape.has_full_requests(),
        "cut": tape.truncation().map(|cut| json!({ "at": cut.at, "reason": cut.reason })),
        "exchanges": tape.exchanges().len(),
        "lanes": lanes,
    })
}

pub(super) fn diff(args: &TapeDiffArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let (one, other) = (Tape::open(&args.one)?, Tape::open(&args.other)?);
    let differences = one.diff(&other);
    for difference in &differences {
        printer.line(format_args!("{}, turn {}: {}", difference.lane, difference.turn, difference.part));
        for (sign, text) in [("-", &difference.left), ("+", &difference.right)] {
            if !text.is_empty() {
                printer.line(format_args!("  {sign} {text}"));
            }
        }
    }
    if differences.is_empty() {
        printer.line("no differences");
        return Ok(ExitCode::Passed);
    }
    Ok(ExitCode::Failed)
}

pub(super) fn verify(args: &TapeVerifyArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let mut codes = Vec::new();
    for path in &args.tapes {
        let found = match Tape::open(path) {
            Ok(tape) => tape.verify(),
            Err(error) => {
                let error = CliError::from(error);
                printer.error(&error);
                codes.push(ExitCode::Failed);
                continue;
            }
        };
        let word = if found.problems.is_empty() { "ok" } else { "broken" };
        printer.line(format_args!("{word:8} {}", path.display()));
        for problem in &found.problems {
            printer.line(format_args!("         {problem}"));
        }
        for note in &found.notes {
            printer.note(format_args!("         {note}"));
        }
        if !found.problems.is_empty() {
            codes.push(ExitCode::Failed);
        }
    }
    Ok(ExitCode::strongest(codes))
}

pub(super) fn redact(args: &TapeRedactArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let tape = Tape::open(&args.tape)?;
    let secrets = secrets(&args.secrets, Secrets::new(), &agents::environment())?;
    let clean = tape.redact(&args.output, &secrets)?;
    printer.line(format_args!("wrote {}", clean.path().display()));
    Ok(ExitCode::Passed)
}

/// Adds secrets by variable name, because values on the command line are visible to other processes.
pub(super) fn secrets(
    names: &[String],
    known: Secrets,
    env: &BTreeMap<String, String>,
) -> Result<Secrets, CliError> {
    names.iter().try_fold(known, |secrets, name| match env.get(name).filter(|value| !value.is_empty()) {
        Some(value) => Ok(secrets.with(name, value)),
        None => Err(CliError::new(ErrorKind::Usage, format!("environment variable is not set: `{name}`"))
            .hint(
                "`--secret` takes the name of a variable, so that the value is not visible in process lists",
            )),
    })
}
