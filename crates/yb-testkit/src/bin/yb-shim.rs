//! The shim of `yb-supervise` for tests: a test binary can't be its own shim, because `main` belongs to the
//! test harness.

use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(unix)]
    yb_supervise::shim_main();
    let _ = writeln!(std::io::stderr(), "yb-shim: started by yb-supervise in tests; does nothing on its own");
    ExitCode::from(2)
}
