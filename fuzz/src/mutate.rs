//! Mutations: of bytes, of tokens, of lines with their indented blocks, and of JSON values.

use serde_json::{Map, Value};

use crate::random::Random;

/// The maximum size of an input. It exceeds every seed; larger ones only make a parser slower.
pub(crate) const MAX_INPUT: usize = 128 << 10;

/// The maximum size of most inputs, and of seeds.
pub(crate) const SHORT_INPUT: usize = 8 << 10;

/// Numbers at the borders of the types that files are read into.
const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "1",
    "-1",
    "255",
    "256",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "1e309",
    "-1e309",
    "5e-324",
    "0.1",
    "0x7fffffff",
    "0o17",
    "1_000",
    "99999999999999999999999999999999999999999999",
    ".inf",
    "-.inf",
    ".nan",
];

/// Text that parsers treat specially, beside the words of the seeds.
const TEXTS: &[&str] = &[
    "",
    "\0",
    "\u{feff}",
    "\r\n",
    "\r",
    "\n\n",
    "\t",
    " ",
    "\u{85}",
    "\u{2028}",
    "\u{202e}",
    "\u{200b}",
    "\u{1f468}\u{200d}\u{1f469}",
    "\u{1b}[31m",
    "\u{1b}]52;c;eA==\u{7}",
    "\u{9b}1m",
    "\\ud800",
    "\\u0000",
    "---",
    "...",
    "--- ",
    "&a ",
    "*a",
    "<<: *a",
    "!!binary ",
    "!x ",
    "%YAML 1.2\n",
    "? ",
    ": ",
    "- ",
    "| ",
    "|2-\n",
    ">+\n",
    "# ",
    "''",
    "\"",
    "'",
    "${X}",
    "${ENV:HOME}",
    "{{workspace}}",
    "{",
    "}",
    "[",
    "]",
    ",",
    "null",
    "~",
    "true",
    "../",
    "/etc/passwd",
    "file:///",
    "data: ",
    "event: ",
    "[REDACTED:KEY]",
];

/// Openings that a recursive parser descends into, each with its end.
const NESTING: &[(&str, &str)] = &[
    ("[", "]"),
    ("{\"a\":", "}"),
    ("{a: ", "}"),
    ("- ", ""),
    ("? ", ""),
    ("(", ")"),
    ("!", ""),
    ("-", ""),
    ("{", "}"),
    ("<", ">"),
    ("<User>", "</User>"),
    ("<If condition={true}>", "</If>"),
    ("<ForEach arr={[1,2]}>", "</ForEach>"),
    ("*", "*"),
    ("> ", ""),
    ("\\", ""),
    ("a.", ""),
    ("a|", ""),
];

/// The material that mutations draw from.
pub(crate) struct Material<'a> {
    pub(crate) corpus: &'a [Vec<u8>],
    pub(crate) words: &'a [Vec<u8>],
}

/// Returns a mutated copy of a random corpus entry.
pub(crate) fn mutate(random: &mut Random, material: &Material<'_>) -> Vec<u8> {
    let mut input = random.pick(material.corpus).cloned().unwrap_or_default();
    // Many short inputs find more than a few long ones.
    let longest = if random.one_in(30) { MAX_INPUT } else { SHORT_INPUT.max(input.len()) };
    loop {
        input = mutate_once(random, material, input);
        input.truncate(longest);
        if random.one_in(3) {
            return input;
        }
    }
}

fn mutate_once(random: &mut Random, material: &Material<'_>, mut input: Vec<u8>) -> Vec<u8> {
    match random.below(16) {
        0 => flip_bits(random, &mut input),
        1 => {
            let range = random.range(input.len());
            input.drain(range);
        }
        2 => {
            let range = random.range(input.len());
            let copy = input[range].to_vec();
            insert(random, &mut input, &copy);
        }
        3 => {
            let end = random.below(input.len() + 1);
            input.truncate(end);
        }
        4 => {
            let text = random.pick(TEXTS).copied().unwrap_or_default();
            insert(random, &mut input, text.as_bytes());
        }
        5 => {
            let bytes: Vec<u8> = (0..=random.below(4)).map(|_| random.below(256) as u8).collect();
            insert(random, &mut input, &bytes);
        }
        6 | 7 => replace_token(random, material, &mut input),
        8 => {
            let word = random.pick(material.words).cloned().unwrap_or_default();
            insert(random, &mut input, &word);
        }
        9 => nest(random, &mut input),
        10 => splice(random, material, &mut input),
        11 => grow(random, &mut input),
        12 | 13 => move_block(random, material, &mut input),
        _ => change_json(random, material, &mut input),
    }
    input
}

fn insert(random: &mut Random, input: &mut Vec<u8>, bytes: &[u8]) {
    let at = random.below(input.len() + 1);
    input.splice(at..at, bytes.iter().copied());
}

fn flip_bits(random: &mut Random, input: &mut [u8]) {
    for _ in 0..=random.below(3) {
        let at = random.below(input.len());
        if let Some(byte) = input.get_mut(at) {
            *byte ^= 1 << random.below(8);
        }
    }
}

/// Replaces a word or a number by another.
fn replace_token(random: &mut Random, material: &Material<'_>, input: &mut Vec<u8>) {
    let start = random.below(input.len());
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
    let Some(from) = input.iter().skip(start).position(is_word).map(|at| at + start) else { return };
    let end =
        input[from..].iter().position(|byte| !is_word(byte)).map_or(input.len(), |length| from + length);
    let is_number = input[from..end].iter().all(|byte| byte.is_ascii_digit() || b".-".contains(byte));
    let new = match random.below(8) {
        0 => random.pick(TEXTS).map(|text| text.as_bytes().to_vec()),
        1..=3 if !is_number => random.pick(material.words).cloned(),
        1 | 2 => random.pick(material.words).cloned(),
        4 => other_token(random, input),
        _ if is_number => random.pick(NUMBERS).map(|number| number.as_bytes().to_vec()),
        _ => random.pick(material.words).cloned(),
    };
    input.splice(from..end, new.unwrap_or_default());
}

fn other_token(random: &mut Random, input: &[u8]) -> Option<Vec<u8>> {
    let words: Vec<&[u8]> = input
        .split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
        .filter(|word| !word.is_empty())
        .collect();
    random.pick(&words).map(|word| word.to_vec())
}

fn nest(random: &mut Random, input: &mut Vec<u8>) {
    let Some((open, close)) = random.pick(NESTING) else { return };
    let depth = [3, 30, 300, 3000, 30_000][random.below(5)];
    let depth = depth.min(MAX_INPUT / (open.len() + close.len()).max(1));
    let at = random.below(input.len() + 1);
    let inner = if random.one_in(2) { input.split_off(at) } else { Vec::new() };
    let at = at.min(input.len());
    let mut nested = open.repeat(depth).into_bytes();
    nested.extend(inner);
    if !random.one_in(3) {
        nested.extend(close.repeat(depth).into_bytes());
    }
    input.splice(at..at, nested);
}

/// The beginning of this input with the end of another.
fn splice(random: &mut Random, material: &Material<'_>, input: &mut Vec<u8>) {
    let Some(other) = random.pick(material.corpus) else { return };
    input.truncate(random.below(input.len() + 1));
    input.extend_from_slice(&other[random.below(other.len() + 1)..]);
}

/// Repeats a short range many times.
fn grow(random: &mut Random, input: &mut Vec<u8>) {
    let range = random.range(input.len());
    let range = range.start..range.end.min(range.start + 64);
    let at = range.end;
    let times = [2, 20, 200, 2000][random.below(4)];
    let repeated = input[range].repeat(times);
    input.splice(at..at, repeated);
}

/// Copies or moves a line, with the lines that are indented below it, to another position and indentation.
fn move_block(random: &mut Random, material: &Material<'_>, input: &mut Vec<u8>) {
    let foreign = random.one_in(3).then(|| random.pick(material.corpus)).flatten();
    let lines =
        |text: &[u8]| -> Vec<Vec<u8>> { text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect() };
    let source = lines(foreign.map_or(input.as_slice(), Vec::as_slice));
    let indent = |line: &[u8]| line.iter().take_while(|byte| **byte == b' ').count();
    let first = random.below(source.len());
    let below =
        source[first..].iter().skip(1).take_while(|line| indent(line) > indent(&source[first])).count();
    let mut block: Vec<Vec<u8>> = source[first..=first + below].to_vec();
    let mut target = lines(input);
    if foreign.is_none() && random.one_in(2) {
        target.drain(first..=first + below);
    }
    if random.one_in(4) {
        // Only removed.
        block.clear();
    }
    let at = random.below(target.len() + 1);
    let old = block.first().map_or(0, |line| indent(line));
    let new = match random.below(3) {
        0 => old,
        1 => target.get(at).map_or(0, |line| indent(line)),
        _ => random.below(8),
    };
    for line in &mut block {
        let shift = indent(line).min(old);
        line.splice(..shift, vec![b' '; new]);
    }
    target.splice(at..at, block);
    *input = target.join(&b'\n');
}

/// Changes a value in a JSON document or in one line of JSON; other text is wrapped into a JSON string.
fn change_json(random: &mut Random, material: &Material<'_>, input: &mut Vec<u8>) {
    if let Ok(mut value) = serde_json::from_slice::<Value>(input) {
        change_value(random, material, &mut value);
        *input = value.to_string().into_bytes();
        return;
    }
    let mut lines: Vec<Vec<u8>> = input.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let start = random.below(lines.len());
    for offset in 0..lines.len() {
        let at = (start + offset) % lines.len();
        // Of a server-sent event, the data is JSON.
        let prefix: &[u8] = if lines[at].starts_with(b"data: ") { b"data: " } else { b"" };
        if let Ok(mut value) = serde_json::from_slice::<Value>(&lines[at][prefix.len()..])
            && (value.is_object() || value.is_array())
        {
            change_value(random, material, &mut value);
            lines[at] = [prefix, value.to_string().as_bytes()].concat();
            break;
        }
    }
    *input = lines.join(&b'\n');
}

fn change_value(random: &mut Random, material: &Material<'_>, root: &mut Value) {
    let count = count_nodes(root);
    let (target, source) = (random.below(count), random.below(count));
    let copy = node_at(root, &mut { source }).cloned();
    let Some(node) = node_at(root, &mut { target }) else { return };
    match (random.below(8), node) {
        (0, Value::Object(map)) => {
            let key = map.keys().nth(random.below(map.len())).cloned();
            key.and_then(|key| map.remove(&key));
        }
        (1, Value::Object(map)) => {
            let key = text_of(random, material);
            map.insert(key, copy.unwrap_or_default());
        }
        (0, Value::Array(items)) if !items.is_empty() => {
            items.remove(random.below(items.len()));
        }
        (1, Value::Array(items)) => {
            let times = [1, 2, 100][random.below(3)];
            items.extend(std::iter::repeat_n(copy.unwrap_or_default(), times));
        }
        (2, node) => *node = copy.unwrap_or_default(),
        (_, node) => *node = new_value(random, material, node),
    }
}

fn new_value(random: &mut Random, material: &Material<'_>, old: &Value) -> Value {
    match random.below(9) {
        0 => Value::Null,
        1 => Value::Bool(random.one_in(2)),
        2..=4 => {
            let numbers: Vec<Value> =
                NUMBERS.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
            random.pick(&numbers).cloned().unwrap_or_default()
        }
        5 => Value::Array(vec![old.clone()]),
        6 => Value::Object(Map::from_iter([(text_of(random, material), old.clone())])),
        7 => Value::from(old.to_string()),
        _ => Value::from(text_of(random, material)),
    }
}

fn text_of(random: &mut Random, material: &Material<'_>) -> String {
    if random.one_in(3) {
        return random.pick(TEXTS).copied().unwrap_or_default().to_owned();
    }
    let word = random.pick(material.words).cloned().unwrap_or_default();
    String::from_utf8_lossy(&word).into_owned()
}

fn count_nodes(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count_nodes).sum(),
        Value::Object(map) => map.values().map(count_nodes).sum(),
        _ => 0,
    }
}

/// Returns the node at a position in document order.
fn node_at<'v>(value: &'v mut Value, skip: &mut usize) -> Option<&'v mut Value> {
    if *skip == 0 {
        return Some(value);
    }
    *skip -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| node_at(item, skip)),
        Value::Object(map) => map.values_mut().find_map(|item| node_at(item, skip)),
        _ => None,
    }
}
