//! `yb tape show`, `diff`, `verify` and `redact`: what is on a tape.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use yb_tape::{Exchange, Secrets, Tape};

use super::answer;
use crate::agents;
use crate::args::{TapeDiffArgs, TapeRedactArgs, TapeShowArgs, TapeVerifyArgs};
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::{Printer, plural};
use crate::workspace::harmless;

/// How much of a text is shown in a line.
const LINE: usize = 100;

pub(super) fn show(args: &TapeShowArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let tape = Tape::open(&args.tape)?;
    if let Some(name) = &args.lane
        && tape.lanes().iter().all(|lane| lane.name != *name)
    {
        let known: Vec<&str> = tape.lanes().iter().map(|lane| lane.name.as_str()).collect();
        let message = format!("no such lane in `{}`: `{name}`", args.tape.display());
        return Err(CliError::new(ErrorKind::Usage, message).hint(format!("it has `{}`", known.join("`, `"))));
    }
    if args.json {
        printer.line(told(&tape, args.lane.as_deref()));
        return Ok(ExitCode::Passed);
    }
    let total = tape.observed().total();
    printer.line(format_args!("tape: {}", args.tape.display()));
    printer.line(format_args!("upstream: {}", tape.upstream()));
    let count = tape.exchanges().len() as u64;
    printer.line(format_args!(
        "{}, {} tokens in, {} out",
        plural(count, "exchange"),
        total.input,
        total.output
    ));
    if let Some(cut) = tape.truncation() {
        printer.line(format_args!("cut at byte {}: {}", cut.at, cut.reason));
    }
    for lane in tape.lanes() {
        if args.lane.as_ref().is_some_and(|name| *name != lane.name) {
            continue;
        }
        printer.line(format_args!("\n{}: {}", lane.name, line(&lane.opening)));
        for exchange in lane.exchanges.iter().filter_map(|at| tape.exchanges().get(*at)) {
            one(exchange, args.full, printer);
        }
    }
    let alone = tape.exchanges().iter().filter(|exchange| tape.lane_of(exchange).is_none());
    let alone: Vec<&Exchange> = alone.collect();
    if !alone.is_empty() && args.lane.is_none() {
        printer.line("\nbeside conversations:");
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

/// A turn: what came in, and what the model made of it.
fn one(exchange: &Exchange, full: bool, printer: &mut Printer) {
    let status = exchange.status().map_or_else(|| "---".to_owned(), |status| status.to_string());
    let ending = if exchange.is_complete() { String::new() } else { format!(", {}", exchange.ending()) };
    let usage = exchange.usage().map(|usage| format!(", {} in, {} out", usage.input, usage.output));
    printer.line(format_args!(
        "  turn {}: {status}{ending}, {:.1} s{}",
        exchange.turn(),
        exchange.duration().as_secs_f64(),
        usage.unwrap_or_default()
    ));
    let shown = |text: &str| if full { harmless(text) } else { line(text) };
    for part in exchange.new_parts() {
        printer.line(format_args!("    > {}", shown(&part)));
    }
    for said in answer::parts(exchange.response_body()) {
        printer.line(format_args!("    < {}", shown(&said)));
    }
}

/// The beginning of a text, in one line.
fn line(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = text.chars().take(LINE).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    harmless(&format!("{short}{more}"))
}

fn told(tape: &Tape, lane: Option<&str>) -> Value {
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
            "answered": answer::parts(exchange.response_body()),
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
                printer.line(format_args!("  {sign} {}", harmless(text)));
            }
        }
    }
    if differences.is_empty() {
        printer.line("the tapes say the same");
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
            printer.line(format_args!("         {}", harmless(problem)));
        }
        for note in &found.notes {
            printer.note(format_args!("         {}", harmless(note)));
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

/// More secrets, by the names of their variables: a value on the command line would be one for everybody.
pub(super) fn secrets(
    names: &[String],
    known: Secrets,
    env: &BTreeMap<String, String>,
) -> Result<Secrets, CliError> {
    names.iter().try_fold(known, |secrets, name| match env.get(name).filter(|value| !value.is_empty()) {
        Some(value) => Ok(secrets.with(name, value)),
        None => Err(CliError::new(ErrorKind::Usage, format!("environment variable is not set: `{name}`"))
            .hint("`--secret` names a variable, so that the secret itself is in no process list")),
    })
}
