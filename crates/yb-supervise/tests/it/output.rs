//! `Capture`: everything is drained, the beginning is kept, and bytes stay bytes.

use yb_supervise::{CAPTURE_LIMIT, Output, OutputMode, Pipe};

use crate::support::{Stage, Way, contained};

#[tokio::test]
async fn both_pipes_are_captured_and_can_be_told_apart() {
    for way in Way::EVERYWHERE {
        let script = "[{print: out}, {sleep_ms: 50}, {print: {line: err, to: stderr}}, {sleep_ms: 50}, {print: {text: end}}]";
        let report = Stage::new(script).command(way).run().await;
        let captured = report.output.captured().unwrap();
        assert_eq!(captured.bytes(), b"out\nerr\nend", "{way:?}");
        assert_eq!((captured.stdout(), captured.stderr()), (b"out\nend".to_vec(), b"err\n".to_vec()));
        assert_eq!(captured.dropped(), 0);
    }
}

#[tokio::test]
async fn bytes_that_are_no_text_arrive_unchanged() {
    let bytes = b"\xff\xfe\x00a\r\nb\r\xe2\x82";
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let stage = Stage::new(&format!("[{{print: {{hex: {hex:?}}}}}]"));
    let report = stage.contained().log_file(stage.file("log")).run().await;
    assert_eq!(report.output.captured().unwrap().bytes(), bytes);
    assert_eq!(std::fs::read(stage.file("log")).unwrap(), bytes);
    assert_eq!(report.output.captured().unwrap().text().replaced_bytes, 4);
}

#[tokio::test]
async fn past_the_limit_it_is_drained_logged_and_marked() {
    const BYTES: u64 = 15 << 20;
    for way in Way::EVERYWHERE {
        let stage =
            Stage::new(&format!("[{{flood: {{bytes: {BYTES}}}}}, {{print: {{line: end, to: stderr}}}}]"));
        let report = stage.command(way).log_file(stage.file("log")).run().await;
        assert!(report.success(), "{}", report.end);
        let captured = report.output.captured().unwrap();
        assert_eq!(captured.bytes().len(), CAPTURE_LIMIT);
        assert_eq!(captured.dropped(), BYTES + 4 - CAPTURE_LIMIT as u64);
        let marker = format!("[OUTPUT TRUNCATED: 10485760 of {} bytes kept]", BYTES + 4);
        assert!(captured.text().text.ends_with(&marker));
        assert_eq!(std::fs::metadata(stage.file("log")).unwrap().len(), BYTES + 4);
        assert_eq!((report.log.logged, report.log.not_logged), (BYTES + 4, 0));
    }
}

/// Characters of three bytes, written one byte at a time on both pipes in turns: neither may tear the other's.
#[tokio::test]
async fn a_character_is_never_torn_by_the_other_pipe() {
    let script = "
- print: {hex: e2, to: both}
- sleep_ms: 30
- print: {hex: '82', to: both}
- sleep_ms: 30
- print: {hex: ac, to: both}
- sleep_ms: 30
- print: {hex: e282, to: stderr}
";
    let stage = Stage::new(script);
    let report = stage.contained().log_file(stage.file("log")).run().await;
    let captured = report.output.captured().unwrap();
    assert_eq!(captured.bytes(), b"\xe2\x82\xac\xe2\x82\xac\xe2\x82");
    assert_eq!(std::fs::read(stage.file("log")).unwrap(), captured.bytes());
    // The limit falls inside the second one.
    let report = stage.contained().output(OutputMode::Capture { limit: 5 }).run().await;
    let captured = report.output.captured().unwrap();
    assert_eq!((captured.bytes(), captured.dropped()), ("€".as_bytes(), 5));
}

#[tokio::test]
async fn the_log_has_a_ceiling_of_its_own() {
    let stage = Stage::new("[{flood: {bytes: 100000}}, {exit: 3}]");
    let report = stage.contained().log_file(stage.file("log")).log_ceiling(1000).run().await;
    assert_eq!(report.shell_code(), Some(3));
    assert_eq!(report.output.captured().unwrap().bytes().len(), 100_000);
    assert_eq!((report.log.logged, report.log.not_logged), (1000, 99_000));
    let log = std::fs::read_to_string(stage.file("log")).unwrap();
    assert!(log.ends_with(
        "\n[LOG TRUNCATED: ceiling of 1000 bytes reached; later output was read but not logged]\n"
    ));
}

#[tokio::test]
async fn a_tap_shows_output_while_the_child_runs() {
    let stage = Stage::new("[{print: first}, {wait_for_file: {path: go}}, {print: second}]");
    let mut running = stage.contained().tap().spawn().await.unwrap();
    let mut tap = running.tap().unwrap();
    let item = tap.next().await.unwrap();
    assert_eq!((item.pipe, item.bytes.as_ref(), item.dropped_before), (Pipe::Stdout, b"first\n".as_ref(), 0));
    std::fs::write(stage.file("go"), "").unwrap();
    assert_eq!(tap.next().await.unwrap().bytes.as_ref(), b"second\n");
    assert!(tap.next().await.is_none());
    assert!(running.wait().await.success());
}

/// A tap that nobody reads costs the child nothing.
#[tokio::test]
async fn a_tap_that_nobody_reads_slows_nothing() {
    let stage = Stage::new("[{flood: {bytes: 50000000}}]");
    let mut running = stage.contained().tap().spawn().await.unwrap();
    let mut tap = running.tap().unwrap();
    assert!(running.wait().await.success());
    let mut seen = 0;
    while let Some(item) = tap.next().await {
        seen += item.bytes.len();
    }
    assert!(0 < seen && seen < 50_000_000, "{seen}");
}

#[tokio::test]
async fn nothing_printed_is_an_empty_capture() {
    let report = contained("/bin/true").run().await;
    assert!(matches!(&report.output, Output::Captured(captured) if captured.bytes().is_empty()));
}
