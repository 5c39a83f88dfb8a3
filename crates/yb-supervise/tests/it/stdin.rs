//! What a child reads, and what happens when it doesn't.

use tokio::io::AsyncWriteExt;
use yb_supervise::{End, OutputMode, Stdin, StreamItem};

use crate::support::{GUARD, Stage, Way, contained};

const LARGE: usize = 11_000_000;

#[tokio::test]
async fn by_default_there_is_nothing_to_read() {
    for way in Way::EVERYWHERE {
        let report = tokio::time::timeout(GUARD, way.command("/bin/cat").run()).await.unwrap();
        assert!(report.success() && report.output.captured().unwrap().bytes().is_empty());
    }
}

#[tokio::test]
async fn eleven_megabytes_arrive_whole() {
    for way in Way::EVERYWHERE {
        let input: Vec<u8> = (0..LARGE).map(|i| (i % 251) as u8).collect();
        let command = way.command("/bin/cat").stdin(Stdin::Bytes(input.clone().into()));
        let report = command.output(OutputMode::Capture { limit: usize::MAX }).run().await;
        assert!(report.success(), "{}", report.end);
        assert!(report.output.captured().unwrap().bytes() == input, "{way:?}");
    }
}

#[tokio::test]
async fn a_slow_reader_and_one_that_closes_early_do_not_deadlock() {
    for script in [
        "[{read_stdin: {bytes: 300000, chunk: 100000, every_ms: 20}}, {print: done}]",
        "[{close: [stdin]}, {sleep_ms: 50}, {print: done}]",
        "[{sleep_ms: 50}, {print: done}]",
    ] {
        for way in Way::EVERYWHERE {
            let stage = Stage::new(script);
            let command = stage.command(way).stdin(Stdin::Bytes(vec![b'x'; LARGE].into()));
            let report = tokio::time::timeout(GUARD, command.run()).await.unwrap();
            assert!(report.success(), "{way:?}, {script}: {}", report.end);
            assert_eq!(report.output.captured().unwrap().stdout(), b"done\n");
        }
    }
}

#[tokio::test]
async fn a_child_that_never_reads_meets_its_deadline() {
    let stage = Stage::new("[{sleep_ms: 60000}]");
    let command = stage.contained().stdin(Stdin::Bytes(vec![b'x'; LARGE].into()));
    let command = command.deadline(std::time::Duration::from_millis(300));
    let report = tokio::time::timeout(GUARD, command.run()).await.unwrap();
    assert!(matches!(report.end, End::TimedOut { .. }), "{}", report.end);
}

#[tokio::test]
async fn a_conversation_is_possible() {
    let script = r#"
- expect: {fields: {/type: ask}, capture: {id: /id}}
- print: {json: {type: answer, id: "{{id}}"}}
- read_stdin: {}
- print: bye
"#;
    for way in Way::EVERYWHERE {
        let stage = Stage::new(script);
        let command = stage.command(way).stdin(Stdin::Interactive).output(OutputMode::stream());
        let mut running = command.spawn().await.unwrap();
        let (mut stdin, mut lines) = (running.stdin().unwrap(), running.lines().unwrap());
        stdin.write_all(b"{\"type\":\"ask\",\"id\":42}\n").await.unwrap();
        let Some(StreamItem::Line(line)) = lines.next().await else { panic!("no answer") };
        let answer: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(answer, serde_json::json!({"type": "answer", "id": 42}));
        drop(stdin);
        assert_eq!(lines.next().await, Some(StreamItem::Line(b"bye".to_vec())));
        assert_eq!(lines.next().await, None);
        assert!(running.wait().await.success());
    }
}

#[tokio::test]
async fn an_interactive_stdin_that_nobody_took_ends_at_wait() {
    let running = contained("/bin/cat").stdin(Stdin::Interactive).spawn().await.unwrap();
    let report = tokio::time::timeout(GUARD, running.wait()).await.unwrap();
    assert!(report.success(), "{}", report.end);
}
