//! The program `yb`; all of it is in the library.

fn main() -> std::process::ExitCode {
    youbencha::main()
}
