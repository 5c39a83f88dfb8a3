//! Edited tapes: what an editor with `zstd` at hand can do to a tape, and that every reader notices.

use std::path::{Path, PathBuf};

use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::{Value, json};
use yb_tape::{Error, ReplayOptions, ReplayServer, Secrets, Tape};

use crate::client::post;
use crate::recording::{TapeDir, lines};
use crate::replaying::{first, recorded};

/// The frames of a recorded tape, as lines: header, three exchanges, end.
fn frames(path: &Path) -> Vec<Vec<String>> {
    let mut frames = vec![Vec::new()];
    for line in lines(path).lines() {
        frames.last_mut().unwrap().push(line.to_owned());
        if is(line, "seal") {
            frames.push(Vec::new());
        }
    }
    assert_eq!(frames.pop(), Some(Vec::new()));
    assert_eq!(frames.len(), 5);
    frames
}

fn is(line: &str, kind: &str) -> bool {
    serde_json::from_str::<Value>(line).unwrap()["kind"] == kind
}

/// Changes the first line of a kind.
fn edit(frame: &mut [String], kind: &str, change: impl FnOnce(&mut Value)) {
    let line = frame.iter_mut().find(|line| is(line, kind)).unwrap();
    let mut value = serde_json::from_str(line).unwrap();
    change(&mut value);
    *line = value.to_string();
}

fn write(path: &Path, frames: &[Vec<String>]) -> PathBuf {
    let bytes: Vec<u8> = frames
        .iter()
        .flat_map(|lines| {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            compress_to_vec(text.as_bytes(), CompressionLevel::Fastest)
        })
        .collect();
    let path = path.with_extension("edited");
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Asserts that `verify`, a replay and `redact` reject the edited tape.
#[track_caller]
fn assert_noticed(path: &Path, expected: &str) {
    let tape = Tape::open(path).unwrap();
    let problems = tape.verify().problems;
    assert!(problems.iter().any(|problem| problem.contains(expected)), "{problems:?}");
    // Frames before the first changed one are intact.
    if let Some(frame) = expected.strip_prefix("seal mismatch in frame ") {
        let first = problems.iter().find(|problem| problem.starts_with("seal mismatch")).unwrap();
        assert!(first.starts_with(&format!("seal mismatch in frame {frame},")), "{problems:?}");
    }
    let error = ReplayServer::start(&tape, ReplayOptions::default()).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::ChangedTape { .. }), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("yb tape verify")));
    assert!(tape.redact(path.with_extension("copy"), &Secrets::new()).is_err());
}

#[test]
fn untouched_tape_is_sealed_and_rewriting_its_frames_changes_nothing() {
    let tape_dir = TapeDir::new();
    let tape = recorded(&tape_dir);
    assert!(tape.is_sealed());
    assert_eq!((tape.verify().problems, tape.verify().notes), (Vec::new(), Vec::new()));
    let copy = write(&tape_dir.path(), &frames(&tape_dir.path()));
    assert_eq!(Tape::open(&copy).unwrap().changes(), [""; 0]);
}

#[test]
fn flipped_tool_call_is_noticed() {
    let tape_dir = TapeDir::new();
    recorded(&tape_dir);
    let mut edited = frames(&tape_dir.path());
    let blob = edited[1].iter_mut().find(|line| is(line, "blob") && line.contains("Bash")).unwrap();
    *blob = blob.replace("Bash", "Bush");
    assert_noticed(&write(&tape_dir.path(), &edited), "hash mismatch of a blob");
}

#[test]
fn edited_tokens_are_noticed() {
    let tape_dir = TapeDir::new();
    recorded(&tape_dir);
    let mut edited = frames(&tape_dir.path());
    edit(&mut edited[2], "exchange", |exchange| exchange["usage"]["output"] = json!(1));
    assert_noticed(&write(&tape_dir.path(), &edited), "seal mismatch in frame 3");
}

#[test]
fn swapped_exchanges_are_noticed() {
    let tape_dir = TapeDir::new();
    recorded(&tape_dir);
    let mut edited = frames(&tape_dir.path());
    edited.swap(1, 2);
    for (frame, number) in [(1, 1), (2, 2)] {
        edit(&mut edited[frame], "exchange", |exchange| exchange["number"] = json!(number));
    }
    assert_noticed(&write(&tape_dir.path(), &edited), "seal mismatch in frame 2");
}

#[test]
fn dropped_and_added_exchanges_are_noticed() {
    let tape_dir = TapeDir::new();
    recorded(&tape_dir);
    let whole = frames(&tape_dir.path());
    let mut dropped = whole.clone();
    dropped.remove(3);
    assert_noticed(&write(&tape_dir.path(), &dropped), "2 exchanges of 3 recorded ones");
    edit(&mut dropped[3], "end", |end| end["exchanges"] = json!(2));
    assert_noticed(&write(&tape_dir.path(), &dropped), "seal mismatch in frame 4");
    let mut added = whole;
    added.push(added[3].clone());
    assert_noticed(&write(&tape_dir.path(), &added), "frame 6 is after the end of the recording");
}

#[test]
fn removed_seals_are_noticed() {
    let tape_dir = TapeDir::new();
    recorded(&tape_dir);
    let mut edited = frames(&tape_dir.path());
    edited.iter_mut().for_each(|frame| frame.retain(|line| !is(line, "seal")));
    assert_noticed(&write(&tape_dir.path(), &edited), "seal mismatch in frame 1");
}

/// A tape of the version before seals: neither seals nor a mark in the header.
#[test]
fn tape_without_seals_replays_with_a_note_and_a_dropped_exchange_is_noticed() {
    let tape_dir = TapeDir::new();
    recorded(&tape_dir);
    let mut old = frames(&tape_dir.path());
    old.iter_mut().for_each(|frame| frame.retain(|line| !is(line, "seal")));
    edit(&mut old[0], "tape", |header| drop(header.as_object_mut().unwrap().remove("sealed")));
    let path = write(&tape_dir.path(), &old);
    let tape = Tape::open(&path).unwrap();
    assert!(!tape.is_sealed());
    assert_eq!(tape.verify().problems, [""; 0]);
    assert!(tape.verify().notes[0].starts_with("not sealed"), "{:?}", tape.verify().notes);
    let server = ReplayServer::start(&tape, ReplayOptions::default()).unwrap();
    assert_eq!(post(&server, &first()).status, Some(200));
    old.remove(3);
    assert_noticed(&write(&tape_dir.path(), &old), "2 exchanges of 3 recorded ones");
}
