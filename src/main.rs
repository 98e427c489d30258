//! The `plimsoll` program.

use clap::Parser;
use std::process::ExitCode;

#[derive(Parser)]
enum Command {
    Compact(plimsoll::cli::compact::Compact),
}

fn main() -> ExitCode {
    match Command::parse() {
        Command::Compact(compact) => compact.run().unwrap_or(ExitCode::FAILURE),
    }
}
