//! Checks the XML against the schema used by Jenkins and GitLab, written down here,
//! with a strict parser for the subset of XML in use.

use std::collections::BTreeMap;

use crate::{hostile, report};

#[derive(Debug, Default)]
struct Element {
    name: String,
    attributes: BTreeMap<String, String>,
    children: Vec<Element>,
    text: String,
}

impl Element {
    fn number(&self, name: &str) -> usize {
        self.attributes[name].parse().unwrap_or_else(|_| panic!("{name}: {:?}", self.attributes))
    }

    fn all<'a>(&'a self, name: &str, found: &mut Vec<&'a Element>) {
        for child in &self.children {
            if child.name == name {
                found.push(child);
            }
            child.all(name, found);
        }
    }
}

/// Parses one element; panics if it is not well-formed.
fn element(text: &mut &str) -> Element {
    let rest = text.strip_prefix('<').unwrap_or_else(|| panic!("no tag: {}", &text[..text.len().min(80)]));
    let end = rest.find('>').unwrap();
    let (inside, after) = (&rest[..end], &rest[end + 1..]);
    *text = after;
    let (inside, closed) = inside.strip_suffix('/').map_or((inside, false), |inside| (inside, true));
    let mut parts = inside.splitn(2, ' ');
    let mut found = Element { name: parts.next().unwrap().to_owned(), ..Element::default() };
    let mut rest = parts.next().unwrap_or_default();
    while let Some((name, value)) = rest.split_once("=\"") {
        let (value, after) = value.split_once('"').unwrap();
        let known = found.attributes.insert(name.trim().to_owned(), unescape(value));
        assert!(known.is_none(), "{name} is there twice");
        rest = after;
    }
    assert!(rest.trim().is_empty(), "{inside}");
    loop {
        if closed {
            break;
        }
        let at = text.find('<').unwrap();
        found.text.push_str(&unescape(&text[..at]));
        *text = &text[at..];
        if let Some(rest) = text.strip_prefix("</") {
            let (name, after) = rest.split_once('>').unwrap();
            assert_eq!(name, found.name);
            *text = after;
            break;
        }
        found.children.push(element(text));
    }
    found
}

fn unescape(text: &str) -> String {
    assert!(!text.contains(['<', '>']), "{text}");
    for part in text.split('&').skip(1) {
        let entity = part.split(';').next().unwrap();
        assert!(["amp", "lt", "gt", "quot", "#39"].contains(&entity), "&{entity};");
    }
    assert!(text.chars().all(|c| c >= ' ' || matches!(c, '\n' | '\t' | '\r')), "{text:?}");
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&amp;", "&")
}

fn check(xml: &str) -> Element {
    let mut rest = xml.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n").unwrap();
    let root = element(&mut rest);
    assert_eq!(rest, "\n");
    rules(&root, "");
    root
}

/// Checks attributes and children of an element and their order.
fn rules(element: &Element, parent: &str) {
    let (parents, attributes, children): (&[&str], &[&str], &[&str]) = match element.name.as_str() {
        "testsuites" => (&[""], &["name", "tests", "failures", "errors", "time"], &["testsuite"]),
        "testsuite" => (
            &["testsuites"],
            &["name", "timestamp", "tests", "failures", "errors", "skipped", "time"],
            &["properties", "testcase"],
        ),
        "testcase" => {
            (&["testsuite"], &["name", "classname", "time"], &["skipped", "error", "failure", "system-out"])
        }
        "properties" => (&["testsuite"], &[], &["property"]),
        "property" => (&["properties"], &["name", "value"], &[]),
        "failure" | "error" => (&["testcase"], &["message", "type"], &[]),
        "skipped" => (&["testcase"], &["message"], &[]),
        "system-out" => (&["testcase"], &[], &[]),
        other => panic!("nobody knows <{other}>"),
    };
    assert!(parents.contains(&parent), "<{}> in <{parent}>", element.name);
    for name in element.attributes.keys() {
        assert!(attributes.contains(&name.as_str()), "{name} of <{}>", element.name);
    }
    let places: Vec<usize> = element
        .children
        .iter()
        .map(|child| {
            children.iter().position(|name| *name == child.name).unwrap_or_else(|| panic!("{}", child.name))
        })
        .collect();
    assert!(places.is_sorted(), "the children of <{}> are out of order", element.name);
    if matches!(element.name.as_str(), "testsuites" | "testsuite") {
        let count = |name: &str| {
            let mut found = Vec::new();
            element.all(name, &mut found);
            found.len()
        };
        assert_eq!(element.number("tests"), count("testcase"));
        assert_eq!(element.number("failures"), count("failure"));
        assert_eq!(element.number("errors"), count("error"));
        assert!(element.attributes["time"].parse::<f64>().is_ok());
    }
    if element.name == "testsuite" {
        let skipped =
            element.children.iter().flat_map(|case| &case.children).filter(|one| one.name == "skipped");
        assert_eq!(element.number("skipped"), skipped.count());
        assert_eq!(element.attributes["timestamp"].len(), "2026-11-15T00:00:00".len());
    }
    if element.name == "testcase" {
        let verdicts = ["failure", "error", "skipped"];
        let said = element.children.iter().filter(|child| verdicts.contains(&child.name.as_str())).count();
        assert!(said <= 1, "a test has one verdict");
        assert!(!element.attributes["name"].is_empty() && !element.attributes["classname"].is_empty());
    }
    element.children.iter().for_each(|child| rules(child, &element.name));
}

#[test]
fn junit_matches_the_schemas_of_ci_systems() {
    for run in [yb_testkit::RecordedRun::example(), hostile()] {
        let (_root, report) = report(&run);
        let root = check(&yb_report::junit(&report));
        assert_eq!(root.children.len(), 3, "a suite for each variant");
        assert_eq!(root.number("tests"), run.trials());
        assert!(root.number("failures") > 0);
        let mut said = Vec::new();
        root.all("system-out", &mut said);
        assert!(said.iter().all(|one| one.text.contains("artifacts: ")));
    }
}
