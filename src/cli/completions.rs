//! `plimsoll completions`

use std::{io::Write, process::ExitCode};

use clap::CommandFactory;
use clap_complete::Shell;

/// Print a completion script for a shell
#[derive(clap::Args)]
pub struct Completions {
    shell: Shell,
}

impl Completions {
    pub fn run(self) -> std::io::Result<ExitCode> {
        // Writing straight to a pipe that somebody closes would panic.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut super::Cli::command(), "plimsoll", &mut script);
        std::io::stdout().write_all(&script)?;
        Ok(ExitCode::SUCCESS)
    }
}
