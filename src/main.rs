//! The `plimsoll` program.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use plimsoll::cli::classify::Classify;

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Classify(Classify),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Classify(command) => command.run().unwrap_or_else(|error| {
            eprintln!("plimsoll: {error}");
            ExitCode::FAILURE
        }),
    }
}
