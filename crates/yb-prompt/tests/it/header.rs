//! Headers, props and datasets.

use serde_json::json;
use yb_prompt::{ClientConfig, FileLoader, MemoryLoader, Prompt, PromptError, create_client};

fn load(text: &str) -> Result<Prompt, PromptError> {
    Prompt::load("p.prompt.mdx", &MemoryLoader::new().with("p.prompt.mdx", text))
}

fn load_error(header: &str) -> String {
    let error = load(&format!("---\n{header}---\n<User>x</User>\n")).unwrap_err();
    let hints: String = error.hints().iter().map(|hint| format!(" ({hint})")).collect();
    format!("{error}{hints}")
}

#[test]
fn header_errors_have_a_location() {
    for (header, expected) in [
        (
            "",
            "p.prompt.mdx:2:1: expected one of `text_config`, `object_config`, `image_config` and `speech_config`",
        ),
        (
            "text_confg: {}\n",
            "p.prompt.mdx:2:1: unknown key in the header: `text_confg` (did you mean `text_config`?)",
        ),
        (
            "text_config: { model_name: m }\nimage_config: { model_name: m }\n",
            "p.prompt.mdx:2:1: more than one kind of prompt: `text_config`, `image_config`",
        ),
        ("text_config: 3\n", "p.prompt.mdx:2:14: `text_config`: expected a mapping with `model_name`"),
        (
            "object_config: { model_name: m }\n",
            "p.prompt.mdx:2:16: missing `schema`: the JSON Schema of the object",
        ),
        (
            "text_config: { model_name: m, tools: 1 }\n",
            "p.prompt.mdx:2:38: `tools`: expected tools by name, or a list of names",
        ),
        (
            "text_config: { model_name: m, tools: [1] }\n",
            "p.prompt.mdx:2:39: `tools`: expected the name of a tool",
        ),
        (
            "text_config: { model_name: m }\ntest_settings: { score_thresholds: { x: 2 } }\n",
            "p.prompt.mdx:3:41: `score_thresholds`: expected a number from 0 to 1",
        ),
        (
            "text_config: { model_name: m }\ntest_settings: { evals: x }\n",
            "p.prompt.mdx:3:25: `evals`: expected a list of names",
        ),
    ] {
        assert_eq!(load_error(header), expected, "{header}");
    }
    assert!(load_error("a: [\n").starts_with("p.prompt.mdx:2:"), "{}", load_error("a: [\n"));
    assert_eq!(
        load_error("a: 1\na: 2\n"),
        "p.prompt.mdx:3:1: key given twice: `a` (the first one is at line 2, column 1; remove one of them)"
    );
    assert_eq!(
        load_error("name: {{x}}\n"),
        "p.prompt.mdx:2:8: a list or mapping used as a key; expected a name (put a value that starts with `{{` in double quotes)"
    );
    let none = load("<User>x</User>").unwrap_err().to_string();
    assert_eq!(none, "p.prompt.mdx:1:1: expected a header");
}

#[test]
fn props_are_validated_against_the_input_schema() {
    let header = "text_config: { model_name: m }\ninput_schema:\n  type: object\n  properties: { n: { type: integer } }\n  required: [n]\n";
    let prompt = load(&format!("---\n{header}---\n<User>{{props.n}}</User>\n")).unwrap();
    assert!(prompt.render(&json!({"n": 1})).is_ok());
    for (props, expected) in [
        (
            json!({"n": "x"}),
            "props do not match `input_schema` of `p`: `/n`: \"x\" is not of type \"integer\"",
        ),
        (json!({}), "props do not match `input_schema` of `p`: \"n\" is a required property"),
        (json!([1]), "props do not match `input_schema` of `p`: expected an object"),
    ] {
        assert_eq!(prompt.render(&props).unwrap_err().to_string(), expected);
    }
}

#[test]
fn schema_references_to_files_are_inlined() {
    let header = "object_config: { model_name: m, schema: { $ref: '../schemas/all.json' } }\n";
    let file = format!("---\n{header}---\n<User>x</User>\n");
    let with = |all: &str| {
        let loader = MemoryLoader::new()
            .with("p/a.prompt.mdx", file.as_str())
            .with("schemas/all.json", all)
            .with("schemas/town.json", r##"{"$ref": "#/$defs/name", "$defs": {"name": {"type": "string"}}}"##)
            .with("schemas/circle.json", r#"{"items": {"$ref": "circle.json"}}"#);
        let client = create_client(ClientConfig::new().with_loader(loader));
        let prompt = client.load_object_prompt("p/a.prompt.mdx").map_err(|error| error.to_string())?;
        let params = prompt.format::<serde_json::Value>(&json!({})).map_err(|error| error.to_string())?;
        Ok::<_, String>(params.options.to_json()["outputFormat"]["schema"].clone())
    };
    let all = r#"{"type": "object", "properties": {"town": {"$ref": "town.json"}, "other": {"$ref": "town.json#/$defs/name"}}}"#;
    let text = json!({"type": "string"});
    assert_eq!(with(all), Ok(json!({"type": "object", "properties": {"town": text, "other": text}})));
    for (all, expected) in [
        (
            r#"{"$ref": "circle.json"}"#,
            "p/a.prompt.mdx:2:41: `schema`: circular reference: `schemas/all.json#` → `schemas/circle.json#` → `schemas/circle.json#`",
        ),
        (
            r#"{"$ref": "gone.json"}"#,
            "p/a.prompt.mdx:2:41: `schema`: failed to read `schemas/gone.json`: no such file",
        ),
        (r#"{"$ref": "town.json#/no"}"#, "p/a.prompt.mdx:2:41: `schema`: `schemas/town.json` has no `/no`"),
        (
            r#"{"$ref": "/etc/passwd"}"#,
            "p/a.prompt.mdx:2:41: `schema`: expected a relative path with `/` separators",
        ),
        (
            "nope",
            "p/a.prompt.mdx:2:41: `schema`: invalid JSON in `schemas/all.json`: expected ident at line 1 column 2",
        ),
    ] {
        assert_eq!(with(all), Err(expected.to_owned()));
    }
}

#[test]
fn dataset_has_one_row_per_line() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    write(
        "a.prompt.mdx",
        "---\nobject_config: { model_name: m, schema: { type: object } }\ntest_settings:\n  props: { n: 7 }\n  dataset: ./data/rows.jsonl\n  evals: [equals]\n  score_thresholds: { equals: 0.9 }\n  regression_tolerance: 0.1\n  experiment_key: main\n---\n<User>{props.n}</User>\n",
    );
    write(
        "data/rows.jsonl",
        "{\"input\": {\"n\": 1}, \"expected_output\": {\"x\": 1}}\n\n{\"input\": {\"n\": 2}}\n",
    );
    let client = create_client(ClientConfig::new().with_loader(FileLoader::new(folder.path())));
    let prompt = client.load_object_prompt("a.prompt.mdx").unwrap();
    assert_eq!(prompt.prompt().name(), "a");
    assert_eq!(prompt.format_with_test_props::<serde_json::Value>().unwrap().prompt, "7");
    let rows = prompt.format_with_dataset::<serde_json::Value>().unwrap();
    let rows: Vec<_> =
        rows.into_iter().map(|(row, params)| (row.line, row.expected_output, params.prompt)).collect();
    assert_eq!(rows, [(1, Some(json!({"x": 1})), "1".to_owned()), (3, None, "2".to_owned())]);
    for (line, expected) in [
        ("nope", "data/rows.jsonl:1:2: invalid JSON: expected ident at line 1 column 2"),
        ("[]", "data/rows.jsonl:1:1: expected an object"),
        ("{\"input\": 1}", "data/rows.jsonl:1:1: expected an object: `input`"),
    ] {
        write("data/rows.jsonl", line);
        let error = prompt.format_with_dataset::<serde_json::Value>().unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    assert!(client.load_prompt("data/rows.jsonl").is_err());
}

#[test]
fn comments_may_precede_the_header() {
    let text = "{/* one\n two */}\n\n{/* three */}\n---\nname: p\ntext_config: { model_name: m }\n---\n<User>Hi.</User>\n";
    assert_eq!(load(text).unwrap().name(), "p");
    // Positions are those of the file.
    let error = load(&text.replace("name: p", "nam: p")).unwrap_err().to_string();
    assert!(error.starts_with("p.prompt.mdx:6:1: unknown key in the header: `nam`"), "{error}");
    // An unfinished comment is not skipped.
    let error = load("{/* one\n---\ntext_config: { model_name: m }\n---\n").unwrap_err().to_string();
    assert!(error.contains("expected a header"), "{error}");
}

#[test]
fn scores_are_evals() {
    let text =
        "---\ntext_config: { model_name: m }\ntest_settings: { scores: [equals] }\n---\n<User>Hi.</User>\n";
    assert_eq!(load(text).unwrap().test_settings().evals, ["equals"]);
}
