//! The lexer.

use super::ExpressionError;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Name(String),
    Text(String),
    Number(f64),
    /// An operator or a bracket.
    Symbol(&'static str),
}

/// Longer symbols first, so that `==` is not read as two.
const SYMBOLS: [&str; 29] = [
    "===", "!==", "==", "!=", "<=", ">=", "&&", "||", "=>", "?.", "(", ")", "[", "]", "{", "}", ",", ":",
    ".", "?", "+", "-", "*", "/", "%", "!", "<", ">", "=",
];

/// Returns the tokens of an expression with their byte offsets.
pub(super) fn tokenize(text: &str) -> Result<Vec<(usize, Token)>, ExpressionError> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(letter) = text.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = text.get(at..).unwrap_or_default();
        if letter.is_whitespace() {
            at += letter.len_utf8();
        } else if rest.starts_with("/*") {
            let end =
                rest.find("*/").ok_or_else(|| ExpressionError::incomplete(at, "unterminated comment"))?;
            at += end + 2;
        } else if rest.starts_with("//") {
            at += rest.find('\n').ok_or_else(|| ExpressionError::incomplete(at, "unterminated comment"))?;
        } else if letter == '"' || letter == '\'' {
            let (value, length) = quoted(rest, at)?;
            found.push((at, Token::Text(value)));
            at += length;
        } else if letter.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let number = rest.get(..end).unwrap_or_default();
            let value =
                number.parse().map_err(|_| ExpressionError::new(at, format!("not a number: `{number}`")))?;
            found.push((at, Token::Number(value)));
            at += end;
        } else if letter.is_alphabetic() || letter == '_' || letter == '$' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').unwrap_or(rest.len());
            found.push((at, Token::Name(rest.get(..end).unwrap_or_default().to_owned())));
            at += end;
        } else if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            found.push((at, Token::Symbol(symbol)));
            at += symbol.len();
        } else if letter == '`' {
            return Err(ExpressionError::new(at, "template strings are not supported")
                .hint("use quotes, and `+` to concatenate"));
        } else {
            return Err(ExpressionError::new(at, format!("unexpected character: `{letter}`")));
        }
    }
    Ok(found)
}

/// Parses a string literal. Returns its value and its length in bytes.
fn quoted(rest: &str, at: usize) -> Result<(String, usize), ExpressionError> {
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
                    ExpressionError::new(at + here, format!("not a character: `\\u{digits}`"))
                        .hint("write four hexadecimal digits, as in `\\u00e9`, or the character itself")
                })?);
            }
            Some((_, letter)) => value.push(letter),
            None => break,
        }
    }
    Err(ExpressionError::incomplete(at, "unterminated string"))
}
