//! Any bytes in any chunks: no panic, bounded memory, and frames independent of chunk boundaries.
#![no_main]

use libfuzzer_sys::fuzz_target;
use yb_claude::{Frame, Framer, RunSummary, read_json};

fn frames(bytes: &[u8], size: usize, limit: usize) -> Vec<Frame> {
    let mut framer = Framer::with_limit(limit);
    let mut frames = Vec::new();
    for chunk in bytes.chunks(size) {
        framer.push(chunk);
        frames.extend(framer.by_ref());
    }
    framer.end();
    frames.extend(framer);
    frames
}

fuzz_target!(|data: &[u8]| {
    let [size, limit, bytes @ ..] = data else { return };
    let size = usize::from(*size) + 1;
    let limit = if *limit == 0 { Framer::DEFAULT_LIMIT } else { usize::from(*limit) };
    let whole = frames(bytes, bytes.len().max(1), limit);
    assert_eq!(whole, frames(bytes, size, limit));
    let mut summary = RunSummary::new();
    for frame in whole.into_iter().chain(read_json(bytes)) {
        if let Some(message) = frame.into_message() {
            summary.observe(&message);
        }
    }
    let _ = (summary.model(), summary.final_text(), summary.api_failure(), summary.usage(yb_claude::UsageBaseline::Unknown));
});
