//! Escapes by system calls that neither paths nor ports restrict: attributes of files, limits of processes, IPC that
//! outlives a trial, namespaces. The rules are tested one by one in `yb-supervise`.

use std::os::unix::fs::MetadataExt as _;

use super::World;

/// A hidden test, the journal of a finished run and the directory of runs, as an agent of the same user could break them.
#[test]
fn attributes_of_host_files_can_t_be_changed() {
    let world = World::new();
    let (test, runs) = (world.at("hidden-test.sh"), world.at(".youbencha-workspace/runs"));
    let journal = world.newest().join("journal.jsonl");
    let state = |path: &std::path::Path| {
        let found = path.metadata().unwrap();
        (found.mode() & 0o7777, found.mtime())
    };
    let before = [&test, &journal, &runs].map(|path| state(path).0);
    let tries = format!(
        "for path in {test} {journal} {runs}; do
            mode=$(stat -c %a $path 2> /dev/null)
            chmod $mode $path 2> /dev/null && test $mode && echo chmod >> found
            touch -c -d 2001-01-01 $path 2> /dev/null && test -e $path && echo touch >> found
            chmod u+s,o-r $path 2> /dev/null && echo setuid >> found && chmod $mode $path
            chown $(id -u) $path 2> /dev/null && echo chown >> found
        done; sort -u found -o found 2> /dev/null; true",
        test = test.display(),
        journal = journal.display(),
        runs = runs.display(),
    );
    for level in ["bubblewrap", "landlock"] {
        assert_eq!(world.run(&tries, level).code, Some(0), "{level}");
        assert_eq!(world.found(), [""; 0], "{level}");
        assert_eq!([&test, &journal, &runs].map(|path| state(path).0), before, "{level}");
        assert!(state(&test).1 > 1_000_000_000, "{level}");
    }
    assert_eq!(world.run(&tries, "none").code, Some(0));
    assert_eq!(world.found(), ["chmod", "chown", "setuid", "touch"]);
}

/// The test's own process is a process of the host.
#[test]
fn limits_and_priorities_of_host_processes_can_t_be_changed() {
    let world = World::new();
    let pid = std::process::id();
    let tries = format!(
        "cat > try.py <<'EOF'
import os, resource
def can(name, attempt):
    try:
        attempt()
        open('found', 'a').write(name + '\\n')
    except OSError:
        pass
limit = resource.getrlimit(resource.RLIMIT_CORE)
can('limit', lambda: resource.prlimit({pid}, resource.RLIMIT_CORE))
can('affinity', lambda: os.sched_setaffinity({pid}, os.sched_getaffinity({pid})))
can('priority', lambda: os.setpriority(os.PRIO_PROCESS, {pid}, os.getpriority(os.PRIO_PROCESS, {pid})))
can('own', lambda: os.sched_setaffinity(os.getpid(), os.sched_getaffinity(0)))
EOF
python3 try.py; rm try.py; true"
    );
    let [bubblewrap, landlock, none] = world.each(&tries);
    assert_eq!((bubblewrap, landlock), (vec!["own".to_owned()], vec!["own".to_owned()]));
    assert_eq!(none, ["limit", "affinity", "priority", "own"]);
}

/// One trial leaves a message in a System V queue and a keyring, the next looks for it.
#[test]
fn messages_do_not_reach_the_next_trial() {
    let world = World::new();
    let key = 0x5942_0000 + std::process::id() % 0xffff;
    let script = |action: &str| {
        format!(
            "cat > try.py <<'EOF'
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
{action}
EOF
python3 try.py; rm try.py; true"
        )
    };
    let leave = script(&format!("libc.msgget({key}, 0o1600)"));
    let look = script(&format!(
        "queue = libc.msgget({key}, 0)
if queue >= 0:
    libc.msgctl(queue, 0, None)
    open('found', 'a').write('message\\n')"
    ));
    for (level, found) in [("bubblewrap", &[][..]), ("landlock", &[]), ("none", &["message"])] {
        assert_eq!(world.run(&leave, level).code, Some(0), "{level}");
        // Without isolation, so that the look itself is not what fails.
        assert_eq!(world.run(&look, "none").code, Some(0), "{level}");
        assert_eq!(world.found(), found, "{level}");
    }
}

#[test]
fn namespaces_and_traces_can_t_be_created() {
    let world = World::new();
    let tries = "unshare --user --map-root-user true 2> /dev/null && echo namespace >> found
        python3 -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).ptrace(0, 0, 0, 0))' 2> /dev/null && echo traced >> found
        true";
    let [bubblewrap, landlock, none] = world.each(tries);
    assert_eq!((bubblewrap, landlock), (vec![], vec![]));
    assert!(none.contains(&"traced".to_owned()), "{none:?}");
}
