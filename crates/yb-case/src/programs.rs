//! Versions of agents' programs.

/// Whether a text is an exact version. Ranges and tags are not: what they mean changes over time.
#[must_use]
pub fn is_exact(version: &str) -> bool {
    let (numbers, rest) = match version.find(['-', '+']) {
        Some(at) => (&version[..at], &version[at + 1..]),
        None => (version, "x"),
    };
    let numbers: Vec<&str> = numbers.split('.').collect();
    let number =
        |text: &&str| !text.is_empty() && text.len() < 10 && text.bytes().all(|b| b.is_ascii_digit());
    let label = |c: char| c.is_ascii_alphanumeric() || ".-+".contains(c);
    version.len() <= 100
        && numbers.len() == 3
        && numbers.iter().all(number)
        && !rest.is_empty()
        && rest.chars().all(label)
        && !rest.contains("..")
}
