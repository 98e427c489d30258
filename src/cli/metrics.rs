//! `plimsoll metrics`

use std::{
    io::{self, Write},
    process::ExitCode,
};

use crate::proxy::metrics::CATALOGUE;

/// List the metrics that the admin port serves: name, type, labels, meaning
#[derive(clap::Args)]
pub struct Metrics {
    /// Print the names only
    #[arg(long)]
    names: bool,
}

impl Metrics {
    pub fn run(self) -> io::Result<ExitCode> {
        let mut out = io::stdout().lock();
        for metric in CATALOGUE {
            match self.names {
                true => writeln!(out, "{}", metric.name)?,
                false => writeln!(out, "{}\t{}\t{}\t{}", metric.name, metric.kind, metric.labels.join(","), metric.help)?,
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
