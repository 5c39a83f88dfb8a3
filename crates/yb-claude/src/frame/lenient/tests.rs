use super::*;

lenient_struct! {
    /// A struct for the tests.
    struct Sample {
        /// A string.
        text: Option<String> = "text",
        /// A number.
        number: u64 = "number",
        /// A list of strings.
        list: Vec<String> = "list",
        /// Any value.
        any: Option<RawJson> = "any",
        /// A map.
        map: BTreeMap<String, f64> = "map",
    }
}

fn read(json: &str) -> Sample {
    let source = SourceText::new(json);
    let mut input = serde_json::Deserializer::from_str(source.text());
    let value = Sample::read(&mut input, &source).expect("lenient deserialization never fails on shape");
    input.end().expect("all input is consumed");
    value.unwrap_or_default()
}

#[test]
fn fields_are_read_in_any_order_and_unknown_ones_ignored() {
    let sample =
        read(r#"{"new":{"a":[1]},"number":3,"text":"t\n","list":["a"],"any":{"x":[ ]},"map":{"m":1}}"#);
    assert_eq!(sample.text.as_deref(), Some("t\n"));
    assert_eq!((sample.number, sample.list), (3, vec!["a".to_owned()]));
    assert_eq!(sample.any.unwrap().as_str(), r#"{"x":[ ]}"#);
    assert_eq!(sample.map["m"], 1.0);
}

#[test]
fn field_of_unexpected_type_is_default() {
    for odd in ["null", "true", "-3", "[]", "[[1],{}]", "{}", "{\"a\":{\"b\":[]}}", "\"s\"", "1.5"] {
        let json = format!(r#"{{"text":{odd},"number":{odd},"list":{odd},"any":{odd},"map":{odd},"end":1}}"#);
        let sample = read(&json);
        assert!(sample.text.is_none_or(|text| text == "s"), "{odd}");
        assert!(sample.number == 0 || odd == "1.5", "{odd}");
        assert_eq!(sample.any.is_none(), odd == "null");
    }
    assert_eq!(read("[1]"), Sample::default());
    assert_eq!(read("\"text\""), Sample::default());
}

#[test]
fn elements_of_unexpected_type_are_skipped() {
    assert_eq!(read(r#"{"list":["a",1,null,{"b":2},"c"]}"#).list, ["a", "c"]);
    assert_eq!(read(r#"{"map":{"a":1,"b":"x","c":2.5}}"#).map.len(), 2);
}

#[test]
fn fractions_are_rounded_for_integer_fields() {
    assert_eq!(read(r#"{"number":620.6190184923364}"#).number, 621);
    assert_eq!(read(r#"{"number":-1.5}"#).number, 0);
}
