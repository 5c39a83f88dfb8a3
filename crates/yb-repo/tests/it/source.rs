//! Resolving a source to a commit: mirrors, revisions, failures and concurrent use of the cache.

use std::fs;
use std::path::Path;
use std::time::Duration;

use yb_repo::{
    Cache, Git, GitError, History, HostPolicy, MIN_GIT, Refresh, RepoError, RepoErrorKind, Revision, Source,
    SourceError, WorkspaceOptions,
};
use yb_supervise::{CancellationToken, Command};
use yb_testkit::git::Repo;

use crate::workspace::{TestDirs, git};

#[tokio::test]
async fn revisions_resolve_to_commits() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    let first = origin.write("a", "1\n").commit("first");
    origin.git(&["tag", "-a", "-m", "annotated", "v1"]);
    origin.git(&["branch", "side/line"]);
    let second = origin.write("a", "2\n").commit("second");
    for (revision, expected) in [
        (Revision::Default, &second),
        (Revision::Branch("main".into()), &second),
        (Revision::Branch("side/line".into()), &first),
        (Revision::Tag("v1".into()), &first),
        (Revision::Commit(first.clone()), &first),
        (Revision::Commit(first[..8].to_owned()), &first),
        (Revision::Any("side/line".into()), &first),
        (Revision::Any("v1".into()), &first),
        (Revision::Any(second[..10].to_owned()), &second),
    ] {
        assert_eq!(dirs.resolve(&origin, revision.clone()).await.commit, **expected, "{revision:?}");
    }
    let source = dirs.source(&origin);
    for (revision, expected) in [
        (Revision::Branch("nope".into()), "no branch in"),
        (Revision::Tag("main".into()), "no tag in"),
        (Revision::Commit("0".repeat(40)), "no commit in"),
        (Revision::Branch("a^{/x}".into()), "invalid branch"),
        (Revision::Commit("--help".into()), "invalid commit"),
    ] {
        let error = dirs.cache.resolve(&source, &revision, Refresh::Moving).await.unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}

#[tokio::test]
async fn refresh_works_after_the_clock_was_set_back() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    origin.write("a", "1\n").commit("first");
    dirs.resolve(&origin, Revision::Default).await;
    let tomorrow = std::time::SystemTime::now() + Duration::from_secs(86_400);
    let mirrors = fs::read_dir(dirs.path("cache/mirrors")).unwrap().map(|entry| entry.unwrap().path());
    let fetched = mirrors.map(|path| path.join("youbencha-fetched")).find(|path| path.exists()).unwrap();
    fs::File::options().write(true).open(fetched).unwrap().set_modified(tomorrow).unwrap();
    let second = origin.write("a", "2\n").commit("second");
    assert_eq!(dirs.resolve(&origin, Revision::Default).await.commit, second);
}

#[tokio::test]
async fn stale_locks_of_a_killed_git_are_removed() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    origin.write("a", "1\n").commit("first");
    dirs.resolve(&origin, Revision::Default).await;
    let mut mirrors = fs::read_dir(dirs.path("cache/mirrors")).unwrap().map(|entry| entry.unwrap().path());
    let mirror = mirrors.find(|path| path.join("youbencha-fetched").exists()).unwrap();
    for lock in ["refs/heads/main.lock", "packed-refs.lock"] {
        fs::write(mirror.join(lock), "").unwrap();
    }
    let second = origin.write("a", "2\n").commit("second");
    assert_eq!(dirs.resolve(&origin, Revision::Default).await.commit, second);
}

#[tokio::test]
async fn branches_are_refetched_and_commits_are_not() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    let first = origin.write("a", "1\n").commit("first");
    assert_eq!(dirs.resolve(&origin, Revision::Default).await.commit, first);
    let second = origin.write("a", "2\n").commit("second");
    let source = dirs.source(&origin);
    let resolve = async |revision, refresh| {
        dirs.cache.resolve(&source, &revision, refresh).await.map(|resolved| resolved.commit)
    };
    assert_eq!(resolve(Revision::Default, Refresh::Missing).await.unwrap(), first);
    assert!(resolve(Revision::Commit(second.clone()), Refresh::Never).await.is_err());
    assert_eq!(resolve(Revision::Default, Refresh::Moving).await.unwrap(), second);
    // Without the origin, the cache still has the commit.
    fs::rename(origin.path(), dirs.path("elsewhere")).unwrap();
    assert_eq!(resolve(Revision::Commit(first.clone()), Refresh::Moving).await.unwrap(), first);
    assert!(matches!(resolve(Revision::Default, Refresh::Moving).await, Err(RepoError::Git(_))));
}

#[tokio::test]
async fn unreachable_commit_is_fetched_by_id() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    origin.write("a", "1\n").commit("first");
    let lost = origin.write("a", "2\n").commit("lost");
    origin.git(&["reset", "--quiet", "--hard", "HEAD~"]);
    assert_eq!(dirs.resolve(&origin, Revision::Commit(lost.clone())).await.commit, lost);
}

#[tokio::test]
async fn incomplete_mirror_is_recreated() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    let commit = origin.write("a", "1\n").commit("first");
    dirs.resolve(&origin, Revision::Default).await;
    let mirrors = dirs.path("cache/mirrors");
    let mirror = names(&mirrors).into_iter().find(|name| name.ends_with(".git")).unwrap();
    fs::remove_file(mirrors.join(&mirror).join("HEAD")).unwrap();
    fs::create_dir(mirrors.join(format!("{mirror}.tmp-1-1"))).unwrap();
    assert_eq!(dirs.resolve(&origin, Revision::Commit(commit.clone())).await.commit, commit);
    assert_eq!(names(&mirrors).len(), 2, "a mirror and its lock, no leftovers");
}

#[tokio::test]
async fn failed_clone_reports_stderr_of_git() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    origin.write("a", "1\n").commit("first");
    fs::write(origin.path().join(".git/config"), "[core]\n\trepositoryformatversion = 9\n").unwrap();
    let error = dirs.cache.resolve(&dirs.source(&origin), &Revision::Default, Refresh::Moving).await;
    let error = error.unwrap_err();
    assert!(matches!(&error, RepoError::Git(GitError::Failed { .. })), "{error:?}");
    assert!(error.to_string().contains("Expected git repo version"), "{error}");
    assert_eq!(error.kind(), RepoErrorKind::Infrastructure);
    assert_eq!(names(&dirs.path("cache/mirrors")).len(), 1, "only the lock is left");
}

#[tokio::test]
async fn private_hosts_are_rejected_unless_allowed() {
    let dirs = TestDirs::new();
    for url in [
        "https://localhost/a.git",
        "http://127.0.0.1:1/a.git",
        "https://[::1]/a",
        "https://[::ffff:10.0.0.1]/a",
        "https://169.254.169.254/latest",
        "http://172.17.0.1/a",
        "ssh://git@192.168.0.1/a",
        "git@10.1.2.3:a",
    ] {
        let source = Source::parse(url, Path::new("/")).unwrap();
        let error = dirs.cache.resolve(&source, &Revision::Default, Refresh::Moving).await.unwrap_err();
        assert!(matches!(error, RepoError::Source(SourceError::PrivateHost { .. })), "{url}: {error}");
        assert!(error.hint().unwrap().contains("--allow-private-hosts"));
    }
    let allowed = dirs.cache.clone().hosts(HostPolicy::AllowPrivate);
    let source = Source::parse("http://user:hunter2hunter2@127.0.0.1:1/a.git", Path::new("/")).unwrap();
    let error = allowed.resolve(&source, &Revision::Default, Refresh::Moving).await.unwrap_err();
    assert!(error.to_string().contains("unable to access"), "{error}");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
}

#[tokio::test]
async fn directory_becomes_one_commit() {
    let dirs = TestDirs::new();
    let plain = dirs.path("plain");
    fs::create_dir_all(plain.join("src")).unwrap();
    fs::write(plain.join("src/a.txt"), "a\n").unwrap();
    fs::write(plain.join(".gitignore"), "secret\n").unwrap();
    fs::write(plain.join("secret"), "s\n").unwrap();
    let source = Source::parse("plain", dirs.dir.path()).unwrap();
    assert_eq!(source, Source::Directory(plain.canonicalize().unwrap()));
    let resolved = dirs.cache.resolve(&source, &Revision::Default, Refresh::Moving).await.unwrap();
    let again = dirs.cache.resolve(&source, &Revision::Default, Refresh::Never).await.unwrap();
    assert_eq!(resolved, again, "the same files give the same commit");
    let _socket = std::os::unix::net::UnixListener::bind(plain.join("s")).unwrap();
    let with_socket = dirs.cache.resolve(&source, &Revision::Default, Refresh::Moving).await.unwrap();
    assert_eq!((with_socket.commit, with_socket.warnings.len()), (resolved.commit.clone(), 1));
    let pruned = dirs.cache.pruned_repo(&resolved, History::Full).await.unwrap();
    let workspace = pruned.workspace(&dirs.git, dirs.path("ws"), &WorkspaceOptions::default()).await.unwrap();
    assert_eq!(names(workspace.path()), [".git", ".gitignore", "src"]);
    assert_eq!(Repo::init(workspace.path()).log(), ["start"]);
    fs::write(plain.join("src/a.txt"), "b\n").unwrap();
    let changed = dirs.cache.resolve(&source, &Revision::Default, Refresh::Moving).await.unwrap();
    assert_ne!(changed.commit, resolved.commit);
}

#[test]
fn local_repositories_and_directories_are_distinguished() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    origin.write("a", "1\n").commit("first");
    origin.git(&["clone", "--quiet", "--bare", ".", "../bare.git"]);
    origin.git(&["clone", "--quiet", ".", "../with space"]);
    let base = dirs.dir.path();
    let escaped = format!("file://{}/with%20space", base.display());
    let url = format!("file://{}", origin.path().display());
    for text in ["origin", "./origin", "bare.git", url.as_str(), escaped.as_str()] {
        assert!(matches!(Source::parse(text, base), Ok(Source::Local(_))), "{text}");
    }
    for text in ["nothing-here", "file://host/x", "file:///%", "ext::sh", ""] {
        assert!(Source::parse(text, base).is_err(), "{text}");
    }
}

#[tokio::test]
async fn old_git_is_rejected_with_a_hint() {
    let dirs = TestDirs::new();
    assert!(dirs.git.check().await.unwrap() >= MIN_GIT);
    let old = dirs.path("old-git");
    fs::write(&old, "#!/bin/sh\necho git version 2.38.5\n").unwrap();
    make_executable(&old);
    let error = git(dirs.dir.path()).program(&old).check().await.unwrap_err();
    assert_eq!(error.to_string(), "git 2.38 is too old (minimum 2.39)");
    assert!(error.hint().unwrap().contains("PATH"));
    let error = git(dirs.dir.path()).program("no-such-git").check().await.unwrap_err();
    assert!(error.hint().unwrap().contains("install git"), "{error}");
}

#[tokio::test]
async fn deadline_and_cancellation_stop_a_command() {
    let dirs = TestDirs::new();
    let slow = dirs.path("slow-git");
    fs::write(&slow, "#!/bin/sh\nexec sleep 60\n").unwrap();
    make_executable(&slow);
    let git = git(dirs.dir.path()).program(&slow);
    let error = git.clone().deadline(Duration::from_millis(50)).check().await.unwrap_err();
    assert!(matches!(error, GitError::TimedOut { .. }), "{error}");
    let token = CancellationToken::new();
    token.cancel();
    assert!(git.cancel_on(token).check().await.unwrap_err().is_cancelled());
}

#[tokio::test]
async fn waiting_for_a_lock_times_out() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    origin.write("a", "1\n").commit("first");
    dirs.resolve(&origin, Revision::Default).await;
    let mirrors = dirs.path("cache/mirrors");
    let lock = names(&mirrors).into_iter().find(|name| name.ends_with(".lock")).unwrap();
    let held = fs::File::open(mirrors.join(lock)).unwrap();
    held.lock().unwrap();
    let git = git(dirs.dir.path()).deadline(Duration::from_millis(40));
    let source = dirs.source(&origin);
    let cache = Cache::new(dirs.path("cache"), &git).unwrap();
    let error = cache.resolve(&source, &Revision::Default, Refresh::Moving).await.unwrap_err();
    assert!(matches!(error, RepoError::Locked { .. }), "{error}");
    let token = CancellationToken::new();
    token.cancel();
    let cache = Cache::new(dirs.path("cache"), &git.cancel_on(token)).unwrap();
    let error = cache.resolve(&source, &Revision::Default, Refresh::Moving).await.unwrap_err();
    assert_eq!(error.kind(), RepoErrorKind::Cancelled);
    drop(held);
    dirs.resolve(&origin, Revision::Default).await;
}

#[tokio::test]
async fn repository_of_another_user_is_a_valid_source() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    origin.write("a", "1\n").commit("first");
    for path in [origin.path().to_owned(), origin.path().join(".git")] {
        // Only root can change the owner; for other users this is an ordinary repository.
        let _ = std::os::unix::fs::chown(path, Some(12_345), None);
    }
    dirs.resolve(&origin, Revision::Default).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn four_tasks_share_one_mirror() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    let commit = origin.write("a", "1\n").commit("first");
    let source = dirs.source(&origin);
    let tasks: Vec<_> = (0..4)
        .map(|n| {
            let (cache, source) = (dirs.cache.clone(), source.clone());
            let (git, at) = (dirs.git.clone(), dirs.path(&format!("ws-{n}")));
            tokio::spawn(async move { use_cache(&cache, &git, &source, &at).await })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), commit);
    }
    assert_eq!(names(&dirs.path("cache/mirrors")).len(), 2);
    assert_eq!(names(&dirs.path("cache/cut")).len(), 2);
}

const HELPER: &str = "YB_TEST_REPO_HELPER";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn four_processes_share_one_mirror() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    let commit = origin.write("a", "1\n").commit("first");
    let tasks: Vec<_> = (0..4)
        .map(|n| {
            let helper = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "source::helper_process", "--nocapture"])
                .inherit_env()
                .env(HELPER, format!("{}\n{n}\norigin", dirs.dir.path().display()))
                .shim(yb_testkit::bin("yb-shim"))
                .deadline(Duration::from_secs(60));
            tokio::spawn(helper.run())
        })
        .collect();
    for task in tasks {
        let report = task.await.unwrap();
        let output = report.output.captured().unwrap().text().text.into_owned();
        assert!(report.success() && output.contains(&format!("resolved {commit}")), "{output}");
    }
    assert_eq!(names(&dirs.path("cache/mirrors")).len(), 2);
    assert_eq!(names(&dirs.path("cache/cut")).len(), 2);
}

#[tokio::test]
async fn remote_fetch_uses_ssh_and_configuration_of_the_user() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    let commit = origin.write("a", "1\n").commit("first");
    // The user's ssh: logs its arguments and runs the command on this machine.
    let (ssh, asked) = (dirs.path("ssh"), dirs.path("asked"));
    let script = format!(
        "#!/bin/sh\necho \"$@\" >>{}\n[ \"$1\" = -G ] && exit 0\nfor last; do :; done\nexec sh -c \"$last\"\n",
        asked.display()
    );
    fs::write(&ssh, script).unwrap();
    make_executable(&ssh);
    let home = dirs.path("home");
    fs::create_dir(&home).unwrap();
    let rewrite = format!("[url \"git@127.0.0.1:{}\"]\n\tinsteadOf = git@work:\n", dirs.dir.path().display());
    fs::write(home.join(".gitconfig"), rewrite).unwrap();
    let report = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "source::helper_process", "--nocapture"])
        .inherit_env()
        .env(HELPER, format!("{}\n0\ngit@work:/origin", dirs.dir.path().display()))
        .env("HOME", home)
        .env("GIT_SSH_COMMAND", ssh)
        .env_remove("GIT_CONFIG_GLOBAL")
        .shim(yb_testkit::bin("yb-shim"))
        .deadline(Duration::from_secs(60))
        .run()
        .await;
    let output = report.output.captured().unwrap().text().text.into_owned();
    assert!(report.success() && output.contains(&format!("resolved {commit}")), "{output}");
    let asked = fs::read_to_string(asked).unwrap();
    assert!(asked.contains("-oBatchMode=yes") && asked.contains("git@127.0.0.1"), "{asked}");
}

#[tokio::test]
async fn shallow_checkout_is_a_valid_source() {
    let dirs = TestDirs::new();
    let origin = dirs.origin();
    origin.write("a", "0\n").commit("past");
    let commit = origin.write("a", "1\n").commit("now");
    let url = format!("file://{}", origin.path().display());
    origin.git(&["clone", "--quiet", "--depth=1", &url, "../shallow"]);
    let source = Source::parse("shallow", dirs.dir.path()).unwrap();
    assert_eq!(use_cache(&dirs.cache, &dirs.git, &source, &dirs.path("ws")).await, commit);
    let agent = Repo::init(dirs.path("ws"));
    assert_eq!(agent.log(), ["now"]);
    agent.git(&["fsck", "--full"]);
}

/// A child process of another test; does nothing on its own.
#[tokio::test]
async fn helper_process() {
    let Ok(order) = std::env::var(HELPER) else { return };
    let mut lines = order.lines();
    let dir = Path::new(lines.next().unwrap());
    let number = lines.next().unwrap();
    let git = git(dir);
    let cache = Cache::new(dir.join("cache"), &git).unwrap().hosts(HostPolicy::AllowPrivate);
    let source = Source::parse(lines.next().unwrap(), dir).unwrap();
    let commit = use_cache(&cache, &git, &source, &dir.join(format!("ws-{number}"))).await;
    println!("resolved {commit}");
}

async fn use_cache(cache: &Cache, git: &Git, source: &Source, at: &Path) -> String {
    let resolved = cache.resolve(source, &Revision::Default, Refresh::Moving).await.unwrap();
    let pruned = cache.pruned_repo(&resolved, History::Full).await.unwrap();
    let workspace = pruned.workspace(git, at, &WorkspaceOptions::default()).await.unwrap();
    assert_eq!(fs::read_to_string(workspace.path().join("a")).unwrap(), "1\n");
    workspace.commit().to_owned()
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
