//! Makes system calls as given and prints their results, to test what a sandbox lets through.
//!
//! Each argument is one call: its number and arguments, separated by commas. An argument is a number, `s:TEXT` for a
//! pointer to a string, `z:BYTES` for a pointer to so many zeros, or `fd:PATH` for a descriptor open for reading. The
//! output has one line per call: 0, or the number of the error.
#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "makes arbitrary system calls, as a test program")
)]

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    use std::io::Write as _;
    for call in std::env::args().skip(1) {
        let Some(result) = make(&call) else {
            let _ = writeln!(std::io::stderr(), "raw-syscall: invalid call: `{call}`");
            return ExitCode::from(2);
        };
        if writeln!(std::io::stdout(), "{result}").is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Makes one call; `None` if it is not well-formed.
#[cfg(target_os = "linux")]
fn make(call: &str) -> Option<i32> {
    use std::os::fd::AsRawFd as _;
    let (number, arguments) = call.split_once(',').unwrap_or((call, ""));
    let number: libc::c_long = number.parse().ok()?;
    let (mut numbers, mut buffers, mut files) = ([0 as libc::c_long; 6], Vec::new(), Vec::new());
    for (index, argument) in arguments.split(',').filter(|argument| !argument.is_empty()).enumerate() {
        let value = if let Some(text) = argument.strip_prefix("s:") {
            buffers.push([text.as_bytes(), &[0]].concat());
            buffers.last_mut()?.as_mut_ptr() as libc::c_long
        } else if let Some(size) = argument.strip_prefix("z:") {
            buffers.push(vec![0; size.parse().ok()?]);
            buffers.last_mut()?.as_mut_ptr() as libc::c_long
        } else if let Some(path) = argument.strip_prefix("fd:") {
            files.push(std::fs::File::open(path).ok()?);
            libc::c_long::from(files.last()?.as_raw_fd())
        } else {
            argument.parse().ok()?
        };
        *numbers.get_mut(index)? = value;
    }
    let [a, b, c, d, e, f] = numbers;
    // SAFETY: pointers refer to `buffers`, which outlive the call; the tests pass calls that write no further.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    Some(if result < 0 { std::io::Error::last_os_error().raw_os_error()? } else { 0 })
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    ExitCode::from(2)
}
