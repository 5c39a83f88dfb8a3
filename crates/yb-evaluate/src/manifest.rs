//! Manifests are both a list of packages, which an agent may have to change, and the settings of test runners, which it
//! must not: the agent's file is graded with the keys of the runners as at the start.

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use toml_edit::{DocumentMut, Item, Table, TableLike};

use super::runner_rules::{MANIFESTS, ManifestRule, ManifestSyntax};

/// The largest manifest that is merged; the start's version replaces a larger one.
pub(crate) const MAX_MANIFEST_BYTES: u64 = 1 << 20;

/// A manifest of the agent with keys as at the start.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MergedManifest {
    pub(crate) content: Vec<u8>,
    /// The keys that were put back, such as `scripts.test`; empty if the agent changed none.
    pub(crate) keys: Vec<String>,
}

type Keys<'a> = Vec<&'a [&'static str]>;

/// Returns the rule for a path, if it is a manifest.
pub(crate) fn rule_for(path: &[u8]) -> Option<&'static ManifestRule> {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    MANIFESTS.iter().find(|rule| rule.name.as_bytes() == name)
}

/// Merges the agent's manifest with that of the start tree, if there is one. `None` if one of them can't be parsed.
pub(crate) fn merge(rule: &ManifestRule, start: Option<&[u8]>, end: &[u8]) -> Option<MergedManifest> {
    let (start, text) = (start.map(std::str::from_utf8).transpose().ok()?, std::str::from_utf8(end).ok()?);
    let keys: Keys<'_> = rule.keys.to_vec();
    let mut changed = Vec::new();
    let merged = match rule.syntax {
        ManifestSyntax::Json => {
            let start: Entries =
                start.map_or(Some(Entries::default()), |text| serde_json::from_str(text).ok())?;
            let mut end: Entries = serde_json::from_str(text).ok()?;
            merge_json(&keys, &start, &mut end, "", &mut changed)?;
            serde_json::to_string_pretty(&end).ok()? + "\n"
        }
        ManifestSyntax::Toml => {
            let start: DocumentMut = start.unwrap_or_default().parse().ok()?;
            let mut end: DocumentMut = text.parse().ok()?;
            merge_toml(&keys, Some(start.as_table()), end.as_table_mut(), "", &mut changed);
            let merged = end.to_string();
            // Tables of two documents are combined: check that the result is what was meant.
            let mut again: DocumentMut = merged.parse().ok()?;
            let mut differences = Vec::new();
            merge_toml(&keys, Some(start.as_table()), again.as_table_mut(), "", &mut differences);
            differences.is_empty().then_some(merged)?
        }
    };
    changed.sort();
    let content = if changed.is_empty() { end.to_vec() } else { merged.into_bytes() };
    Some(MergedManifest { content, keys: changed })
}

/// Returns whether a manifest has keys that steer a test runner.
pub(crate) fn steers_a_runner(rule: &ManifestRule, content: &[u8]) -> bool {
    let empty: &[u8] = match rule.syntax {
        ManifestSyntax::Json => b"{}",
        ManifestSyntax::Toml => b"",
    };
    merge(rule, Some(content), empty).is_none_or(|merged| !merged.keys.is_empty())
}

/// Returns whether a key matches a pattern, in which `*` stands for any characters.
fn matches(pattern: &str, key: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(_), Some(_)) => key.contains(pattern.trim_matches('*')),
        (Some(end), None) => key.ends_with(end),
        (None, Some(start)) => key.starts_with(start),
        (None, None) => key == pattern,
    }
}

fn dotted(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}

/// Splits key paths into those that end here and those that lead further, by their first key.
fn split<'a>(keys: &[&'a [&'static str]]) -> (Vec<&'static str>, Vec<(&'static str, Keys<'a>)>) {
    let mut here = Vec::new();
    let mut below: Vec<(&'static str, Keys<'a>)> = Vec::new();
    for path in keys {
        match path {
            [] => {}
            [last] => here.push(*last),
            [first, rest @ ..] => match below.iter_mut().find(|(key, _)| key == first) {
                Some((_, paths)) => paths.push(rest),
                None => below.push((*first, vec![rest])),
            },
        }
    }
    (here, below)
}

/// An object of JSON in its order, which is significant in `exports` of a `package.json`.
#[derive(Debug, Default)]
struct Entries(Vec<(String, Box<RawValue>)>);

impl Entries {
    fn get(&self, key: &str) -> Option<&RawValue> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| &**value)
    }

    fn set(&mut self, key: &str, value: Option<Box<RawValue>>) {
        match (self.0.iter().position(|(known, _)| known == key), value) {
            (Some(at), Some(value)) => self.0[at].1 = value,
            (Some(at), None) => drop(self.0.remove(at)),
            (None, Some(value)) => self.0.push((key.to_owned(), value)),
            (None, None) => {}
        }
    }

    fn names<'a>(&'a self, other: &'a Self, pattern: &str) -> Vec<String> {
        let all = self.0.iter().chain(&other.0).map(|(key, _)| key);
        let mut names: Vec<String> = all.filter(|key| matches(pattern, key)).cloned().collect();
        names.sort();
        names.dedup();
        names
    }
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;
        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Entries::default();
                // Of a duplicate key the last one counts, as in Node.js.
                while let Some((key, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    entries.set(&key, Some(value));
                }
                Ok(entries)
            }
        }
        deserializer.deserialize_map(EntriesVisitor)
    }
}

impl Serialize for Entries {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

fn merge_json(
    keys: &[&[&'static str]],
    start: &Entries,
    end: &mut Entries,
    prefix: &str,
    changed: &mut Vec<String>,
) -> Option<()> {
    let parsed = |raw: Option<&RawValue>| raw.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok());
    let (here, below) = split(keys);
    let names: Vec<String> = here.iter().flat_map(|pattern| end.names(start, pattern)).collect();
    for name in names {
        if parsed(start.get(&name)) != parsed(end.get(&name)) {
            end.set(&name, start.get(&name).map(ToOwned::to_owned));
            changed.push(dotted(prefix, &name));
        }
    }
    for (key, rest) in below {
        let entries = |raw: Option<&RawValue>| {
            raw.and_then(|raw| serde_json::from_str::<Entries>(raw.get()).ok()).unwrap_or_default()
        };
        let mut inner = entries(end.get(key));
        let before = changed.len();
        merge_json(&rest, &entries(start.get(key)), &mut inner, &dotted(prefix, key), changed)?;
        if changed.len() > before {
            end.set(key, Some(serde_json::value::to_raw_value(&inner).ok()?));
        }
    }
    Some(())
}

fn merge_toml(
    keys: &[&[&'static str]],
    start: Option<&dyn TableLike>,
    end: &mut dyn TableLike,
    prefix: &str,
    changed: &mut Vec<String>,
) {
    let (here, below) = split(keys);
    for pattern in here {
        let names = |table: &dyn TableLike| -> Vec<String> {
            table.iter().map(|(key, _)| key.to_owned()).filter(|key| matches(pattern, key)).collect()
        };
        let mut all = names(end);
        all.extend(start.map(names).unwrap_or_default());
        all.sort();
        all.dedup();
        for name in all {
            let original = start.and_then(|table| table.get(&name)).filter(|item| !item.is_none());
            if original.map(to_json) == end.get(&name).filter(|item| !item.is_none()).map(to_json) {
                continue;
            }
            match original {
                Some(item) => drop(end.insert(&name, item.clone())),
                None => drop(end.remove(&name)),
            }
            changed.push(dotted(prefix, &name));
        }
    }
    for (key, rest) in below {
        let (original, path) = (start.and_then(|table| table.get(key)), dotted(prefix, key));
        let original_table = original.and_then(Item::as_table_like);
        match end.get_mut(key) {
            Some(Item::ArrayOfTables(tables)) => {
                for table in tables.iter_mut() {
                    let name = table.get("name").map(to_json);
                    let mut known = original.and_then(Item::as_array_of_tables).into_iter().flatten();
                    let known = known.find(|known| known.get("name").map(to_json) == name);
                    merge_toml(&rest, known.map(|table| table as &dyn TableLike), table, &path, changed);
                }
            }
            Some(item) if item.is_table_like() => {
                if let Some(table) = item.as_table_like_mut() {
                    merge_toml(&rest, original_table, table, &path, changed);
                }
            }
            // An array of inline tables, or no table at all: the whole value is as at the start.
            Some(item) if !item.is_none() => {
                if original.map(to_json).as_ref() != Some(&to_json(item)) {
                    match original {
                        Some(original) => *item = original.clone(),
                        None => *item = Item::None,
                    }
                    changed.push(path);
                }
            }
            _ => {
                let mut table = Table::new();
                table.set_implicit(true);
                merge_toml(&rest, original_table, &mut table, &path, changed);
                if !table.is_empty() {
                    end.insert(key, Item::Table(table));
                }
            }
        }
    }
}

/// Converts an item for a comparison without its formatting.
fn to_json(item: &Item) -> Value {
    fn of_value(value: &toml_edit::Value) -> Value {
        match value {
            toml_edit::Value::String(text) => Value::from(text.value().as_str()),
            toml_edit::Value::Integer(number) => Value::from(*number.value()),
            toml_edit::Value::Float(number) => Value::from(*number.value()),
            toml_edit::Value::Boolean(flag) => Value::from(*flag.value()),
            toml_edit::Value::Datetime(time) => Value::from(time.value().to_string()),
            toml_edit::Value::Array(items) => items.iter().map(of_value).collect(),
            toml_edit::Value::InlineTable(table) => of_table(table),
        }
    }
    fn of_table(table: &dyn TableLike) -> Value {
        let entries = table.iter().map(|(key, item)| (key.to_owned(), to_json(item)));
        Value::Object(entries.collect())
    }
    match item {
        Item::None => Value::Null,
        Item::Value(value) => of_value(value),
        Item::Table(table) => of_table(table),
        Item::ArrayOfTables(tables) => tables.iter().map(|table| of_table(table)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, start: Option<&str>, end: &str, expected: &str, keys: &[&str]) {
        let merged = merge(rule_for(name.as_bytes()).unwrap(), start.map(str::as_bytes), end.as_bytes());
        let merged = merged.unwrap();
        assert_eq!(merged.keys, keys, "{name}");
        assert_eq!(String::from_utf8(merged.content).unwrap().trim(), expected.trim(), "{name}");
    }

    #[test]
    fn package_json_keeps_dependencies_and_loses_runner_keys() {
        let start = r#"{"name":"x","scripts":{"test":"jest","build":"tsc"},"jest":{"bail":1}}"#;
        let end = r#"{"name":"x","exports":{"import":"./a.mjs","default":"./a.js"},"scripts":{"test":"true","pretest":"evil","build":"vite"},
            "jest":{"setupFiles":["./evil.js"]},"babel":{"plugins":["./evil.js"]},"dependencies":{"y":"1"}}"#;
        let expected = "{\n  \"name\": \"x\",\n  \"exports\": {\"import\":\"./a.mjs\",\"default\":\"./a.js\"},\n  \"scripts\": {\"test\":\"jest\",\"build\":\"vite\"},\n  \"jest\": {\"bail\":1},\n  \"dependencies\": {\"y\":\"1\"}\n}";
        check(
            "package.json",
            Some(start),
            end,
            expected,
            &["babel", "jest", "scripts.pretest", "scripts.test"],
        );
        let honest = r#"{ "name": "x", "scripts": { "build": "vite", "test": "jest" }, "jest": { "bail": 1 }, "dependencies": {} }"#;
        check("a/package.json", Some(start), honest, honest, &[]);
        check(
            "package.json",
            None,
            r#"{"scripts":{"test":"true"}}"#,
            "{\n  \"scripts\": {}\n}",
            &["scripts.test"],
        );
        check(
            "package.json",
            Some(start),
            r#"{"scripts":"x"}"#,
            "{\n  \"scripts\": {\"test\":\"jest\"},\n  \"jest\": {\"bail\":1}\n}",
            &["jest", "scripts.test"],
        );
    }

    #[test]
    fn toml_keeps_dependencies_and_loses_runner_keys() {
        let start = "[project]\nname = \"x\"\n\n[tool.pytest.ini_options]\ntestpaths = [\"tests\"]\n";
        let end = "[project]\nname = \"x\"\ndependencies = [\"y\"]\n\n[tool.pytest.ini_options]\naddopts = \"-p evil\"\n\n[tool.ruff]\nline-length = 100\n";
        let expected = "[project]\nname = \"x\"\ndependencies = [\"y\"]\n\n[tool.pytest.ini_options]\ntestpaths = [\"tests\"]\n\n[tool.ruff]\nline-length = 100\n";
        check("pyproject.toml", Some(start), end, expected, &["tool.pytest"]);
        check(
            "pyproject.toml",
            None,
            "[tool.pytest.ini_options]\naddopts = \"-p evil\"\n",
            "",
            &["tool.pytest"],
        );
        check(
            "pyproject.toml",
            None,
            "tool.pytest.ini_options.addopts = \"-p evil\"\n",
            "",
            &["tool.pytest"],
        );
        check(
            "pyproject.toml",
            None,
            "tool = { pytest = { ini_options = { addopts = \"-p evil\" } }, x = 1 }\n",
            "tool = { x = 1 }",
            &["tool.pytest"],
        );
        check(
            "pyproject.toml",
            Some(start),
            "[project]\nname = \"y\"\n",
            "[project]\nname = \"y\"\n\n[tool.pytest.ini_options]\ntestpaths = [\"tests\"]\n",
            &["tool.pytest"],
        );
        let cargo = "[package]\nname = \"x\"\n\n[lib]\nharness = false\npath = \"a.rs\"\n\n[[test]]\nname = \"hidden\"\npath = \"evil.rs\"\n\n[[bin]]\nname = \"b\"\ntest = false\n";
        check(
            "Cargo.toml",
            Some("[package]\nname = \"x\"\n"),
            cargo,
            "[package]\nname = \"x\"\n\n[lib]\npath = \"a.rs\"\n\n[[bin]]\nname = \"b\"\n",
            &["bin.test", "lib.harness", "test"],
        );
    }

    #[test]
    fn unreadable_manifest_is_not_merged() {
        let rule = |name: &str| rule_for(name.as_bytes()).unwrap();
        assert_eq!(merge(rule("package.json"), None, b"{"), None);
        assert_eq!(merge(rule("package.json"), None, b"[]"), None);
        assert_eq!(merge(rule("pyproject.toml"), None, b"\xff"), None);
        assert_eq!(rule_for(b"a/package.json.txt").map(|rule| rule.name), None);
        assert!(steers_a_runner(rule("package.json"), br#"{"jest":{}}"#));
        assert!(!steers_a_runner(rule("package.json"), br#"{"name":"x"}"#));
        assert!(steers_a_runner(rule("pyproject.toml"), b"[tool.pytest]\nx = 1\n"));
        assert!(!steers_a_runner(rule("pyproject.toml"), b"[tool.ruff]\nx = 1\n"));
    }
}
