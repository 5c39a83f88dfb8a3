//! Finding the binaries of this crate.

use std::process::Command;

use yb_testkit::bin;

#[test]
fn binaries_are_found_in_target_directory() {
    assert_eq!(bin("fake-agent"), std::path::Path::new(env!("CARGO_BIN_EXE_fake-agent")));
    assert_eq!(bin("yb-shim"), std::path::Path::new(env!("CARGO_BIN_EXE_yb-shim")));
}

#[test]
#[should_panic(expected = "hint: run `cargo build -p yb-testkit --bins`")]
fn missing_binary_panics_with_hint() {
    let _ = bin("no-such-program");
}

#[test]
fn shim_without_control_socket_prints_its_purpose() {
    for args in [&[][..], &["--help"]] {
        let output = Command::new(bin("yb-shim")).args(args).env_clear().output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("started by yb-supervise"));
    }
}
