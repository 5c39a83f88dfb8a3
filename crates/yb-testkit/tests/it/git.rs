//! Hermetic repositories.

use yb_testkit::git::{self, Repo};

#[test]
fn commit_ids_are_deterministic() {
    let make = || {
        let dir = tempfile::tempdir().unwrap();
        let repo = Repo::init(dir.path().join("repo"));
        let first = repo.write("src/main.rs", "fn main() {}\n").write("bin", b"\xff\0").commit("first");
        let second = repo.write("README.md", "# Hi\r\n").commit("second");
        assert_eq!(repo.rev_parse("HEAD~1"), first);
        (first, second)
    };
    let expect = ("ec65963ac900d58c5da0a6856a1b2e3d5d824d00", "b70d9605869b39517ed8629ca478820df1d25fe7");
    let (first, second) = make();
    assert_eq!((first.as_str(), second.as_str()), expect);
    assert_eq!(make(), (first, second));
}

#[test]
fn machine_configuration_is_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let repo = Repo::init(dir.path());
    let origins = repo.git(&["config", "--list", "--show-origin"]);
    assert!(
        origins.lines().all(|line| line.starts_with("file:.git/config") || line.starts_with("command line:")),
        "{origins}"
    );
    assert!(!repo.path().join(".git/hooks").exists());
    assert_eq!(repo.git(&["branch", "--show-current"]), "main\n");
}

#[test]
fn status_and_log_show_changes() {
    let dir = tempfile::tempdir().unwrap();
    let repo = Repo::init(dir.path());
    repo.write("a", "1").commit("one");
    assert_eq!(repo.status(), "");
    repo.write("a", "2").write("b/c", "3");
    assert_eq!(repo.status(), " M a\n?? b/c\n");
    repo.commit("two");
    assert_eq!(repo.log(), ["two", "one"]);
    assert_eq!(
        repo.git(&["show", "-s", "--format=%an <%ae> %cI"]),
        "Test Author <test@example.com> 2026-01-02T03:04:05Z\n"
    );
    let bare = git::command(repo.path()).args(["rev-parse", "HEAD"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&bare.stdout).trim(), repo.rev_parse("HEAD"));
}

#[test]
#[should_panic(expected = "`git rev-parse --verify --end-of-options nowhere` failed")]
fn failure_contains_git_stderr() {
    let dir = tempfile::tempdir().unwrap();
    let _ = Repo::init(dir.path()).rev_parse("nowhere");
}
