//! stdin of a child: empty, bytes and interactive.

use tokio::io::AsyncWriteExt;
use yb_supervise::{End, OutputMode, Stdin, StreamItem};

use crate::support::{AgentDir, LaunchConfig, TEST_TIMEOUT, contained};

const LARGE: usize = 11_000_000;

#[tokio::test]
async fn stdin_is_empty_by_default() {
    for config in LaunchConfig::PORTABLE {
        let report = tokio::time::timeout(TEST_TIMEOUT, config.command("/bin/cat").run()).await.unwrap();
        assert!(report.success() && report.output.captured().unwrap().bytes().is_empty());
    }
}

#[tokio::test]
async fn large_stdin_arrives_completely() {
    for config in LaunchConfig::PORTABLE {
        let input: Vec<u8> = (0..LARGE).map(|i| (i % 251) as u8).collect();
        let command = config.command("/bin/cat").stdin(Stdin::Bytes(input.clone().into()));
        let report = command.output(OutputMode::Capture { limit: usize::MAX }).run().await;
        assert!(report.success(), "{}", report.end);
        assert!(report.output.captured().unwrap().bytes() == input, "{config:?}");
    }
}

#[tokio::test]
async fn slow_reader_and_early_close_do_not_deadlock() {
    for script in [
        "[{read_stdin: {bytes: 300000, chunk: 100000, every_ms: 20}}, {print: done}]",
        "[{close: [stdin]}, {sleep_ms: 50}, {print: done}]",
        "[{sleep_ms: 50}, {print: done}]",
    ] {
        for config in LaunchConfig::PORTABLE {
            let agent_dir = AgentDir::new(script);
            let command = agent_dir.command(config).stdin(Stdin::Bytes(vec![b'x'; LARGE].into()));
            let report = tokio::time::timeout(TEST_TIMEOUT, command.run()).await.unwrap();
            assert!(report.success(), "{config:?}, {script}: {}", report.end);
            assert_eq!(report.output.captured().unwrap().stdout(), b"done\n");
        }
    }
}

#[tokio::test]
async fn child_that_never_reads_times_out() {
    let agent_dir = AgentDir::new("[{sleep_ms: 60000}]");
    let command = agent_dir.contained().stdin(Stdin::Bytes(vec![b'x'; LARGE].into()));
    let command = command.deadline(std::time::Duration::from_millis(300));
    let report = tokio::time::timeout(TEST_TIMEOUT, command.run()).await.unwrap();
    assert!(matches!(report.end, End::TimedOut { .. }), "{}", report.end);
}

#[tokio::test]
async fn interactive_stdin_allows_request_and_response() {
    let script = r#"
- expect: {fields: {/type: ask}, capture: {id: /id}}
- print: {json: {type: answer, id: "{{id}}"}}
- read_stdin: {}
- print: bye
"#;
    for config in LaunchConfig::PORTABLE {
        let agent_dir = AgentDir::new(script);
        let command = agent_dir.command(config).stdin(Stdin::Interactive).output(OutputMode::stream());
        let mut child = command.spawn().await.unwrap();
        let (mut stdin, mut lines) = (child.stdin().unwrap(), child.lines().unwrap());
        stdin.write_all(b"{\"type\":\"ask\",\"id\":42}\n").await.unwrap();
        let Some(StreamItem::Line(line)) = lines.next().await else { panic!("no response") };
        let answer: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(answer, serde_json::json!({"type": "answer", "id": 42}));
        drop(stdin);
        assert_eq!(lines.next().await, Some(StreamItem::Line(b"bye".to_vec())));
        assert_eq!(lines.next().await, None);
        assert!(child.wait().await.success());
    }
}

#[tokio::test]
async fn untaken_interactive_stdin_closes_at_wait() {
    let child = contained("/bin/cat").stdin(Stdin::Interactive).spawn().await.unwrap();
    let report = tokio::time::timeout(TEST_TIMEOUT, child.wait()).await.unwrap();
    assert!(report.success(), "{}", report.end);
}
