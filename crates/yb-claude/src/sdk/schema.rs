//! JSON Schemas of Rust types, in the dialect that the CLI accepts and without names that only Rust knows.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// Formats that schemars derives from number types, such as `uint32`; JSON Schema does not define them.
const NUMBER_FORMATS: [&str; 14] = [
    "int", "int8", "int16", "int32", "int64", "int128", "uint", "uint8", "uint16", "uint32", "uint64",
    "uint128", "float", "double",
];
/// Where draft 7 keeps the schemas of recursive types.
const DEFINITIONS: &str = "definitions";

/// Returns the inlined schema of a type, without `$schema`: the CLI ignores a schema with schemars' dialect.
pub(super) fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    remove_type_title(&mut schema, &T::schema_name());
    rename_definitions(&mut schema);
    walk(&mut schema, &mut |map| {
        if map.get("format").and_then(Value::as_str).is_some_and(|format| NUMBER_FORMATS.contains(&format)) {
            map.remove("format");
        }
    });
    schema
}

/// Removes a title that is the name of the type.
fn remove_type_title(schema: &mut Value, type_name: &str) {
    if let Some(map) = schema.as_object_mut()
        && map.get("title").and_then(Value::as_str) == Some(type_name)
    {
        map.remove("title");
    }
}

/// Numbers the definitions of recursive types, which are named after the types.
fn rename_definitions(schema: &mut Value) {
    let Some(Value::Object(definitions)) = schema.get_mut(DEFINITIONS) else { return };
    let mut names = BTreeMap::new();
    let renamed = std::mem::take(definitions).into_iter().enumerate().map(|(at, (name, mut definition))| {
        let number = format!("schema{}", at + 1);
        remove_type_title(&mut definition, &name);
        names.insert(format!("#/{DEFINITIONS}/{name}"), format!("#/{DEFINITIONS}/{number}"));
        (number, definition)
    });
    *definitions = renamed.collect();
    walk(schema, &mut |map| {
        if let Some(Value::String(reference)) = map.get_mut("$ref")
            && let Some(name) = names.get(reference)
        {
            reference.clone_from(name);
        }
    });
}

fn walk(schema: &mut Value, visit: &mut impl FnMut(&mut serde_json::Map<String, Value>)) {
    match schema {
        Value::Object(map) => {
            visit(map);
            map.values_mut().for_each(|value| walk(value, visit));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| walk(value, visit)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct TreeNode {
        /// Its name.
        name: String,
        size: u32,
        kind: NodeKind,
        children: Vec<TreeNode>,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    enum NodeKind {
        Leaf,
        Branch { weight: f64, below: Option<Box<NodeKind>> },
    }

    #[test]
    fn schema_has_no_rust_type_names() {
        let schema = schema_of::<TreeNode>();
        let text = schema.to_string();
        for name in ["TreeNode", "NodeKind", "uint32", "double", "alloc", "::"] {
            assert!(!text.contains(name), "{name}: {text}");
        }
        assert!(text.contains("Its name."), "{text}");
        let mut references = 0;
        walk(&mut schema.clone(), &mut |map| {
            if let Some(reference) = map.get("$ref") {
                let pointer = reference.as_str().unwrap().strip_prefix('#').unwrap();
                assert!(schema.pointer(pointer).is_some(), "{reference} in {schema}");
                references += 1;
            }
        });
        assert!(references >= 2, "{text}");
    }

    #[test]
    fn explicit_titles_are_kept() {
        #[derive(JsonSchema)]
        #[schemars(title = "A town")]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Town {
            #[schemars(title = "Its name")]
            name: String,
        }
        let schema = schema_of::<Town>();
        assert_eq!(schema["title"], json!("A town"));
        assert_eq!(schema["properties"]["name"]["title"], json!("Its name"));
    }
}
