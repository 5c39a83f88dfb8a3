//! A child that can't be started says why, and what to do.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use yb_supervise::{Command, End, Means, SpawnError, Stdin};

use crate::support::{Way, contained};

async fn error(command: Command) -> SpawnError {
    let report = command.run().await;
    let End::SpawnFailed(error) = report.end else { panic!("it ran: {}", report.end) };
    error
}

#[tokio::test]
async fn a_missing_program_names_the_path_that_was_searched() {
    for way in Way::EVERYWHERE {
        let error = error(way.command("no-such-program").env("PATH", "/one:/two")).await;
        assert_eq!(error.to_string(), "program not found: `no-such-program`");
        assert_eq!(error.hint().unwrap(), "install it, or give its full path; searched: /one, /two");
    }
    let error = error(contained("/no/such/program")).await;
    assert_eq!(error.to_string(), "program not found: `/no/such/program`");
}

#[tokio::test]
async fn a_file_that_is_not_executable_is_told_from_a_missing_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tool");
    std::fs::write(&file, "#!/bin/sh\n").unwrap();
    for way in Way::EVERYWHERE {
        for command in [way.command(&file), way.command("tool").env("PATH", dir.path())] {
            let error = error(command).await;
            assert!(matches!(&error, SpawnError::NotExecutable { path } if path == &file), "{error:?}");
            assert_eq!(error.hint().unwrap(), format!("make it executable: `chmod +x {}`", file.display()));
        }
    }
}

#[tokio::test]
async fn a_program_of_no_known_format_is_named() {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in [("text", "no first line\n"), ("lost-interpreter", "#!/no/such/interpreter\n")] {
        let file = dir.path().join(name);
        std::fs::write(&file, content).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        for way in Way::EVERYWHERE {
            let error = error(way.command(&file)).await;
            assert!(matches!(&error, SpawnError::BadFormat { path } if path == &file), "{way:?}: {error:?}");
        }
    }
}

#[tokio::test]
async fn a_missing_working_directory_is_named() {
    let error = error(contained("/bin/true").current_dir("/no/such/dir")).await;
    assert_eq!(error.to_string(), "working directory does not exist: `/no/such/dir`");
}

#[tokio::test]
async fn a_log_that_can_t_be_written_stops_the_start() {
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
async fn what_is_too_long_is_named_before_the_start() {
    for way in Way::EVERYWHERE {
        let too_long = error(way.command("/bin/true").args(["a", &"x".repeat(131_072)])).await;
        assert_eq!(too_long.to_string(), "argument 2 is too long: 131072 bytes, at most 131071 are possible");
        assert_eq!(too_long.hint().unwrap(), "pass it through stdin or a file");
        assert!(way.command("/bin/true").arg("x".repeat(131_071)).run().await.success());
        let variable = error(way.command("/bin/true").env("BIG", "x".repeat(131_072))).await;
        assert!(variable.to_string().starts_with("environment variable `BIG` is too long"), "{variable}");
        // Each alone is short enough; together they are not.
        let together = error(way.command("/bin/true").args((0..200).map(|_| "x".repeat(100_000)))).await;
        assert!(
            together.to_string().starts_with("the whole of arguments and environment is too long: 200"),
            "{together}"
        );
    }
}

#[tokio::test]
async fn a_nul_byte_is_named() {
    let error = error(contained("/bin/true").args(["a", "b\0c"])).await;
    assert_eq!(error.to_string(), "argument 2 contains a NUL byte");
}

#[tokio::test]
async fn a_shim_that_is_none_is_an_error() {
    let command = Command::new("/bin/true").shim("/bin/true").stdin(Stdin::Interactive);
    let error = error(command).await;
    assert!(matches!(&error, SpawnError::Shim { path, .. } if path == Path::new("/bin/true")), "{error:?}");
}

/// Where a cgroup can be had the nasty children run in one; where not, forcing it is an error with a way out.
#[tokio::test]
async fn a_forced_cgroup_works_or_says_why_not() {
    let report = Way::Cgroup.command("/bin/true").run().await;
    match report.end {
        End::SpawnFailed(SpawnError::MeansUnavailable { means, .. }) => assert_eq!(means, Means::Cgroup),
        _ => {
            assert!(report.success(), "{}", report.end);
            assert_eq!(report.containment.unwrap().means, Means::Cgroup);
        }
    }
}
