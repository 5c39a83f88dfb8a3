//! A coding agent that does what a YAML script says; the steps are in this crate's README.

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    let code = yb_testkit::fake_agent::main();
    std::process::ExitCode::from(u8::try_from(code & 0xff).unwrap_or(u8::MAX))
}

#[cfg(not(unix))]
fn main() -> std::process::ExitCode {
    std::process::ExitCode::from(99)
}
