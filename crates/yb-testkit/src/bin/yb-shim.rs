//! The shim of `yb-supervise` for tests: a test binary's `main` is not ours, so it can't be its own shim.

use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(unix)]
    yb_supervise::shim_main();
    let _ =
        writeln!(std::io::stderr(), "yb-shim: started by yb-supervise in tests; it does nothing by itself");
    ExitCode::from(2)
}
