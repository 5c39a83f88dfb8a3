//! From the text of an expression to its words.

use super::Mistake;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Name(String),
    Text(String),
    Number(f64),
    /// An operator or a bracket.
    Sign(&'static str),
}

/// Longer ones first: `==` must not be read as two signs.
const SIGNS: [&str; 29] = [
    "===", "!==", "==", "!=", "<=", ">=", "&&", "||", "=>", "?.", "(", ")", "[", "]", "{", "}", ",", ":",
    ".", "?", "+", "-", "*", "/", "%", "!", "<", ">", "=",
];

/// The words of an expression with their places.
pub(super) fn words(text: &str) -> Result<Vec<(usize, Token)>, Mistake> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(letter) = text.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = text.get(at..).unwrap_or_default();
        if letter.is_whitespace() {
            at += letter.len_utf8();
        } else if rest.starts_with("/*") {
            let end = rest.find("*/").ok_or_else(|| Mistake::unfinished(at, "a comment that never ends"))?;
            at += end + 2;
        } else if rest.starts_with("//") {
            at += rest.find('\n').ok_or_else(|| Mistake::unfinished(at, "a comment that never ends"))?;
        } else if letter == '"' || letter == '\'' {
            let (value, length) = quoted(rest, at)?;
            found.push((at, Token::Text(value)));
            at += length;
        } else if letter.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let number = rest.get(..end).unwrap_or_default();
            let value = number.parse().map_err(|_| Mistake::new(at, format!("not a number: `{number}`")))?;
            found.push((at, Token::Number(value)));
            at += end;
        } else if letter.is_alphabetic() || letter == '_' || letter == '$' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').unwrap_or(rest.len());
            found.push((at, Token::Name(rest.get(..end).unwrap_or_default().to_owned())));
            at += end;
        } else if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            found.push((at, Token::Sign(sign)));
            at += sign.len();
        } else if letter == '`' {
            return Err(Mistake::new(at, "a text between backticks")
                .hint("put it between quotes, and join texts with `+`"));
        } else {
            return Err(Mistake::new(at, format!("unexpected character: `{letter}`")));
        }
    }
    Ok(found)
}

/// A text between quotes, and how many bytes it takes.
fn quoted(rest: &str, at: usize) -> Result<(String, usize), Mistake> {
    let mut letters = rest.char_indices();
    let quote = letters.next().map(|(_, letter)| letter);
    let mut value = String::new();
    while let Some((here, letter)) = letters.next() {
        if Some(letter) == quote {
            return Ok((value, here + letter.len_utf8()));
        }
        if letter != '\\' {
            value.push(letter);
            continue;
        }
        match letters.next() {
            Some((_, 'n')) => value.push('\n'),
            Some((_, 't')) => value.push('\t'),
            Some((_, 'r')) => value.push('\r'),
            Some((_, 'u')) => {
                let digits: String = letters.by_ref().take(4).map(|(_, digit)| digit).collect();
                let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                value.push(code.ok_or_else(|| {
                    Mistake::new(at + here, format!("not a character: `\\u{digits}`"))
                        .hint("write four hexadecimal digits, as in `\\u00e9`, or the character itself")
                })?);
            }
            Some((_, letter)) => value.push(letter),
            None => break,
        }
    }
    Err(Mistake::unfinished(at, "a text that never ends"))
}
