//! Agents that print without end: the log keeps the first and the last parts, the frames have everything, and memory is bounded.

use yb_agents::{Bounds, CommandConfig, DeclaredOutput, OmittedItem, for_each_omitted};
use yb_model::frames;
use yb_model::log::YouBenchaLog;

use crate::support::Stage;

/// An agent that prints this many tool calls of about 150 bytes.
fn calls(count: usize) -> Stage {
    let frame = r#"{"type":"assistant","message":{"id":"m&","content":[{"type":"tool_use","id":"t&","name":"Bash","input":{"command":"step &"}}]}}"#;
    let script = format!("seq 1 {count} | sed 's/.*/{frame}/'");
    let spec = CommandConfig::new(["sh", "-c", &script]).with_output(DeclaredOutput::ClaudeStreamJson);
    Stage::command(&spec)
}

fn omitted_commands(log: &YouBenchaLog, file: &std::path::Path) -> (Vec<String>, u64) {
    let (mut commands, mut messages) = (Vec::new(), 0);
    for_each_omitted(log, &mut frames::open(file).unwrap(), &mut |item| match item {
        OmittedItem::ToolCall(call) => commands.push(call.arguments),
        OmittedItem::Message(_) => messages += 1,
    })
    .unwrap();
    (commands, messages)
}

#[tokio::test]
async fn frames_have_the_calls_that_the_log_leaves_out() {
    let bounds = Bounds { messages: 50_000, tool_calls: 50_000, ..Bounds::default() };
    let stage = calls(20_000).with(|context| context.bounds = bounds);
    let done = stage.run().await;
    let omitted = done.log.omitted.clone().unwrap();
    assert_eq!(done.log.tool_calls.len() as u64 + omitted.tool_calls, 20_000);
    // The prompt is the first message.
    assert_eq!(done.log.messages.len() as u64 + omitted.messages, 20_001);
    let file = done.result.frames.as_ref().unwrap();
    assert!(file.to_string_lossy().ends_with("frames.jsonl.zst"), "{}", file.display());
    assert_eq!(done.json["output"]["frames"], "frames.jsonl.zst");
    let (middle, messages) = omitted_commands(&done.log, file);
    assert_eq!(messages, omitted.messages);
    let (head, tail) = done.log.tool_calls.split_at(omitted.tool_calls_before as usize);
    let all: Vec<&str> = head
        .iter()
        .map(|call| call.arguments.as_str())
        .chain(middle.iter().map(String::as_str))
        .chain(tail.iter().map(|call| call.arguments.as_str()))
        .collect();
    let expected: Vec<String> = (1..=20_000).map(|n| format!(r#"{{"command":"step {n}"}}"#)).collect();
    assert_eq!(all, expected);
}

#[tokio::test]
async fn long_line_is_shortened_and_the_next_ones_are_read() {
    let text = r#"{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Write","input":{"file_path":"/etc/x","content":"#;
    let script = format!(
        r#"printf '%s"' '{text}'; head -c 9000000 /dev/zero | tr '\0' x; echo '","last":"yes"}}}}]}}}}'; head -c 2000000 /dev/zero | tr '\0' '['; echo; echo '{{"type":"result","subtype":"success","result":"done"}}'"#
    );
    let spec = CommandConfig::new(["sh", "-c", &script]).with_output(DeclaredOutput::ClaudeStreamJson);
    let done = Stage::command(&spec).run().await;
    let call = &done.log.tool_calls[0];
    assert_eq!(call.name, "Write");
    assert!(call.arguments.len() < 600_000, "{}", call.arguments.len());
    assert_eq!(done.log.execution.ending.as_deref(), Some("success"));
    assert_eq!(done.log.omitted.as_ref().map(|omitted| omitted.skipped_lines), Some(1));
    assert!(
        done.log.warnings.iter().any(|warning| warning.contains("2000000 bytes long")),
        "{:?}",
        done.log.warnings
    );
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn flood_of_calls_takes_bounded_memory() {
    let kilobytes = |field: &str| -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    calls(10).run().await;
    let before = kilobytes("VmRSS:");
    // 10 MB, for which a list of all calls and messages took 300 MB.
    let done = calls(80_000).run().await;
    assert_eq!(done.log.tool_calls.len() as u64 + done.log.omitted.as_ref().unwrap().tool_calls, 80_000);
    let more = kilobytes("VmHWM:").saturating_sub(before);
    assert!(more < 150_000, "{more} kB");
}

#[tokio::test]
async fn partial_messages_are_in_the_frames_and_not_in_the_terminal_log() {
    let piece = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"word "}}}"#;
    let stage = |end: &str| {
        let script = format!("yes '{piece}' | head -n 120000; echo 'on stderr' >&2; {end}");
        let spec = CommandConfig::new(["sh", "-c", &script]).with_output(DeclaredOutput::ClaudeStreamJson);
        Stage::command(&spec)
    };
    let whole = r#"echo '{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"word word"}]}}'; echo '{"type":"result","subtype":"success","result":"word word"}'"#;
    let answered = stage(whole);
    let done = answered.run().await;
    // 14 MB of pieces of an answer of 600 kB are no reason to truncate it.
    assert!(!done.result.truncated && done.log.errors.is_empty(), "{:?}", done.log.errors);
    assert!(
        done.result.output.len() < 1000 && !done.result.output.contains("stream_event"),
        "{}",
        done.result.output
    );
    assert!(done.result.output.contains("word word") && done.result.output.contains("on stderr"));
    let frames = done.result.frames.as_ref().unwrap();
    assert!(std::fs::metadata(frames).unwrap().len() < 1_500_000, "compressed");
    let lines = std::io::BufRead::lines(frames::open(frames).unwrap()).count();
    assert_eq!(lines, 120_002);

    // Without the message, the pieces are all there is.
    let killed = stage("kill -9 $$").run().await;
    let last = killed.log.messages.last().unwrap();
    assert!(
        last.content.starts_with("word word ") && last.content.ends_with("of 600000 bytes kept]"),
        "{}",
        last.content.len()
    );
    assert!(killed.result.output.contains("word word word"));
}
