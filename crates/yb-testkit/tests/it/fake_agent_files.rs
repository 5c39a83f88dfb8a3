//! What a fake agent does to files, memory and processors.

use yb_testkit::git::Repo;

use crate::support::{Stage, run, stderr};

#[test]
fn writes_appends_and_deletes() {
    let stage = Stage::new(
        r"
- write: {path: new/file, line: first}
- write: {path: new/file, line: second}
- append: {path: new/file, text: third, times: 2, every_ms: 1}
- write: {path: big, fill: 1000}
- write: {path: gone/deep, text: ''}
- delete: gone
- write: {path: file, escaped: '\xff\0'}
- delete: old
",
    );
    std::fs::write(stage.path("old"), "").unwrap();
    let output = stage.run();
    assert_eq!(stderr(&output), "");
    assert_eq!(stage.text("new/file"), "second\nthirdthird");
    assert_eq!(std::fs::read(stage.path("big")).unwrap(), [b'x'; 1000]);
    assert_eq!(std::fs::read(stage.path("file")).unwrap(), b"\xff\0");
    assert!(!stage.path("gone").exists() && !stage.path("old").exists());
    let left = std::fs::read_dir(stage.path("new")).unwrap().count();
    assert_eq!(left, 1, "no unfinished file stays behind");
}

#[test]
fn a_file_that_is_not_there_can_not_be_deleted() {
    let output = run("- delete: nothing");
    assert_eq!(output.status.code(), Some(99));
    assert!(stderr(&output).contains("delete nothing"));
}

#[test]
fn commits_with_real_git_even_without_an_environment() {
    let stage = Stage::new(
        "
- write: {path: repo/a, line: by the agent}
- commit: {message: agent was here, dir: repo}
",
    );
    let repo = Repo::init(stage.path("repo"));
    repo.write("base", "1").commit("base");
    let output = stage.run();
    assert_eq!(stderr(&output), "");
    assert_eq!(repo.log(), ["agent was here", "base"]);
    assert_eq!(repo.status(), "");
}

#[test]
fn takes_memory_and_processor_time() {
    let stage = Stage::new(
        "
- burn_ms: 200
- allocate_mib: 64
- pid_file: ready
- wait_for_file: {path: go}
",
    );
    let mut child = stage.spawn();
    crate::support::wait_for(&stage.path("ready"));
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let rss: u64 = rss.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(rss > 64 * 1024, "{rss} kB");
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    assert!(ticks >= 19, "{ticks} ticks of 10 ms");
    std::fs::write(stage.path("go"), "").unwrap();
    assert!(child.wait().unwrap().success());
}
