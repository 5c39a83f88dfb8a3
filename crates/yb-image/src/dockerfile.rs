//! Parses Dockerfiles: logical lines, here-documents, and variables.

use std::collections::BTreeMap;

use crate::ImageError;

/// One instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) line: usize,
    /// The name in upper case.
    pub(crate) name: String,
    /// The rest of the line, with continuation lines joined.
    pub(crate) rest: String,
    /// The here-documents: name, whether variables are expanded, and content.
    pub(crate) documents: Vec<HereDocument>,
}

/// A here-document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HereDocument {
    pub(crate) name: String,
    pub(crate) expanded: bool,
    pub(crate) content: String,
}

pub(crate) fn error(line: usize, reason: impl Into<String>, hint: &str) -> ImageError {
    ImageError::Build { line, reason: reason.into(), hint: hint.to_owned() }
}

/// Parses the text of a Dockerfile.
pub(crate) fn parse(text: &str) -> Result<Vec<Instruction>, ImageError> {
    let lines: Vec<&str> = text.lines().collect();
    let mut instructions = Vec::new();
    let mut at = 0;
    while let Some(first) = lines.get(at) {
        let number = at + 1;
        at += 1;
        if first.trim().is_empty() || first.trim_start().starts_with('#') {
            continue;
        }
        let mut joined = String::new();
        let mut current = *first;
        loop {
            let trimmed = current.trim_end();
            match trimmed.strip_suffix('\\') {
                Some(before) => joined.push_str(before),
                None => {
                    joined.push_str(trimmed);
                    break;
                }
            }
            // Comments and blank lines between continued lines are left out.
            while lines
                .get(at)
                .is_some_and(|line| line.trim_start().starts_with('#') || line.trim().is_empty())
            {
                at += 1;
            }
            let Some(next) = lines.get(at) else { break };
            (current, at) = (next, at + 1);
        }
        let joined = joined.trim();
        let (name, rest) = joined.split_once(char::is_whitespace).unwrap_or((joined, ""));
        let name = name.to_ascii_uppercase();
        let mut documents = Vec::new();
        if matches!(name.as_str(), "RUN" | "COPY" | "ADD") {
            for (word, expanded, tabs) in here_documents(rest) {
                let mut content = String::new();
                loop {
                    let Some(line) = lines.get(at) else {
                        return Err(error(number, format!("no end of the here-document `{word}`"), "add it"));
                    };
                    at += 1;
                    let line = if tabs { line.trim_start_matches('\t') } else { line };
                    if line == word {
                        break;
                    }
                    content.push_str(line);
                    content.push('\n');
                }
                documents.push(HereDocument { name: word, expanded, content });
            }
        }
        instructions.push(Instruction { line: number, name, rest: rest.trim().to_owned(), documents });
    }
    Ok(instructions)
}

/// Finds `<<WORD`, `<<-WORD`, `<<"WORD"` and `<<'WORD'`.
fn here_documents(rest: &str) -> Vec<(String, bool, bool)> {
    let mut found = Vec::new();
    for word in rest.split_whitespace() {
        let Some(name) = word.strip_prefix("<<") else { continue };
        let (name, tabs) = name.strip_prefix('-').map_or((name, false), |name| (name, true));
        let plain = name.trim_matches(['"', '\'']);
        let is_word = |text: &str| {
            text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        if is_word(plain) {
            found.push((plain.to_owned(), plain == name, tabs));
        }
    }
    found
}

/// Splits words as a shell does, and expands variables outside of single quotes.
pub(crate) fn words(text: &str, variables: &BTreeMap<String, String>) -> Vec<String> {
    let (mut words, mut word, mut is_word) = (Vec::new(), String::new(), false);
    let mut quote = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, quote) {
            ('\'' | '"', None) => (quote, is_word) = (Some(c), true),
            (c, Some(open)) if c == open => quote = None,
            ('\\', None | Some('"')) => {
                word.extend(rest.next());
                is_word = true;
            }
            ('$', None | Some('"')) => {
                let mut name = String::new();
                if rest.peek() == Some(&'{') {
                    rest.next();
                    let mut depth = 1;
                    for c in rest.by_ref() {
                        match c {
                            '{' => depth += 1,
                            '}' => depth -= 1,
                            _ => {}
                        }
                        if depth == 0 {
                            break;
                        }
                        name.push(c);
                    }
                } else {
                    while let Some(c) = rest.peek().filter(|c| c.is_ascii_alphanumeric() || **c == '_') {
                        name.push(*c);
                        rest.next();
                    }
                }
                word.push_str(&if name.is_empty() { "$".to_owned() } else { value_of(&name, variables) });
                is_word = true;
            }
            (c, None) if c.is_whitespace() => {
                if is_word {
                    words.push(std::mem::take(&mut word));
                }
                is_word = false;
            }
            (c, _) => {
                word.push(c);
                is_word = true;
            }
        }
    }
    if is_word {
        words.push(word);
    }
    words
}

fn value_of(name: &str, variables: &BTreeMap<String, String>) -> String {
    let get = |name: &str| variables.get(name).cloned();
    if let Some((name, default)) = name.split_once(":-") {
        return get(name).filter(|value| !value.is_empty()).unwrap_or_else(|| default.to_owned());
    }
    if let Some((name, other)) = name.split_once(":+") {
        return get(name).filter(|value| !value.is_empty()).map(|_| other.to_owned()).unwrap_or_default();
    }
    get(name).unwrap_or_default()
}

/// Takes the leading `--name=value` words.
pub(crate) fn flags(rest: &str) -> (Vec<(&str, &str)>, &str) {
    let (mut flags, mut rest) = (Vec::new(), rest.trim_start());
    while let Some(flag) = rest.strip_prefix("--") {
        let (flag, after) = flag.split_once(char::is_whitespace).unwrap_or((flag, ""));
        flags.push(flag.split_once('=').unwrap_or((flag, "")));
        rest = after.trim_start();
    }
    (flags, rest)
}

/// Parses `["a", "b"]`.
pub(crate) fn list(rest: &str) -> Option<Vec<String>> {
    if rest.starts_with('[') { serde_json::from_str(rest).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_and_documents_are_read() {
        let text = "# syntax\nFROM a AS b\nRUN one && \\\n  # comment\n\n  two\nRUN <<EOF\necho $x\nEOF\nCOPY <<-'END' /f\n\ttext\n\tEND\nrun x << 2\n";
        let parsed = parse(text).unwrap();
        let names: Vec<(&str, &str, usize)> =
            parsed.iter().map(|one| (one.name.as_str(), one.rest.as_str(), one.line)).collect();
        assert_eq!(
            names,
            [
                ("FROM", "a AS b", 2),
                ("RUN", "one &&   two", 3),
                ("RUN", "<<EOF", 7),
                ("COPY", "<<-'END' /f", 10),
                ("RUN", "x << 2", 13)
            ]
        );
        assert_eq!(parsed[2].documents[0].content, "echo $x\n");
        assert_eq!(
            parsed[3].documents[0],
            HereDocument { name: "END".into(), expanded: false, content: "text\n".into() }
        );
        assert!(parse("RUN <<EOF\nx\n").unwrap_err().to_string().contains("line 1"));
    }

    #[test]
    fn words_are_split_and_expanded() {
        let variables =
            [("A", "one"), ("EMPTY", "")].map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        for (text, expected) in [
            ("a  b", vec!["a", "b"]),
            ("\"x y\" 'a $A' $A ${A}s", vec!["x y", "a $A", "one", "ones"]),
            ("${B:-d} ${A:+set} ${EMPTY:-e} x$B", vec!["d", "set", "e", "x"]),
            ("a\\ b \\$A", vec!["a b", "$A"]),
        ] {
            assert_eq!(words(text, &variables), expected, "{text}");
        }
    }
}
