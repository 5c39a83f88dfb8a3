//! Parsers for test reports: JUnit XML, JSON and TAP.

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
}

impl TestResult {
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
    let mut elements = 0_u32;
    loop {
        let event = reader.read_event().map_err(|error| format!("not XML: {error}"))?;
        match event {
            Event::Start(element) | Event::Empty(element) if element.local_name().as_ref() == b"testcase" => {
                elements += 1;
                inside = true;
                tests.push(TestResult { id: test_id(&element)?, status: TestStatus::Passed });
            }
            Event::Start(element) | Event::Empty(element) => {
                elements += 1;
                let status = match element.local_name().as_ref() {
                    b"failure" | b"error" => TestStatus::Failed,
                    b"skipped" => TestStatus::Skipped,
                    _ => continue,
                };
                if let Some(test) =
                    tests.last_mut().filter(|test| inside && test.status != TestStatus::Failed)
                {
                    test.status = status;
                }
            }
            Event::End(element) if element.local_name().as_ref() == b"testcase" => inside = false,
            Event::Eof if elements == 0 => return Err("no XML elements".to_owned()),
            Event::Eof => return Ok(tests),
            _ => {}
        }
    }
}

fn test_id(element: &BytesStart<'_>) -> Result<String, String> {
    let mut name = String::new();
    let mut class = String::new();
    for attribute in element.attributes() {
        let attribute = attribute.map_err(|error| format!("not XML: {error}"))?;
        let text = String::from_utf8_lossy(&attribute.value);
        let text =
            quick_xml::escape::unescape(&text).map_or_else(|_| text.to_string(), |text| text.into_owned());
        match attribute.key.as_ref() {
            b"name" => name = text,
            b"classname" => class = text,
            _ => {}
        }
    }
    Ok(if class.is_empty() { name } else { format!("{class}::{name}") })
}

/// `ok 1 - name # SKIP`, `not ok 2 - name`.
fn tap(content: &[u8]) -> Result<Vec<TestResult>, String> {
    let text = String::from_utf8_lossy(content);
    let mut tests = Vec::new();
    for line in text.lines() {
        let line = line.trim();
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
        tests.push(TestResult { id: name.trim().to_owned(), status });
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
            for line in lines.lines().filter(|line| line.trim_start().starts_with('{')) {
                if let Ok(value) = serde_json::from_str::<Value>(line) {
                    any = true;
                    collect(&value, &mut tests);
                }
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
                let package = map.get("Package").and_then(Value::as_str);
                let id = package.map_or_else(|| name.to_owned(), |package| format!("{package}.{name}"));
                tests.push(TestResult { id, status });
            } else {
                map.values().for_each(|item| collect(item, tests));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let test = TestResult { id: "tests.test_a::test_one".to_owned(), status: TestStatus::Passed };
        for wanted in ["tests.test_a::test_one", "tests.test_a.test_one", "test_a.test_one", "test_one"] {
            assert!(test.matches(wanted), "{wanted}");
        }
        for wanted in ["one", "test_a", "", "tests.test_a"] {
            assert!(!test.matches(wanted), "{wanted}");
        }
    }
}
