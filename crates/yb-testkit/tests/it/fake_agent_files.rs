//! File, memory and CPU steps of the fake agent.

use yb_testkit::git::Repo;

use crate::support::{AgentDir, run, stderr};

#[test]
fn files_are_written_appended_and_deleted() {
    let agent = AgentDir::new(
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
    std::fs::write(agent.path("old"), "").unwrap();
    let output = agent.run();
    assert_eq!(stderr(&output), "");
    assert_eq!(agent.text("new/file"), "second\nthirdthird");
    assert_eq!(std::fs::read(agent.path("big")).unwrap(), [b'x'; 1000]);
    assert_eq!(std::fs::read(agent.path("file")).unwrap(), b"\xff\0");
    assert!(!agent.path("gone").exists() && !agent.path("old").exists());
    let left = std::fs::read_dir(agent.path("new")).unwrap().count();
    assert_eq!(left, 1, "no unfinished file stays behind");
}

#[test]
fn deleting_missing_file_fails() {
    let output = run("- delete: nothing");
    assert_eq!(output.status.code(), Some(99));
    assert!(stderr(&output).contains("delete nothing"));
}

#[test]
fn commit_works_without_environment() {
    let agent = AgentDir::new(
        "
- write: {path: repo/a, line: by the agent}
- commit: {message: agent was here, dir: repo}
",
    );
    let repo = Repo::init(agent.path("repo"));
    repo.write("base", "1").commit("base");
    let output = agent.run();
    assert_eq!(stderr(&output), "");
    assert_eq!(repo.log(), ["agent was here", "base"]);
    assert_eq!(repo.status(), "");
}

#[test]
fn memory_and_cpu_time_are_used() {
    let agent = AgentDir::new(
        "
- burn_ms: 200
- allocate_mib: 64
- pid_file: ready
- wait_for_file: {path: go}
",
    );
    let mut child = agent.spawn();
    crate::support::wait_for(&agent.path("ready"));
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let rss: u64 = rss.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(rss > 64 * 1024, "{rss} kB");
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    assert!(ticks >= 19, "{ticks} ticks of 10 ms");
    std::fs::write(agent.path("go"), "").unwrap();
    assert!(child.wait().unwrap().success());
}
