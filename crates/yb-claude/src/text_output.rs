//! Best-effort parsing of plain text output. Prefer JSON output, which is unambiguous.

use std::borrow::Cow;

use crate::frame::ApiFailure;

/// The parsed output of `--output-format text`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextOutput {
    /// The output without terminal escape sequences.
    pub clean: String,
    /// From `Model: …`.
    pub model: Option<String>,
    /// From `Claude Code v…`.
    pub version: Option<String>,
    /// The messages of a conversation; a single assistant message if the output has no speaker labels.
    pub messages: Vec<TextMessage>,
    /// From `[TOOL: name] arguments`.
    pub tool_calls: Vec<TextToolCall>,
    /// From `Input tokens: …` and `Output tokens: …`, if both are present.
    pub usage: Option<TextUsage>,
    /// Whether the output was truncated.
    pub truncated: bool,
    /// Patterns that could not be parsed.
    pub parse_errors: Vec<String>,
}

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextRole {
    /// The user.
    User,
    /// The model.
    Assistant,
    /// The system prompt.
    System,
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextMessage {
    /// The author.
    pub role: TextRole,
    /// The text.
    pub content: String,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextToolCall {
    /// The tool's name.
    pub name: String,
    /// The rest of the line.
    pub arguments: String,
}

/// Token counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextUsage {
    /// Input tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// The sum of both.
    pub total_tokens: u64,
}

/// The outcome of a run that printed no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextOutcome {
    /// The limit on turns was reached.
    MaxTurns,
    /// The limit on cost was reached.
    MaxBudget,
    /// The run was interrupted.
    Aborted,
    /// The API failed.
    ApiFailure(ApiFailure),
}

impl TextOutput {
    /// Parses the output. Never fails.
    #[must_use]
    pub fn parse(output: &str) -> Self {
        let clean = strip_ansi(output).replace("\r\n", "\n");
        let mut parse_errors = Vec::new();
        let mut tokens = |label: &str| match after(&clean, label).and_then(number) {
            Some(Ok(count)) => Some(count),
            Some(Err(digits)) => {
                parse_errors.push(format!("number after `{label}` is too large: {digits}"));
                None
            }
            None => None,
        };
        let usage = match (tokens("Input tokens:"), tokens("Output tokens:")) {
            (Some(input_tokens), Some(output_tokens)) => Some(TextUsage {
                input_tokens,
                output_tokens,
                total_tokens: input_tokens.saturating_add(output_tokens),
            }),
            (None, None) => None,
            (input, _) => {
                let missing = if input.is_some() { "output" } else { "input" };
                parse_errors.push(format!("missing {missing} token count"));
                None
            }
        };
        Self {
            model: after(&clean, "Model:").map(|rest| word(rest, b"_-.")).filter(|name| !name.is_empty()),
            version: version(&clean),
            messages: messages(&clean),
            tool_calls: tool_calls(&clean),
            usage,
            truncated: output.contains("[OUTPUT TRUNCATED"),
            parse_errors,
            clean,
        }
    }

    /// Returns the outcome, from the text that the CLI prints instead of an answer.
    ///
    /// Meaningful only for a failed run: a model may answer with the same text.
    #[must_use]
    pub fn outcome(&self) -> Option<TextOutcome> {
        let text = self.clean.trim();
        if text.starts_with("Error: Reached max turns") {
            Some(TextOutcome::MaxTurns)
        } else if text.starts_with("Error: Exceeded USD budget") {
            Some(TextOutcome::MaxBudget)
        } else if text == "Execution error" {
            Some(TextOutcome::Aborted)
        } else {
            ApiFailure::from_text(text).map(TextOutcome::ApiFailure)
        }
    }
}

/// Removes terminal escape sequences: colors, cursor movements, titles and links.
#[must_use]
pub fn strip_ansi(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, code)) = rest.split_once('\u{1b}') {
        clean.push_str(before);
        rest = after_escape(code);
    }
    clean.push_str(rest);
    Cow::Owned(clean)
}

/// Returns the rest after an escape sequence, given the text after its `ESC`.
fn after_escape(code: &str) -> &str {
    let mut characters = code.chars();
    match characters.next() {
        // Parameters and intermediates, then one final character; an invalid sequence ends at the first invalid character.
        Some('[') => {
            let body = characters.as_str();
            let tail = body.trim_start_matches(|c: char| ('\u{20}'..='\u{3f}').contains(&c));
            tail.strip_prefix(|c: char| ('\u{40}'..='\u{7e}').contains(&c)).unwrap_or(tail)
        }
        // A string up to BEL or ESC \, within one line.
        Some(']' | 'P' | '^' | '_' | 'X') => {
            let body = characters.as_str();
            match body.find(['\u{7}', '\u{1b}', '\n']) {
                Some(end) if body[end..].starts_with('\u{7}') => &body[end + 1..],
                Some(end) if body[end..].starts_with("\u{1b}\\") => &body[end + 2..],
                Some(end) => &body[end..],
                None => "",
            }
        }
        // Selecting a character set takes one more character.
        Some('(' | ')') => {
            characters.next();
            characters.as_str()
        }
        Some('\u{30}'..='\u{7e}') => characters.as_str(),
        _ => code,
    }
}

/// Returns the text after the first `label` that is followed by white space, ignoring ASCII case.
fn after<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    let mut rest = text;
    loop {
        let at = find_ignoring_case(rest, label)?;
        rest = &rest[at + label.len()..];
        let value = rest.trim_start();
        if value.len() < rest.len() {
            return Some(value);
        }
    }
}

/// Finds an ASCII label, which can match only at character boundaries.
fn find_ignoring_case(text: &str, label: &str) -> Option<usize> {
    let (text, label) = (text.as_bytes(), label.as_bytes());
    let first = *label.first()?;
    let starts = memchr::memchr2_iter(first.to_ascii_lowercase(), first.to_ascii_uppercase(), text);
    let matches =
        |at: usize| text.get(at..at + label.len()).is_some_and(|part| part.eq_ignore_ascii_case(label));
    starts.into_iter().find(|at| matches(*at))
}

/// Returns the leading letters, digits and other allowed characters.
fn word(text: &str, others: &[u8]) -> String {
    let end = text.bytes().position(|byte| !byte.is_ascii_alphanumeric() && !others.contains(&byte));
    text[..end.unwrap_or(text.len())].to_owned()
}

/// Parses an integer with optional thousands separators; `Err` holds the digits of one that is too large.
fn number(text: &str) -> Option<Result<u64, String>> {
    let digits: String = word(text, b",").replace(',', "");
    let digits: String = digits.chars().take_while(char::is_ascii_digit).collect();
    (!digits.is_empty()).then(|| digits.parse().map_err(|_| digits))
}

/// `Claude Code 2.1.3`, `Claude Code CLI v2.1.3`, or what `--version` prints: `2.1.3 (Claude Code)`.
fn version(text: &str) -> Option<String> {
    const NAME: &str = "Claude Code ";
    let digits = |text: &str| {
        let end = text.bytes().position(|byte| !byte.is_ascii_digit() && byte != b'.');
        let digits = text[..end.unwrap_or(text.len())].trim_end_matches('.');
        digits.starts_with(|c: char| c.is_ascii_digit()).then(|| digits.to_owned())
    };
    let mut rest = text;
    while let Some(at) = find_ignoring_case(rest, NAME) {
        rest = &rest[at + NAME.len()..];
        let named = rest.get(..4).filter(|cli| cli.eq_ignore_ascii_case("CLI ")).map_or(rest, |_| &rest[4..]);
        let named = named.strip_prefix(['v', 'V']).unwrap_or(named);
        if let Some(version) = digits(named) {
            return Some(version);
        }
    }
    let first = text.trim_start().lines().next()?;
    first.trim_end().strip_suffix("(Claude Code)").and_then(digits)
}

/// The most tool calls and messages of a text.
const MAX_ITEMS: usize = 10_000;

fn tool_calls(text: &str) -> Vec<TextToolCall> {
    let mut calls = Vec::new();
    let mut rest = text;
    while let Some(at) = find_ignoring_case(rest, "[TOOL:").filter(|_| calls.len() < MAX_ITEMS) {
        rest = &rest[at + "[TOOL:".len()..];
        let line = rest.lines().next().unwrap_or_default().trim_start();
        let name = word(line, b"_.-:");
        if let Some(arguments) = line.get(name.len()..).and_then(|tail| tail.strip_prefix(']'))
            && !name.is_empty()
        {
            // The arguments end at a second call on the same line.
            let end = find_ignoring_case(arguments, "[TOOL:").unwrap_or(arguments.len());
            calls.push(TextToolCall { name, arguments: arguments[..end].trim().to_owned() });
        }
    }
    calls
}

/// Splits a conversation, which must start with a speaker label.
fn messages(text: &str) -> Vec<TextMessage> {
    let body = text.trim();
    if body.is_empty() {
        return Vec::new();
    }
    if body.lines().next().and_then(speaker).is_none() {
        return vec![TextMessage { role: TextRole::Assistant, content: body.to_owned() }];
    }
    let mut messages: Vec<TextMessage> = Vec::new();
    for line in body.lines() {
        let has_room = messages.len() < MAX_ITEMS;
        match (speaker(line).filter(|_| has_room), messages.last_mut()) {
            (Some((role, rest)), _) => messages.push(TextMessage { role, content: rest.to_owned() }),
            (None, Some(message)) => {
                message.content.push('\n');
                message.content.push_str(line);
            }
            (None, None) => {}
        }
    }
    for message in &mut messages {
        message.content = message.content.trim().to_owned();
    }
    messages
}

/// Splits `User: …` or `[User] …`.
fn speaker(line: &str) -> Option<(TextRole, &str)> {
    let names = [
        ("User", TextRole::User),
        ("Human", TextRole::User),
        ("Assistant", TextRole::Assistant),
        ("Claude", TextRole::Assistant),
        ("System", TextRole::System),
    ];
    names.into_iter().find_map(|(name, role)| {
        let rest = match line.strip_prefix('[') {
            Some(line) => line.strip_prefix(name)?.strip_prefix(']')?,
            None => line.strip_prefix(name)?.strip_prefix(':')?,
        };
        Some((role, rest.trim_start()))
    })
}

#[cfg(test)]
mod tests;
