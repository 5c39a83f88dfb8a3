//! Isolation from other processes and from root privileges.

use super::World;

/// Tries to see a host process by its arguments, to read its descriptors and to signal it.
#[test]
fn host_processes_can_t_be_signaled_or_written_to() {
    let world = World::new();
    let tries = "for process in /proc/[0-9]*; do
            tr '\\0' ' ' < $process/cmdline 2> /dev/null | grep -q 'yb ru[n]' || continue
            echo sees >> found
            for fd in $process/fd/*; do
                case $(readlink $fd) in */journal.jsonl) echo knows >> found;; esac
                case $(readlink $fd) in pipe:*) (: >> $fd) 2> /dev/null && echo opens >> found;; esac
            done
            kill -0 ${process#/proc/} 2> /dev/null && echo signals >> found
        done
        sort -u found -o found 2> /dev/null; true";
    let [bubblewrap, landlock, none] = world.each(tries);
    assert_eq!(bubblewrap, [""; 0]);
    assert_eq!(landlock, ["sees"]);
    assert_eq!(none, ["knows", "opens", "sees", "signals"]);
}

/// The shim is the ancestor of the agent.
#[test]
fn shim_can_t_be_stopped() {
    let world = World::new();
    let tries = "for pid in $PPID $(ps -o ppid= -p $PPID 2> /dev/null); do
            test $pid -gt 1 && grep -q '^yb-shim$' /proc/$pid/comm 2> /dev/null || continue
            kill -0 $pid 2> /dev/null && echo signals >> found
        done; true";
    let [bubblewrap, landlock, none] = world.each(tries);
    assert_eq!((bubblewrap, landlock), (vec![], vec![]));
    assert_eq!(none, ["signals"]);
}

#[test]
fn host_processes_can_t_be_traced() {
    let world = World::new();
    let pid = std::process::id();
    let script = format!(
        "python3 - <<'EOF'
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
attach = libc.ptrace(0x4206, {pid}, 0, 0)
open('found', 'w').write('traced' if attach == 0 else 'refused')
EOF"
    );
    for level in ["bubblewrap", "landlock"] {
        assert_eq!(world.run(&script, level).code, Some(0));
        assert_eq!(world.found(), ["refused"], "{level}");
    }
}

#[test]
fn daemons_are_killed_with_the_agent() {
    let world = World::new();
    for (level, seconds) in [("bubblewrap", 7_654_321), ("landlock", 7_654_322), ("none", 7_654_323)] {
        let daemon = format!(
            "env -i setsid sh -c 'exec sleep {seconds}' > /dev/null 2>&1 < /dev/null &
            while ! grep -qz {seconds} /proc/[0-9]*/cmdline 2> /dev/null; do sleep 0.05; done; echo left >> found"
        );
        assert_eq!(world.run(&daemon, level).code, Some(0));
        assert_eq!(world.found(), ["left"], "{level}");
        let line = format!("sleep\0{seconds}\0").into_bytes();
        let mut alive = std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter(|entry| std::fs::read(entry.path().join("cmdline")).is_ok_and(|known| known == line));
        assert!(alive.next().is_none(), "{level}");
    }
}

#[test]
fn root_capabilities_are_dropped() {
    let world = World::new();
    let tries = "grep -q 'CapEff:.0*$' /proc/self/status && grep -q 'NoNewPrivs:.1' /proc/self/status && echo none >> found
        test $(id -u) -eq 0 && echo root >> found
        mknod disk b 8 0 2> /dev/null && echo device >> found; rm -f disk
        mount -t tmpfs none . 2> /dev/null && { umount \"$PWD\"; echo mount >> found; }; true";
    let root = rustix::process::geteuid().is_root();
    let [bubblewrap, landlock, _] = world.each(tries);
    assert_eq!(bubblewrap, ["none"]);
    // It stays root, because its files belong to root, but has no capabilities.
    assert_eq!(landlock, if root { vec!["none", "root"] } else { vec!["none"] });
}
