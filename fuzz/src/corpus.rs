//! Seeds from the repository: files, and blocks of the documentation, so that new fields are fuzzed once they are
//! documented.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::mutate::{MAX_INPUT, SHORT_INPUT};

/// The maximum number of words of a dictionary.
const MAX_WORDS: usize = 6000;

/// The seeds and the dictionary of a target.
#[derive(Debug, Default)]
pub(crate) struct Seeds {
    pub(crate) inputs: Vec<Vec<u8>>,
    extra_words: BTreeSet<Vec<u8>>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

impl Seeds {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a text.
    pub(crate) fn text(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.inputs.push(text.into());
        self
    }

    /// Adds all files below a directory of the repository whose name ends like this.
    pub(crate) fn files(mut self, directory: &str, suffix: &str) -> io::Result<Self> {
        let mut found = Vec::new();
        collect(&root().join(directory), suffix, &mut found)?;
        if found.is_empty() {
            return Err(io::Error::other(format!("no seeds `*{suffix}` in `{directory}`")));
        }
        for path in found {
            self.add(&fs::read(path)?);
        }
        Ok(self)
    }

    /// Adds a file. A long one becomes several seeds of whole lines; of a very long one, the beginning has all kinds of lines.
    fn add(&mut self, bytes: &[u8]) {
        let mut seed = Vec::new();
        for line in bytes[..bytes.len().min(MAX_INPUT)].split_inclusive(|byte| *byte == b'\n') {
            if !seed.is_empty() && seed.len() + line.len() > SHORT_INPUT {
                self.inputs.push(std::mem::take(&mut seed));
            }
            seed.extend_from_slice(line);
        }
        self.inputs.push(seed);
    }

    /// Adds the fenced blocks in these languages from all pages of the documentation, if they satisfy a condition.
    pub(crate) fn blocks(mut self, languages: &[&str], wanted: impl Fn(&str) -> bool) -> io::Result<Self> {
        let mut pages = Vec::new();
        collect(&root().join("docs"), ".md", &mut pages)?;
        collect(&root().join("crates"), "README.md", &mut pages)?;
        let before = self.inputs.len();
        for page in pages {
            let text = fs::read_to_string(page)?;
            let blocks = text.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
            let blocks = blocks.filter(|(language, _)| languages.contains(&language.trim()));
            self.inputs.extend(
                blocks.filter(|(_, block)| wanted(block)).map(|(_, block)| block.as_bytes().to_vec()),
            );
        }
        if self.inputs.len() == before {
            return Err(io::Error::other(format!("no blocks {languages:?} in the documentation")));
        }
        Ok(self)
    }

    /// Adds the property names and the enumerated words of a JSON Schema to the dictionary.
    pub(crate) fn schema(mut self, name: &str) -> io::Result<Self> {
        let text = fs::read(root().join("schemas").join(name))?;
        let schema: Value = serde_json::from_slice(&text)?;
        schema_words(&schema, &mut self.extra_words);
        Ok(self)
    }

    /// Returns the dictionary: the words of all seeds, and those of the schemas.
    pub(crate) fn words(&self) -> Vec<Vec<u8>> {
        let mut words = self.extra_words.clone();
        for input in &self.inputs {
            let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./$@".contains(&byte);
            for word in input.split(|byte| !is_word(*byte)).chain(input.split(|byte| *byte == b'"')) {
                if (1..=40).contains(&word.len()) && words.len() < MAX_WORDS {
                    words.insert(word.to_vec());
                }
            }
        }
        words.into_iter().collect()
    }
}

fn collect(directory: &Path, suffix: &str, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?;
    // The order decides which input a seed number stands for.
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(&path, suffix, found)?;
        } else if path.to_string_lossy().ends_with(suffix) {
            found.push(path);
        }
    }
    Ok(())
}

fn schema_words(schema: &Value, words: &mut BTreeSet<Vec<u8>>) {
    match schema {
        Value::Object(map) => {
            for (key, value) in map {
                match (key.as_str(), value) {
                    ("properties", Value::Object(fields)) => {
                        words.extend(fields.keys().map(|name| name.as_bytes().to_vec()));
                    }
                    ("enum", Value::Array(known)) => {
                        words
                            .extend(known.iter().filter_map(|word| Some(word.as_str()?.as_bytes().to_vec())));
                    }
                    ("const", Value::String(word)) => {
                        words.insert(word.as_bytes().to_vec());
                    }
                    _ => {}
                }
                schema_words(value, words);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| schema_words(item, words)),
        _ => {}
    }
}
