//! `plimsoll serve`

use std::process::ExitCode;

use super::{Flags, refuse};
use crate::config::{Config, Problem};
use crate::proxy::{
    decide::Decide,
    lifecycle::{self, Running},
    log,
    reload::Source,
};

#[derive(clap::Args)]
pub struct Serve {
    #[command(flatten)]
    flags: Flags,
}

impl Serve {
    pub fn run(self) -> ExitCode {
        let (config, file) = match self.flags.load() {
            Ok(loaded) => loaded,
            Err(problem) => return refuse(&problem),
        };
        log::init(&config.log, log::Stream::Output);
        let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                eprintln!("plimsoll: cannot start: {error}");
                return ExitCode::FAILURE;
            }
        };
        // An admin address that differs from the default was asked for, wherever it was said.
        let admin_is_asked_for = self.flags.admin.is_some() || config.admin != Config::default().admin;
        lifecycle::raise_limits();
        let source = self.flags.source();
        let end = runtime.block_on(async {
            let running = start(&config, source, admin_is_asked_for).await.map_err(|problem| {
                // Files that the configuration names are opened at the start; blame the file that names them.
                refuse(&Problem { file: file.clone(), ..problem })
            })?;
            lifecycle::run(running).await.map_err(|error| {
                eprintln!("plimsoll: {error}");
                ExitCode::FAILURE
            })
        });
        runtime.shutdown_background();
        end.map_or_else(|code| code, |()| ExitCode::SUCCESS)
    }
}

async fn start(config: &Config, source: Source, admin_is_asked_for: bool) -> Result<Running, Problem> {
    lifecycle::start_from(config, Some(source), Decide::new(config)?, admin_is_asked_for).await
}
