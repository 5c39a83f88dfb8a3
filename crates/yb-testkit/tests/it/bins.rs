//! The programs of this crate are found, and one that is not there says what to run.

use std::process::Command;

use yb_testkit::bin;

#[test]
fn the_programs_are_where_cargo_built_them() {
    assert_eq!(bin("fake-agent"), std::path::Path::new(env!("CARGO_BIN_EXE_fake-agent")));
    assert_eq!(bin("yb-shim"), std::path::Path::new(env!("CARGO_BIN_EXE_yb-shim")));
}

#[test]
#[should_panic(expected = "hint: run `cargo build -p yb-testkit --bins`")]
fn a_missing_program_says_what_to_run() {
    let _ = bin("no-such-program");
}

#[test]
fn the_shim_by_itself_says_what_it_is_for() {
    for args in [&[][..], &["--help"]] {
        let output = Command::new(bin("yb-shim")).args(args).env_clear().output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("started by yb-supervise"));
    }
}
