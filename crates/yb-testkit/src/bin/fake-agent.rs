//! A coding agent that runs a YAML script. The README of this crate describes the steps.

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    let code = yb_testkit::fake_agent::main();
    std::process::ExitCode::from(u8::try_from(code & 0xff).unwrap_or(u8::MAX))
}

#[cfg(not(unix))]
fn main() -> std::process::ExitCode {
    std::process::ExitCode::from(99)
}
