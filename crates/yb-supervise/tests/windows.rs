//! Supervision on Windows: job objects, variables, bytes. `scripts/windows` runs these tests under wine.
#![cfg(windows)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "a helper starts a process that is not supervised itself")]

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use yb_supervise::{CancellationToken, Command, End, OutputMode, Report, Stdin};

/// Selects what `helper` does in a child.
const HELPER: &str = "YB_WINDOWS_HELPER";
const FILE: &str = "YB_WINDOWS_FILE";

/// Not a test of its own: this program, started by the other tests with a variable.
#[test]
fn helper() {
    let Ok(job) = std::env::var(HELPER) else { return };
    match job.as_str() {
        "exit" => std::process::exit(7),
        "bytes" => {
            let mut input = Vec::new();
            std::io::stdin().read_to_end(&mut input).unwrap();
            let path = std::env::var(FILE).unwrap();
            std::fs::write(path, input).unwrap();
            std::io::stderr().write_all(b"one\r\ntwo\n").unwrap();
        }
        "variables" => {
            let names: Vec<String> = std::env::vars().map(|(name, _)| name.to_uppercase()).collect();
            std::fs::write(std::env::var(FILE).unwrap(), names.join("\n")).unwrap();
        }
        "grow" => loop {
            append(Path::new(&std::env::var(FILE).unwrap()));
            std::thread::sleep(Duration::from_millis(50));
        },
        "tree" => {
            let own = std::env::current_exe().unwrap();
            let mut child = std::process::Command::new(own);
            child.args(["--exact", "helper", "--nocapture"]).env(HELPER, "grow");
            let _ = child.spawn().unwrap().wait();
        }
        other => unreachable!("{other}"),
    }
}

fn append(path: &Path) {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(b"x").unwrap();
}

fn command(job: &str, file: &Path) -> Command {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "helper", "--nocapture", "--quiet"])
        .env(HELPER, job)
        .env(FILE, file)
        .output(OutputMode::Capture { limit: 1 << 20 })
        .deadline(Duration::from_secs(60))
}

fn run(command: Command) -> Report {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(command.run())
}

/// Waits until the file grew twice, so that the process that writes it is alive.
fn wait_until_growing(path: &Path) {
    for _ in 0..600 {
        if std::fs::metadata(path).is_ok_and(|found| found.len() >= 2) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    unreachable!("{} does not grow", path.display());
}

/// Asserts that no process writes to the file any more.
fn assert_still(path: &Path) {
    let size = || std::fs::metadata(path).unwrap().len();
    // A write that was under way when the process was killed.
    std::thread::sleep(Duration::from_millis(200));
    let before = size();
    assert!(before > 0);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(size(), before, "a process survived its job");
}

fn scratch() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    (directory, file)
}

#[test]
fn exit_code_is_reported() {
    let (_directory, file) = scratch();
    let report = run(command("exit", &file));
    assert!(matches!(report.end, End::Exited { code: 7 }), "{:?}", report.end);
}

#[test]
fn bytes_pass_unchanged_in_both_directions() {
    let (_directory, file) = scratch();
    let report = run(command("bytes", &file).stdin(Stdin::Bytes(b"a\r\nb\n\x1a\xff".as_slice().into())));
    assert!(matches!(report.end, End::Exited { code: 0 }), "{:?}", report.end);
    assert_eq!(std::fs::read(&file).unwrap(), b"a\r\nb\n\x1a\xff");
    let output = report.output.captured().unwrap().text().text.into_owned();
    assert!(output.contains("one\r\ntwo\n"), "{output:?}");
}

#[test]
fn deadline_kills_grandchildren() {
    let (_directory, file) = scratch();
    let report = run(command("tree", &file).deadline(Duration::from_secs(8)));
    assert!(matches!(report.end, End::TimedOut { .. }), "{:?}", report.end);
    assert_still(&file);
}

#[test]
fn cancellation_kills_grandchildren() {
    let (_directory, file) = scratch();
    let cancel = CancellationToken::new();
    let watched = (file.clone(), cancel.clone());
    let watcher = std::thread::spawn(move || {
        wait_until_growing(&watched.0);
        watched.1.cancel();
    });
    let report = run(command("tree", &file).cancel_on(cancel));
    watcher.join().unwrap();
    assert!(matches!(report.end, End::Cancelled), "{:?}", report.end);
    assert_still(&file);
}

#[test]
fn child_sees_only_allowed_variables() {
    let (_directory, file) = scratch();
    let report = run(command("variables", &file));
    assert!(matches!(report.end, End::Exited { code: 0 }), "{:?}", report.end);
    let names = std::fs::read_to_string(&file).unwrap();
    let names: Vec<&str> = names.lines().collect();
    assert!(names.contains(&"PATH") && names.contains(&"SYSTEMROOT"), "{names:?}");
    assert!(!names.contains(&"USERPROFILE") && !names.contains(&"APPDATA"), "{names:?}");
}

#[test]
fn program_is_found_without_its_extension() {
    let (directory, file) = scratch();
    let own = std::env::current_exe().unwrap();
    // A dot in the name is not an extension.
    std::fs::copy(own, directory.path().join("tool1.2.exe")).unwrap();
    let found = yb_supervise::find_program("tool1.2", directory.path());
    assert_eq!(found, Some(directory.path().join("tool1.2.exe")));
    std::fs::write(directory.path().join("shim.cmd"), "exit 0").unwrap();
    assert_eq!(yb_supervise::find_program("shim", directory.path()), None);
    drop(file);
}
