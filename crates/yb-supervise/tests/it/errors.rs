//! Errors of spawning, and their hints.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use yb_supervise::{Command, ContainmentMethod, End, SpawnError, Stdin};

use crate::support::{LaunchConfig, contained};

async fn error(command: Command) -> SpawnError {
    let report = command.run().await;
    let End::SpawnFailed(error) = report.end else { panic!("it ran: {}", report.end) };
    error
}

#[tokio::test]
async fn missing_program_error_lists_searched_directories() {
    for config in LaunchConfig::PORTABLE {
        let error = error(config.command("no-such-program").env("PATH", "/one:/two")).await;
        assert_eq!(error.to_string(), "program not found: `no-such-program`");
        assert_eq!(error.hint().unwrap(), "install it or pass its full path; searched: /one, /two");
    }
    let error = error(contained("/no/such/program")).await;
    assert_eq!(error.to_string(), "program not found: `/no/such/program`");
}

#[tokio::test]
async fn non_executable_file_is_not_reported_as_missing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tool");
    std::fs::write(&file, "#!/bin/sh\n").unwrap();
    for config in LaunchConfig::PORTABLE {
        for command in [config.command(&file), config.command("tool").env("PATH", dir.path())] {
            let error = error(command).await;
            assert!(matches!(&error, SpawnError::NotExecutable { path } if path == &file), "{error:?}");
            assert_eq!(error.hint().unwrap(), format!("make it executable: `chmod +x {}`", file.display()));
        }
    }
}

#[tokio::test]
async fn unknown_executable_format_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in [("text", "no first line\n"), ("lost-interpreter", "#!/no/such/interpreter\n")] {
        let file = dir.path().join(name);
        std::fs::write(&file, content).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        for config in LaunchConfig::PORTABLE {
            let error = error(config.command(&file)).await;
            assert!(
                matches!(&error, SpawnError::BadFormat { path } if path == &file),
                "{config:?}: {error:?}"
            );
        }
    }
}

#[tokio::test]
async fn missing_working_directory_is_an_error() {
    let error = error(contained("/bin/true").current_dir("/no/such/dir")).await;
    assert_eq!(error.to_string(), "working directory does not exist: `/no/such/dir`");
}

#[tokio::test]
async fn unwritable_log_prevents_start() {
    let missing = error(contained("/bin/true").log_file("/no/such/dir/log")).await;
    assert_eq!(missing.to_string(), "log directory does not exist: `/no/such/dir`");
    let dir = tempfile::tempdir().unwrap();
    let unwritable = error(contained("/bin/true").log_file(dir.path())).await;
    assert!(
        matches!(&unwritable, SpawnError::LogNotWritable { path, .. } if path == dir.path()),
        "{unwritable:?}"
    );
}

#[tokio::test]
async fn oversized_arguments_are_rejected_before_start() {
    for config in LaunchConfig::PORTABLE {
        let too_long = error(config.command("/bin/true").args(["a", &"x".repeat(131_072)])).await;
        assert_eq!(too_long.to_string(), "argument 2 is too long: 131072 bytes (maximum 131071)");
        assert_eq!(too_long.hint().unwrap(), "pass it through stdin or a file");
        assert!(config.command("/bin/true").arg("x".repeat(131_071)).run().await.success());
        let variable = error(config.command("/bin/true").env("BIG", "x".repeat(131_072))).await;
        assert!(variable.to_string().starts_with("environment variable `BIG` is too long"), "{variable}");
        // Each is short enough, but not their sum.
        let together = error(config.command("/bin/true").args((0..200).map(|_| "x".repeat(100_000)))).await;
        assert!(
            together.to_string().starts_with("argument list with environment is too long: 200"),
            "{together}"
        );
    }
}

#[tokio::test]
async fn nul_byte_is_rejected() {
    let error = error(contained("/bin/true").args(["a", "b\0c"])).await;
    assert_eq!(error.to_string(), "argument 2 contains a NUL byte");
}

#[tokio::test]
async fn program_that_is_not_a_shim_is_an_error() {
    let command = Command::new("/bin/true").shim("/bin/true").stdin(Stdin::Interactive);
    let error = error(command).await;
    assert!(matches!(&error, SpawnError::Shim { path, .. } if path == Path::new("/bin/true")), "{error:?}");
}

/// The hostile children also run in a cgroup where one is available; elsewhere forcing it is an error with a
/// hint.
#[tokio::test]
async fn forced_cgroup_works_or_has_a_hint() {
    let report = LaunchConfig::Cgroup.command("/bin/true").run().await;
    match report.end {
        End::SpawnFailed(SpawnError::ContainmentUnavailable { method, .. }) => {
            assert_eq!(method, ContainmentMethod::Cgroup);
        }
        _ => {
            assert!(report.success(), "{}", report.end);
            assert_eq!(report.containment.unwrap().method, ContainmentMethod::Cgroup);
        }
    }
}
