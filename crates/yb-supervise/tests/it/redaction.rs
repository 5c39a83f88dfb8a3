//! Secrets reach neither log, capture, stream, tee nor tap.

use yb_supervise::{OutputMode, StreamItem, Warning};

use crate::support::{AgentDir, LaunchConfig};

const SECRET: &str = "sk-test-0123456789";

/// The secret whole, split by a pause, on stderr, and half of it at the end.
const SCRIPT: &str = "
- print: 'key={{env.KEY}};'
- print: {text: sk-test-0}
- sleep_ms: 50
- print: {text: \"123456789|\\n\"}
- print: {line: 'err {{env.KEY}}', to: stderr}
- print: {text: sk-test}
";

const REDACTED: &str = "key=[REDACTED:KEY];\n[REDACTED:KEY]|\nsk-test";

#[tokio::test]
async fn log_and_capture_are_redacted() {
    for config in LaunchConfig::PORTABLE {
        let agent_dir = AgentDir::new(SCRIPT);
        let command = agent_dir
            .command(config)
            .env("KEY", SECRET)
            .secret("KEY", SECRET)
            .log_file(agent_dir.file("log"));
        let report = command.run().await;
        let captured = report.output.captured().unwrap();
        assert_eq!(String::from_utf8(captured.stdout()).unwrap(), REDACTED, "{config:?}");
        assert_eq!(captured.stderr(), b"err [REDACTED:KEY]\n");
        let log = std::fs::read_to_string(agent_dir.file("log")).unwrap();
        assert!(!log.contains(SECRET) && log.contains("[REDACTED:KEY]"), "{log}");
        assert_eq!(report.warnings, []);
    }
}

#[tokio::test]
async fn stream_tee_and_tap_are_redacted() {
    let agent_dir = AgentDir::new(SCRIPT);
    let output = OutputMode::Stream { line_limit: 1000, tee: Some(agent_dir.file("tee")) };
    let mut child = agent_dir
        .contained()
        .env("KEY", SECRET)
        .secret("KEY", SECRET)
        .output(output)
        .tap()
        .spawn()
        .await
        .unwrap();
    let (mut lines, mut tap) = (child.lines().unwrap(), child.tap().unwrap());
    let mut text = String::new();
    while let Some(item) = lines.next().await {
        match item {
            StreamItem::Line(line) => text.push_str(&(String::from_utf8(line).unwrap() + "\n")),
            StreamItem::Unterminated(line) => text.push_str(&String::from_utf8(line).unwrap()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(text, REDACTED);
    let report = child.wait().await;
    assert_eq!(std::fs::read_to_string(agent_dir.file("tee")).unwrap(), REDACTED);
    let mut tapped = Vec::new();
    while let Some(item) = tap.next().await {
        tapped.extend_from_slice(&item.bytes);
    }
    assert!(!String::from_utf8(tapped).unwrap().contains(SECRET));
    assert!(!format!("{report:?}").contains(SECRET));
}

#[tokio::test]
async fn pieces_of_a_text_in_json_lines_are_redacted_as_one() {
    let agent_dir = AgentDir::new(
        r#"
- print: '{"type":"x_delta","delta":"key sk-test-"}'
- print: '{"type":"x_delta","delta":"0123456789, ok"}'
"#,
    );
    let output = OutputMode::Stream { line_limit: 1000, tee: Some(agent_dir.file("tee")) };
    let command = agent_dir.contained().secret("KEY", SECRET).output(output).json_lines();
    let report = command.log_file(agent_dir.file("log")).run().await;
    assert!(report.success(), "{report:?}");
    for file in ["tee", "log"] {
        let text = std::fs::read_to_string(agent_dir.file(file)).unwrap();
        let deltas = ["\"delta\":\"key [REDACTED:KEY]\"", "\"delta\":\", ok\""];
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines.iter().zip(deltas).all(|(line, delta)| line.contains(delta)), "{text}");
    }
}

#[tokio::test]
async fn short_secret_is_a_warning() {
    let agent_dir = AgentDir::new("[{print: shorty}]");
    let report = agent_dir.contained().secret("PIN", "shorty").run().await;
    assert_eq!(report.warnings, [Warning::SecretTooShort { name: "PIN".to_owned() }]);
    assert_eq!(report.warnings[0].to_string(), "secret `PIN` is shorter than 8 bytes and is not redacted");
    assert_eq!(report.output.captured().unwrap().stdout(), b"shorty\n");
}
