//! `Capture` mode: everything is drained, the beginning is kept, and bytes are unchanged.

use yb_supervise::{DEFAULT_CAPTURE_LIMIT, Output, OutputMode, Pipe};

use crate::support::{AgentDir, LaunchConfig, contained};

#[tokio::test]
async fn both_pipes_are_captured_and_separable() {
    for config in LaunchConfig::PORTABLE {
        let script = "[{print: out}, {sleep_ms: 50}, {print: {line: err, to: stderr}}, {sleep_ms: 50}, {print: {text: end}}]";
        let report = AgentDir::new(script).command(config).run().await;
        let captured = report.output.captured().unwrap();
        assert_eq!(captured.bytes(), b"out\nerr\nend", "{config:?}");
        assert_eq!((captured.stdout(), captured.stderr()), (b"out\nend".to_vec(), b"err\n".to_vec()));
        assert_eq!(captured.dropped(), 0);
    }
}

#[tokio::test]
async fn binary_output_is_unchanged() {
    let bytes = b"\xff\xfe\x00a\r\nb\r\xe2\x82";
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let agent_dir = AgentDir::new(&format!("[{{print: {{hex: {hex:?}}}}}]"));
    let report = agent_dir.contained().log_file(agent_dir.file("log")).run().await;
    assert_eq!(report.output.captured().unwrap().bytes(), bytes);
    assert_eq!(std::fs::read(agent_dir.file("log")).unwrap(), bytes);
    assert_eq!(report.output.captured().unwrap().text().replaced_bytes, 4);
}

#[tokio::test]
async fn output_past_limit_is_drained_logged_and_marked() {
    const BYTES: u64 = 15 << 20;
    for config in LaunchConfig::PORTABLE {
        let agent_dir =
            AgentDir::new(&format!("[{{flood: {{bytes: {BYTES}}}}}, {{print: {{line: end, to: stderr}}}}]"));
        let report = agent_dir.command(config).log_file(agent_dir.file("log")).run().await;
        assert!(report.success(), "{}", report.end);
        let captured = report.output.captured().unwrap();
        assert_eq!(captured.bytes().len(), DEFAULT_CAPTURE_LIMIT);
        assert_eq!(captured.dropped(), BYTES + 4 - DEFAULT_CAPTURE_LIMIT as u64);
        let marker = format!("[OUTPUT TRUNCATED: 10485760 of {} bytes kept]", BYTES + 4);
        assert!(captured.text().text.ends_with(&marker));
        assert_eq!(std::fs::metadata(agent_dir.file("log")).unwrap().len(), BYTES + 4);
        assert_eq!((report.log.logged, report.log.not_logged), (BYTES + 4, 0));
    }
}

/// Three-byte characters, written byte by byte and alternating between both pipes.
#[tokio::test]
async fn characters_stay_whole_when_pipes_interleave() {
    let script = "
- print: {hex: e2, to: both}
- sleep_ms: 30
- print: {hex: '82', to: both}
- sleep_ms: 30
- print: {hex: ac, to: both}
- sleep_ms: 30
- print: {hex: e282, to: stderr}
";
    let agent_dir = AgentDir::new(script);
    let report = agent_dir.contained().log_file(agent_dir.file("log")).run().await;
    let captured = report.output.captured().unwrap();
    assert_eq!(captured.bytes(), b"\xe2\x82\xac\xe2\x82\xac\xe2\x82");
    assert_eq!(std::fs::read(agent_dir.file("log")).unwrap(), captured.bytes());
    // The limit is inside the second character.
    let report = agent_dir.contained().output(OutputMode::Capture { limit: 5 }).run().await;
    let captured = report.output.captured().unwrap();
    assert_eq!((captured.bytes(), captured.dropped()), ("€".as_bytes(), 5));
}

#[tokio::test]
async fn log_has_its_own_size_limit() {
    let agent_dir = AgentDir::new("[{flood: {bytes: 100000}}, {exit: 3}]");
    let report = agent_dir.contained().log_file(agent_dir.file("log")).log_ceiling(1000).run().await;
    assert_eq!(report.shell_code(), Some(3));
    assert_eq!(report.output.captured().unwrap().bytes().len(), 100_000);
    assert_eq!((report.log.logged, report.log.not_logged), (1000, 99_000));
    let log = std::fs::read_to_string(agent_dir.file("log")).unwrap();
    assert!(log.ends_with(
        "\n[LOG TRUNCATED: limit of 1000 bytes reached; later output was drained but not logged]\n"
    ));
}

#[tokio::test]
async fn tap_receives_output_while_child_runs() {
    let agent_dir = AgentDir::new("[{print: first}, {wait_for_file: {path: go}}, {print: second}]");
    let mut child = agent_dir.contained().tap().spawn().await.unwrap();
    let mut tap = child.tap().unwrap();
    let item = tap.next().await.unwrap();
    assert_eq!((item.pipe, item.bytes.as_ref(), item.dropped_before), (Pipe::Stdout, b"first\n".as_ref(), 0));
    std::fs::write(agent_dir.file("go"), "").unwrap();
    assert_eq!(tap.next().await.unwrap().bytes.as_ref(), b"second\n");
    assert!(tap.next().await.is_none());
    assert!(child.wait().await.success());
}

/// A tap without a reader does not slow the child.
#[tokio::test]
async fn unread_tap_does_not_slow_child() {
    let agent_dir = AgentDir::new("[{flood: {bytes: 50000000}}]");
    let mut child = agent_dir.contained().tap().spawn().await.unwrap();
    let mut tap = child.tap().unwrap();
    assert!(child.wait().await.success());
    let mut seen = 0;
    while let Some(item) = tap.next().await {
        seen += item.bytes.len();
    }
    assert!(0 < seen && seen < 50_000_000, "{seen}");
}

#[tokio::test]
async fn no_output_is_an_empty_capture() {
    let report = contained("/bin/true").run().await;
    assert!(matches!(&report.output, Output::Captured(captured) if captured.bytes().is_empty()));
}
