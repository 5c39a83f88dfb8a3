//! Inlines `$ref`s to other files in the schemas of a header, so that model and validator get a self-contained schema.

use serde_json::Value;

use crate::loader::{Loader, relative_to};
use crate::template::MAX_BYTES;

/// The maximum depth of references.
const MAX_DEPTH: usize = 50;
/// The maximum number of references. Without a limit a few small files could be read millions of times.
const MAX_REFERENCES: usize = 1_000;

/// Returns the schema with all file references inlined.
pub(crate) fn resolve(schema: Value, file: &str, loader: &dyn Loader) -> Result<Value, String> {
    let mut resolver = Resolver { loader, open: Vec::new(), followed: 0 };
    resolver.value(schema, file, None)
}

struct Resolver<'a> {
    loader: &'a dyn Loader,
    open: Vec<String>,
    followed: usize,
}

impl Resolver<'_> {
    /// `whole` is the document of a value from another file. Its local references are inlined too, because they would point
    /// to the wrong document.
    fn value(&mut self, value: Value, file: &str, whole: Option<&Value>) -> Result<Value, String> {
        match value {
            Value::Object(map) => {
                let target = map.get("$ref").and_then(Value::as_str);
                let elsewhere =
                    |target: &&str| !target.contains("://") && (whole.is_some() || !target.starts_with('#'));
                if let Some(target) = target.filter(elsewhere) {
                    return self.follow(target, file, whole);
                }
                let entries = map.into_iter().map(|(key, value)| Ok((key, self.value(value, file, whole)?)));
                Ok(Value::Object(entries.collect::<Result<_, String>>()?))
            }
            Value::Array(items) => {
                let items = items.into_iter().map(|item| self.value(item, file, whole));
                Ok(Value::Array(items.collect::<Result<_, String>>()?))
            }
            other => Ok(other),
        }
    }

    fn follow(&mut self, target: &str, file: &str, whole: Option<&Value>) -> Result<Value, String> {
        let (path, pointer) = target.split_once('#').unwrap_or((target, ""));
        let other = if path.is_empty() { file.to_owned() } else { relative_to(file, path)? };
        let name = format!("{other}#{pointer}");
        if self.open.contains(&name) {
            return Err(format!(
                "circular reference: `{}`",
                [&self.open[..], &[name]].concat().join("` → `")
            ));
        }
        self.followed += 1;
        if self.open.len() >= MAX_DEPTH || self.followed > MAX_REFERENCES {
            return Err(format!(
                "too many references: at most {MAX_DEPTH} deep, {MAX_REFERENCES} in all: `{target}`"
            ));
        }
        let loaded;
        let document = match whole.filter(|_| path.is_empty()) {
            Some(whole) => whole,
            None => {
                loaded = self.load(&other)?;
                &loaded
            }
        };
        let part = document.pointer(pointer).ok_or_else(|| format!("`{other}` has no `{pointer}`"))?.clone();
        self.open.push(name);
        let resolved = self.value(part, &other, Some(document));
        self.open.pop();
        resolved
    }

    fn load(&self, path: &str) -> Result<Value, String> {
        if !path.ends_with(".json") {
            return Err(format!("expected a `.json` file: `{path}`"));
        }
        let text =
            self.loader.load_dataset(path).map_err(|reason| format!("failed to read `{path}`: {reason}"))?;
        if text.len() > MAX_BYTES {
            return Err(format!("file is too large: `{path}`: {} bytes (maximum {MAX_BYTES})", text.len()));
        }
        serde_json::from_str(&text).map_err(|error| format!("invalid JSON in `{path}`: {error}"))
    }
}
