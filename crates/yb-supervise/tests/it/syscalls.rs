//! Every rule about system calls, in effect and removed, and the calls that a supervisor makes for the child.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use yb_supervise::{Command, Network, Sandbox, SandboxKind};

use crate::support::{TEST_TIMEOUT, contained};

/// A pid that no process has.
const NO_PROCESS: i64 = 0x3fff_ffff;

/// Rules whose calls fail with the same error without them, since the child has no capabilities. The tests of
/// `sandbox/filter.rs` cover them.
const SAME_WITHOUT: &[&str] = &[
    "pivot_root",
    "move_mount",
    "fsopen",
    "fspick",
    "fsmount",
    "open_by_handle_at",
    "acct",
    "delete_module",
    "finit_module",
    "init_module",
    "kexec_file_load",
    "kexec_load",
    "reboot",
    "setdomainname",
    "sethostname",
    "swapoff",
    "syslog",
];

/// A writable directory, and a file of the same user outside that is readable.
struct Files {
    dir: TempDir,
    outside: TempDir,
}

impl Files {
    fn new() -> Self {
        let files = Self { dir: tempfile::tempdir().unwrap(), outside: tempfile::tempdir().unwrap() };
        for path in [files.inside(), files.outside()] {
            std::fs::write(&path, "content").unwrap();
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o644)).unwrap();
        }
        files
    }

    fn inside(&self) -> PathBuf {
        self.dir.path().join("file")
    }

    fn outside(&self) -> PathBuf {
        self.outside.path().join("file")
    }

    fn sandbox(&self, kind: SandboxKind) -> Sandbox {
        let bin = yb_testkit::bin("raw-syscall");
        let sandbox = Sandbox::new().kind(kind).writable(self.dir.path()).read_only(self.outside.path());
        sandbox.read_only(bin.parent().unwrap())
    }

    fn command(&self, program: impl AsRef<Path>, sandbox: Sandbox) -> Command {
        let command = contained(program).env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.current_dir(self.dir.path()).sandbox(sandbox)
    }

    /// Makes calls below a sandbox; returns 0 or the error of each.
    async fn results(&self, sandbox: Sandbox, calls: &[String]) -> Vec<i32> {
        let command = self.command(yb_testkit::bin("raw-syscall"), sandbox).args(calls);
        let text = stdout_of(command).await;
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    /// Runs a shell script below Landlock.
    async fn shell(&self, script: &str) -> String {
        let sandbox = self.sandbox(SandboxKind::Landlock);
        stdout_of(self.command("/bin/sh", sandbox).args(["-c", script])).await
    }
}

async fn stdout_of(command: Command) -> String {
    let report = command.deadline(TEST_TIMEOUT).run().await;
    let output = report.output.captured().map(|output| output.text().text).unwrap_or_default();
    assert!(report.success(), "{}: {output}", report.end);
    output.trim().to_owned()
}

fn mode_of(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

/// Returns a harmless call to which the rule applies, and the error of the rule.
#[expect(clippy::too_many_lines, reason = "a table")]
fn call(rule: &str, file: &Path) -> (String, i32) {
    use libc::{EAFNOSUPPORT, ENOSYS, EPERM, EPROTONOSUPPORT};
    let path = format!("s:{}", file.display());
    let open = format!("fd:{}", file.display());
    let none = NO_PROCESS;
    let (number, arguments, errno) = match rule {
        "ptrace" => (libc::SYS_ptrace, "0".to_owned(), EPERM),
        "process_vm_readv" => (libc::SYS_process_vm_readv, format!("{none},0,0,0,0,0"), EPERM),
        "process_vm_writev" => (libc::SYS_process_vm_writev, format!("{none},0,0,0,0,0"), EPERM),
        "process_madvise" => (libc::SYS_process_madvise, "-1".to_owned(), EPERM),
        "pidfd_getfd" => (libc::SYS_pidfd_getfd, "-1".to_owned(), EPERM),
        "kcmp" => (libc::SYS_kcmp, format!("{none},{none}"), EPERM),
        "prlimit64" => (libc::SYS_prlimit64, format!("{none},7"), EPERM),
        "keyctl" => (libc::SYS_keyctl, "9999".to_owned(), EPERM),
        "add_key" => (libc::SYS_add_key, String::new(), EPERM),
        "request_key" => (libc::SYS_request_key, String::new(), EPERM),
        "io_uring_setup" => (libc::SYS_io_uring_setup, String::new(), ENOSYS),
        "io_uring_enter" => (libc::SYS_io_uring_enter, "-1".to_owned(), ENOSYS),
        "io_uring_register" => (libc::SYS_io_uring_register, "-1".to_owned(), ENOSYS),
        "perf_event_open" => (libc::SYS_perf_event_open, String::new(), EPERM),
        "bpf" => (libc::SYS_bpf, "0,z:8,1048576".to_owned(), EPERM),
        "userfaultfd" => (libc::SYS_userfaultfd, "262145".to_owned(), EPERM),
        // Invalid together with these flags, so that nothing is created.
        "unshare" => (libc::SYS_unshare, (libc::CLONE_NEWUTS | 1).to_string(), EPERM),
        "unshare:time" => (libc::SYS_unshare, (0x80 | 1).to_string(), EPERM),
        "setns" => (libc::SYS_setns, "-1".to_owned(), EPERM),
        "clone" => (libc::SYS_clone, (libc::CLONE_NEWNS | libc::CLONE_FS).to_string(), EPERM),
        "clone3" => (libc::SYS_clone3, String::new(), ENOSYS),
        "mount" => (libc::SYS_mount, "1,1,1".to_owned(), EPERM),
        "umount2" => (libc::SYS_umount2, "0,65535".to_owned(), EPERM),
        "pivot_root" => (libc::SYS_pivot_root, String::new(), EPERM),
        "chroot" => (libc::SYS_chroot, "s:/does-not-exist".to_owned(), EPERM),
        "open_tree" => (libc::SYS_open_tree, "-1,s:,1073741824".to_owned(), EPERM),
        "open_tree_attr" => (467, "-1,s:,1073741824".to_owned(), EPERM),
        "move_mount" => (libc::SYS_move_mount, "-1,s:,-1,s:,0".to_owned(), EPERM),
        "fsopen" => (libc::SYS_fsopen, String::new(), EPERM),
        "fspick" => (libc::SYS_fspick, "-1,s:".to_owned(), EPERM),
        "fsconfig" => (libc::SYS_fsconfig, "-1".to_owned(), EPERM),
        "fsmount" => (libc::SYS_fsmount, "-1".to_owned(), EPERM),
        "mount_setattr" => (libc::SYS_mount_setattr, "-1,s:,1073741824".to_owned(), EPERM),
        "open_by_handle_at" => (libc::SYS_open_by_handle_at, "-1".to_owned(), EPERM),
        "acct" => (libc::SYS_acct, "1".to_owned(), EPERM),
        "clock_settime" => (libc::SYS_clock_settime, "999".to_owned(), EPERM),
        "delete_module" => (libc::SYS_delete_module, "1".to_owned(), EPERM),
        "finit_module" => (libc::SYS_finit_module, "-1".to_owned(), EPERM),
        "init_module" => (libc::SYS_init_module, String::new(), EPERM),
        #[cfg(target_arch = "x86_64")]
        "ioperm" => (libc::SYS_ioperm, "70000,1".to_owned(), EPERM),
        #[cfg(target_arch = "x86_64")]
        "iopl" => (libc::SYS_iopl, "9".to_owned(), EPERM),
        #[cfg(target_arch = "x86_64")]
        "kexec_file_load" => (320, "-1,-1".to_owned(), EPERM),
        #[cfg(target_arch = "aarch64")]
        "kexec_file_load" => (294, "-1,-1".to_owned(), EPERM),
        "kexec_load" => (libc::SYS_kexec_load, "0,1".to_owned(), EPERM),
        "quotactl" => (libc::SYS_quotactl, "255".to_owned(), EPERM),
        "quotactl_fd" => (libc::SYS_quotactl_fd, "-1".to_owned(), EPERM),
        "reboot" => (libc::SYS_reboot, String::new(), EPERM),
        "setdomainname" => (libc::SYS_setdomainname, "1,-1".to_owned(), EPERM),
        "sethostname" => (libc::SYS_sethostname, "1,-1".to_owned(), EPERM),
        "settimeofday" => (libc::SYS_settimeofday, "1".to_owned(), EPERM),
        "swapoff" => (libc::SYS_swapoff, "1".to_owned(), EPERM),
        "swapon" => (libc::SYS_swapon, "1,1073741824".to_owned(), EPERM),
        "syslog" => (libc::SYS_syslog, "10".to_owned(), EPERM),
        "ioctl:terminal" => (libc::SYS_ioctl, format!("0,{}", libc::TIOCSTI), EPERM),
        "ioctl:move-extents" => (libc::SYS_ioctl, format!("0,{}", 0xc028_660f_u32), EPERM),
        // An invalid type is found after the family.
        "socket:family" => (libc::SYS_socket, format!("{},11", libc::AF_VSOCK), EAFNOSUPPORT),
        "socket:netlink" => (libc::SYS_socket, format!("{},11,4", libc::AF_NETLINK), EPROTONOSUPPORT),
        "socket:protocol" => (libc::SYS_socket, "2,17,262".to_owned(), EPROTONOSUPPORT),
        "socket:datagram" => (libc::SYS_socket, "2,2,0".to_owned(), EPERM),
        "sendto:fast-open" => (libc::SYS_sendto, format!("-1,0,0,{}", libc::MSG_FASTOPEN), EPERM),
        "sendmsg:fast-open" => (libc::SYS_sendmsg, format!("-1,0,{}", libc::MSG_FASTOPEN), EPERM),
        "sendmmsg:fast-open" => (libc::SYS_sendmmsg, format!("-1,0,0,{}", libc::MSG_FASTOPEN), EPERM),
        "shmget" => (libc::SYS_shmget, String::new(), ENOSYS),
        "shmat" => (libc::SYS_shmat, "-1".to_owned(), ENOSYS),
        "shmctl" => (libc::SYS_shmctl, "-1,99".to_owned(), ENOSYS),
        "semget" => (libc::SYS_semget, "0,-1".to_owned(), ENOSYS),
        "semop" => (libc::SYS_semop, "-1".to_owned(), ENOSYS),
        "semtimedop" => (libc::SYS_semtimedop, "-1".to_owned(), ENOSYS),
        "semctl" => (libc::SYS_semctl, "-1,0,99".to_owned(), ENOSYS),
        "msgget" => (libc::SYS_msgget, "20261117".to_owned(), ENOSYS),
        "msgsnd" => (libc::SYS_msgsnd, "-1,z:16".to_owned(), ENOSYS),
        "msgrcv" => (libc::SYS_msgrcv, "-1,z:16".to_owned(), ENOSYS),
        "msgctl" => (libc::SYS_msgctl, "-1,99".to_owned(), ENOSYS),
        "mq_open" => (libc::SYS_mq_open, String::new(), ENOSYS),
        "mq_unlink" => (libc::SYS_mq_unlink, "s:yb-does-not-exist".to_owned(), ENOSYS),
        "ioctl:file-flags" => (libc::SYS_ioctl, format!("0,{}", 0x4008_6602), EPERM),
        "setxattrat" => (463, "-1".to_owned(), ENOSYS),
        "removexattrat" => (466, "-1,0,0,0".to_owned(), ENOSYS),
        "file_setattr" => (469, "-1".to_owned(), ENOSYS),
        #[cfg(target_arch = "x86_64")]
        "chmod" => (libc::SYS_chmod, format!("{path},384"), EPERM),
        "fchmod" => (libc::SYS_fchmod, format!("{open},384"), EPERM),
        "fchmodat" => (libc::SYS_fchmodat, format!("-100,{path},384"), EPERM),
        "fchmodat2" => (452, format!("-100,{path},384,0"), EPERM),
        #[cfg(target_arch = "x86_64")]
        "chown" => (libc::SYS_chown, format!("{path},-1,-1"), EPERM),
        #[cfg(target_arch = "x86_64")]
        "lchown" => (libc::SYS_lchown, format!("{path},-1,-1"), EPERM),
        "fchown" => (libc::SYS_fchown, format!("{open},-1,-1"), EPERM),
        "fchownat" => (libc::SYS_fchownat, format!("-100,{path},-1,-1,0"), EPERM),
        #[cfg(target_arch = "x86_64")]
        "utime" => (libc::SYS_utime, path, EPERM),
        #[cfg(target_arch = "x86_64")]
        "utimes" => (libc::SYS_utimes, path, EPERM),
        #[cfg(target_arch = "x86_64")]
        "futimesat" => (libc::SYS_futimesat, format!("-100,{path}"), EPERM),
        "utimensat" => (libc::SYS_utimensat, format!("{open},0,z:32"), EPERM),
        "setxattr" => (libc::SYS_setxattr, format!("{path},s:user.yb,s:v,1"), EPERM),
        "lsetxattr" => (libc::SYS_lsetxattr, format!("{path},s:user.yb,s:v,1"), EPERM),
        "fsetxattr" => (libc::SYS_fsetxattr, format!("{open},s:user.yb,s:v,1"), EPERM),
        "removexattr" => (libc::SYS_removexattr, format!("{path},s:user.none"), EPERM),
        "lremovexattr" => (libc::SYS_lremovexattr, format!("{path},s:user.none"), EPERM),
        "fremovexattr" => (libc::SYS_fremovexattr, format!("{open},s:user.none"), EPERM),
        "sched_setaffinity" => (libc::SYS_sched_setaffinity, format!("{none},8,z:8"), EPERM),
        "sched_setscheduler" => (libc::SYS_sched_setscheduler, format!("{none},0,z:8"), EPERM),
        "sched_setparam" => (libc::SYS_sched_setparam, format!("{none},z:8"), EPERM),
        "sched_setattr" => (libc::SYS_sched_setattr, format!("{none},z:64,0"), EPERM),
        "setpriority" => (libc::SYS_setpriority, format!("0,{none},5"), EPERM),
        "setpriority:group" => (libc::SYS_setpriority, format!("2,{none},5"), EPERM),
        "ioprio_set" => (libc::SYS_ioprio_set, format!("1,{none},0"), EPERM),
        "ioprio_set:group" => (libc::SYS_ioprio_set, format!("3,{none},0"), EPERM),
        _ => panic!("no call for the rule `{rule}`"),
    };
    (format!("{number},{arguments}"), errno)
}

/// Checks all rules of a sandbox, in effect and removed one by one.
pub(crate) async fn check_rules_under(kind: SandboxKind) {
    let files = Files::new();
    let sandbox = files.sandbox(kind).network(Network::None);
    let rules = sandbox.syscall_rules();
    let (calls, expected): (Vec<String>, Vec<i32>) =
        rules.iter().map(|rule| call(rule, &files.outside())).unzip();
    let results = files.results(sandbox.clone(), &calls).await;
    for ((rule, expected), result) in rules.iter().zip(&expected).zip(&results) {
        assert_eq!(result, expected, "{rule}");
    }
    for ((rule, call), errno) in rules.iter().zip(&calls).zip(expected) {
        let without = sandbox.clone().without_syscall_rule(rule);
        let result = files.results(without, std::slice::from_ref(call)).await[0];
        // A kernel without the call has the same error as the rule.
        let is_missing = result == libc::ENOSYS && errno == libc::ENOSYS && *rule != "clone3";
        assert!(result != errno || is_missing || SAME_WITHOUT.contains(rule), "no effect: {rule}");
    }
}

#[tokio::test]
async fn every_rule_has_an_effect_under_landlock() {
    check_rules_under(SandboxKind::Landlock).await;
}

#[test]
fn syscall_filter_is_available() {
    for kind in SandboxKind::ALL {
        kind.probe_syscall_filter().unwrap();
    }
}

#[tokio::test]
async fn attributes_of_files_outside_cannot_be_changed_by_any_path() {
    let files = Files::new();
    let (outside, inside) = (files.outside(), files.inside());
    let before = outside.metadata().unwrap();
    let script = format!(
        "ln -s {path} link; exec 5< {path}
         for path in {path} link /proc/self/fd/5 /dev/fd/5 {path}/../file; do
           chmod 600 $path 2> /dev/null && echo chmod $path
           touch -c -d 2001-01-01 $path 2> /dev/null && echo touch $path
           chown $(id -u) $path 2> /dev/null && echo chown $path
         done
         (cd {dir} && chmod 600 file 2> /dev/null && echo chmod relative
          chmod 000 . 2> /dev/null && echo chmod directory)
         chmod 4755 /bin/sh 2> /dev/null && echo chmod system
         chmod 000 /dev/null 2> /dev/null && echo chmod device
         chmod 600 missing 2>&1 | grep -o 'No such file.*'; true",
        path = outside.display(),
        dir = files.outside.path().display(),
    );
    assert_eq!(files.shell(&script).await, "No such file or directory");
    let after = outside.metadata().unwrap();
    assert_eq!((after.mode(), after.mtime()), (before.mode(), before.mtime()));
    assert_eq!(after.ctime_nsec(), before.ctime_nsec(), "not even the time of the last change");
    assert_eq!(mode_of(&inside), 0o644);
}

#[tokio::test]
async fn attributes_of_own_files_can_be_changed_in_all_ways() {
    let files = Files::new();
    let script = "chmod 600 file; stat -c %a file; chmod u+x,g+s ./file; stat -c %a $PWD/file
         mkdir -p sub; chmod 700 sub; (cd sub; chmod 640 ../file); stat -c %a file
         exec 5< file; chmod 604 /proc/self/fd/5; stat -c %a file; chmod 644 /dev/fd/5; stat -c %a file
         touch -d '2001-02-03 04:05:06 UTC' file; stat -c %Y file
         ln -s missing dangling; touch -h -d '2001-02-03 04:05:06 UTC' dangling; stat -c %Y dangling
         ln -s file link; chmod 611 link; stat -c %a file; chown -h $(id -u):$(id -g) dangling link && echo owned
         cp -a file copy; stat -c '%a %Y' copy; tar cf - file | (cd sub; tar xpf -; stat -c '%a %Y' file)
         chmod 400 sub/file; rm -rf sub; test -e sub || echo removed";
    let expected =
        "600\n2700\n640\n604\n644\n981173106\n981173106\n611\nowned\n611 981173106\n611 981173106\nremoved";
    assert_eq!(files.shell(script).await, expected);
    let inside = files.inside();
    assert_eq!(mode_of(&inside), 0o611);
}

/// While one process exchanges a link, another changes the mode through it.
#[tokio::test]
async fn exchanged_link_does_not_reach_files_outside() {
    let files = Files::new();
    let script = format!(
        "ln -s file link
         (while test ! -e done; do ln -sfn {outside} new; mv -T new link; ln -sfn file new; mv -T new link; done) &
         for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
           chmod 600 link link link link link link link link link link 2> /dev/null
         done
         touch done; wait; chmod 604 file; echo done",
        outside = files.outside().display(),
    );
    assert_eq!(files.shell(&script).await, "done");
    assert_eq!((mode_of(&files.outside()), mode_of(&files.inside())), (0o644, 0o604));
}

#[tokio::test]
async fn priorities_of_own_processes_can_be_set_and_of_others_not() {
    let files = Files::new();
    let script = format!(
        "sleep 60 & renice -n 5 -p $! > /dev/null && cut -d' ' -f19 /proc/$!/stat; kill $!
         renice -n 19 -p {host} > /dev/null 2>&1 && echo reniced; ulimit -c 0 && echo limited",
        host = std::process::id()
    );
    assert_eq!(files.shell(&script).await, "5\nlimited");
}
