//! `$ref` to other files in a header's schemas: what they say is put in its place, so that a model and a validator get one piece.

use serde_json::Value;

use crate::loader::{Loader, beside};
use crate::template::MAX_BYTES;

/// How deep references may lead.
const MAX_DEPTH: usize = 50;
/// How many there may be in all; without a limit a few small files could be read millions of times.
const MAX_REFERENCES: usize = 1_000;

/// The same schema with every file that it refers to in its place.
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
    /// `whole` is the document that a value is part of, if that is another file: its own references are resolved as well,
    /// because they would mean something else where it is put.
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
        let other = if path.is_empty() { file.to_owned() } else { beside(file, path)? };
        let name = format!("{other}#{pointer}");
        if self.open.contains(&name) {
            return Err(format!(
                "references in a circle: `{}`",
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
            return Err(format!("expected a file whose name ends with `.json`: `{path}`"));
        }
        let text =
            self.loader.load_dataset(path).map_err(|reason| format!("can't read `{path}`: {reason}"))?;
        if text.len() > MAX_BYTES {
            return Err(format!("`{path}` has {} bytes, at most {MAX_BYTES} are possible", text.len()));
        }
        serde_json::from_str(&text).map_err(|error| format!("`{path}` is not JSON: {error}"))
    }
}
