//! From a source to a commit: mirrors, revisions, failures, and who may use the cache at the same time.

use std::fs;
use std::path::Path;
use std::time::Duration;

use yb_repo::{
    Cache, Git, GitError, History, HostPolicy, MIN_GIT, Refresh, RepoError, RepoErrorKind, Revision, Source,
    SourceError, WorkspaceOptions,
};
use yb_supervise::{CancellationToken, Command};
use yb_testkit::git::Repo;

use crate::workspace::{Place, git};

#[tokio::test]
async fn revisions_become_commits() {
    let place = Place::new();
    let origin = place.origin();
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
        assert_eq!(place.resolve(&origin, revision.clone()).await.commit, **expected, "{revision:?}");
    }
    let source = place.source(&origin);
    for (revision, expected) in [
        (Revision::Branch("nope".into()), "no branch in"),
        (Revision::Tag("main".into()), "no tag in"),
        (Revision::Commit("0".repeat(40)), "no commit in"),
        (Revision::Branch("a^{/x}".into()), "not a possible branch"),
        (Revision::Commit("--help".into()), "not a possible commit"),
    ] {
        let error = place.cache.resolve(&source, &revision, Refresh::Moving).await.unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}

#[tokio::test]
async fn a_clock_that_was_set_back_hides_no_commit() {
    let place = Place::new();
    let origin = place.origin();
    origin.write("a", "1\n").commit("first");
    place.resolve(&origin, Revision::Default).await;
    let tomorrow = std::time::SystemTime::now() + Duration::from_secs(86_400);
    let mirrors = fs::read_dir(place.path("cache/mirrors")).unwrap().map(|entry| entry.unwrap().path());
    let fetched = mirrors.map(|path| path.join("youbencha-fetched")).find(|path| path.exists()).unwrap();
    fs::File::options().write(true).open(fetched).unwrap().set_modified(tomorrow).unwrap();
    let second = origin.write("a", "2\n").commit("second");
    assert_eq!(place.resolve(&origin, Revision::Default).await.commit, second);
}

#[tokio::test]
async fn locks_of_a_git_that_was_killed_are_in_nobody_s_way() {
    let place = Place::new();
    let origin = place.origin();
    origin.write("a", "1\n").commit("first");
    place.resolve(&origin, Revision::Default).await;
    let mut mirrors = fs::read_dir(place.path("cache/mirrors")).unwrap().map(|entry| entry.unwrap().path());
    let mirror = mirrors.find(|path| path.join("youbencha-fetched").exists()).unwrap();
    for lock in ["refs/heads/main.lock", "packed-refs.lock"] {
        fs::write(mirror.join(lock), "").unwrap();
    }
    let second = origin.write("a", "2\n").commit("second");
    assert_eq!(place.resolve(&origin, Revision::Default).await.commit, second);
}

#[tokio::test]
async fn a_branch_is_fetched_again_and_a_commit_is_not() {
    let place = Place::new();
    let origin = place.origin();
    let first = origin.write("a", "1\n").commit("first");
    assert_eq!(place.resolve(&origin, Revision::Default).await.commit, first);
    let second = origin.write("a", "2\n").commit("second");
    let source = place.source(&origin);
    let resolve = async |revision, refresh| {
        place.cache.resolve(&source, &revision, refresh).await.map(|resolved| resolved.commit)
    };
    assert_eq!(resolve(Revision::Default, Refresh::Missing).await.unwrap(), first);
    assert!(resolve(Revision::Commit(second.clone()), Refresh::Never).await.is_err());
    assert_eq!(resolve(Revision::Default, Refresh::Moving).await.unwrap(), second);
    // The origin is gone; what is cached needs it no more.
    fs::rename(origin.path(), place.path("elsewhere")).unwrap();
    assert_eq!(resolve(Revision::Commit(first.clone()), Refresh::Moving).await.unwrap(), first);
    assert!(matches!(resolve(Revision::Default, Refresh::Moving).await, Err(RepoError::Git(_))));
}

#[tokio::test]
async fn a_commit_that_no_branch_leads_to_is_fetched_by_its_id() {
    let place = Place::new();
    let origin = place.origin();
    origin.write("a", "1\n").commit("first");
    let lost = origin.write("a", "2\n").commit("lost");
    origin.git(&["reset", "--quiet", "--hard", "HEAD~"]);
    assert_eq!(place.resolve(&origin, Revision::Commit(lost.clone())).await.commit, lost);
}

#[tokio::test]
async fn a_half_made_mirror_is_made_again() {
    let place = Place::new();
    let origin = place.origin();
    let commit = origin.write("a", "1\n").commit("first");
    place.resolve(&origin, Revision::Default).await;
    let mirrors = place.path("cache/mirrors");
    let mirror = names(&mirrors).into_iter().find(|name| name.ends_with(".git")).unwrap();
    fs::remove_file(mirrors.join(&mirror).join("HEAD")).unwrap();
    fs::create_dir(mirrors.join(format!("{mirror}.tmp-1-1"))).unwrap();
    assert_eq!(place.resolve(&origin, Revision::Commit(commit.clone())).await.commit, commit);
    assert_eq!(names(&mirrors).len(), 2, "a mirror and its lock, no leftovers");
}

#[tokio::test]
async fn a_failed_clone_has_gits_own_words() {
    let place = Place::new();
    let origin = place.origin();
    origin.write("a", "1\n").commit("first");
    fs::write(origin.path().join(".git/config"), "[core]\n\trepositoryformatversion = 9\n").unwrap();
    let error = place.cache.resolve(&place.source(&origin), &Revision::Default, Refresh::Moving).await;
    let error = error.unwrap_err();
    assert!(matches!(&error, RepoError::Git(GitError::Failed { .. })), "{error:?}");
    assert!(error.to_string().contains("Expected git repo version"), "{error}");
    assert_eq!(error.kind(), RepoErrorKind::Infrastructure);
    assert_eq!(names(&place.path("cache/mirrors")).len(), 1, "only the lock is left");
}

#[tokio::test]
async fn private_hosts_are_refused_and_can_be_allowed() {
    let place = Place::new();
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
        let error = place.cache.resolve(&source, &Revision::Default, Refresh::Moving).await.unwrap_err();
        assert!(matches!(error, RepoError::Source(SourceError::PrivateHost { .. })), "{url}: {error}");
        assert!(error.hint().unwrap().contains("--allow-private-hosts"));
    }
    let allowed = place.cache.clone().hosts(HostPolicy::AllowPrivate);
    let source = Source::parse("http://user:hunter2hunter2@127.0.0.1:1/a.git", Path::new("/")).unwrap();
    let error = allowed.resolve(&source, &Revision::Default, Refresh::Moving).await.unwrap_err();
    assert!(error.to_string().contains("unable to access"), "{error}");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
}

#[tokio::test]
async fn a_directory_becomes_one_commit() {
    let place = Place::new();
    let plain = place.path("plain");
    fs::create_dir_all(plain.join("src")).unwrap();
    fs::write(plain.join("src/a.txt"), "a\n").unwrap();
    fs::write(plain.join(".gitignore"), "secret\n").unwrap();
    fs::write(plain.join("secret"), "s\n").unwrap();
    let source = Source::parse("plain", place.dir.path()).unwrap();
    assert_eq!(source, Source::Directory(plain.canonicalize().unwrap()));
    let resolved = place.cache.resolve(&source, &Revision::Default, Refresh::Moving).await.unwrap();
    let again = place.cache.resolve(&source, &Revision::Default, Refresh::Never).await.unwrap();
    assert_eq!(resolved, again, "the same files give the same commit");
    let _socket = std::os::unix::net::UnixListener::bind(plain.join("s")).unwrap();
    let with_socket = place.cache.resolve(&source, &Revision::Default, Refresh::Moving).await.unwrap();
    assert_eq!((with_socket.commit, with_socket.warnings.len()), (resolved.commit.clone(), 1));
    let cut = place.cache.cut(&resolved, History::Full).await.unwrap();
    let workspace = cut.workspace(&place.git, place.path("ws"), &WorkspaceOptions::default()).await.unwrap();
    assert_eq!(names(workspace.path()), [".git", ".gitignore", "src"]);
    assert_eq!(Repo::init(workspace.path()).log(), ["start"]);
    fs::write(plain.join("src/a.txt"), "b\n").unwrap();
    let changed = place.cache.resolve(&source, &Revision::Default, Refresh::Moving).await.unwrap();
    assert_ne!(changed.commit, resolved.commit);
}

#[test]
fn local_sources_are_told_apart() {
    let place = Place::new();
    let origin = place.origin();
    origin.write("a", "1\n").commit("first");
    origin.git(&["clone", "--quiet", "--bare", ".", "../bare.git"]);
    origin.git(&["clone", "--quiet", ".", "../with space"]);
    let base = place.dir.path();
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
async fn an_old_git_is_refused_with_the_way_out() {
    let place = Place::new();
    assert!(place.git.check().await.unwrap() >= MIN_GIT);
    let old = place.path("old-git");
    fs::write(&old, "#!/bin/sh\necho git version 2.39.5\n").unwrap();
    make_executable(&old);
    let error = git(place.dir.path()).program(&old).check().await.unwrap_err();
    assert_eq!(error.to_string(), "git 2.39 is too old, at least 2.41 is needed");
    assert!(error.hint().unwrap().contains("PATH"));
    let error = git(place.dir.path()).program("no-such-git").check().await.unwrap_err();
    assert!(error.hint().unwrap().contains("install git"), "{error}");
}

#[tokio::test]
async fn deadline_and_cancellation_end_a_command() {
    let place = Place::new();
    let slow = place.path("slow-git");
    fs::write(&slow, "#!/bin/sh\nexec sleep 60\n").unwrap();
    make_executable(&slow);
    let git = git(place.dir.path()).program(&slow);
    let error = git.clone().deadline(Duration::from_millis(50)).check().await.unwrap_err();
    assert!(matches!(error, GitError::TimedOut { .. }), "{error}");
    let token = CancellationToken::new();
    token.cancel();
    assert!(git.cancel_on(token).check().await.unwrap_err().is_cancelled());
}

#[tokio::test]
async fn waiting_for_another_process_ends_in_time() {
    let place = Place::new();
    let origin = place.origin();
    origin.write("a", "1\n").commit("first");
    place.resolve(&origin, Revision::Default).await;
    let mirrors = place.path("cache/mirrors");
    let lock = names(&mirrors).into_iter().find(|name| name.ends_with(".lock")).unwrap();
    let held = fs::File::open(mirrors.join(lock)).unwrap();
    held.lock().unwrap();
    let git = git(place.dir.path()).deadline(Duration::from_millis(40));
    let source = place.source(&origin);
    let cache = Cache::new(place.path("cache"), &git).unwrap();
    let error = cache.resolve(&source, &Revision::Default, Refresh::Moving).await.unwrap_err();
    assert!(matches!(error, RepoError::Locked { .. }), "{error}");
    let token = CancellationToken::new();
    token.cancel();
    let cache = Cache::new(place.path("cache"), &git.cancel_on(token)).unwrap();
    let error = cache.resolve(&source, &Revision::Default, Refresh::Moving).await.unwrap_err();
    assert_eq!(error.kind(), RepoErrorKind::Cancelled);
    drop(held);
    place.resolve(&origin, Revision::Default).await;
}

#[tokio::test]
async fn somebody_elses_repository_can_be_a_source() {
    let place = Place::new();
    let origin = place.origin();
    origin.write("a", "1\n").commit("first");
    for path in [origin.path().to_owned(), origin.path().join(".git")] {
        // Only root can give files away; for others git has nothing to doubt here.
        let _ = std::os::unix::fs::chown(path, Some(12_345), None);
    }
    place.resolve(&origin, Revision::Default).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn four_tasks_share_one_mirror() {
    let place = Place::new();
    let origin = place.origin();
    let commit = origin.write("a", "1\n").commit("first");
    let source = place.source(&origin);
    let tasks: Vec<_> = (0..4)
        .map(|n| {
            let (cache, source) = (place.cache.clone(), source.clone());
            let (git, at) = (place.git.clone(), place.path(&format!("ws-{n}")));
            tokio::spawn(async move { use_cache(&cache, &git, &source, &at).await })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), commit);
    }
    assert_eq!(names(&place.path("cache/mirrors")).len(), 2);
    assert_eq!(names(&place.path("cache/cut")).len(), 2);
}

const HELPER: &str = "YB_TEST_REPO_HELPER";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn four_processes_share_one_mirror() {
    let place = Place::new();
    let origin = place.origin();
    let commit = origin.write("a", "1\n").commit("first");
    let tasks: Vec<_> = (0..4)
        .map(|n| {
            let helper = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "source::helper_process", "--nocapture"])
                .inherit_env()
                .env(HELPER, format!("{}\n{n}\norigin", place.dir.path().display()))
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
    assert_eq!(names(&place.path("cache/mirrors")).len(), 2);
    assert_eq!(names(&place.path("cache/cut")).len(), 2);
}

#[tokio::test]
async fn a_remote_is_fetched_with_the_users_own_ssh_and_configuration() {
    let place = Place::new();
    let origin = place.origin();
    let commit = origin.write("a", "1\n").commit("first");
    // The user's ssh: says what it was asked, and goes no further than this machine.
    let (ssh, asked) = (place.path("ssh"), place.path("asked"));
    let script = format!(
        "#!/bin/sh\necho \"$@\" >>{}\n[ \"$1\" = -G ] && exit 0\nfor last; do :; done\nexec sh -c \"$last\"\n",
        asked.display()
    );
    fs::write(&ssh, script).unwrap();
    make_executable(&ssh);
    let home = place.path("home");
    fs::create_dir(&home).unwrap();
    let rewrite =
        format!("[url \"git@127.0.0.1:{}\"]\n\tinsteadOf = git@work:\n", place.dir.path().display());
    fs::write(home.join(".gitconfig"), rewrite).unwrap();
    let report = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "source::helper_process", "--nocapture"])
        .inherit_env()
        .env(HELPER, format!("{}\n0\ngit@work:/origin", place.dir.path().display()))
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
async fn a_shallow_checkout_is_a_source_too() {
    let place = Place::new();
    let origin = place.origin();
    origin.write("a", "0\n").commit("past");
    let commit = origin.write("a", "1\n").commit("now");
    let url = format!("file://{}", origin.path().display());
    origin.git(&["clone", "--quiet", "--depth=1", &url, "../shallow"]);
    let source = Source::parse("shallow", place.dir.path()).unwrap();
    assert_eq!(use_cache(&place.cache, &place.git, &source, &place.path("ws")).await, commit);
    let agent = Repo::init(place.path("ws"));
    assert_eq!(agent.log(), ["now"]);
    agent.git(&["fsck", "--full"]);
}

/// One of several processes; by itself it does nothing.
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
    let cut = cache.cut(&resolved, History::Full).await.unwrap();
    let workspace = cut.workspace(git, at, &WorkspaceOptions::default()).await.unwrap();
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
