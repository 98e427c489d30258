//! `plimsoll completions`

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

/// Print a completion script for a shell
#[derive(clap::Args)]
pub struct Completions {
    shell: Shell,
}

impl Completions {
    pub fn run(self) -> ExitCode {
        clap_complete::generate(self.shell, &mut super::Cli::command(), "plimsoll", &mut std::io::stdout());
        ExitCode::SUCCESS
    }
}
