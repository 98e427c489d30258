//! The `plimsoll` program.

fn main() -> std::process::ExitCode {
    plimsoll::cli::run()
}
