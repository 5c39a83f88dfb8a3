//! Parsers for test reports: JUnit XML, JSON and TAP.

use std::collections::HashMap;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use serde_json::Value;

/// The format of a test report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportFormat {
    /// JUnit XML.
    Junit,
    /// One JSON document, or one JSON object per line.
    Json,
    /// The Test Anything Protocol.
    Tap,
}

/// The outcome of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TestStatus {
    Passed,
    Failed,
    Skipped,
}

/// A test in a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestResult {
    pub(crate) id: String,
    pub(crate) status: TestStatus,
    /// What the runner says about a failure.
    pub(crate) details: String,
}

impl TestResult {
    fn new(id: String, status: TestStatus) -> Self {
        Self { id, status, details: String::new() }
    }

    /// Returns whether an id in a case refers to this test: its whole id, or the part after a `::`, `.` or ` > `.
    pub(crate) fn matches(&self, wanted: &str) -> bool {
        let normal = |text: &str| text.replace("::", ".").replace(" > ", ".");
        let (id, wanted) = (normal(&self.id), normal(wanted));
        id == wanted || id.strip_suffix(&wanted).is_some_and(|rest| rest.ends_with('.'))
    }
}

/// Parses a report; the error says why it is invalid.
pub(crate) fn parse(format: ReportFormat, content: &[u8]) -> Result<Vec<TestResult>, String> {
    match format {
        ReportFormat::Junit => junit(content),
        ReportFormat::Json => json(content),
        ReportFormat::Tap => tap(content),
    }
}

/// `<testcase classname="…" name="…">`, with `<failure>`, `<error>` or `<skipped>` in it if it did not pass.
fn junit(content: &[u8]) -> Result<Vec<TestResult>, String> {
    let mut reader = Reader::from_reader(content);
    let mut tests: Vec<TestResult> = Vec::new();
    let mut inside = false;
    // The message of a failure, while its text is read.
    let mut failure: Option<(String, String)> = None;
    let mut elements = 0_u32;
    loop {
        let event = reader.read_event().map_err(|error| format!("not XML: {error}"))?;
        let is_empty = matches!(event, Event::Empty(_));
        match event {
            Event::Start(element) | Event::Empty(element) if element.local_name().as_ref() == b"testcase" => {
                elements += 1;
                inside = true;
                tests.push(TestResult::new(test_id(&element)?, TestStatus::Passed));
            }
            Event::Start(element) | Event::Empty(element) => {
                elements += 1;
                let status = match element.local_name().as_ref() {
                    b"failure" | b"error" => TestStatus::Failed,
                    b"skipped" => TestStatus::Skipped,
                    _ => continue,
                };
                let Some(test) = tests.last_mut().filter(|test| inside && test.status != TestStatus::Failed)
                else {
                    continue;
                };
                test.status = status;
                if status == TestStatus::Failed {
                    let [message] = attributes(&element, [b"message"])?;
                    if is_empty {
                        test.details = message;
                    } else {
                        failure = Some((message, String::new()));
                    }
                }
            }
            Event::Text(text) => {
                if let Some((_, details)) = &mut failure {
                    details.push_str(&String::from_utf8_lossy(&text));
                }
            }
            Event::CData(text) => {
                if let Some((_, details)) = &mut failure {
                    details.push_str(&String::from_utf8_lossy(&text));
                }
            }
            Event::GeneralRef(name) => {
                if let Some((_, details)) = &mut failure {
                    details.push_str(&unescaped(&format!("&{};", String::from_utf8_lossy(&name))));
                }
            }
            Event::End(element) => match element.local_name().as_ref() {
                b"testcase" => inside = false,
                b"failure" | b"error" => {
                    if let (Some((message, details)), Some(test)) = (failure.take(), tests.last_mut()) {
                        test.details = with_message(&message, details);
                    }
                }
                _ => {}
            },
            Event::Eof if elements == 0 => return Err("no XML elements".to_owned()),
            Event::Eof => return Ok(tests),
            _ => {}
        }
    }
}

/// Puts the message before the details, unless they have it already.
fn with_message(message: &str, details: String) -> String {
    let first = message.trim().lines().next().unwrap_or_default();
    if details.contains(first) { details } else { format!("{}\n{details}", message.trim()) }
}

fn unescaped(text: &str) -> String {
    quick_xml::escape::unescape(text).map_or_else(|_| text.to_owned(), |text| text.into_owned())
}

/// Returns the values of attributes; empty if absent.
fn attributes<const N: usize>(element: &BytesStart<'_>, names: [&[u8]; N]) -> Result<[String; N], String> {
    let mut values = std::array::from_fn(|_| String::new());
    for attribute in element.attributes() {
        let attribute = attribute.map_err(|error| format!("not XML: {error}"))?;
        if let Some(at) = names.iter().position(|name| *name == attribute.key.as_ref()) {
            values[at] = unescaped(&String::from_utf8_lossy(&attribute.value));
        }
    }
    Ok(values)
}

fn test_id(element: &BytesStart<'_>) -> Result<String, String> {
    let [name, class] = attributes(element, [b"name", b"classname"])?;
    Ok(if class.is_empty() { name } else { format!("{class}::{name}") })
}

/// `ok 1 - name # SKIP`, `not ok 2 - name` with comments or a YAML block below.
fn tap(content: &[u8]) -> Result<Vec<TestResult>, String> {
    let text = String::from_utf8_lossy(content);
    let mut tests: Vec<TestResult> = Vec::new();
    let mut in_block = false;
    for whole in text.lines() {
        let line = whole.trim();
        if let Some(test) = tests.last_mut().filter(|test| test.status == TestStatus::Failed) {
            match line {
                "---" => in_block = true,
                "..." => in_block = false,
                _ if in_block => test.details.push_str(&format!("{whole}\n")),
                _ if line.starts_with('#') => test.details.push_str(&format!("{line}\n")),
                _ => {}
            }
        }
        if in_block {
            continue;
        }
        let (passed, rest) = match (line.strip_prefix("not ok"), line.strip_prefix("ok")) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            _ => continue,
        };
        if !(rest.is_empty() || rest.starts_with(' ')) {
            continue;
        }
        let rest = rest.trim_start().trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
        let rest = rest.strip_prefix("- ").unwrap_or(rest);
        let (name, directive) =
            rest.split_once(" # ").or_else(|| rest.split_once("# ")).unwrap_or((rest, ""));
        let directive = directive.to_ascii_lowercase();
        let status = if directive.starts_with("skip") || directive.starts_with("todo") {
            TestStatus::Skipped
        } else if passed {
            TestStatus::Passed
        } else {
            TestStatus::Failed
        };
        tests.push(TestResult::new(name.trim().to_owned(), status));
    }
    if tests.is_empty() && !text.lines().any(|line| line.trim_start().starts_with("1..")) {
        return Err("not TAP: no plan and no test".to_owned());
    }
    Ok(tests)
}

/// Collects every object with a name and a result, at any depth: the reports of pytest, Jest, Vitest and RSpec, and the
/// lines of `go test -json` and libtest.
fn json(content: &[u8]) -> Result<Vec<TestResult>, String> {
    let mut tests = Vec::new();
    match serde_json::from_slice::<Value>(content) {
        Ok(whole) => collect(&whole, &mut tests),
        Err(error) => {
            let lines = String::from_utf8_lossy(content);
            let mut any = false;
            // The output of each test of `go test -json` has lines of its own.
            let mut outputs: HashMap<String, String> = HashMap::new();
            for line in lines.lines().filter(|line| line.trim_start().starts_with('{')) {
                if let Ok(value) = serde_json::from_str::<Value>(line) {
                    any = true;
                    add_output(&value, &mut outputs);
                    collect(&value, &mut tests);
                }
            }
            for test in tests.iter_mut().filter(|test| test.details.is_empty()) {
                test.details = outputs.remove(&test.id).unwrap_or_default();
            }
            if !any {
                return Err(format!("not JSON: {error}"));
            }
        }
    }
    Ok(tests)
}

const NAMES: [&str; 9] =
    ["nodeid", "fullName", "fullTitle", "full_description", "Test", "id", "full_name", "title", "name"];
const RESULTS: [&str; 6] = ["outcome", "status", "state", "result", "Action", "event"];

fn collect(value: &Value, tests: &mut Vec<TestResult>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, tests)),
        Value::Object(map) => {
            let text = |keys: &[&str]| keys.iter().find_map(|key| map.get(*key)?.as_str());
            let status = match text(&RESULTS).unwrap_or_default() {
                "passed" | "pass" | "ok" | "success" => Some(TestStatus::Passed),
                "failed" | "fail" | "error" | "timeout" | "xpassed" => Some(TestStatus::Failed),
                "skipped" | "skip" | "pending" | "ignored" | "todo" | "disabled" | "xfailed" => {
                    Some(TestStatus::Skipped)
                }
                _ => None,
            };
            // An entry for a file in a Jest report has a result too, with the tests below it.
            let below = ["assertionResults", "tests", "testResults", "suites"];
            let is_group = below.iter().any(|key| map.get(*key).is_some_and(Value::is_array));
            if let (Some(status), Some(name), false) = (status, text(&NAMES), is_group) {
                let details = if status == TestStatus::Failed { details(value) } else { String::new() };
                tests.push(TestResult { id: with_package(value, name), status, details });
            } else {
                map.values().for_each(|item| collect(item, tests));
            }
        }
        _ => {}
    }
}

/// Returns the id of a test of Go, or the name of another.
fn with_package(value: &Value, name: &str) -> String {
    value["Package"].as_str().map_or_else(|| name.to_owned(), |package| format!("{package}.{name}"))
}

/// `{"Action": "output", "Package": "p", "Test": "TestA", "Output": "…"}`
fn add_output(value: &Value, outputs: &mut HashMap<String, String>) {
    if let (Some("output"), Some(test), Some(text)) =
        (value["Action"].as_str(), value["Test"].as_str(), value["Output"].as_str())
        && !text.starts_with("=== ")
    {
        outputs.entry(with_package(value, test)).or_default().push_str(text);
    }
}

/// What the runners say about a failure: Jest and Vitest, pytest, Mocha, RSpec, libtest.
fn details(value: &Value) -> String {
    let lists = ["failureMessages"].iter().filter_map(|key| value[key].as_array());
    let listed = lists.flatten().filter_map(Value::as_str).collect::<Vec<_>>().join("\n");
    if !listed.is_empty() {
        return listed;
    }
    let texts = [
        "/longrepr",
        "/call/longrepr",
        "/setup/longrepr",
        "/teardown/longrepr",
        "/call/crash/message",
        "/err/stack",
        "/err/message",
        "/exception/message",
        "/error/message",
        "/stdout",
        "/message",
    ];
    let found = texts.iter().find_map(|place| value.pointer(place)?.as_str());
    let places = value.pointer("/exception/backtrace").and_then(Value::as_array).into_iter().flatten();
    let places = places.filter_map(Value::as_str).take(3);
    let message = value.pointer("/err/message").and_then(Value::as_str).unwrap_or_default();
    let text = found.into_iter().chain(places).collect::<Vec<_>>().join("\n");
    with_message(message, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The details of the only failed test.
    fn details_of(format: ReportFormat, text: &str) -> String {
        let tests = parse(format, text.as_bytes()).expect("a report");
        let failed: Vec<_> = tests.into_iter().filter(|test| test.status == TestStatus::Failed).collect();
        assert_eq!(failed.len(), 1, "{failed:?}");
        failed[0].details.trim().to_owned()
    }

    #[test]
    fn failures_have_the_words_of_their_runner() {
        use ReportFormat::{Json, Junit, Tap};
        for (format, report, expected) in [
            (
                Junit,
                r#"<t><testcase name="a"><failure message="x &lt; y">at a.py:3 &amp; <![CDATA[<b>]]></failure>
                   <system-out>noise</system-out></testcase><testcase name="b"/></t>"#,
                "x < y\nat a.py:3 & <b>",
            ),
            (Junit, r#"<t><testcase name="a"><error message="gone"/></testcase></t>"#, "gone"),
            (
                Junit,
                r#"<t><testcase name="a"><failure message="E 1">E 1\nF</failure></testcase></t>"#,
                r"E 1\nF",
            ),
            (
                Tap,
                "1..2\nnot ok 1 - a\n  ---\n  error: no\n  ...\n# at a.js\nok 2 - b\n# b\n",
                "error: no\n# at a.js",
            ),
            (
                Json,
                r#"{"tests":[{"nodeid":"a","outcome":"failed","call":{"longrepr":"E assert"}}]}"#,
                "E assert",
            ),
            (
                Json,
                r#"{"assertionResults":[{"fullName":"a","status":"failed","failureMessages":["x","y"]}]}"#,
                "x\ny",
            ),
            (
                Json,
                r#"{"failures":[{"fullTitle":"a","status":"failed","err":{"message":"m","stack":"at"}}]}"#,
                "m\nat",
            ),
            (
                Json,
                r#"{"examples":[{"full_description":"a","status":"failed","exception":{"message":"m","backtrace":["b"]}}]}"#,
                "m\nb",
            ),
            (
                Json,
                "{\"type\":\"test\",\"event\":\"failed\",\"name\":\"a\",\"stdout\":\"panicked\"}\n{}",
                "panicked",
            ),
            (
                Json,
                "{\"Action\":\"output\",\"Package\":\"p\",\"Test\":\"A\",\"Output\":\"=== RUN A\\n\"}\n\
                 {\"Action\":\"output\",\"Package\":\"p\",\"Test\":\"A\",\"Output\":\"a_test.go:5: no\\n\"}\n\
                 {\"Action\":\"fail\",\"Package\":\"p\",\"Test\":\"A\"}\n{\"Action\":\"fail\",\"Package\":\"p\"}",
                "a_test.go:5: no",
            ),
        ] {
            assert_eq!(details_of(format, report), expected, "{report}");
        }
    }

    fn read(format: ReportFormat, text: &str) -> Vec<String> {
        let tests = parse(format, text.as_bytes()).expect("a report");
        tests.into_iter().map(|test| format!("{} {:?}", test.id, test.status)).collect()
    }

    #[test]
    fn junit_report_of_pytest_is_parsed() {
        let text = r#"<?xml version="1.0"?><testsuites><testsuite tests="4">
            <testcase classname="tests.test_a" name="test_one" time="0.1" />
            <testcase classname="tests.test_a" name="test_&lt;two&gt;"><failure message="x">failure</failure></testcase>
            <testcase classname="tests.test_a" name="three"><skipped/></testcase>
            <testcase name="four"><system-out>ok &lt;failure/&gt;</system-out></testcase>
            </testsuite><error/></testsuites>"#;
        assert_eq!(
            read(ReportFormat::Junit, text),
            [
                "tests.test_a::test_one Passed",
                "tests.test_a::test_<two> Failed",
                "tests.test_a::three Skipped",
                "four Passed"
            ]
        );
        assert!(parse(ReportFormat::Junit, b"<a><b></a>").is_err());
        assert!(parse(ReportFormat::Junit, b"not xml").is_err());
    }

    #[test]
    fn tap_directives_are_parsed() {
        let text = "TAP version 13\n1..4\nok 1 - adds\nnot ok 2 - takes away\nok 3 # SKIP no network\n  ok 4 nested\nokay\n# ok";
        assert_eq!(
            read(ReportFormat::Tap, text),
            ["adds Passed", "takes away Failed", " Skipped", "nested Passed"]
                .map(|s| s.trim_start_matches('\0').to_owned())
        );
        assert!(parse(ReportFormat::Tap, b"hello").is_err());
    }

    #[test]
    fn json_reports_of_several_runners_are_parsed() {
        let pytest =
            r#"{"tests":[{"nodeid":"t.py::a","outcome":"passed"},{"nodeid":"t.py::b","outcome":"failed"}]}"#;
        assert_eq!(read(ReportFormat::Json, pytest), ["t.py::a Passed", "t.py::b Failed"]);
        let jest = r#"{"success":true,"testResults":[{"name":"/x/a.test.js","status":"passed","assertionResults":[
            {"fullName":"adds up","status":"passed"},{"fullName":"later","status":"pending"}]}]}"#;
        assert_eq!(read(ReportFormat::Json, jest), ["adds up Passed", "later Skipped"]);
        let rspec =
            r#"{"examples":[{"id":"./a_spec.rb[1:1]","full_description":"sum adds","status":"passed"}]}"#;
        assert_eq!(read(ReportFormat::Json, rspec), ["sum adds Passed"]);
        let go = "{\"Action\":\"run\",\"Package\":\"p\",\"Test\":\"TestA\"}\n{\"Action\":\"pass\",\"Package\":\"p\",\"Test\":\"TestA\"}\n{\"Action\":\"pass\",\"Package\":\"p\"}\n";
        assert_eq!(read(ReportFormat::Json, go), ["p.TestA Passed"]);
        assert!(parse(ReportFormat::Json, b"ok").is_err());
    }

    #[test]
    fn test_id_matches_by_suffix() {
        let test = TestResult::new("tests.test_a::test_one".to_owned(), TestStatus::Passed);
        for wanted in ["tests.test_a::test_one", "tests.test_a.test_one", "test_a.test_one", "test_one"] {
            assert!(test.matches(wanted), "{wanted}");
        }
        for wanted in ["one", "test_a", "", "tests.test_a"] {
            assert!(!test.matches(wanted), "{wanted}");
        }
    }
}
