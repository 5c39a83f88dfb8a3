//! Redaction of the output of child processes.

use super::{Probe, Target, magnitude, require};
use crate::corpus::Seeds;

/// Secrets that overlap and repeat.
const SECRETS: &[(&str, &str)] = &[
    ("A", "sk-ant-fuzz-0123456789"),
    ("B", "fuzz-0123456789-tail"),
    ("C", "aaaaaaaa"),
    ("D", "abababababab"),
];

pub(super) const TARGET: Target = Target {
    name: "redaction",
    about: "redaction of output: no secret is left, and a second pass changes nothing",
    seeds: || {
        let all: Vec<&str> = SECRETS.iter().map(|(_, value)| *value).collect();
        Ok(Seeds::new()
            .text(all.join(" "))
            .text(all.join(""))
            .text("sk-ant-fuzz-sk-ant-fuzz-0123456789-tailaaaaaaaaaaaa"))
    },
    check,
};

fn check(probe: &mut Probe, input: &[u8]) -> Result<(), String> {
    let secrets: Vec<(String, Vec<u8>)> =
        SECRETS.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
    let known = yb_redact::Secrets::new(secrets.clone());
    let redacted = known.redact_bytes(input);
    for (name, value) in &secrets {
        let is_left = redacted.windows(value.len()).any(|window| window == value.as_slice());
        require(!is_left, "no secret is left", || {
            format!("{name} in {:?}", String::from_utf8_lossy(&redacted))
        })?;
    }
    probe.saw(&(
        redacted.len() == input.len(),
        magnitude(redacted.windows(10).filter(|text| *text == b"[REDACTED:").count()),
    ));
    let again = known.redact_bytes(&redacted);
    require(again == redacted, "redaction is idempotent", || format!("{:?}", String::from_utf8_lossy(&again)))
}
