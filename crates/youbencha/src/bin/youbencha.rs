//! The long name of `yb`: runs the `yb` beside it, so that a release contains the program once.
#![cfg_attr(
    not(unix),
    expect(clippy::disallowed_methods, reason = "it stands for `yb`, there is nothing to supervise")
)]
#![expect(clippy::print_stderr, reason = "it has no printer")]

use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let yb = match std::env::current_exe() {
        Ok(own) => own.with_file_name(format!("yb{}", std::env::consts::EXE_SUFFIX)),
        Err(error) => {
            eprintln!("error: failed to locate this program: {error}");
            return ExitCode::from(3);
        }
    };
    let result = run(Command::new(&yb).args(std::env::args_os().skip(1)));
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: failed to run `{}`: {error}", yb.display());
            eprintln!("hint: `youbencha` runs the `yb` in its own directory; install both, or run `yb`");
            ExitCode::from(3)
        }
    }
}

#[cfg(unix)]
fn run(command: &mut Command) -> std::io::Result<ExitCode> {
    use std::os::unix::process::CommandExt;
    Err(command.exec())
}

#[cfg(not(unix))]
fn run(command: &mut Command) -> std::io::Result<ExitCode> {
    let code = command.status()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
