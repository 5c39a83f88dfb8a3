//! The program under its long name, `youbencha`; all of it is in the library.

fn main() -> std::process::ExitCode {
    youbencha::main()
}
