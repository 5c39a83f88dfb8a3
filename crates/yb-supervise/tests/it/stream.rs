//! `Stream` mode: lossless lines with backpressure.

use std::time::Duration;

use yb_supervise::{End, Lines, Output, OutputMode, StreamItem};

use crate::support::{AgentDir, LaunchConfig, TEST_TIMEOUT};

async fn collect(lines: &mut Lines) -> Vec<StreamItem> {
    let mut items = Vec::new();
    while let Some(item) = lines.next().await {
        items.push(item);
    }
    items
}

#[tokio::test]
async fn every_line_arrives_and_tee_is_identical() {
    const LINES: usize = 30_000;
    for config in LaunchConfig::PORTABLE {
        let agent_dir = AgentDir::new(&format!(
            "[{{flood: {{bytes: {}, line: 100}}}}, {{print: {{text: tail}}}}]",
            LINES * 100
        ));
        let output = OutputMode::Stream { line_limit: 1000, tee: Some(agent_dir.file("tee")) };
        let mut child =
            agent_dir.command(config).output(output).log_file(agent_dir.file("log")).spawn().await.unwrap();
        let mut lines = child.lines().unwrap();
        let items = collect(&mut lines).await;
        assert_eq!(items.len(), LINES + 1, "{config:?}");
        assert!(items[..LINES].iter().all(|item| matches!(item, StreamItem::Line(line) if line.len() == 99)));
        assert_eq!(items[LINES], StreamItem::Unterminated(b"tail".to_vec()));
        let report = child.wait().await;
        assert_eq!((report.log.teed, report.log.not_teed), (LINES as u64 * 100 + 4, 0));
        assert_eq!(
            std::fs::read(agent_dir.file("tee")).unwrap(),
            std::fs::read(agent_dir.file("log")).unwrap()
        );
    }
}

/// The child can't run ahead of a slow consumer; stderr is drained meanwhile.
#[tokio::test]
async fn slow_consumer_blocks_child_but_not_stderr() {
    let script = "
- print: {fill: 300000, to: stderr, times: 20}
- write: {path: stderr-done, line: x}
- flood: {bytes: 20000000, line: 1000}
- write: {path: stdout-done, line: x}
";
    let agent_dir = AgentDir::new(script);
    let mut child = agent_dir.contained().output(OutputMode::stream()).spawn().await.unwrap();
    let mut lines = child.lines().unwrap();
    while !agent_dir.file("stderr-done").exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!agent_dir.file("stdout-done").exists(), "20 MB fit nowhere: the child must be waiting");
    assert_eq!(collect(&mut lines).await.len(), 20_000);
    let report = child.wait().await;
    assert!(report.success(), "{}", report.end);
    let Output::Streamed { stderr_tail, stderr_dropped } = report.output else { panic!("no stream") };
    assert_eq!((stderr_tail.len(), stderr_dropped), (64 << 10, 6_000_000 - (64 << 10)));
}

/// Buffered lines survive the deadline.
#[tokio::test]
async fn deadline_does_not_lose_printed_lines() {
    let agent_dir =
        AgentDir::new("[{flood: {bytes: 500000, line: 100}}, {ignore: [TERM]}, {sleep_ms: 60000}]");
    let command = agent_dir.contained().output(OutputMode::stream());
    let command = command.deadline(Duration::from_millis(1000)).grace(Duration::from_millis(100));
    let mut child = command.spawn().await.unwrap();
    let mut lines = child.lines().unwrap();
    let report = tokio::time::timeout(TEST_TIMEOUT, child.wait()).await.unwrap();
    assert!(matches!(report.end, End::TimedOut { .. }), "{}", report.end);
    assert_eq!(collect(&mut lines).await.len(), 5_000);
}

/// Waiting for the report before reading the lines must not deadlock.
#[tokio::test]
async fn report_does_not_wait_for_consumer() {
    let agent_dir = AgentDir::new("[{flood: {bytes: 1500000, line: 1000}}]");
    let mut child = agent_dir.contained().output(OutputMode::stream()).spawn().await.unwrap();
    let mut lines = child.lines().unwrap();
    let report = tokio::time::timeout(TEST_TIMEOUT, child.wait()).await.unwrap();
    assert!(report.success(), "{}", report.end);
    assert_eq!(collect(&mut lines).await.len(), 1_500);
}

#[tokio::test]
async fn line_over_limit_ends_stream_but_not_child() {
    let agent_dir = AgentDir::new("[{print: short}, {print: {fill: 2000}}, {print: after}, {exit: 4}]");
    let output = OutputMode::Stream { line_limit: 1000, tee: None };
    let mut child =
        agent_dir.contained().output(output).log_file(agent_dir.file("log")).spawn().await.unwrap();
    let items = collect(&mut child.lines().unwrap()).await;
    assert_eq!(items, [StreamItem::Line(b"short".to_vec()), StreamItem::TooLong { limit: 1000 }]);
    assert_eq!(child.wait().await.shell_code(), Some(4));
    assert!(std::fs::read_to_string(agent_dir.file("log")).unwrap().ends_with("after\n"));
}

#[tokio::test]
async fn dropping_lines_does_not_stop_child() {
    let agent_dir = AgentDir::new("[{flood: {bytes: 20000000, line: 1000}}, {exit: 6}]");
    let mut child = agent_dir.contained().output(OutputMode::stream()).spawn().await.unwrap();
    drop(child.lines());
    let report = tokio::time::timeout(TEST_TIMEOUT, child.wait()).await.unwrap();
    assert_eq!(report.shell_code(), Some(6));
}
