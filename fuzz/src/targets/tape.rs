//! Recorded tapes: the files as they are, and their lines before compression.

use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use yb_tape::{Secrets, Tape};

use super::{Probe, Target, magnitude, require};
use crate::corpus::Seeds;

/// The first bytes of a compressed frame. Other input is lines, which are compressed: a mutated frame fails its checksum.
const MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// The line between two frames.
const NEXT_FRAME: &str = "\n---\n";
const SECRET: &str = "sk-ant-fuzz-0123456789";

pub(super) const TARGET: Target = Target {
    name: "tape",
    about: "tapes: read up to the damage, never more exchanges than lines, without known secrets once redacted",
    seeds: || {
        let lines = Seeds::new().files("fuzz/seeds/tape", ".lines")?;
        let compressed: Vec<Vec<u8>> = lines.inputs.iter().map(|lines| frames(lines)).collect();
        Ok(compressed.into_iter().fold(lines, Seeds::text))
    },
    check,
};

fn frames(input: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(input);
    text.split(NEXT_FRAME)
        .flat_map(|lines| compress_to_vec(lines.as_bytes(), CompressionLevel::Fastest))
        .collect()
}

fn check(probe: &mut Probe, input: &[u8]) -> Result<(), String> {
    let is_compressed = input.starts_with(MAGIC);
    let path = probe.write("a.tape", &if is_compressed { input.to_vec() } else { frames(input) })?;
    let tape = match Tape::open(&path) {
        Ok(tape) => tape,
        Err(error) => {
            let message = error.to_string();
            probe.saw_message(message.rsplit("`: ").next().unwrap_or_default());
            return Ok(());
        }
    };
    if !is_compressed {
        let lines = String::from_utf8_lossy(input).lines().count();
        require(tape.exchanges().len() <= lines, "a tape has no more exchanges than lines", || {
            format!("{} of {lines}", tape.exchanges().len())
        })?;
    }
    let verification = tape.verify();
    for problem in &verification.problems {
        probe.saw_message(problem);
    }
    probe.saw(&(magnitude(tape.exchanges().len()), tape.lanes().len(), tape.truncation().is_some()));
    let assigned: usize = tape.lanes().iter().map(|lane| lane.exchanges.len()).sum();
    require(assigned <= tape.exchanges().len(), "an exchange belongs to at most one lane", || {
        format!("{assigned}")
    })?;
    for exchange in tape.exchanges() {
        let _ =
            (tape.request_body(exchange), tape.lane_of(exchange), exchange.new_parts(), exchange.duration());
        probe.saw(&(exchange.ending(), exchange.status(), exchange.turn().min(8)));
    }
    let _ = tape.observed().total();
    let differences = tape.diff(&tape);
    require(differences.is_empty(), "a tape does not differ from itself", || format!("{differences:?}"))?;
    redact(probe, &tape)
}

fn redact(probe: &mut Probe, tape: &Tape) -> Result<(), String> {
    let secrets = Secrets::new().with("KEY", SECRET).with("SHORT", "toolu");
    for name in ["b.tape", "c.tape"] {
        probe.remove(name);
    }
    let failed = |error: yb_tape::Error| format!("an open tape can be redacted: {error}");
    let redacted = match tape.redact(probe.path("b.tape"), &secrets) {
        // A tape whose seals do not match is refused.
        Err(error) if error.to_string().contains("was changed since it was recorded") => return Ok(()),
        redacted => redacted.map_err(failed)?,
    };
    let again = redacted.redact(probe.path("c.tape"), &secrets).map_err(failed)?;
    require(redacted.exchanges().len() == tape.exchanges().len(), "redaction keeps every exchange", || {
        format!("{} of {}", redacted.exchanges().len(), tape.exchanges().len())
    })?;
    let differences = redacted.diff(&again);
    require(differences.is_empty(), "redaction is idempotent", || format!("{differences:?}"))
}
